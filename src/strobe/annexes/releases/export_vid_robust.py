"""The layout of the ImageNet-Vid-Robust release: metadata/{pmsets,labels}.json and val/<video>/<frame>.JPEG.

The JSON is formatted like the release (an indent of one space, no final line break), so that import and export
reproduce the release byte for byte.
"""

import json
import re
from pathlib import PurePosixPath

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, printable
from strobe.core.labels import space
from strobe.formats.export_media import Outgoing, picture_name
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode

_K = 10


def export_vid_robust(dataset: Dataset, *, media: MediaMode) -> Outgoing:  # noqa: ARG001 (every exporter's signature)
    """Return the release's files. Refuses a dataset that the format cannot represent."""
    if dataset.info.label_space.ids != space("imagenet-vid").ids:
        raise InvalidValue(
            f"imagenet-vid-robust supports only the 30 classes of imagenet-vid, but {printable(dataset.name)} has "
            f"the classes of {printable(dataset.info.label_space.name)}; export it as coco or csv"
        )
    sets = dataset.sets
    if dataset.info.axis != "frame-offset" or (np.abs(sets.distance) > _K).any():
        raise InvalidValue(
            f"imagenet-vid-robust supports sets of up to {_K} frames on either side, but {printable(dataset.name)} "
            f"reaches {float(np.abs(sets.distance).max()):g} ({dataset.info.axis}); export it as coco or csv"
        )
    used = np.unique(sets.frame).tolist()
    names = {row: _name(dataset, row) for row in used}
    labels = dataset.labels.by_frame()
    bare = [names[row] for row in used if row not in labels]
    if bare:
        raise InvalidValue(
            f"imagenet-vid-robust needs a label on every frame; {len(bare)} have none, first {printable(bare[0])}"
        )
    pmsets: dict[str, list[str]] = {names[row]: [] for row in sets.anchor_frame.tolist()}
    anchors = sets.anchor_frame.tolist()
    for place, row, is_anchor in zip(sets.set.tolist(), sets.frame.tolist(), sets.is_anchor.tolist(), strict=True):
        if not is_anchor:
            pmsets[names[anchors[place]]].append(names[row])
    said = {names[row]: labels[row] for row in used}
    files = {"metadata/labels.json": json.dumps(said, indent=1), "metadata/pmsets.json": json.dumps(pmsets, indent=1)}
    return Outgoing(files=files, images=names)


def _name(dataset: Dataset, row: int) -> str:
    """Return the frame's key if it is val/<video>/<number>.<suffix>, else a key made from its video and index."""
    key, index = str(dataset.frames.key[row]), int(dataset.frames.index[row])
    found = re.fullmatch(r"val/[^/]+/(\d+)\.\w+", key)
    if found and int(found[1]) == index and "/../" not in key:
        return key
    video = re.sub(r"[^\w.+@=-]+", "_", str(dataset.videos.name[dataset.frames.video[row]])).strip(".") or "video"
    ending = PurePosixPath(picture_name(str(dataset.frames.media[row])) or key).suffix or ".JPEG"
    return f"val/{video}/{index:06d}{ending}"


FORMAT = ExportFormat(make=export_vid_robust)
