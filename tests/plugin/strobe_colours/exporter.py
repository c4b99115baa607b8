"""An export format: the keys of all frames, one a line."""

from strobe.core.dataset import Dataset
from strobe.formats.export_media import Outgoing
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode


def make(dataset: Dataset, *, media: MediaMode) -> Outgoing:
    """Return the content of each file, and the images that --media brings (none)."""
    return Outgoing(files={"keys.txt": "".join(f"{key}\n" for key in dataset.frames.key)}, images={})


FORMAT = ExportFormat(make=make, what="the keys of all frames", no_media="key-list has no images; remove --media")
