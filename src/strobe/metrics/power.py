"""The power of a limit on a loss: how often it fails at a given true loss, and how many videos it needs."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from strobe.core.arrays import Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate

POWER = 0.8
"""The smallest failure rate of a model with a loss of twice the limit, in a plan."""
FALSE_ALARMS = 0.05
"""The largest failure rate of two equally good models in a plan."""
Z = float(ndtri(0.975))
"""Half the width of a 95 % interval, in standard errors."""


class LossSpread(Protocol):
    """The sampling error of a measured figure."""

    def at(self, value: float) -> float:
        """Return the standard error at this true value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpread:
    """The spread of a difference between two models; `churn` is the share of sets that change between equal models.

    With a true loss, the sets that become wrong are added to these changes. `size` is the effective number of
    independent sets.
    """

    churn: float
    size: float

    def at(self, value: float) -> float:
        """Return the standard error at this true difference."""
        changed = min(self.churn + abs(value), 1.0)
        return float(np.sqrt(max(changed - value * value, 0.0) / self.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSpread:
    """The spread of a figure whose standard error does not depend on its value."""

    error: float

    def at(self, value: float) -> float:  # noqa: ARG002 (the same everywhere)
        """Return the standard error."""
        return self.error


def spread_of(figure: Estimate) -> PlainSpread:
    """Return the sampling error of a difference, from its 95 % interval."""
    low, high = (0.0 if end is None else end for end in (figure.low, figure.high))
    return PlainSpread(error=(high - low) / 2 / Z)


def pair_spread(gap: Ints, cluster: Ints) -> PairSpread:
    """Return the spread of paired differences of −1, 0 and 1, (N,), which are clustered in videos.

    The churn is twice the changes in the rarer direction, plus half a set, because a change that was never observed may
    still occur. Sets that share a video count for less if their differences agree, and never for more.

    >>> pair_spread(np.array([1] * 9 + [-1] + [0] * 30), np.arange(40))
    PairSpread(churn=0.075, size=40.0)
    """
    expect(len(gap) > 0, "pair_spread", "at least one set", 0)
    _, place = np.unique(cluster, return_inverse=True)
    n, videos = len(gap), int(place.max()) + 1
    rarer = min(int((gap > 0).sum()), int((gap < 0).sum()))
    size = float(n)
    if 1 < videos < n:
        rest = gap - gap.mean()
        alone, shared = float((rest * rest).sum()), float((np.bincount(place, weights=rest) ** 2).sum())
        # If all changes favour one side, or nothing changes, the data cannot show whether sets agree, so each video
        # counts once.
        size = min(n, n * alone / shared) if alone > 0 and shared > 0 else float(videos)
    return PairSpread(churn=min(1.0, (2 * rarer + 1) / n), size=size)


def fails(spread: LossSpread, true: float, *, limit: float, ends: int) -> float:
    """Return how often a rule "at most `limit`" fails if the true value is `true`.

    The rule fails if the figure is beyond the limit (`ends` 0), or if the whole 95 % interval is beyond the limit
    (`ends` 1).

    >>> round(fails(PairSpread(churn=0.1, size=400), 0.0, limit=0.02, ends=0), 3)
    0.103
    """
    error, beyond = spread.at(true), true - limit
    if error <= 0:
        return float(beyond > 0)
    return float(ndtr(beyond / error - ends * Z))


def videos_needed(spread: LossSpread, n_videos: int, *, limit: float, ends: int) -> int:
    """Return the number of videos that a limit on a loss needs.

    With this number, equal models fail in at most 5 % of cases, and a loss of twice the limit fails in at least 80 %.
    `spread` was measured on `n_videos` videos.

    >>> videos_needed(PairSpread(churn=0.1, size=1), 1, limit=0.02, ends=0)
    677
    """
    expect(limit > 0, "the margin", "above 0", limit)

    def rate(true: float, videos: int) -> float:
        then = PlainSpread(error=spread.at(true) * float(np.sqrt(n_videos / videos)))
        return fails(then, true, limit=limit, ends=ends)

    def enough(videos: int) -> bool:
        return rate(0.0, videos) <= FALSE_ALARMS and rate(2 * limit, videos) >= POWER

    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
