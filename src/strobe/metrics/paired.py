"""Paired tests between two models on the same sets, Holm's correction for many pairs, and matching intervals."""

from collections.abc import Sequence
from itertools import count

import numpy as np
from scipy.special import bdtr, gammaln, ndtr, ndtri, stdtrit

from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import LEAST_FREEDOM, ONE_VIDEO, effective_videos

LEVEL = 0.05
METHOD = "inverted paired test"
BESIDE_ZERO = 1e-12
"""The end next to 0 if the formula's interval includes 0 but the exact test excludes it."""
ALL_SIGNS, GRID_VIDEOS, GRID = 12, 200, 2**14
"""The most videos whose signs `sign_flip_sums` enumerates, the most on its grid, and the sum of all sizes there."""


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided McNemar p-value of two discordant counts; 1 if both are zero.

    >>> round(mcnemar(1, 9), 4)
    0.0215
    """
    expect(only_a >= 0 and only_b >= 0, "discordant counts", ">= 0", (only_a, only_b))
    n = only_a + only_b
    return 1.0 if n == 0 else min(1.0, 2.0 * float(bdtr(min(only_a, only_b), n, 0.5)))


def sign_flip(difference: Ints) -> float:
    """Return the exact two-sided p-value of integer differences per video under random sign flips of each video.

    The distribution of the sum over all 2^G sign choices is computed, not sampled. With differences of −1, 0 and 1
    it is McNemar's test.

    >>> round(sign_flip(np.array([1] * 9 + [-1])), 4)
    0.0215
    """
    size, times = np.unique(np.abs(difference[difference != 0]), return_counts=True)
    if not size.size:
        return 1.0
    ways = np.ones(1)
    for step, many in zip(size.tolist(), times.tolist(), strict=True):
        # `many` videos of one size contribute step·(many − 2·heads): a binomial on a grid of 2·step.
        heads = np.arange(many + 1)
        chance = np.exp(gammaln(many + 1) - gammaln(heads + 1) - gammaln(many - heads + 1) - many * np.log(2.0))
        spread = np.zeros(2 * step * many + 1)
        spread[:: 2 * step] = chance
        ways = np.convolve(ways, spread)
    total = (len(ways) - 1) // 2
    sums = np.arange(-total, total + 1)
    return min(1.0, float(ways[np.abs(sums) >= abs(int(difference.sum()))].sum()))


def sign_flip_sums(difference: Floats) -> float:
    """Return the two-sided p-value of any sums per video, (G,), under random sign flips of each video.

    With few videos, all sign choices are enumerated. Up to GRID_VIDEOS videos, the sums are rounded to a grid, on which
    the distribution of their total is exact; totals that differ from the observed total only by rounding count as equal
    to it. Above GRID_VIDEOS, the distribution of the total is normal.

    >>> round(sign_flip_sums(np.array([0.25] * 9 + [-0.25])), 4)
    0.0215
    """
    size = np.abs(difference)
    used = difference[size > BESIDE_ZERO * max(1.0, float(size.max(initial=0.0)))]
    if not used.size:
        return 1.0
    if len(used) > GRID_VIDEOS:
        return float(2 * ndtr(-abs(float(used.sum())) / float(np.sqrt((used * used).sum()))))
    if len(used) <= ALL_SIGNS:
        totals = np.zeros(1)
        for one in used.tolist():
            totals = np.concatenate([totals - one, totals + one])
        return float(np.mean(np.abs(totals) >= abs(float(used.sum())) - 1e-9 * float(np.abs(used).sum())))
    steps = np.rint(used * (GRID / float(np.abs(used).sum()))).astype(np.int64)
    total = int(np.abs(steps).sum())
    chance = np.zeros(2 * total + 1)
    chance[total] = 1.0
    for step in np.abs(steps[steps != 0]).tolist():
        half = chance / 2
        chance[:] = 0.0
        chance[step:] += half[:-step]
        chance[:-step] += half[step:]
    least = abs(int(steps.sum())) - 2 * np.sqrt(len(steps))
    return min(1.0, float(chance[np.abs(np.arange(-total, total + 1)) >= least].sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the given order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    out = np.empty(len(p))
    out[order] = adjusted
    return [float(value) for value in out]


def holm_steps(p: float, p_holm: float, pairs: int) -> tuple[float, str]:
    """Return the number by which Holm's method divides the level of this pair, and a suffix for the interval's method.

    If `p_holm` is 1, that number is unknown. The interval is then simultaneous: it is at the level of all `pairs`.

    >>> holm_steps(0.01, 0.03, 5), holm_steps(0.4, 1.0, 5)
    ((3.0, ''), (5, ', simultaneous'))
    """
    if p > 0 and p_holm < 1:
        return p_holm / p, ""
    return pairs, ", simultaneous" if pairs > 1 else ""


def least_p(n_videos: int) -> float:
    """Return the smallest p-value possible with this number of videos, which occurs if all videos favour one side.

    >>> least_p(2), least_p(6)
    (0.5, 0.03125)
    """
    return min(1.0, 2.0 ** (1 - n_videos))


def least_videos(pairs: int = 1) -> int:
    """Return the smallest number of videos with which a test can be significant if this many pairs are tested.

    >>> least_videos(), least_videos(10)
    (6, 9)
    """
    return next(n for n in count(1) if pairs * least_p(n) < LEVEL)


def paired_difference(gap: Ints, cluster: Ints, *, p: float, p_holm: float, pairs: int) -> Estimate:
    """Return the mean of paired differences of −1, 0 and 1, (N,), with the interval of its own test.

    The interval inverts a test on the sums per video; δ is subtracted from a sum once for each of the video's sets. It
    includes every δ for which the total of these sums, divided by the root of their squares, is within a normal
    critical value. That value is taken at Holm's level for this pair out of `pairs`, or, if `p_holm` is 1, at the level
    of all pairs together, as `method` states. If the exact test decides otherwise, only the end next to 0 moves, to
    the test's side of 0. So the interval includes 0 exactly if `p_holm` is not below 0.05. One set of each outcome is
    added to the squares; otherwise the spread would be zero if all differences are zero. If there are too few videos
    for any significant result, `reason` explains it.

    >>> gap = np.array([1] * 9 + [-1] + [0] * 30)
    >>> paired_difference(gap, np.arange(40), p=0.0215, p_holm=0.0215, pairs=1).text()
    '20.0 [4.2, 35.9]'
    """
    _, place = np.unique(cluster, return_inverse=True)
    videos, n, total = int(place.max()) + 1, len(gap), int(gap.sum())
    value = total / n
    if videos == 1:
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=ONE_VIDEO)
    sums, sizes = np.bincount(place, weights=gap), np.bincount(place).astype(np.float64)
    more = n / videos
    rejects, (steps, how) = p_holm < LEVEL, holm_steps(p, p_holm, pairs)
    critical = -float(ndtri(LEVEL / steps / 2))
    square = n * n - critical**2 * (float((sizes * sizes).sum()) + more)
    linear = -2 * (n * total - critical**2 * float((sums * sizes).sum()))
    constant = total * total - critical**2 * (float((sums * sums).sum()) + more)
    low, high = _within(square, linear, constant, value)
    if rejects:
        low, high = (max(low, BESIDE_ZERO), high) if value > 0 else (low, min(high, -BESIDE_ZERO))
    else:
        low, high = min(low, 0.0), max(high, 0.0)
    reason = None
    if pairs * least_p(videos) >= LEVEL:
        corrected = f" after correction for {pairs} pairs" if pairs > 1 else ""
        least = min(1.0, pairs * least_p(videos))
        reason = f"{videos} videos cannot give a significant result: p is at least {least:.2g}{corrected}"
    return Estimate(value=value, low=min(low, value), high=max(high, value), n=n, method=METHOD + how, reason=reason)


def paired_rate(sums: Floats, sizes: Floats, *, p: float, p_holm: float, pairs: int) -> tuple[float, float]:
    """Return the 95 % interval of Σsums / Σsizes from paired differences summed per video, (G,) each.

    Like `paired_difference`, it inverts a test on the sums, here with Student's t on the effective degrees of freedom;
    the end next to 0 follows the test of `p_holm`.

    >>> low, high = paired_rate(np.array([1.0, 2.0, 1.5] * 4), np.full(12, 3.0), p=0.001, p_holm=0.001, pairs=1)
    >>> round(low, 2), round(high, 2)
    (0.41, 0.59)
    """
    expect(sums.shape == sizes.shape and len(sums) > 1, "sums", "shape (G,), of two or more videos", sums.shape)
    steps, _ = holm_steps(p, p_holm, pairs)
    freedom = max(effective_videos(sizes) - 1, LEAST_FREEDOM)
    critical = float(stdtrit(freedom, 1 - LEVEL / steps / 2))
    size, total, more = float(sizes.sum()), float(sums.sum()), len(sums) / (len(sums) - 1)
    value = total / size
    half = critical * float(np.sqrt(more * ((sums - value * sizes) ** 2).sum())) / size
    low, high = value - half, value + half
    if p_holm < LEVEL:
        return (max(low, BESIDE_ZERO), high) if value > 0 else (low, min(high, -BESIDE_ZERO))
    return min(low, 0.0), max(high, 0.0)


def _within(square: float, linear: float, constant: float, value: float) -> tuple[float, float]:
    """Return the δ around `value`, within −1 and 1, for which square·δ² + linear·δ + constant ≤ 0."""
    inside = linear * linear - 4 * square * constant
    if square == 0 or inside <= 0:
        return -1.0, 1.0
    root = float(np.sqrt(inside))
    first, second = sorted(((-linear - root) / (2 * square), (-linear + root) / (2 * square)))
    if square > 0:
        return max(first, -1.0), min(second, 1.0)
    # With very few videos, or one very large video, distant values on one side are not excluded, so that end is open.
    return (max(second, -1.0), 1.0) if 2 * value > first + second else (-1.0, min(first, 1.0))
