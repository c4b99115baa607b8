from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.label_plan import allocate, draw_plan, flicker_patterns, plan_chance, promised_ratio
from strobe.metrics.strata import planned

counts = st.lists(st.integers(1, 9), min_size=1, max_size=3)


def plain_gain(outcome, certain, named, stratum, prior=0.5):
    """What one label fewer costs in each stratum, in plain Python."""
    n, gain = len(stratum), dict.fromkeys(range(max(stratum) + 1), 0.0)
    for right, sure in zip(outcome, certain, strict=True):
        share = {}
        for code in gain:
            known = [right[i] for i in range(n) if stratum[i] == code and named[i] and not sure[i]]
            share[code] = (sum(known) + 4 * prior) / (len(known) + 4)
        still = {code: sum(stratum[i] == code and not sure[i] for i in range(n)) / n for code in gain}
        value = sum(still[c] * share[c] for c in gain) + sum(bool(right[i] and sure[i]) for i in range(n)) / n
        for code in gain:
            size = sum(stratum[i] == code for i in range(n)) / n
            gain[code] += still[code] * size * share[code] * (1 - share[code]) / max(value * (1 - value), 1 / n)
    return gain


@given(counts, st.integers(1, 2), st.integers(0, 27), st.randoms(use_true_random=False))
def test_no_other_allocation_is_better(sizes, figures, budget, random) -> None:
    stratum = [code for code, size in enumerate(sizes) for _ in range(size)]
    flags = [[[random.random() < 0.4 for _ in stratum] for _ in range(figures)] for _ in range(2)]
    named = [random.random() < 0.2 for _ in stratum]
    gain = plain_gain(*flags, named, stratum)
    so_far = [sum(named[i] for i, s in enumerate(stratum) if s == code) for code in range(len(sizes))]
    least = [max(min(2, size) if gain[c] > 0 else 0, so_far[c]) for c, size in enumerate(sizes)]
    most = [size if gain[c] > 0 else least[c] for c, size in enumerate(sizes)]
    arrays = np.array(flags[0]), np.array(flags[1]), np.array(named), np.array(stratum)
    if budget < sum(least):
        with pytest.raises(InvalidValue, match="budget: expected at least"):
            allocate(*arrays, budget)
        return
    found = allocate(*arrays, budget)
    assert found.sum() == min(budget, sum(most))

    def cost(labels) -> float:
        return sum(gain[c] / n for c, n in enumerate(labels) if n)

    options = product(*(range(a, b + 1) for a, b in zip(least, most, strict=True)))
    assert cost(found.tolist()) == pytest.approx(min(cost(x) for x in options if sum(x) == found.sum()))


@settings(max_examples=40)
@given(counts, st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_a_larger_budget_extends_the_smaller_one(sizes, seed, random) -> None:
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    cluster = np.array([random.randrange(4) for _ in stratum])
    outcome = np.array([[random.random() < 0.5 for _ in stratum]])
    before: set[int] = set()
    last = np.zeros(len(sizes), dtype=int)
    for budget in range(2 * len(sizes), len(stratum) + 1):
        allocation = allocate(outcome, outcome & False, stratum < 0, stratum, budget)
        assert (allocation >= last).all()
        rows = draw_plan(stratum, cluster, allocation, seed=seed)
        assert rows.tolist() == draw_plan(stratum, cluster, allocation, seed=seed).tolist()
        assert np.bincount(stratum[rows], minlength=len(sizes)).tolist() == allocation.tolist()
        assert len(set(rows.tolist())) == len(rows)
        assert before <= set(rows.tolist())
        before, last = set(rows.tolist()), allocation


def test_a_plan_is_extended_by_another_plan() -> None:
    first_strata, second_strata, video = np.arange(60) % 2, np.arange(60) % 3, np.arange(60) // 2
    first = draw_plan(first_strata, video, np.array([4, 6]), seed=1)
    before = np.isin(np.arange(60), first)
    allocation = np.array([10, 8, 8])
    rows = draw_plan(second_strata, video, allocation, seed=1, before=before)
    assert not before[rows].any()
    assert np.bincount(second_strata[rows]).tolist() == (allocation - np.bincount(second_strata[before])).tolist()
    chance = plan_chance(
        second_strata, allocation, before=before, chance_before=plan_chance(first_strata, np.array([4, 6]))
    )
    assert chance.min() > 4 / 30
    assert chance.sum() == pytest.approx(26, abs=2)


def test_an_extended_plan_is_unbiased() -> None:
    rng = np.random.default_rng(2)
    old, new, video = np.arange(300) % 2, (np.arange(300) % 5 == 0).astype(int), np.arange(300)
    outcome = rng.random(300) < 0.2 + 0.3 * old + 0.4 * new
    values = []
    for seed in range(300):
        before = np.isin(video, draw_plan(old, video, np.array([10, 30]), seed=seed))
        chance = plan_chance(old, np.array([10, 30]))
        allocation = np.bincount(new[before], minlength=2) + np.array([10, 20])
        named = before | np.isin(video, draw_plan(new, video, allocation, seed=seed, before=before))
        chance = plan_chance(new, allocation, before=before, chance_before=chance)
        values.append(planned(outcome, named, new, video, chance).value)
    assert np.mean(values) == pytest.approx(outcome.mean(), abs=3.5 * np.std(values) / 300**0.5)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_every_set_has_the_same_chance_and_videos_are_spread(n: int) -> None:
    """Videos have 4, 2, 1 and 1 sets; 1,500 seeds."""
    video, stratum = np.array([7, 7, 7, 7, 3, 3, 9, 1]), np.zeros(8, dtype=int)
    drawn, most_in_one = np.zeros(8), 0
    for seed in range(1500):
        rows = draw_plan(stratum, video, np.array([n]), seed=seed)
        drawn[rows] += 1
        most_in_one = max(most_in_one, int((video[rows] == 7).sum()))
    assert np.abs(drawn / 1500 - n / 8).max() < 0.05
    assert most_in_one <= n // 2 + 1


def test_two_sets_come_from_two_videos() -> None:
    video, stratum = np.arange(40) // 4, np.zeros(40, dtype=int)
    for seed in range(50):
        rows = draw_plan(stratum, video, np.array([10]), seed=seed)
        assert len(set(video[rows[:2]].tolist())) == 2
        assert len(set(video[rows].tolist())) >= 7


def test_strata_take_turns() -> None:
    stratum = np.repeat([0, 1], [50, 50])
    rows = draw_plan(stratum, np.arange(100), np.array([30, 10]), seed=4)
    assert 4 <= stratum[rows[:20]].sum() <= 6


@given(st.integers(1, 4), st.integers(1, 30), st.integers(1, 9), st.randoms(use_true_random=False))
def test_patterns(models, sets, least, random) -> None:
    flickers = np.array([[random.random() < 0.3 for _ in range(sets)] for _ in range(models)])
    found = flicker_patterns(flickers, least=least)
    assert sorted(set(found.tolist())) == list(range(int(found.max()) + 1))
    columns = [tuple(column) for column in flickers.T.tolist()]
    for i, j in product(range(sets), repeat=2):
        if columns[i] == columns[j]:
            assert found[i] == found[j]
        elif columns.count(columns[i]) >= least:
            assert found[i] != found[j]
    assert flicker_patterns(flickers[:, :0]).tolist() == []


def test_the_promise_is_that_of_the_formulas() -> None:
    """The demo's shares: .19 and .18 planned, .38 and .36 for both, .28 and .57 post-stratified."""
    c, acc, drop = 0.68, 0.605, 0.1707
    one = promised_ratio(consistency=c, acc_pmk=acc, drop=drop, budget=60)
    assert one.planned_acc_pmk == pytest.approx((c - acc) / (1 - acc))
    assert one.planned_drop == pytest.approx((1 - c - drop) / (1 - drop))
    assert (one.both_acc_pmk, one.both_drop) == pytest.approx((2 * one.planned_acc_pmk, 2 * one.planned_drop))
    assert one.random_acc_pmk == pytest.approx(one.planned_acc_pmk / c)
    assert one.random_drop == pytest.approx(one.planned_drop / (1 - c))
    rounded = [round(x, 2) for x in (one.both_acc_pmk, one.both_drop, one.random_acc_pmk, one.random_drop)]
    assert rounded == [0.38, 0.36, 0.28, 0.56]


@given(st.floats(0.05, 0.95), st.floats(0, 1), st.floats(0, 1), st.integers(1, 500), st.floats(0.5, 5))
def test_a_promise_approaches_that_of_a_large_dataset_and_ends_at_one(c, p, q, budget, effect) -> None:
    given_ = {"consistency": c, "acc_pmk": c * p, "drop": (1 - c) * q, "budget": budget}
    assume(0.001 < c * p < 0.999 and 0.001 < (1 - c) * q < 0.999)
    large, endless = (promised_ratio(**given_, sets=sets) for sets in (10**9, None))
    assert large.random_acc_orig == pytest.approx(endless.random_acc_orig, abs=1e-4)
    assert large.both_drop == pytest.approx(endless.both_drop, rel=1e-3, abs=1e-3)
    everything = promised_ratio(**given_, sets=budget, design_effect=effect)
    for name in ("planned_acc_pmk", "planned_drop", "both_acc_orig", "both_drop", "random_acc_pmk", "random_acc_orig"):
        assert getattr(everything, name) == pytest.approx(1.0)
    one = promised_ratio(**given_, sets=3 * budget, design_effect=effect)
    assert one.random_acc_orig <= 1 + 1e-9
    assert one.random_acc_pmk <= 1 + 1e-9
    assert one.planned_acc_pmk <= one.random_acc_pmk + 1e-9


def test_a_model_without_flicker_has_nothing_to_gain() -> None:
    one = promised_ratio(consistency=1.0, acc_pmk=0.7, drop=0.0, budget=60, sets=600)
    assert (one.planned_acc_pmk, one.planned_drop) == (pytest.approx(1.0), 1.0)


def test_bad_input_is_refused() -> None:
    one, none = np.zeros(4, dtype=int), np.zeros(4, dtype=bool)
    with pytest.raises(InvalidValue, match="allocation: expected at most"):
        draw_plan(one, one, np.array([5]), seed=0)
    with pytest.raises(InvalidValue, match="allocation: expected one number"):
        draw_plan(one, one, np.array([1, 1]), seed=0)
    with pytest.raises(InvalidValue, match="before: expected shape"):
        draw_plan(one, one, np.array([1]), seed=0, before=none[:2])
    with pytest.raises(InvalidValue, match="stratum: expected at least one set"):
        draw_plan(one[:0], one[:0], np.array([], dtype=int), seed=0)
    with pytest.raises(InvalidValue, match="chance_before"):
        plan_chance(one, np.array([1]), before=none)
    with pytest.raises(InvalidValue, match="prior"):
        allocate(none[None], none[None], none, one, 2, prior=1.0)
    with pytest.raises(InvalidValue, match="acc_pmk: expected 0 to the consistency"):
        promised_ratio(consistency=0.5, acc_pmk=0.6, drop=0.0, budget=10)
    with pytest.raises(InvalidValue, match="sets: expected at least the budget"):
        promised_ratio(consistency=0.5, acc_pmk=0.4, drop=0.0, budget=10, sets=5)


def test_a_stratum_may_need_no_set_and_a_named_stratum_no_other() -> None:
    stratum, video = np.array([0, 0, 0, 1, 1]), np.arange(5)
    assert set(draw_plan(stratum, video, np.array([2, 0]), seed=0).tolist()) < {0, 1, 2}
    before = stratum == 1
    rows = draw_plan(stratum, video, np.array([2, 1]), seed=0, before=before)
    assert len(rows) == 2
    assert not before[rows].any()
    for wrong in ([-1, 0], [4, 0]):
        with pytest.raises(InvalidValue, match="at most the sets of the stratum"):
            draw_plan(stratum, video, np.array(wrong), seed=0)


def test_a_stratum_without_an_open_outcome_gets_no_set_however_large_the_budget() -> None:
    flickers = np.arange(100) < 30
    none = np.zeros(100, dtype=bool)
    found = allocate(none[None], flickers[None], none, flickers.astype(int), 90)
    assert found.tolist() == [70, 0]


def test_a_promise_for_shares_at_their_ends() -> None:
    never = promised_ratio(consistency=0.4, acc_pmk=0.0, drop=0.6, budget=10)
    assert never.planned_acc_pmk == 1.0
    for consistency, acc_pmk, drop in ((1.0, 0.7, 0.0), (0.0, 0.0, 0.7)):
        found = promised_ratio(consistency=consistency, acc_pmk=acc_pmk, drop=drop, budget=10)
        # All sets are of one kind, so a plan is a random sample.
        assert (found.planned_acc_pmk, found.planned_drop, found.random_acc_orig) == pytest.approx((1, 1, 1))
    promised_ratio(consistency=0.7, acc_pmk=0.7, drop=1 - 0.7, budget=10)
    with pytest.raises(InvalidValue, match="drop: expected 0 to the flicker"):
        promised_ratio(consistency=0.7, acc_pmk=0.7, drop=0.31, budget=10)
    with pytest.raises(InvalidValue, match="acc_pmk: expected 0 to the consistency"):
        promised_ratio(consistency=0.7, acc_pmk=-0.1, drop=0.1, budget=10)
    with pytest.raises(InvalidValue, match="design_effect: expected > 0"):
        promised_ratio(consistency=0.7, acc_pmk=0.5, drop=0.1, budget=10, design_effect=0.0)
