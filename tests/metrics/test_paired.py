import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import strobe
from strobe.core.errors import InvalidValue
from strobe.metrics.paired import (
    LEVEL,
    METHOD,
    holm,
    least_videos,
    mcnemar,
    paired_difference,
    sign_flip,
    sign_flip_sums,
)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(a: int, b: int) -> None:
    expected = stats.binomtest(a, a + b, 0.5).pvalue if a + b else 1.0
    assert mcnemar(a, b) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_refuses_negative_counts() -> None:
    with pytest.raises(InvalidValue):
        mcnemar(-1, 2)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_sign_flip_equals_all_sign_choices(difference: list[int]) -> None:
    seen = abs(sum(difference))
    sums = [
        abs(sum(s * d for s, d in zip(signs, difference, strict=True)))
        for signs in product((1, -1), repeat=len(difference))
    ]
    assert sign_flip(np.array(difference)) == pytest.approx(np.mean([x >= seen for x in sums]), abs=1e-12)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 5))
def test_sign_flip_of_single_sets_is_mcnemar(a: int, b: int, same: int) -> None:
    assert sign_flip(np.array([1] * a + [-1] * b + [0] * same)) == pytest.approx(mcnemar(a, b), abs=1e-11)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9), st.sampled_from([1.0, 0.1, 1 / 360]))
def test_sign_flip_of_sums_equals_all_sign_choices(difference: list[int], unit: float) -> None:
    assert sign_flip_sums(unit * np.array(difference)) == pytest.approx(sign_flip(np.array(difference)), abs=1e-9)


@pytest.mark.parametrize("n", [13, 199, 201])
def test_sign_flip_of_many_sums_is_the_share_of_random_signs(n: int) -> None:
    rng = np.random.default_rng(n)
    sums = rng.normal(0.13, 1, n)
    drawn = np.abs((rng.choice([-1, 1], (40_000, n)) * sums).sum(axis=1))
    assert sign_flip_sums(sums) == pytest.approx(np.mean(drawn >= abs(sums.sum())), abs=0.01)


def test_sums_without_a_difference_are_not_significant() -> None:
    assert sign_flip_sums(np.zeros(4)) == sign_flip_sums(np.zeros(0)) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_equals_the_step_down_by_hand(p: list[float]) -> None:
    order = sorted(range(len(p)), key=lambda i: p[i])
    expected, running = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        running = max(running, (len(p) - rank) * p[i])
        expected[i] = min(1.0, running)
    assert holm(p) == pytest.approx(expected)


def test_holm_of_nothing() -> None:
    assert holm([]) == []


@pytest.mark.parametrize("pairs", [1, 3, 10])
def test_least_videos_is_where_all_for_one_side_begin_to_show_something(pairs: int) -> None:
    least = least_videos(pairs)
    for n in range(2, least + 3):
        gap = np.ones(n, dtype=np.int64)
        p = sign_flip(gap)
        p_holm = min(1.0, pairs * p)
        found = paired_difference(gap, np.arange(n), p=p, p_holm=p_holm, pairs=pairs)
        assert (p_holm < LEVEL) is (found.reason is None) is (n >= least)


def by_the_formula(gap: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """The stretch about the value, on a fine grid, for which docs/methods.md's inequality holds at z = 1.96."""
    sums, sizes, n = np.bincount(cluster, weights=gap), np.bincount(cluster), len(gap)
    delta = np.linspace(-1, 1, 400_001)
    more = n / len(sizes) * (1 + delta**2)
    squares = (sums**2).sum() - 2 * delta * (sums * sizes).sum() + delta**2 * (sizes**2).sum()
    outside = np.flatnonzero((sums.sum() - n * delta) ** 2 > stats.norm.ppf(0.975) ** 2 * (squares + more))
    place = np.searchsorted(delta[outside], gap.mean())
    low = delta[outside[place - 1]] if place else -1.0
    return float(low), float(delta[outside[place]] if place < len(outside) else 1.0)


def test_an_interval_made_to_agree_with_its_test_moves_the_end_next_to_zero_alone() -> None:
    """Six videos of eight lose, none wins: p = 0.03 excludes 0, which the formula's interval still holds."""
    cluster = np.repeat(np.arange(8), [1, 5, 5, 2, 3, 5, 3, 3])
    gap = np.zeros(27, dtype=np.int64)
    gap[[0, 1, 6, 7, 8, 11, 13, 16]] = -1
    p = sign_flip(np.bincount(cluster, weights=gap).astype(np.int64))
    low, high = by_the_formula(gap, cluster)
    assert p < LEVEL
    assert high > 0.01
    found = paired_difference(gap, cluster, p=p, p_holm=p, pairs=1)
    assert found.low == pytest.approx(low, abs=1e-5)
    assert -1e-6 < found.high < 0


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(-5, 5)), min_size=6, max_size=14),
)
def test_one_end_at_least_is_that_of_the_formula(videos: list[tuple[int, int]]) -> None:
    cluster = np.repeat(np.arange(len(videos)), [m for m, _ in videos])
    gap = np.concatenate([np.arange(m) < abs(d) for m, d in videos]).astype(np.int64)
    gap *= np.repeat([1 if d > 0 else -1 for _, d in videos], [m for m, _ in videos])
    p = sign_flip(np.bincount(cluster, weights=gap).astype(np.int64))
    low, high = by_the_formula(gap, cluster)
    found = paired_difference(gap, cluster, p=p, p_holm=p, pairs=1)
    assert (found.low <= 0 <= found.high) is (p >= LEVEL)
    far, wanted = (found.low, low) if found.value < 0 else (found.high, high)
    assert far == pytest.approx(wanted, abs=1e-4)
    assert found.low < found.value or found.value == -1
    assert found.high > found.value or found.value == 1


@pytest.mark.parametrize(
    ("sizes", "sums", "low", "high"),
    [
        ([2, 2, 1, 11, 4, 6], [2, 2, -1, -3, 3, 0], -0.45361, 1.0),
        ([2, 2, 1, 11, 4, 6], [-2, -2, 1, 3, -3, 0], -1.0, 0.45361),
        ([3, 9, 1, 7, 5], [3, -6, 1, -6, 1], -1.0, 1.0),
    ],
)
def test_with_few_videos_of_unequal_size_one_end_is_open(
    sizes: list[int], sums: list[int], low: float, high: float
) -> None:
    gap = np.concatenate([np.sign(s) * (np.arange(m) < abs(s)) for m, s in zip(sizes, sums, strict=True)])
    found = paired_difference(gap, np.repeat(np.arange(len(sizes)), sizes), p=1.0, p_holm=1.0, pairs=1)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_a_p_value_of_exactly_the_level_is_not_significant() -> None:
    found = paired_difference(np.ones(40, dtype=np.int64), np.arange(40), p=LEVEL, p_holm=LEVEL, pairs=1)
    assert found.low == 0.0


def test_at_a_corrected_p_of_one_the_interval_has_the_level_of_all_pairs() -> None:
    gap, cluster = np.array([1] * 6 + [-1] * 4 + [0] * 30), np.arange(40)
    p = mcnemar(6, 4)
    found = paired_difference(gap, cluster, p=p, p_holm=1.0, pairs=10)
    wanted = paired_difference(gap, cluster, p=0.01, p_holm=0.1, pairs=10)
    assert (found.low, found.high) == (wanted.low, wanted.high)
    tied = paired_difference(gap, cluster, p=0.0, p_holm=0.0, pairs=10)  # p is too small for a number
    assert tied.high == wanted.high


def test_the_smallest_possible_p_of_a_reason_is_at_most_one() -> None:
    found = paired_difference(np.array([1, 0]), np.arange(2), p=1.0, p_holm=1.0, pairs=4)
    assert found.reason is not None
    assert found.reason.endswith("p is at least 1 after correction for 4 pairs")


def test_an_interval_at_the_level_of_all_pairs_says_so():
    gap, video = np.array([1] * 6 + [-1] * 5 + [0] * 20), np.arange(31)
    alone = paired_difference(gap, video, p=1.0, p_holm=1.0, pairs=1)
    among = paired_difference(gap, video, p=1.0, p_holm=1.0, pairs=8)
    stepped = paired_difference(gap, video, p=0.2, p_holm=0.6, pairs=8)
    assert [one.method for one in (alone, among, stepped)] == [METHOD, f"{METHOD}, simultaneous", METHOD]
    assert among.low < stepped.low < alone.low < alone.high < stepped.high < among.high


def test_nobody_else_divides_the_level_of_a_pair():
    files = Path(strobe.__file__).parent.rglob("*.py")
    assert [path.name for path in files if re.search(r"p_holm / |holm / p\b", path.read_text("utf-8"))] == ["paired.py"]
