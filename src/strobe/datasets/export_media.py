"""Putting a dataset's stored frames at the places another format wants them."""

from collections.abc import Mapping
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.files import make_folder, write_bytes
from strobe.core.ports import Progress
from strobe.datasets.bring_media import MediaMode, linked
from strobe.datasets.media import MediaSource

__all__ = ["export_media"]


def export_media(
    dataset: Dataset, target: Path, names: Mapping[int, str], *, mode: MediaMode, progress: Progress
) -> None:
    """Copy or hard-link the stored file of each frame row to target/NAME; what is there in full is left alone."""
    if mode == "none":
        return
    bare = [row for row in names if not dataset.frames.media[row]]
    if bare:
        raise StrobeError(
            f"{len(bare)} of {len(names)} frames have no stored image (they were imported without media, or are kept "
            "in their videos); export with --media none"
        )
    source = MediaSource(dataset)
    with progress.task("images", len(names)) as advance:
        for row, name in names.items():
            origin, place = source.path(row), target / name
            if not (place.is_file() and origin.is_file() and place.stat().st_size == origin.stat().st_size):
                make_folder(place.parent)
                if mode != "link" or not linked(origin, place):
                    write_bytes(place, source.read_encoded(row))
            advance(1)
