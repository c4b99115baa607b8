"""A crop set: every kept image, cropped to its box, as `<class>/<same file name>`, and manifest.json.

A JPEG stays a JPEG, with quality 100 and without chroma subsampling, so that its file name stays valid and little
quality is lost. Every other image is stored losslessly, as PNG if its own format has no lossless form. Crops are cut
from the pixels that every model gets: upright, RGB, 8 bits.
"""

import hashlib
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from strobe.analyses.drawn import Drawn, check_inside
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.files import LEFT_BEHIND, inside, make_folder, read_json, sha256_of_file, write_bytes, write_json
from strobe.core.late import load
from strobe.core.locks import LOCK
from strobe.core.ports import FrameSource, Image, Progress

MANIFEST = "manifest.json"
_UNFINISHED = ".crops.json"
"""The file in an unfinished crop folder that records the source of the crops."""

_JPEG = (".jpg", ".jpeg")
_WITHOUT_LOSS: dict[str, dict[str, Any]] = {
    ".png": {"format": "png", "compress_level": 6},
    ".bmp": {"format": "bmp"},
    ".ppm": {"format": "ppm"},
    ".tif": {"format": "tiff", "compression": "tiff_lzw"},
    ".tiff": {"format": "tiff", "compression": "tiff_lzw"},
    ".webp": {"format": "webp", "lossless": True, "exact": True},
}
"""Lossless formats by suffix, and how each is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crop:
    """One image to crop: its row, its target, and the region in whole pixels (the far corner is exclusive)."""

    row: int
    file: str
    size_wh: tuple[int, int]
    cut: tuple[int, int, int, int]
    about: Drawn


def export_crops(
    dataset: Dataset, pictures: Sequence[Drawn], source: FrameSource, target: Path, *, progress: Progress
) -> dict[str, Any]:
    """Write the crops of the kept images, then the manifest, and return the manifest.

    Each crop is written atomically. The same command resumes after an interruption, and leaves a finished crop set
    unchanged. A folder with other content is refused.
    """
    crops = _planned(dataset, pictures, source)
    plan = _digest(dataset, crops)
    _refuse_others(target, plan)
    make_folder(target)
    write_json(target / _UNFINISHED, {"plan": plan})
    with progress.task("crops", len(crops)) as advance:
        for crop in crops:
            path = inside(target, crop.file)
            if not path.is_file():
                make_folder(path.parent)
                write_bytes(path, _encoded(_cut(source.read(crop.row), crop), path.suffix.lower()))
            advance(1)
    key = dict(zip(dataset.frame_ids(), dataset.frames.key.tolist(), strict=True))
    manifest = {
        "schema": 1,
        "dataset": dataset.name,
        "digest": dataset.digest(),
        "plan": plan,
        "crops": [_described(dataset, crop, target) for crop in crops],
        "discarded": [
            {"key": key[picture.frame_id], "people": list(picture.people), "reasons": list(picture.reasons)}
            for picture in pictures
            if not picture.is_kept
        ],
    }
    write_json(target / MANIFEST, manifest)
    (target / _UNFINISHED).unlink(missing_ok=True)
    return manifest


def _planned(dataset: Dataset, pictures: Sequence[Drawn], source: FrameSource) -> list[_Crop]:
    """Return the crops to make, in image order.

    Duplicate names in a class, and boxes outside the image, are refused.
    """
    place = {frame: row for row, frame in enumerate(dataset.frame_ids())}
    crops: dict[str, _Crop] = {}
    for picture in pictures:
        if picture.xyxy is None:
            continue
        row = place[picture.frame_id]
        size_wh = int(dataset.frames.width[row]), int(dataset.frames.height[row])
        if not all(size_wh):
            height, width = source.read(row).shape[:2]
            size_wh = width, height
        check_inside(picture.xyxy, size_wh, what=str(dataset.frames.key[row]))
        # Include every pixel that the box touches.
        x0, y0, x1, y1 = picture.xyxy
        cut = (math.floor(x0), math.floor(y0), math.ceil(x1), math.ceil(y1))
        file = f"{_folder_of(picture.label)}/{_name(dataset, row)}"
        twin = crops.get(file.casefold())
        if twin is not None:
            keys = " and ".join(printable(dataset.frames.key[number]) for number in (twin.row, row))
            raise StrobeError(f"two crops would have the name {printable(file)}: {keys}; rename one of the images")
        crops[file.casefold()] = _Crop(row=row, file=file, size_wh=size_wh, cut=cut, about=picture)
    if not crops:
        raise InvalidValue(f"{dataset.name}: people kept no image, so there is nothing to crop")
    return list(crops.values())


def _folder_of(label: str) -> str:
    if label in (".", "..") or not label.strip() or any(sign in label for sign in "/\\\0"):
        raise InvalidValue(f"the class {printable(label)!r} cannot be the name of a folder")
    return label


def _name(dataset: Dataset, row: int) -> str:
    """Return the image's file name (with folders if it is a video frame) and the suffix of its actual format."""
    key = PurePosixPath(str(dataset.frames.key[row]))
    is_frame = str(dataset.videos.kind[dataset.frames.video[row]]) == "video"
    name = "__".join(key.parts).replace("/", "") if is_frame else key.name
    stored = PurePosixPath(str(dataset.frames.media[row])).suffix.lower()
    ending = stored if stored in (*_JPEG, *_WITHOUT_LOSS) else ".png"
    own = PurePosixPath(name).suffix.lower()
    if own == ending or {own, ending} <= set(_JPEG):
        return name
    return f"{name.removesuffix(PurePosixPath(name).suffix) if own else name}{ending}"


def _digest(dataset: Dataset, crops: Sequence[_Crop]) -> str:
    """Return the sources of the crops: images, boxes, and the authors of the boxes."""
    rows = [[crop.file, crop.cut, str(dataset.frames.sha256[crop.row]), asdict(crop.about)] for crop in crops]
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def _refuse_others(target: Path, plan: str) -> None:
    """Raise StrobeError unless the folder is new or empty, or contains these same crops, complete or not."""
    if target.exists() and not target.is_dir():
        raise StrobeError(f"{printable(target)} is a file; choose a folder for the crops")
    names = [path.name for path in target.iterdir()] if target.is_dir() else []
    if all(name == LOCK or LEFT_BEHIND.fullmatch(name) for name in names):  # a killed command may leave these files
        return
    for name in (MANIFEST, _UNFINISHED):
        if (target / name).is_file():
            known = read_json(inside(target, name))
            if isinstance(known, dict) and known.get("plan") == plan:
                return
            raise StrobeError(f"{printable(target)} contains other crops; choose another folder or remove it first")
    raise StrobeError(f"{printable(target)} is not empty and is not a crop set; choose another folder")


def _cut(image: Image, crop: _Crop) -> Image:
    height, width = image.shape[:2]
    check_inside(crop.cut, (width, height), what=crop.file)
    x0, y0, x1, y1 = crop.cut
    return image[y0:y1, x0:x1]


def _encoded(pixels: Image, ending: str) -> bytes:
    how = {"format": "jpeg", "quality": 100, "subsampling": 0} if ending in _JPEG else _WITHOUT_LOSS[ending]
    buffer = io.BytesIO()
    load("PIL.Image:fromarray")(pixels).save(buffer, **how)
    return buffer.getvalue()


def _described(dataset: Dataset, crop: _Crop, target: Path) -> dict[str, Any]:
    """Return a crop's entry in the manifest."""
    frames, about, space = dataset.frames, crop.about, dataset.info.label_space
    (width, height), (x0, y0, x1, y1) = crop.size_wh, crop.cut
    return {
        "file": crop.file,
        "sha256": sha256_of_file(inside(target, crop.file)),
        "label": about.label,
        "name": space.names[space.index(about.label)],
        "frame_id": about.frame_id,
        "key": str(frames.key[crop.row]),
        "source_sha256": str(frames.sha256[crop.row]) or None,
        "source_size_wh": [width, height],
        "xyxy": list(about.xyxy or ()),
        "cut": list(crop.cut),
        "area_share": (x1 - x0) * (y1 - y0) / (width * height),
        "people": list(about.keepers),
        "people_asked": list(about.people),
        "agreement": about.overlap,
        "suggested": about.suggested,
        "reasons": list(about.reasons),
    }
