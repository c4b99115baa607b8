"""Paired tests, and ratios of distances that are only known within bounds."""

from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.contrasts import paired_ratio, paired_test, ratio_bounds
from strobe.metrics.paired import mcnemar, sign_flip

found = st.tuples(st.sampled_from([0.5, 1.0, 2.0, 3.0]), st.booleans())


@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 4)), min_size=1, max_size=12))
def test_the_test_follows_the_sources(rows) -> None:
    gap, source = (np.array(part) for part in zip(*rows, strict=True))
    one = paired_test(gap, source)
    assert (one.only_a, one.only_b) == (sum(g > 0 for g, _ in rows), sum(g < 0 for g, _ in rows))
    if len({s for _, s in rows}) == len(rows):
        assert (one.test, one.p) == ("exact McNemar", mcnemar(one.only_a, one.only_b))
    else:
        sums = [sum(g for g, s in rows if s == place) for place in range(5)]
        assert one.test == "source-level sign-flip"
        assert one.p == sign_flip(np.array(sums))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(found, found, st.integers(0, 5)), min_size=1, max_size=12))
def test_ratios_within_their_bounds(rows) -> None:
    a, a_found, b, b_found = (np.array([row[side][part] for row in rows]) for side in (0, 1) for part in (0, 1))
    source = np.array([row[2] for row in rows])
    least, most = ratio_bounds(a, a_found, b, b_found)
    # Whatever the unknown distances are beyond where the searches ended, the ratio lies within.
    rng = np.random.default_rng(0)
    for _ in range(5):
        true_a = np.where(a_found, a, a + rng.exponential(5, len(a)))
        true_b = np.where(b_found, b, b + rng.exponential(5, len(b)))
        assert (least <= true_a / true_b + 1e-12).all()
        assert (true_a / true_b <= most + 1e-12).all()
    draws = Bootstrap(source, replicates=30, seed=1)
    estimate = paired_ratio(least, most, draws)
    low, high = median(least.tolist()), median(most.tolist())
    if low != high or high == float("inf"):
        assert estimate.value is None
        assert "only known to be" in estimate.reason
        return
    assert estimate.value == low
    if draws.n_clusters == 1:
        assert estimate.low is None
        return
    lows, highs = [], []
    for weights in draws.weights.astype(int).tolist():
        times = [weights[place] for place in draws.place.tolist()]
        lows.append(median([x for x, n in zip(least.tolist(), times, strict=True) for _ in range(n)]))
        highs.append(median([x for x, n in zip(most.tolist(), times, strict=True) for _ in range(n)]))
    want = (np.quantile(lows, 0.025, method="lower"), np.quantile(highs, 0.975, method="higher"))
    if np.isfinite(want[1]):
        assert (estimate.low, estimate.high) == pytest.approx(want)
    else:
        assert estimate.low is None
        assert "beyond the searched range" in estimate.reason


def test_edges() -> None:
    least, most = ratio_bounds(np.zeros(2), np.ones(2, dtype=bool), np.array([0.0, 1.0]), np.ones(2, dtype=bool))
    assert least.tolist() == [0.0, 0.0]
    assert most.tolist() == [np.inf, 0.0]
    with pytest.raises(InvalidValue, match="not empty"):
        paired_test(np.empty(0, dtype=int), np.empty(0, dtype=int))
    off = paired_ratio(np.ones(3), np.ones(3), Bootstrap(np.arange(3), replicates=0))
    assert (off.value, off.low, off.reason) == (1.0, None, "the bootstrap was switched off")


def test_a_ratio_that_nobody_knows_has_the_method_it_would_have_had() -> None:
    open_ended = paired_ratio(np.ones(3), np.full(3, np.inf), Bootstrap(np.arange(3), replicates=10))
    assert (open_ended.value, open_ended.method) == (None, "video-cluster bootstrap")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 9), st.integers(0, 4)), min_size=2, max_size=9))
def test_the_ends_of_a_ratio_are_quantiles_of_the_draws_medians(rows) -> None:
    values, place = np.array([value for value, _ in rows]), np.unique([s for _, s in rows], return_inverse=True)[1]
    draws = Bootstrap(place, replicates=40, seed=1)
    one = paired_ratio(values, values, draws)
    if draws.n_clusters == 1:
        assert one.low is None
        return
    medians = [
        median(value for value, of in zip(values, draws.place, strict=True) for _ in range(int(weights[of])))
        for weights in draws.weights
    ]
    assert one.low == pytest.approx(np.quantile(medians, 0.025, method="lower"))
    assert one.high == pytest.approx(np.quantile(medians, 0.975, method="higher"))


def test_bounds_apart_by_more_than_the_slack_have_no_value() -> None:
    draws = Bootstrap(np.arange(3), replicates=0)
    least, most = np.ones(3), np.full(3, 1.5)
    assert paired_ratio(least, most, draws).value is None
    assert paired_ratio(least, most, draws, slack=0.4).value is None
    assert paired_ratio(least, most, draws, slack=0.5).value == pytest.approx(1.5**0.5)
