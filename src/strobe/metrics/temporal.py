"""Measures of flicker in addition to pm-k: flips between neighbours, time to first failure, confidence swing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints, counts
from strobe.core.codec import Count
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import ONE_VIDEO, Interval, clopper_pearson_bounds, effective_n, effective_videos


def flip_shares(value: NDArray[Any], first: Ints, second: Ints, pair_set: Ints, *, n_sets: int) -> tuple[Floats, Bools]:
    """Return, per set, the share of adjacent pairs whose `value` differs, and whether the set has any pair.

    `value` is (N,) per frame of a set. `first` and `second` (P,) are the indices of each pair's two frames in `value`,
    and `pair_set` (P,) is the pair's set.

    >>> share, has = flip_shares(np.array([4, 4, 7]), np.array([0, 1]), np.array([1, 2]), np.array([0, 0]), n_sets=2)
    >>> share.tolist(), has.tolist()
    ([0.5, 0.0], [True, False])
    """
    pairs = counts(pair_set, n_sets)
    differs = counts(pair_set[value[first] != value[second]], n_sets)
    return differs / np.maximum(pairs, 1), pairs > 0


def swings(confidence: Floats, start: Ints) -> Floats:
    """Return, per set, the largest minus the smallest confidence; `start` (S,) is each set's first index.

    >>> swings(np.array([0.5, 0.75, 0.25]), np.array([0, 2])).tolist()
    [0.25, 0.0]
    """
    return np.asarray(np.maximum.reduceat(confidence, start) - np.minimum.reduceat(confidence, start))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """The number of sets at risk at a distance, the number of failures there, and the share alive afterwards."""

    distance: float
    at_risk: Count
    events: Count
    alive: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """A Kaplan–Meier curve: the numbers of sets followed and failed, and the distances of failure or censoring."""

    n: Count
    events: Count
    median: float | None
    survival: tuple[AtRisk, ...]


def kaplan_meier(time: Floats, event: Bools, cluster: Ints, *, interval: Interval = "auto") -> Survival:
    """Return the survival curve of sets by distance from the anchor.

    `time` (N,) is the distance of the first failure (if `event`), or else the distance of the last frame seen. A set
    censored at a distance was seen at that distance and counts as at risk there. The interval is Clopper–Pearson at the
    effective sample size S(1 − S)/v. If every video has one set, v is Greenwood's variance; otherwise it is the sum
    over videos of squared influences (as in Korn–Graubard). Without censoring, the interval equals the interval of the
    plain share. At S = 1 and S = 0, it uses the limits of that size: the sets at risk r, and r/S with the S before the
    last failure (at most the effective videos of all failures, weighted by their part of the curve).

    >>> curve = kaplan_meier(np.array([1.0, 2.0, 2.0]), np.array([True, False, True]), np.array([0, 1, 2]))
    >>> [round(row.alive.value, 3) for row in curve.survival], curve.median
    ([0.667, 0.333], 2.0)
    """
    expect(time.shape == event.shape == cluster.shape, "time", "as many values as event and cluster", time.shape)
    if not time.size:
        return Survival(n=0, events=0, median=None, survival=())
    n = time.size
    distance, place = np.unique(time, return_inverse=True)
    failed = np.bincount(place[event], minlength=len(distance))
    gone = np.bincount(place, minlength=len(distance))
    at_risk = n - np.concatenate([[0], np.cumsum(gone)[:-1]])
    alive = np.cumprod((at_risk - failed) / at_risk)
    _, video = np.unique(cluster, return_inverse=True)
    videos = int(video.max()) + 1
    single = videos == n or interval == "clopper-pearson"
    # After S = 0 no set is at risk, so the later terms are never used.
    left = np.maximum(at_risk - failed, 1)
    before = np.concatenate([[1.0], alive[:-1]])
    if single:
        variance = alive**2 * np.cumsum(failed / (at_risk * left))
        spread = alive * (1 - alive)
        settled = spread <= 0
        effective = np.where(settled, at_risk / before, spread / np.where(settled, 1.0, variance))
    else:
        influence = np.zeros((videos, len(distance)))
        np.add.at(influence, (video[event], place[event]), 1.0 / left[place[event]])
        exposed = np.zeros((videos, len(distance) + 1))
        np.add.at(exposed, (video, place + 1), 1.0)
        sizes = np.bincount(video)
        present = sizes[:, None] - np.cumsum(exposed, axis=1)[:, :-1]
        influence -= present * (failed / (at_risk * left))[None, :]
        squares = (np.cumsum(influence, axis=1) ** 2).sum(axis=0) * alive**2
        width, every = (np.full(len(distance), float(number)) for number in (n, videos))
        effective = effective_n(alive, width, every, np.full(len(distance), effective_videos(sizes)), squares)
        still = present.sum(axis=0) ** 2 / (present**2).sum(axis=0)  # effective videos of the sets at risk
        mass = np.zeros(videos)  # each failure's share of the curve; without censoring, 1/n
        np.add.at(mass, video[event], (before / at_risk)[place[event]])
        still = np.where(alive > 0, still, np.minimum(effective_videos(mass), at_risk / before))
        effective = np.where(alive * (1 - alive) <= 0, still, effective)
    low, high = clopper_pearson_bounds(alive * effective, effective)
    method = "kaplan-meier, greenwood" if single else "kaplan-meier, korn-graubard"
    lone = videos == 1 and not single
    half = np.flatnonzero(alive <= 0.5 + 1e-12)
    estimates = (
        Estimate(value=value, low=None, high=None, n=n, method=method, reason=ONE_VIDEO)
        if lone
        else Estimate(value=value, low=a, high=b, n=n, method=method)
        for value, a, b in zip(alive.tolist(), low.tolist(), high.tolist(), strict=True)
    )
    columns = zip(distance.tolist(), at_risk.tolist(), failed.tolist(), estimates, strict=True)
    return Survival(
        n=n,
        events=int(failed.sum()),
        median=float(distance[half[0]]) if half.size else None,
        survival=tuple(AtRisk(distance=at, at_risk=risk, events=died, alive=one) for at, risk, died, one in columns),
    )
