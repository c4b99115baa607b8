from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strobe.core.errors import InvalidValue
from strobe.metrics.paired import LEVEL, holm, least_videos, mcnemar, paired_difference, sign_flip


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
