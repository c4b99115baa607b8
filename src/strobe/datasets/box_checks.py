"""Are these boxes what the file says they are? Corners or corner and size, finite, inside out, beyond the image."""

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile
from strobe.datasets.detection_files import RawDetections
from strobe.metrics.detection.match import box_iou

__all__ = ["check_boxes", "check_numbering"]

Floats = NDArray[np.float64]

_MUCH = 0.25  # a share of boxes beyond the image that no detector makes
_LITTLE = 0.02
_SAMPLE = 2000


def check_boxes(
    path: Path,
    raw: RawDetections,
    frame: NDArray[np.int64],
    dataset: Dataset,
    box_format: Literal["auto", "xyxy", "xywh"],
) -> tuple[Floats, list[str]]:
    """The boxes as xyxy (N, 4), and what is worth saying of them.

    Refused: NaN and infinity, negative sizes, and boxes that only make sense in the other format (where image sizes or
    the dataset's own boxes tell). Kept and counted, as pycocotools does: boxes without area and boxes beyond the image,
    which can only be false positives.
    """
    box = raw.box
    bad = np.flatnonzero(~np.isfinite(box).all(axis=1))
    if len(bad):
        raise InvalidFile(path, f"{len(bad)} boxes with NaN or infinity", where=f"first {raw.where(int(bad[0]))}")
    is_xywh = raw.is_xywh if box_format == "auto" else box_format == "xywh"
    xyxy, other = _corners(box, is_xywh), _corners(box, not is_xywh)
    wrong = _mixed_up(xyxy, other, frame, dataset) if box_format == "auto" else None
    if wrong is not None:
        said, likely = ("xywh", "xyxy") if is_xywh else ("xyxy", "xywh")
        raise InvalidFile(
            path, f"boxes are read as {said}, but look like {likely}: {wrong}", hint=f"pass --box-format {likely}"
        )
    size = xyxy[:, 2:] - xyxy[:, :2]
    negative = np.flatnonzero((size < 0).any(axis=1))
    if len(negative):
        row = int(negative[0])
        raise InvalidFile(
            path,
            f"{len(negative)} boxes of negative width or height, e.g. {box[row].tolist()}",
            where=f"first {raw.where(row)}",
        )
    return xyxy, _notes(xyxy, size, frame, dataset)


def _corners(box: Floats, is_xywh: bool) -> Floats:
    if not is_xywh:
        return box
    return np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1)


def _sizes(frame: NDArray[np.int64], dataset: Dataset) -> tuple[NDArray[np.bool_], Floats]:
    """Which boxes lie on a frame of known size, and those frames' width and height (N, 2)."""
    place = np.maximum(frame, 0)
    wh = np.stack([dataset.frames.width[place], dataset.frames.height[place]], axis=1).astype(np.float64)
    return (frame >= 0) & (wh > 0).all(axis=1), wh


def _mixed_up(xyxy: Floats, other: Floats, frame: NDArray[np.int64], dataset: Dataset) -> str | None:
    """Why the other format is the likelier one; None where it is not."""
    if not len(xyxy):
        return None
    inside_out = ((xyxy[:, 2:] - xyxy[:, :2]) < 0).any(axis=1).mean()
    other_inside_out = ((other[:, 2:] - other[:, :2]) < 0).any(axis=1).mean()
    if inside_out > 0 and other_inside_out == 0:
        return f"{inside_out:.0%} of them would have a negative size"
    if other_inside_out > 0:
        return None
    known, wh = _sizes(frame, dataset)
    if known.any():
        beyond = (xyxy[known, 2:] > 1.02 * wh[known] + 1).any(axis=1).mean()
        other_beyond = (other[known, 2:] > 1.02 * wh[known] + 1).any(axis=1).mean()
        if beyond > _MUCH and other_beyond < _LITTLE:
            return f"{beyond:.0%} of them would reach beyond the image"
    fit, other_fit = _fit(xyxy, frame, dataset), _fit(other, frame, dataset)
    if other_fit > 0.5 and fit < 0.75 * other_fit:
        return f"they overlap the dataset's boxes by {fit:.2f} as read and by {other_fit:.2f} otherwise (median)"
    return None


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
    path: Path,
    xyxy: Floats,
    label: NDArray[np.int64],
    frame: NDArray[np.int64],
    raw: RawDetections,
    dataset: Dataset,
) -> None:
    """Refuse class numbers that count from 1: boxes that fit an object all name the class after the object's."""
    if dataset.boxes is None or not all(isinstance(word, int) for word in raw.words):
        return
    rows, target = _beside_truth(frame, dataset)
    fits = box_iou(xyxy[rows], dataset.boxes.xyxy[target]) > 0.5
    shift = label[rows][fits] - dataset.boxes.label[target][fits]
    if len(shift) >= 20 and (shift == 1).mean() > 0.5 and (shift == 0).mean() < 0.1:
        raise InvalidFile(
            path,
            f"class numbers look one too high: {(shift == 1).mean():.0%} of the boxes that fit an object name the next "
            "class",
            hint="count classes from 0, or give categories with id and name",
        )


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
