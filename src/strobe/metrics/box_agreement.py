"""Agreement of people on an object's location: the overlap of their boxes, and the median box."""

import numpy as np

from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import METHOD, SHARES, Bootstrap
from strobe.metrics.detection.match import box_iou
from strobe.metrics.intervals import nothing

_AT_ONCE = 1 << 22  # elements of a work array


def median_box(xyxy: Floats) -> Floats:
    """Return the box (4,) whose sides are the medians of boxes (N, 4).

    If all boxes have an area, the result has an area too.

    >>> median_box(np.array([[0.0, 0.0, 9.0, 9.0], [1.0, 2.0, 8.0, 9.0], [5.0, 1.0, 30.0, 7.0]])).tolist()
    [1.0, 1.0, 9.0, 9.0]
    """
    expect(xyxy.ndim == 2 and xyxy.shape[1] == 4 and len(xyxy) > 0, "xyxy", "shape (N, 4), not empty", xyxy.shape)
    return np.asarray(np.median(xyxy, axis=0))


def pairwise_iou(xyxy: Floats) -> Floats:
    """Return the IoU of every pair of boxes (N, 4), in the order of itertools.combinations; empty if N < 2.

    >>> pairwise_iou(np.array([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 4.0], [5.0, 5.0, 6.0, 6.0]])).tolist()
    [0.5, 0.0, 0.0]
    """
    expect(xyxy.ndim == 2 and xyxy.shape[1] == 4, "xyxy", "shape (N, 4)", xyxy.shape)
    one, other = np.triu_indices(len(xyxy), k=1)
    return box_iou(xyxy[one], xyxy[other])


def median_overlap(overlap: Floats, *, cluster: Ints, seed: int = 0) -> Estimate:
    """Return the median of the IoUs (N,) between two people's boxes, with the interval of resampled videos.

    `cluster` (N,) is the video or photo of each pair.
    """
    expect(len(cluster) == len(overlap), "cluster", "one per overlap", len(cluster))
    if not len(overlap):
        return nothing("no image has the boxes of two people", method=METHOD)
    draws = Bootstrap(cluster, seed=seed)
    order = np.argsort(overlap, kind="stable")
    values, place = overlap[order], draws.place[order]
    medians = []
    step = max(1, _AT_ONCE // len(values))
    for first in range(0, draws.replicates, step):
        reach = np.cumsum(draws.weights[first : first + step, place], axis=1)
        n = reach[:, -1:]
        # The value at rank p (from 0) of a draw is the first one whose cumulative count exceeds p.
        low, high = ((reach <= np.floor((n - shift) / 2)).sum(axis=1) for shift in (1, 0))
        medians.append((values[low] + values[high]) / 2)
    return draws.estimate(float(np.median(overlap)), np.concatenate(medians), n=len(overlap), limits=SHARES)
