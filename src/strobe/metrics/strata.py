"""Shares over all sets of a dataset in which people have named only some of the sets.

A set is named if people gave it a label. Without a label, the outcome of a set is *certain* or *open*. For example, a
set that flickers does not hold whatever its label is, so acc_pmk needs labels of consistent sets only.

The interval covers the share in the population of videos, like the interval of a fully named dataset. The two are equal
if no outcome is open.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import ALPHA, ONE_VIDEO, effective_n, mean_bounds, nothing, proportion

HALF = 0.5
"""A stratum without an error may still have one: its variance is at least that with half a set of either outcome."""


def post_stratified(
    outcome: Bools, named: Bools, stratum: Ints, cluster: Ints, *, certain: Bools | None = None
) -> Estimate:
    """Return the share of `outcome` over all sets, from sets that were named at random.

    Each stratum counts with its number of sets in the dataset, not with its number of named sets. Strata with named
    sets from fewer than two videos are merged: first with each other, then, if this is not enough, with the stratum
    that has most named sets. A stratum whose sets are all named has no such limit, because nothing in it is estimated.

    Args:
        outcome: Whether the set counts, (N,). Ignored for sets that are neither named nor certain.
        named: Whether people named the set, (N,).
        stratum: A number per set, (N,), for example 1 if the model flickers on it.
        cluster: The video of each set, (N,).
        certain: Whether the outcome is known without a label, (N,).

    Returns:
        The share, with its interval over videos. `n` is the number of named sets.

    >>> flickers = np.arange(600) % 3 == 0
    >>> holds = ~flickers & (np.arange(600) % 5 > 0)
    >>> named = np.random.default_rng(1).permutation(600) < 60
    >>> video = np.arange(600) // 2
    >>> share = post_stratified(holds, named, flickers.astype(int), video, certain=flickers)
    >>> share.text(), share.method
    ('55.6 [46.5, 61.8]', 'post-stratified, 60 of 600 sets')
    """
    return _stratified(outcome, named, stratum, cluster, np.ones(len(outcome)), certain, "post-stratified")


def planned(
    outcome: Bools, named: Bools, stratum: Ints, cluster: Ints, chance: Floats, *, certain: Bools | None = None
) -> Estimate:
    """Return the share of `outcome` over all sets, from sets that a plan drew with known chances.

    This is `post_stratified` for samples that prefer some sets. `chance` (N,) is each set's chance of being named, from
    `plan_chance`; it may differ within a stratum, for example if a second plan with other strata extended the first.
    Each named set counts with the inverse of its chance.

    >>> flickers = np.arange(600) < 200
    >>> breaks = flickers & (np.arange(600) % 2 == 0)
    >>> chance = np.where(flickers, 0.25, 0.01)
    >>> named = (np.arange(600) % np.where(flickers, 4, 100)) == np.where(np.arange(600) < 100, 0, 1)
    >>> planned(breaks, named, flickers.astype(int), np.arange(600), chance, certain=~flickers).text()
    '16.7 [11.8, 21.6]'
    """
    expect(chance.shape == outcome.shape, "chance", f"shape {outcome.shape}", chance.shape)
    open_sets = np.ones(len(outcome), dtype=np.bool_) if certain is None else ~certain
    possible = (chance > 0) & (chance <= 1)
    expect(
        bool(possible[open_sets].all()), "chance", "above 0 and at most 1 for every set without a certain outcome", None
    )
    weight = np.divide(1.0, chance, out=np.ones(len(chance)), where=possible)
    return _stratified(outcome, named, stratum, cluster, weight, certain, "planned labels")


@dataclass(frozen=True, slots=True)
class CorrectedFlicker:
    """Flicker, and the bound on acc_pmk that follows, after people checked some flickering sets.

    `changes` is the share of flickering sets that show a real change, `corrected` the flicker without these sets, and
    `bound` 1 − `corrected`: the model can be right on every frame in at most this share of the sets.
    """

    flicker: Estimate
    changes: Estimate
    corrected: Estimate
    bound: Estimate


def corrected_flicker(flickers: Bools, checked: Bools, changed: Bools, cluster: Ints) -> CorrectedFlicker:
    """Return the flicker without sets that show a real change, from a random sample of flickering sets.

    Args:
        flickers: Whether the answers in the set differ, (N,).
        checked: Whether people checked the set, (N,). Checked sets that do not flicker are ignored.
        changed: Whether people found a real change in the set, (N,). Ignored for sets that were not checked.
        cluster: The video of each set, (N,).

    Returns:
        The figures. The intervals of `corrected` and `bound` cover both samples: the videos of the dataset and the
        checked sets. If no flickering set was checked, neither has a value.

    >>> flickers = np.arange(200) < 80
    >>> checked, changed = np.arange(200) % 2 == 0, np.arange(200) % 8 == 0
    >>> result = corrected_flicker(flickers, checked, changed, np.arange(200))
    >>> result.flicker.text(), result.changes.text(), result.corrected.text()
    ('40.0 [33.2, 47.1]', '25.0 [12.7, 41.2]', '30.0 [22.2, 37.1]')
    >>> result.bound.text()
    '70.0 [62.9, 77.8]'
    """
    for name, values in (("checked", checked), ("changed", changed), ("cluster", cluster)):
        expect(values.shape == flickers.shape, name, f"shape {flickers.shape}", values.shape)
    sample = checked & flickers
    one, weight = np.zeros(len(flickers), dtype=np.int8), np.ones(len(flickers))
    rest = _stratified(flickers & ~changed, sample, one, cluster, weight, ~flickers, "corrected")
    method = f"corrected, {int(sample.sum()):,} of {int(flickers.sum()):,} flickering sets checked"
    if rest.value is None:
        unknown = nothing("no flickering set was checked", method=method)
        return CorrectedFlicker(proportion(flickers, cluster), unknown, unknown, unknown)
    changes = proportion(changed[sample], cluster[sample])
    low, high = (None, None) if rest.low is None or rest.high is None else (1 - rest.high, 1 - rest.low)
    corrected = _estimate(rest.value, rest.low, rest.high, n=rest.n, method=method, reason=rest.reason)
    bound = _estimate(1 - rest.value, low, high, n=rest.n, method=method, reason=rest.reason)
    return CorrectedFlicker(proportion(flickers, cluster), changes, corrected, bound)


class _Part(NamedTuple):
    """A part of an estimate: how far its interval reaches below and above, and what each video adds to it, (G,)."""

    below: float
    above: float
    by_video: Floats


def _check(outcome: Bools, named: Bools, stratum: Ints, cluster: Ints) -> None:
    for name, values in (("named", named), ("stratum", stratum), ("cluster", cluster)):
        expect(values.shape == outcome.shape and values.ndim == 1, name, "shape (N,), like outcome", values.shape)
    expect(named.dtype == np.bool_, "named", "true or false", named.dtype)
    expect(outcome.dtype == np.bool_, "outcome", "true or false", outcome.dtype)


def _stratified(
    outcome: Bools, named: Bools, stratum: Ints, cluster: Ints, weight: Floats, certain: Bools | None, design: str
) -> Estimate:
    """Return the share over all sets; `weight` (N,) is the number of sets that each named set stands for."""
    _check(outcome, named, stratum, cluster)
    known = np.zeros(outcome.shape, dtype=np.bool_) if certain is None else certain
    expect(known.shape == outcome.shape, "certain", f"shape {outcome.shape}", known.shape)
    n, n_sets = int(named.sum()), len(outcome)
    method = f"{design}, {n:,} of {n_sets:,} sets"
    if n_sets == 0:
        return nothing("no set", method=method)
    code: Ints = np.unique(stratum, return_inverse=True)[1].ravel()
    unnamed = np.bincount(code[~known & ~named], minlength=int(code.max()) + 1)
    known = known | (unnamed == 0)[code]  # nothing is open in a stratum whose open sets are all named
    if known.all():
        return proportion(outcome, cluster)
    label = named & ~known
    if not label.any():
        return nothing("no set with an open outcome is named", method=method)
    video = np.unique(cluster, return_inverse=True)[1].ravel()
    code = _merged(code, video, known=known, label=label)
    equal = bool((weight[label] == weight[label][0]).all())
    if not known.any() and equal and not code.any():  # an ordinary random sample
        plain = proportion(outcome[label], cluster[label])
        return _estimate(plain.value, plain.low, plain.high, n=n, method=method, reason=plain.reason)
    open_sets = np.bincount(code[~known])
    total = np.bincount(code[label], weights=weight[label])
    share = np.minimum(np.bincount(code[label], weights=(weight * outcome)[label]) / total, 1.0)
    filled = np.where(known, outcome, share[np.where(known, 0, code)])
    value = float(filled.mean())
    alone = label.sum() > 1 and bool((video[label] == video[label][0]).all())
    if alone or (n_sets > 1 and not video.any()):
        return _estimate(value, None, None, n=n, method=method, reason=ONE_VIDEO)
    mix = _composition(filled, value, video)
    part = open_sets[code[label]] / n_sets * weight[label] / total[code[label]]
    labels = _labels(outcome[label], part, code[label], share, video[label], n_videos=len(mix.by_video))
    low, high = _combined(value, mix, labels)
    return _estimate(value, low, high, n=n, method=method, reason=None)


def _estimate(
    value: float | None, low: float | None, high: float | None, *, n: int, method: str, reason: str | None
) -> Estimate:
    return Estimate(value=value, low=low, high=high, n=n, method=method, reason=reason)


def _merged(code: Ints, video: Ints, *, known: Bools, label: Bools) -> Ints:
    """Return the strata of open sets, numbered from 0, after merging those with fewer than two named videos."""
    width = int(video.max()) + 1
    n_codes = int(code.max()) + 1
    videos = np.bincount(np.unique(code[label].astype(np.int64) * width + video[label]) // width, minlength=n_codes)
    sets, labels = np.bincount(code[~known], minlength=n_codes), np.bincount(code[label], minlength=n_codes)
    thin = (sets > 0) & (videos < 2)
    target = np.arange(n_codes)
    if thin.any():
        rest = (sets > 0) & ~thin
        together = len(np.unique(video[label & thin[code]]))
        target[thin] = int(np.argmax(np.where(rest, labels, -1))) if together < 2 and rest.any() else np.argmax(thin)
    code = target[code]
    used = np.unique(code[~known])
    return np.searchsorted(used, code).clip(max=len(used) - 1)


def _composition(filled: Floats, value: float, video: Ints) -> _Part:
    """Return the part from the videos: another sample of videos would have other sets, for example more flicker."""
    total: Floats = np.bincount(video, weights=filled).astype(np.float64, copy=False)
    size = np.bincount(video).astype(np.float64)
    if np.ptp(filled) <= 1e-12:
        return _Part(0.0, 0.0, np.zeros(len(total)))
    low, high = mean_bounds(total[None], size[None])
    return _Part(value - float(low[0]), float(high[0]) - value, (total - value * size) / len(filled))


def _labels(outcome: Bools, part: Floats, code: Ints, share: Floats, video: Ints, *, n_videos: int) -> _Part:
    """Return the part from the labels; `part` (n,) is the share of all sets that each named set stands for.

    The variance is the sum of squares over videos, but at least that of independent sets. The interval is that of
    Jeffreys at the effective sample size, as in Korn–Graubard. Clopper–Pearson would make it too wide, because the
    interval combines two parts.
    """
    reach = float(part.sum())
    each = part / reach
    residual = each * (outcome - share[code])
    by_video: Floats = np.bincount(video, weights=residual, minlength=n_videos).astype(np.float64, copy=False)
    size = np.bincount(video, weights=each)
    # Exactly 0 or 1 if all outcomes are equal, whatever the rounding of the sum.
    mean = float(outcome[0]) if (outcome == outcome[0]).all() else float((each * outcome).sum())
    n, videos, effective = float(len(each)), float((size > 0).sum()), 1 / float((size * size).sum())
    squares, counted = np.bincount(code, weights=each * each), np.bincount(code)
    spread, more = share * (1 - share), 0.0
    if len(share) > 1:
        allowed = (counted * share + HALF) / (counted + 2 * HALF)
        more = float((squares * np.maximum(allowed * (1 - allowed) - spread, 0.0)).sum())
    least = float((squares * spread).sum()) + more
    most = mean * (1 - mean) / least if least > 0 else n
    sample = effective if mean in (0.0, 1.0) else most
    if videos < n:
        square = np.array([float((by_video * by_video).sum()) + more])
        given = [np.array([number]) for number in (mean, n, videos, effective, most)]
        sample = float(effective_n(given[0], given[1], given[2], given[3], square, most=given[4])[0])
    low, high = _jeffreys(mean * sample, sample, n)
    return _Part(reach * (mean - low), reach * (high - mean), reach * by_video)


def _jeffreys(count: float, n: float, sets: float) -> tuple[float, float]:
    """Return Jeffreys' 95 % bounds for `count` successes of `n`; both may be fractional.

    If all outcomes of the `sets` are equal, the far bound is at least that of mid-P, 1 − α^(1/sets). Jeffreys' bound
    alone is too close to the value there, and would miss a rare outcome.
    """
    a, b, far = count + 0.5, n - count + 0.5, 1 - float(ALPHA ** (1 / sets))
    low = 0.0 if count <= 0 else float(betaincinv(a, b, ALPHA / 2))
    high = 1.0 if count >= n else float(betaincinv(a, b, 1 - ALPHA / 2))
    low, high = (low if count < n else min(low, 1 - far)), (high if count > 0 else max(high, far))
    return min(low, count / n), max(high, count / n)


def _combined(value: float, a: _Part, b: _Part) -> tuple[float, float]:
    """Return the bounds of a sum of two parts by MOVER, with the correlation of the parts over videos."""
    product = float(np.sqrt((a.by_video**2).sum() * (b.by_video**2).sum()))
    r = float(np.clip((a.by_video * b.by_video).sum() / product, -1.0, 1.0)) if product > 0 else 0.0
    below = np.sqrt(max(a.below**2 + b.below**2 + 2 * r * a.below * b.below, 0.0))
    above = np.sqrt(max(a.above**2 + b.above**2 + 2 * r * a.above * b.above, 0.0))
    return max(value - float(below), 0.0), min(value + float(above), 1.0)
