"""Are these boxes what the file says they are? Corners or sizes, pixels or shares, finite, and whose class numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import LabelSpace, space
from strobe.core.projections import projection_between
from strobe.datasets.detection_files import RawDetections
from strobe.metrics.detection.match import box_iou

__all__ = ["check_boxes", "check_numbering"]

_MUCH = 0.25  # a share of boxes beyond the image that no detector makes
_LITTLE = 0.02
_SAMPLE = 2000
_ENOUGH = 20
_CORNER = 1.5


def check_boxes(
    path: Path | str,
    raw: RawDetections,
    frame: NDArray[np.int64],
    dataset: Dataset,
    box_format: Literal["auto", "xyxy", "xywh", "cxcywh"],
    box_units: Literal["auto", "pixels", "normalised"],
) -> tuple[Floats, list[str]]:
    """The boxes as xyxy (N, 4), and what is worth saying of them.

    Refused: NaN and infinity, negative sizes, and boxes that only make sense in another format or as shares of the
    image (where image sizes or the dataset's own boxes tell). Kept and counted, as pycocotools does: boxes without area
    and boxes beyond the image, which can only be false positives.
    """
    bad = np.flatnonzero(~np.isfinite(raw.box).all(axis=1))
    if len(bad):
        raise InvalidFile(path, f"{len(bad)} boxes with NaN or infinity", where=f"first {raw.where(int(bad[0]))}")
    box = _in_pixels(path, raw.box, frame, dataset, box_units)
    said = ("xywh" if raw.is_xywh else "xyxy") if box_format == "auto" else box_format
    xyxy = _CORNERS[said](box)
    wrong = _mixed_up(box, said, frame, dataset) if box_format == "auto" else None
    if wrong is not None:
        likely, why = wrong
        raise InvalidFile(
            path, f"boxes are read as {said}, but look like {likely}: {why}", hint=f"pass --box-format {likely}"
        )
    size = xyxy[:, 2:] - xyxy[:, :2]
    negative = np.flatnonzero((size < 0).any(axis=1))
    if len(negative):
        row = int(negative[0])
        raise InvalidFile(
            path,
            f"{len(negative)} boxes of negative width or height, e.g. {raw.box[row].tolist()}",
            where=f"first {raw.where(row)}",
        )
    return xyxy, _notes(xyxy, size, frame, dataset)


def _in_pixels(path: Path | str, box: Floats, frame: NDArray[np.int64], dataset: Dataset, units: str) -> Floats:
    """The boxes' numbers in pixels; refused where they are shares of the image and nobody said so."""
    known, wh = _sizes(frame, dataset)
    if units == "normalised":
        if not known[frame >= 0].all():
            raise InvalidFile(path, "normalised boxes, but the dataset does not know the sizes of its images")
        return np.asarray(box * np.tile(np.maximum(wh, 1), 2))
    truth = dataset.boxes.xyxy if dataset.boxes is not None else np.zeros((0, 4))
    large = bool((wh[known] > 8).any()) or bool((truth > 8).any())
    if units == "auto" and len(box) and large and bool((np.abs(box) <= _CORNER).all()):
        raise InvalidFile(
            path,
            f"all {len(box)} boxes lie within {_CORNER} pixels of the corner: they look normalised, shares of the "
            "image's width and height",
            hint="pass --box-units normalised",
        )
    return box


_CORNERS: dict[str, Callable[[Floats], Floats]] = {
    "xyxy": lambda box: box,
    "xywh": lambda box: np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1),
    "cxcywh": lambda box: np.concatenate([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], axis=1),
}
"""What four numbers can be, as corners."""


def _sizes(frame: NDArray[np.int64], dataset: Dataset) -> tuple[NDArray[np.bool_], Floats]:
    """Which boxes lie on a frame of known size, and those frames' width and height (N, 2)."""
    place = np.maximum(frame, 0)
    wh = np.stack([dataset.frames.width[place], dataset.frames.height[place]], axis=1).astype(np.float64)
    return (frame >= 0) & (wh > 0).all(axis=1), wh


def _mixed_up(box: Floats, said: str, frame: NDArray[np.int64], dataset: Dataset) -> tuple[str, str] | None:
    """The format that is likelier than the one said, and why; None where none is."""
    if not len(box):
        return None
    known, wh = _sizes(frame, dataset)

    def look(form: str) -> tuple[float, float, float]:
        """Shares of boxes inside out and beyond the image, and how well they fit the dataset's own."""
        xyxy = _CORNERS[form](box)
        inside_out = ((xyxy[:, 2:] - xyxy[:, :2]) < 0).any(axis=1).mean()
        margin = 0.02 * wh[known] + 1
        beyond = (xyxy[known, 2:] > wh[known] + margin) | (xyxy[known, :2] < -margin)
        return float(inside_out), float(beyond.any(axis=1).mean()) if known.any() else 0.0, _fit(xyxy, frame, dataset)

    inside_out, beyond, fit = look(said)
    found: list[tuple[float, float, str, str]] = []
    for form in _CORNERS:
        other_inside_out, other_beyond, other_fit = look(form)
        if form == said or other_inside_out > 0:
            continue
        if inside_out > 0:
            why = f"{inside_out:.0%} of them would have a negative size"
        elif beyond > _MUCH and other_beyond < _LITTLE:
            why = f"{beyond:.0%} of them would reach beyond the image"
        elif other_fit > 0.5 and fit < 0.75 * other_fit:
            why = f"they overlap the dataset's boxes by {fit:.2f} as read and by {other_fit:.2f} otherwise (median)"
        else:
            continue
        found.append((round(other_fit, 2), -other_beyond, form, why))
    return max(found)[2:] if found else None


def _fit(xyxy: Floats, frame: NDArray[np.int64], dataset: Dataset) -> float:
    """The median, over some frames, of the best overlap any box has with the frame's first labelled object."""
    rows, target = _beside_truth(frame, dataset)
    if not len(rows) or dataset.boxes is None:
        return 0.0
    overlap = box_iou(xyxy[rows], dataset.boxes.xyxy[target])
    some, place = np.unique(frame[rows], return_inverse=True)
    best = np.zeros(len(some))
    np.maximum.at(best, place, overlap)
    return float(np.median(best))


def _beside_truth(frame: NDArray[np.int64], dataset: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Boxes on some of the frames with objects, and the first object of each one's frame."""
    boxes = dataset.boxes
    none = np.zeros(0, dtype=np.int64)
    if boxes is None or not len(boxes.frame):
        return none, none
    objects, first = np.unique(boxes.frame, return_index=True)
    some = np.intersect1d(objects, frame)
    some = some[:: max(1, len(some) // _SAMPLE)]
    rows = np.flatnonzero(np.isin(frame, some))
    return rows, first[np.searchsorted(objects, frame[rows])]


def check_numbering(
    path: Path | str,
    xyxy: Floats,
    label: NDArray[np.int64],
    frame: NDArray[np.int64],
    raw: RawDetections,
    dataset: Dataset,
) -> None:
    """Refuse class numbers of another list than they are read by, seen by the boxes that fit an object: COCO's category
    ids (1–90, with gaps), and numbers that count from 1.
    """
    if dataset.boxes is None or not raw.words or not all(type(word) is int for word in raw.words):
        return
    rows, target = _beside_truth(frame, dataset)
    fits = box_iou(xyxy[rows], dataset.boxes.xyxy[target]) > 0.5
    said, true = label[rows][fits], dataset.boxes.label[target][fits]
    if len(said) < _ENOUGH:
        return
    number = np.array(raw.words, dtype=np.int64)[raw.label[rows][fits]]
    right, as_ids = (said == true).mean(), (_coco_ids(dataset.info.label_space, number) == true).mean()
    if as_ids > 0.5 and right < 0.5 * as_ids:
        raise InvalidFile(
            path,
            f"class numbers look like COCO's category ids: of the boxes that fit an object {as_ids:.0%} name its class "
            f"so, {right:.0%} as read",
            hint="pass --box-space coco-91, or give categories with id and name",
        )
    shift = said - true
    if (shift == 1).mean() > 0.5 and right < 0.1:
        raise InvalidFile(
            path,
            f"class numbers look one too high: {(shift == 1).mean():.0%} of the boxes that fit an object name the next "
            "class",
            hint="count classes from 0, or give categories with id and name",
        )


def _coco_ids(target: LabelSpace, number: NDArray[np.int64]) -> NDArray[np.int64]:
    """The dataset's class of each number read as a COCO category id, −1 where none."""
    ids = space("coco-91")
    try:
        found = projection_between(ids, target).map_labels(np.clip(number, 0, len(ids) - 1))
    except StrobeError:  # none of its classes
        return np.full(len(number), -1)
    return np.where((number >= 0) & (number < len(ids)), found, -1)


def _notes(xyxy: Floats, size: Floats, frame: NDArray[np.int64], dataset: Dataset) -> list[str]:
    notes = []
    flat = int((size == 0).any(axis=1).sum())
    if flat:
        notes.append(f"{flat} boxes without area: kept, as false positives")
    known, wh = _sizes(frame, dataset)
    outside = known & ((xyxy[:, :2] >= wh) | (xyxy[:, 2:] <= 0)).any(axis=1)
    if outside.any():
        notes.append(f"{int(outside.sum())} boxes wholly outside their image: kept, as false positives")
    return notes
