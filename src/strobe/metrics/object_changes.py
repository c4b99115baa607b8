"""The objects that only one form of a detector finds, and those that get another class or place. Pure functions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.metrics.detection.match import box_iou
from strobe.metrics.lives import best_pairs

MOVED = 0.9
"""A paired box has moved if its IoU with the old box is below this."""


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """The sure boxes of two forms of a detector, paired on each frame.

    `old` and `new` (P,) are the rows of paired boxes, and `overlap` (P,) is their IoU. `lost` are old boxes without a
    partner, and `found` are new boxes without one.
    """

    old: Ints
    new: Ints
    overlap: Floats
    lost: Ints
    found: Ints


def object_changes(
    old: BoxAnswers, new: BoxAnswers, frames: Ints, *, confidence: float = 0.5, overlap: float = 0.5
) -> ObjectChanges:
    """Pair the boxes of two detectors on each of these frames, one to one, with the largest total IoU.

    Only boxes with a score of at least `confidence` count, and only an IoU of at least `overlap` makes a pair. Classes
    do not matter, so a box with another class is relabelled, not lost.

    >>> box, zero = np.array([[0.0, 0, 8, 8]]), np.zeros(1, dtype=np.int64)
    >>> old = BoxAnswers.of(zero, zero, box, np.array([0.9]), n_frames=1, n_classes=2)
    >>> new = BoxAnswers.of(zero, zero + 1, box + 1.0, np.array([0.8]), n_frames=1, n_classes=2)
    >>> object_changes(old, new, zero).overlap.round(2).tolist()
    [0.62]
    """
    expect(old.n_frames == new.n_frames, "new", f"boxes on {old.n_frames} frames", new.n_frames)
    starts, ends = old.starts(), new.starts()
    pairs: list[NDArray[np.int64]] = []
    for frame in frames.tolist():
        a = _sure(old, slice(starts[frame], starts[frame + 1]), confidence)
        b = _sure(new, slice(ends[frame], ends[frame + 1]), confidence)
        if len(a) and len(b):
            table = box_iou(np.repeat(old.xyxy[a], len(b), axis=0), np.tile(new.xyxy[b], (len(a), 1)))
            table = table.reshape(len(a), len(b))
            row, column = best_pairs(table, table >= overlap)
            pairs.append(np.stack([a[row], b[column]]))
    first, second = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), dtype=np.int64)
    asked = np.zeros(old.n_frames, dtype=bool)
    asked[frames] = True
    return ObjectChanges(
        old=first,
        new=second,
        overlap=box_iou(old.xyxy[first], new.xyxy[second]),
        lost=np.setdiff1d(np.flatnonzero(asked[old.frame] & (old.score >= confidence)), first),
        found=np.setdiff1d(np.flatnonzero(asked[new.frame] & (new.score >= confidence)), second),
    )


def _sure(boxes: BoxAnswers, rows: slice, confidence: float) -> Ints:
    return np.asarray(rows.start + np.flatnonzero(boxes.score[rows] >= confidence))
