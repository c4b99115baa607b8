"""Which sets people should name: strata, the number of sets in each, the draw, and the gain to expect."""

from dataclasses import dataclass

import numpy as np

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect

LEAST_SETS = 20
"""Patterns with fewer sets share a stratum with other rare patterns."""
PRIOR_SETS = 4
"""A guessed share within a stratum counts the prior as this many named sets."""
LEAST_NAMED = 2
"""The smallest number of sets to name in a stratum; the draw takes them from two videos if it can."""


def flicker_patterns(flickers: Bools, *, least: int = LEAST_SETS) -> Ints:
    """Return the stratum of each set, (N,): the pattern of which models flicker; `flickers` is (M, N).

    Patterns with fewer than `least` sets are merged into one stratum per number of flickering models. Strata that
    still have fewer are merged into one.

    >>> flicker_patterns(np.array([[True, False, False, True]]), least=1).tolist()
    [1, 0, 0, 1]
    """
    expect(flickers.ndim == 2 and flickers.shape[0] > 0, "flickers", "shape (models, sets)", flickers.shape)
    expect(least >= 1, "least", ">= 1", least)
    if flickers.shape[1] == 0:
        return np.empty(0, dtype=np.int64)
    pattern = np.unique(flickers.T, axis=0, return_inverse=True)[1].ravel()
    n_patterns = int(pattern.max()) + 1
    rare = np.bincount(pattern)[pattern] < least
    code = np.where(rare, n_patterns + flickers.sum(axis=0), pattern)
    still = rare & (np.bincount(code)[code] < least)
    code = np.where(still, n_patterns + flickers.shape[0] + 1, code)
    return np.asarray(np.unique(code, return_inverse=True)[1].ravel())


def allocate(outcome: Bools, certain: Bools, named: Bools, stratum: Ints, budget: int, *, prior: float = 0.5) -> Ints:
    """Return the number of sets to name in each stratum, (strata,), including the sets that are already named.

    This is Neyman's allocation for several figures: it minimises the sum of their variances, each divided by the
    variance that as many random labels would give. A larger budget never gives a stratum fewer sets. Each stratum with
    an open outcome gets at least two sets, and never more than it has. A stratum without an open outcome gets no set,
    so the sum may be smaller than the budget.

    Args:
        outcome: The outcome of each set for each figure, (figures, N). Used for named and certain sets only.
        certain: Whether the outcome is known without a label, (figures, N).
        named: Whether people have named the set so far, (N,).
        stratum: The stratum of each set, (N,), numbered from 0.
        budget: The number of named sets to reach, including the ones that are already named.
        prior: The share of outcomes to assume in a stratum without labels. It counts as four named sets.

    >>> flickers = np.arange(100) < 30
    >>> none = np.zeros(100, dtype=bool)
    >>> both = np.stack([flickers, ~flickers])  # acc_pmk is certain if the set flickers, drop if it does not
    >>> allocate(np.zeros((2, 100), dtype=bool), both, none, flickers.astype(int), 20).tolist()
    [13, 7]
    >>> allocate(np.zeros((1, 100), dtype=bool), both[:1], none, flickers.astype(int), 20).tolist()
    [20, 0]
    """
    n_sets = len(stratum)
    expect(outcome.ndim == 2 and outcome.shape[1] == n_sets > 0, "outcome", f"shape (figures, {n_sets})", outcome.shape)
    expect(certain.shape == outcome.shape, "certain", f"shape {outcome.shape}", certain.shape)
    expect(named.shape == stratum.shape, "named", f"shape {stratum.shape}", named.shape)
    expect(int(stratum.min()) >= 0, "stratum", ">= 0", int(stratum.min()))
    expect(0 < prior < 1, "prior", "between 0 and 1", prior)
    size = np.bincount(stratum)
    gain = np.zeros(len(size))
    for right, sure in zip(outcome, certain, strict=True):
        known = named & ~sure
        right_named = np.bincount(stratum[known], weights=right[known], minlength=len(size))
        share = (right_named + prior * PRIOR_SETS) / (np.bincount(stratum[known], minlength=len(size)) + PRIOR_SETS)
        still_open = np.bincount(stratum[~sure], minlength=len(size)) / n_sets
        value = float((still_open * share).sum() + (right & sure).sum() / n_sets)
        # Only the open sets of a stratum matter, but all of its sets are drawn: hence the second factor.
        gain += still_open * (size / n_sets) * share * (1 - share) / max(value * (1 - value), 1 / n_sets)
    so_far = np.bincount(stratum[named], minlength=len(size))
    least = np.maximum(np.where(gain > 0, np.minimum(LEAST_NAMED, size), 0), so_far)
    expect(budget >= least.sum(), "budget", f"at least {int(least.sum())} (two sets in each stratum)", budget)
    return _apportioned(gain, least, np.where(gain > 0, size, least), budget)


def _apportioned(gain: Floats, least: Ints, most: Ints, budget: int) -> Ints:
    """Return the integers between `least` and `most` with the sum `budget` that minimise Σ gain/n.

    One more set in a stratum with n reduces the sum by gain/(n(n+1)), so the largest reductions are taken in turn.
    """
    places = np.repeat(np.arange(len(gain)), most - least)
    n = np.arange(len(places)) - np.repeat(np.cumsum(most - least) - most, most - least)
    worth = gain[places] / np.maximum(n * (n + 1.0), 0.5)
    taken = places[np.argsort(-worth, kind="stable")[: budget - int(least.sum())]]
    return np.asarray(least + np.bincount(taken, minlength=len(gain)))


def draw_plan(stratum: Ints, cluster: Ints, allocation: Ints, *, seed: int, before: Bools | None = None) -> Ints:
    """Return the rows of the sets to name, in the order in which to ask for them.

    Within a stratum every set has the same chance, and the drawn sets are spread over its videos. The same arguments
    give the same order, so a plan is resumed by skipping the sets that have been named since. With the same seed, a
    larger allocation contains all sets of a smaller one. The strata take turns, so a plan that stops early is still
    balanced.

    Args:
        stratum: The stratum of each set, (N,), numbered from 0.
        cluster: The video of each set, (N,).
        allocation: The number of named sets to reach in each stratum, (strata,), from `allocate`.
        seed: The seed of the draw; store it with the plan.
        before: Whether the set was named before this plan was made, (N,). Such sets count towards the allocation.

    >>> rows = draw_plan(np.array([0, 0, 0, 1, 1, 1]), np.arange(6), np.array([2, 1]), seed=1)
    >>> sorted((rows >= 3).tolist())
    [False, False, True]
    """
    new = _to_draw(stratum, allocation, before)
    expect(cluster.shape == stratum.shape, "cluster", f"shape {stratum.shape}", cluster.shape)
    expect(seed >= 0, "seed", ">= 0", seed)
    rows, turn = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for code, many in enumerate(new.tolist()):
        pool = np.flatnonzero((stratum == code) & (True if before is None else ~before))
        rng = np.random.Generator(np.random.PCG64([seed, code]))
        rows.append(pool[_spread(cluster[pool], rng)[:many]])
        turn.append((np.arange(many) + 0.5) / max(many, 1))
    return np.asarray(np.concatenate(rows)[np.argsort(np.concatenate(turn), kind="stable")])


def _to_draw(stratum: Ints, allocation: Ints, before: Bools | None) -> Ints:
    """Return how many sets of each stratum are left to draw, (strata,)."""
    expect(stratum.ndim == 1 and stratum.size > 0, "stratum", "at least one set", stratum.shape)
    expect(int(stratum.min()) >= 0, "stratum", ">= 0", int(stratum.min()))
    size = np.bincount(stratum)
    expect(allocation.shape == size.shape, "allocation", f"one number for each of {len(size)} strata", allocation.shape)
    expect(
        bool(((allocation >= 0) & (allocation <= size)).all()), "allocation", "at most the sets of the stratum", None
    )
    if before is None:
        return allocation
    expect(before.shape == stratum.shape, "before", f"shape {stratum.shape}", before.shape)
    return np.asarray(np.maximum(allocation - np.bincount(stratum[before], minlength=len(size)), 0))


def _spread(video: Ints, rng: np.random.Generator) -> Ints:
    """Return a random order of the sets, such that the first few come from different videos where possible.

    The sets are arranged on a circle, video by video, and visited at the points of a van der Corput sequence that
    starts at a random place. Any number of these points is spread evenly. By symmetry, all sets have the same chance.
    """
    n = len(video)
    if n == 0:
        return np.empty(0, dtype=np.int64)
    _, compact = np.unique(video, return_inverse=True)
    place = rng.permutation(int(compact.max()) + 1)[compact.ravel()]
    circle = np.lexsort((rng.random(n), place))
    bits = max(n - 1, 1).bit_length()
    step = np.arange(2**bits)
    point = np.zeros(2**bits)
    for bit in range(bits):
        point += ((step >> bit) & 1) / 2.0 ** (bit + 1)
    visited = np.floor((point + rng.random()) % 1.0 * n).astype(np.int64).clip(max=n - 1)
    first = np.unique(visited, return_index=True)[1]
    missing = np.setdiff1d(np.arange(n), visited)  # only if rounding skips a place
    return np.asarray(circle[np.concatenate([visited[np.sort(first)], missing])])


def plan_chance(
    stratum: Ints, allocation: Ints, *, before: Bools | None = None, chance_before: Floats | None = None
) -> Floats:
    """Return each set's chance of being named, (N,), after a plan; `planned` needs it.

    If people stopped before the end of the plan, pass the number of sets that they named in each stratum as the
    allocation. If the plan extended an earlier one, pass the sets that were named `before` and their `chance_before`,
    (N,).

    >>> plan_chance(np.array([0, 0, 1]), np.array([1, 1])).tolist()
    [0.5, 0.5, 1.0]
    >>> before, chance = np.array([True, False, False, False]), np.full(4, 0.25)
    >>> plan_chance(np.zeros(4, dtype=int), np.array([2]), before=before, chance_before=chance).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    expect((before is None) == (chance_before is None), "chance_before", "given if and only if before is", None)
    new = _to_draw(stratum, allocation, before)
    free = np.bincount(stratum if before is None else stratum[~before], minlength=len(new))
    chance = (new / np.maximum(free, 1))[stratum]
    if chance_before is None:
        return np.asarray(chance)
    expect(chance_before.shape == stratum.shape, "chance_before", f"shape {stratum.shape}", chance_before.shape)
    return np.asarray(1 - (1 - chance_before) * (1 - chance))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPromise:
    """The expected variance of each figure, divided by its variance with as many random labels.

    `planned_…`: all labels serve this figure. `both_…`: the labels are split. `random_…`: random labels, but
    post-stratified by flicker. A ratio of 0.25 halves the width of the interval, or needs a quarter of the labels.
    """

    planned_acc_pmk: float
    planned_drop: float
    both_acc_pmk: float
    both_drop: float
    both_acc_orig: float
    random_acc_pmk: float
    random_drop: float
    random_acc_orig: float


def promised_ratio(
    *,
    consistency: float,
    acc_pmk: float,
    drop: float,
    budget: int,
    sets: int | None = None,
    design_effect: float = 1.0,
    split: float = 0.5,
) -> LabelPromise:
    """Return how much a plan or post-stratification will narrow the intervals, before people name a set.

    Without `sets`, the dataset is much larger than the budget. Otherwise the ratio also contains variance that labels
    cannot reduce, because the dataset is itself a sample of videos.

    Args:
        consistency: The share of sets whose answers all agree.
        acc_pmk: The expected share of sets with every member right.
        drop: The expected share of sets that break.
        budget: The number of sets to name.
        sets: The number of sets in the dataset.
        design_effect: The variance of the figures of a fully named dataset, divided by that of independent sets. It
            exceeds 1 if the sets of a video are alike.
        split: The share of the labels for flickering sets, if the labels serve both figures.

    >>> demo = promised_ratio(consistency=0.67, acc_pmk=0.59, drop=0.15, budget=60)
    >>> round(demo.planned_acc_pmk, 2), round(demo.both_acc_pmk, 2), round(demo.random_acc_pmk, 2)
    (0.2, 0.39, 0.29)
    >>> round(promised_ratio(consistency=0.98, acc_pmk=0.6, drop=0.01, budget=60).planned_acc_pmk, 2)
    0.95
    """
    expect(0 <= consistency <= 1, "consistency", "0–1", consistency)
    expect(0 <= acc_pmk <= consistency, "acc_pmk", "0 to the consistency", acc_pmk)
    expect(0 <= drop <= 1 - consistency + 1e-12, "drop", "0 to the flicker", drop)
    expect(budget >= 1, "budget", ">= 1", budget)
    expect(sets is None or sets >= budget, "sets", "at least the budget", sets)
    expect(design_effect > 0, "design_effect", "> 0", design_effect)
    expect(0 < split < 1, "split", "between 0 and 1", split)
    n, one_of = float(budget), 0.0 if sets is None else 1 / sets
    reach = np.array([consistency, 1 - consistency])
    right = np.divide([acc_pmk, drop], reach, out=np.zeros(2), where=reach > 0)
    spread = reach * right * np.maximum(1 - right, 0.0)
    limit = reach / one_of if sets is not None else np.full(2, np.inf)

    def ratio(value: float, needs: tuple[bool, bool], labels: Floats) -> float:
        whole = value * (1 - value)
        if whole <= 0:
            return 1.0
        used = spread * needs
        per_label = np.divide(reach * used, np.minimum(labels, limit), out=np.zeros(2), where=used > 0).sum()
        common = whole * design_effect * one_of
        return float((per_label - used.sum() * one_of + common) / (whole * (1 / n - one_of) + common))

    all_to_one, shared = np.full(2, n), _shared(n, split, limit)
    pmk, dropped, orig = (acc_pmk, (True, False)), (drop, (False, True)), (acc_pmk + drop, (True, True))
    return LabelPromise(
        planned_acc_pmk=ratio(*pmk, all_to_one),
        planned_drop=ratio(*dropped, all_to_one),
        both_acc_pmk=ratio(*pmk, shared),
        both_drop=ratio(*dropped, shared),
        both_acc_orig=ratio(*orig, shared),
        random_acc_pmk=ratio(*pmk, n * reach),
        random_drop=ratio(*dropped, n * reach),
        random_acc_orig=ratio(*orig, n * reach),
    )


def _shared(n: float, split: float, limit: Floats) -> Floats:
    """Return the labels for consistent and for flickering sets; labels that one kind cannot use go to the other."""
    flickering = min(n * split, float(limit[1]))
    consistent = min(n - flickering, float(limit[0]))
    return np.array([consistent, min(n - consistent, float(limit[1]))])
