"""The order of a detector's boxes, which resolves all ties: by frame, then score from the highest, then label."""

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats, Ints


def in_order(frame: Ints, score: Floats, label: Ints) -> bool:
    """Return whether rows are sorted by frame, then score from the highest, then label.

    >>> in_order(np.array([0, 0, 1]), np.array([0.9, 0.2, 0.5]), np.array([3, 1, 2]))
    True
    """
    step = np.diff(frame)
    if (step < 0).any():
        return False
    same = step == 0
    if (same & (score[1:] > score[:-1])).any():
        return False
    return not (same & (score[1:] == score[:-1]) & (label[1:] < label[:-1])).any()


_SMALL = 256  # a frame with more detections than this is sorted on its own


def order_of(frame: Ints, score: Floats, label: Ints) -> NDArray[np.int64]:
    """Return the stable order by frame, then score from the highest, then label.

    `np.lexsort` gives this order. If the rows are already grouped by frame, sorting short matrix rows is ten times
    faster.
    """
    if not len(frame) or (np.diff(frame) < 0).any() or np.isnan(score).any():
        return np.asarray(np.lexsort((label, -score, frame)), dtype=np.int64)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(frame) > 0)))
    sizes = np.diff(np.append(starts, len(frame)))
    order = np.arange(len(frame))
    small = np.flatnonzero(sizes <= _SMALL)
    for width in np.unique(sizes[small]):
        rows = starts[small[sizes[small] == width]][:, None] + np.arange(width)
        order[rows] = np.take_along_axis(rows, np.argsort(-score[rows], axis=1), axis=1)
    for place in np.flatnonzero(sizes > _SMALL):
        rows = np.arange(starts[place], starts[place] + sizes[place])
        order[rows] = rows[np.argsort(-score[rows])]
    # The sort above is not stable for equal scores, so frames with ties are sorted again by all keys.
    ordered = score[order]
    tied = np.flatnonzero((ordered[1:] == ordered[:-1]) & (frame[1:] == frame[:-1]))
    if len(tied):
        again = np.flatnonzero(np.isin(frame, frame[tied]))
        order[again] = again[np.lexsort((label[again], -score[again], frame[again]))]
    return order
