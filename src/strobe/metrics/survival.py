"""Values of a survival curve: the share at a level, and the median."""

import numpy as np

from strobe.core.arrays import Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import ONE_VIDEO, Interval, nothing, proportion
from strobe.metrics.temporal import Survival

SLACK = 1e-6
"""A distance counts as within a level if it exceeds the level by less than this share, as for members of sets."""

INVERTED = "kaplan-meier, inverted"


def alive_at(curve: Survival, level: float, cluster: Ints, *, interval: Interval = "auto") -> Estimate:
    """Return the share alive past `level`; null if no set was followed that far.

    `cluster` (N,) is the video of each followed set.

    >>> from strobe.metrics.temporal import kaplan_meier
    >>> time, found, video = np.array([1.0, 2.0, 3.0]), np.array([True, True, False]), np.arange(3)
    >>> curve = kaplan_meier(time, found, video)
    >>> [alive_at(curve, level, video).text() for level in (0.5, 1.0, 9.0)]
    ['100.0 [29.2, 100.0]', '66.7 [9.4, 99.2]', '—']
    """
    if not curve.n:
        return nothing("no search was made")
    expect(len(cluster) == curve.n, "cluster", f"one for each of the {curve.n} followed", len(cluster))
    ended = [row for row in curve.survival if row.distance <= level * (1 + SLACK)]
    if len(ended) == len(curve.survival) and ended[-1].alive.value and ended[-1].distance < level * (1 - SLACK):
        return nothing("no search went that far")
    if ended:
        return ended[-1].alive
    return proportion(np.ones(curve.n, dtype=bool), cluster, interval=interval)


def median_of(curve: Survival) -> Estimate:
    """Return the distance at which half of the sets have failed.

    Its bounds enclose the distances at which the curve's interval includes one half. The result is null if fewer than
    half failed. If the upper bound was never reached there are no bounds, and the reason gives the lower bound.

    >>> from strobe.metrics.temporal import kaplan_meier
    >>> time = np.arange(1.0, 21.0)
    >>> curve = median_of(kaplan_meier(time, time > 0, np.arange(20)))
    >>> curve.value, curve.low, curve.high
    (10.0, 6.0, 15.0)
    """
    if not curve.n:
        return nothing("no search was made", method=INVERTED)
    bounds = [(row.distance, row.alive.low, row.alive.high) for row in curve.survival]
    low = next((at for at, down, _ in bounds if down is not None and down <= 0.5), None)
    high = next((at for at, _, up in bounds if up is not None and up < 0.5), None)
    lone = any(down is None for _, down, _ in bounds)
    least = "" if low is None else f"; the interval begins at {low:.3g}"
    if curve.median is None:
        reason = f"fewer than half of the searches found something{least}"
        return Estimate(value=None, low=None, high=None, n=curve.n, method=INVERTED, reason=reason)
    if lone or low is None or high is None:
        reason = ONE_VIDEO if lone else f"the upper end of the interval is beyond the searched range{least}"
        return Estimate(value=curve.median, low=None, high=None, n=curve.n, method=INVERTED, reason=reason)
    return Estimate(value=curve.median, low=low, high=high, n=curve.n, method=INVERTED)
