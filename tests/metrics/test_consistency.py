"""Error consistency, majority and times against slow plain references."""

from collections import Counter
from fractions import Fraction
from itertools import combinations
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.agreement import cohen_kappa, fleiss_kappa, rating_counts
from strobe.metrics.bootstrap import METHOD, SWITCHED_OFF, Bootstrap
from strobe.metrics.consistency import (
    NEVER_DIFFER,
    ONE_CONSTANT,
    error_consistency,
    majority,
    quartiles,
    weighted_quantile,
)
from strobe.metrics.intervals import ONE_VIDEO


def plain_kappa(a: list[int], b: list[int]) -> float | None:
    """Cohen's kappa as it is printed: observed and chance agreement of two rows of 0 and 1, −1 left out."""
    both = [(x, y) for x, y in zip(a, b, strict=True) if x >= 0 and y >= 0]
    if not both:
        return None
    n = len(both)
    observed = Fraction(sum(x == y for x, y in both), n)
    p, q = Fraction(sum(x for x, _ in both), n), Fraction(sum(y for _, y in both), n)
    chance = p * q + (1 - p) * (1 - q)
    return None if chance == 1 else float((observed - chance) / (1 - chance))


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    raters, pictures = draw(st.integers(2, 4)), draw(st.integers(1, 9))
    row = st.lists(st.sampled_from([-1, 0, 0, 1, 1, 1]), min_size=raters, max_size=raters)
    return np.array(draw(st.lists(row, min_size=pictures, max_size=pictures)))


@settings(max_examples=150, deadline=None)
@given(tables(), st.integers(0, 9))
def test_consistency_is_kappa_of_being_right_and_its_draws_are_those_of_the_pictures(right, seed):
    pairs = list(combinations(range(right.shape[1]), 2))
    cluster = np.arange(len(right)) // 2
    draws = Bootstrap(cluster, replicates=20, seed=seed)
    found = error_consistency(right, pairs, draws)
    for place, (a, b) in enumerate(pairs):
        expected = plain_kappa(right[:, a].tolist(), right[:, b].tolist())
        assert found.estimates()[place].value == (None if expected is None else pytest.approx(expected))
        shared = [x >= 0 and y >= 0 for x, y in right[:, [a, b]]]
        assert (found.n[place], found.sources[place]) == (sum(shared), len(set(cluster[shared].tolist())))
    drawn_means = []
    for draw, weights in enumerate(draws.weights.astype(int).tolist()):
        rows = [row for row in range(len(right)) for _ in range(weights[draws.place[row]])]
        plain = [plain_kappa(right[rows, a].tolist(), right[rows, b].tolist()) for a, b in pairs]
        got = found.drawn[draw]
        assert [None if value != value else pytest.approx(value) for value in got] == plain
        usable = [one for one, whole in zip(plain, found.value, strict=True) if one is not None and whole == whole]
        drawn_means += [sum(usable) / len(usable)] if usable else []
    mean = found.mean(np.arange(len(pairs)))
    whole = [one for one in found.value.tolist() if one == one]
    assert mean.value == (pytest.approx(sum(whole) / len(whole)) if whole else None)
    if mean.low is not None:  # else all rests on one source, or no draw could be measured
        assert (mean.low, mean.high) == pytest.approx(tuple(np.percentile(drawn_means, [2.5, 97.5])))


@settings(max_examples=50, deadline=None)
@given(tables())
def test_consistency_is_the_cohen_kappa_of_two_raters(right):
    found = error_consistency(right, [(0, 1)], Bootstrap(np.arange(len(right)), replicates=0)).estimates()[0]
    other = cohen_kappa(right[:, 0], right[:, 1], n_classes=2, draws=0)
    assert found.value == (None if other.value is None else pytest.approx(other.value))


def test_many_pairs_are_the_same_as_few():
    right = np.random.default_rng(3).integers(-1, 2, (12, 30))
    pairs = list(combinations(range(30), 2))  # 435, more than are resampled at once
    draws = Bootstrap(np.arange(12), replicates=9, seed=1)
    whole = error_consistency(right, pairs, draws)
    for place in (0, 255, 256, 434):
        alone = error_consistency(right, [pairs[place]], draws)
        assert np.array_equal(alone.drawn[:, 0], whole.drawn[:, place], equal_nan=True)
        assert np.array_equal(alone.value, whole.value[[place]], equal_nan=True)


def test_two_who_are_never_wrong_have_no_consistency():
    found = error_consistency(np.ones((5, 2), dtype=int), [(0, 1)], Bootstrap(np.arange(5), replicates=50))
    assert found.estimates()[0].value is None
    assert found.estimates()[0].reason == NEVER_DIFFER == found.mean(np.array([0])).reason
    assert error_consistency(np.ones((5, 2), dtype=int), [], Bootstrap(np.arange(5))).estimates() == []
    with pytest.raises(InvalidValue, match="1, 0, or −1"):
        error_consistency(np.full((5, 2), 2), [(0, 1)], Bootstrap(np.arange(5)))


def test_beside_one_who_is_never_wrong_it_is_nought_and_no_interval_pretends_more():
    right = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 0, 0]])
    found = error_consistency(right, [(0, 1), (0, 2), (1, 2)], Bootstrap(np.arange(4), replicates=50))
    assert [one.reason == ONE_CONSTANT for one in found.estimates()] == [True, True, False]
    assert [one.value for one in found.estimates()] == [0.0, 0.0, 0.0]
    assert found.mean(np.array([0, 1])).reason == ONE_CONSTANT
    assert found.mean(np.array([0, 2])).low is not None


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(-1, 3), min_size=5, max_size=5), min_size=1, max_size=6))
def test_majority_is_more_than_half_of_the_answers(rows):
    def plain(row: list[int]) -> int:
        given_ = [one for one in row if one >= 0]
        best, many = Counter(given_).most_common(1)[0] if given_ else (-1, 0)
        return best if 2 * many > len(given_) else -1

    assert majority(np.array(rows), n_classes=4).tolist() == [plain(row) for row in rows]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12),
    st.sampled_from([0.25, 0.5, 0.75]),
)
def test_quantiles_with_weights_are_those_of_the_values_said_so_often(pairs, share):
    values, weights = np.array([float(a) for a, _ in pairs]), np.array([[float(b) for _, b in pairs]])
    found = weighted_quantile(values, weights, share)[0]
    many = sorted(value for value, weight in pairs for _ in range(weight))
    if not many:
        assert found != found
        return
    goal = share * len(many)
    low = many[int(goal)] if goal % 1 else many[int(goal) - 1]
    assert found == (low + many[min(int(goal), len(many) - 1)]) / 2
    if share == 0.5:
        assert found == median(many)


def test_quartiles_have_the_interval_of_resampled_pictures():
    values = np.array([[1.0, 2.0], [3.0, 100.0], [4.0, np.nan]])
    use = np.array([[True, True], [True, False], [True, False]])
    draws = Bootstrap(np.array([0, 1, 2]), replicates=60, seed=4)
    found, low, high = quartiles(values, use, draws)
    medians = []
    for weights in draws.weights.astype(int).tolist():
        said = [
            value for row, weight in enumerate(weights) for value, one in zip(values[row], use[row], strict=True) if one
            for _ in range(weight)
        ]  # fmt: skip
        medians.append(median(said))
    assert (found.value, found.n, low, high) == (2.5, 4, 1.5, 3.5)
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(medians, [2.5, 97.5])))
    none, low, high = quartiles(values, np.zeros((3, 2), dtype=bool), draws)
    assert (none.value, low, high) == (None, None, None)
    alone, _, _ = quartiles(values, np.array([[True, True], [False] * 2, [False] * 2]), draws)
    assert (alone.value, alone.low, alone.reason) == (1.5, None, ONE_VIDEO)


def test_a_pair_that_shares_one_source_has_no_interval():
    right = np.array([[1, 1], [1, 0], [0, 0], [1, -1], [0, -1]])
    draws = Bootstrap(np.array([0, 0, 0, 1, 2]), replicates=60)
    found = error_consistency(right, [(0, 1)], draws).estimates()[0]
    assert (found.value, found.low, found.reason) == (pytest.approx(plain_kappa([1, 1, 0], [1, 0, 0])), None, ONE_VIDEO)


def test_without_draws_agreement_says_that_they_were_switched_off():
    counts = rating_counts(np.array([[0, 1, 0], [1, 1, 0]]), n_classes=2)
    assert fleiss_kappa(counts, draws=0).reason == SWITCHED_OFF


def test_majority_of_nobody_and_of_answers_out_of_range():
    assert majority(np.zeros((2, 0), dtype=int), n_classes=3).tolist() == [-1, -1]
    for answer in (-2, 3):
        with pytest.raises(InvalidValue, match="-1 to 2"):
            majority(np.array([[0, answer]]), n_classes=3)


def test_weights_of_another_shape_are_refused():
    for weights in (np.ones((2, 4)), np.ones(3)):
        with pytest.raises(InvalidValue, match=r"shape \(B, M\)"):
            weighted_quantile(np.array([1.0, 2.0, 3.0]), weights, 0.5)


def test_a_median_of_zero_seconds_has_an_interval_from_zero():
    values = np.array([[0.0], [0.0], [0.0], [1.0], [2.0]])
    found, _, _ = quartiles(values, np.ones((5, 1), dtype=bool), Bootstrap(np.arange(5), replicates=400))
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high > 0


def test_a_constant_rater_is_named_whichever_comes_first():
    right = np.array([[1, 1], [0, 1], [1, 1], [0, 1]])
    for pair in ((0, 1), (1, 0)):
        (found,) = error_consistency(right, [pair], Bootstrap(np.arange(4), replicates=50)).estimates()
        assert (found.value, found.reason, found.method) == (0.0, ONE_CONSTANT, METHOD)
    never = error_consistency(np.ones((3, 2), dtype=int), [(0, 1)], Bootstrap(np.arange(3)))
    assert never.estimates()[0].method == never.mean(np.array([0])).method == METHOD


def test_times_of_another_shape_are_refused_and_none_at_all_has_the_method() -> None:
    draws = Bootstrap(np.arange(3), replicates=10)
    for values, use in ((np.ones(3), np.ones(3, dtype=bool)), (np.ones((3, 2)), np.ones((3, 1), dtype=bool))):
        with pytest.raises(InvalidValue, match="like use"):
            quartiles(values, use, draws)
    none, low, high = quartiles(np.ones((3, 2)), np.zeros((3, 2), dtype=bool), draws)
    assert (none.value, none.method, low, high) == (None, METHOD, None, None)
    for share in (0.0, 1.0):
        with pytest.raises(InvalidValue, match="above 0 and below 1"):
            weighted_quantile(np.ones(2), np.ones((1, 2)), share)


def test_raters_with_opposite_errors_have_the_lowest_consistency_and_an_interval_from_there():
    right = np.stack([np.arange(80) % 2, 1 - np.arange(80) % 2], axis=1)
    found = error_consistency(right, [(0, 1)], Bootstrap(np.arange(80), replicates=200))
    for one in (found.estimates()[0], found.mean(np.array([0]))):
        assert (one.value, one.low, one.reason) == (-1.0, -1.0, None)
        assert -1 < one.high < 0
