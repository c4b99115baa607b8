"""Columns against slow, plain loops, and their edges."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strobe.core.errors import StrobeError
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.columns import (
    Column,
    Gap,
    Median,
    Statistic,
    estimate,
    filled,
    is_saturated,
    mean,
    rate,
    share,
)
from strobe.metrics.flicker import longest_strays
from strobe.metrics.intervals import ONE_VIDEO, proportion
from strobe.metrics.paired import paired_difference, sign_flip, sign_flip_sums

ROWS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.floats(0, 1), st.floats(0, 4), st.integers(0, 7)),
    min_size=1,
    max_size=40,
)


def arrays(rows):
    a, b, known, value, size, video = (np.array(column) for column in zip(*rows, strict=True))
    return a, b, known, value.astype(float), size.astype(float), video


@given(ROWS)
def test_the_value_is_the_sum_of_totals_over_the_sum_of_sizes(rows):
    a, _, known, value, size, video = arrays(rows)
    for column in (share(a, video, measured=known), mean(value, video, measured=known), rate(value, size, video)):
        total = over = n = 0.0
        for one, of in zip(column.total.tolist(), column.size.tolist(), strict=True):
            if of > 0:
                total, over, n = total + float(one), over + float(of), n + 1
        assert column.n == n
        assert column.value == pytest.approx(total / over) if over else column.value is None


@given(ROWS)
def test_a_share_has_the_interval_of_a_proportion_and_a_mean_that_of_the_bootstrap(rows):
    a, _, known, value, _, video = arrays(rows)
    if not known.any():
        assert estimate(share(a, video, measured=known)).value is None
        return
    assert estimate(share(a, video, measured=known)) == proportion(a[known], video[known])
    draws = Bootstrap(video, replicates=50)
    expected = draws.mean(np.where(known, value, 0.0), count=known)
    assert estimate(mean(value, video, measured=known), replicates=50) == expected


@given(ROWS)
def test_a_difference_is_paired_by_row_and_its_interval_follows_its_test(rows):
    a, b, known, value, size, video = arrays(rows)
    everything = np.ones(len(a), dtype=bool)
    new, old = share(a, video, measured=known), share(b, video, measured=everything)
    found = Gap(new, old).difference()
    gaps = [(int(x) - int(y), v) for x, y, k, v in zip(a, b, known, video, strict=True) if k]
    if not gaps:
        assert found.value is None
        return
    gap, where = (np.array(column) for column in zip(*gaps, strict=True))
    sums = np.array([gap[where == one].sum() for one in np.unique(where)])
    p = sign_flip(sums)
    assert found == paired_difference(gap, where, p=p, p_holm=p, pairs=1)
    moved = rate(np.roll(value, 1), size, video)
    floats = Gap(rate(value, size, video), moved).difference()
    if floats.low is not None:
        use = size > 0
        each = [(value - np.roll(value, 1))[use & (video == one)].sum() for one in np.unique(video[use])]
        chance = sign_flip_sums(np.array(each))
        assert Gap(rate(value, size, video), moved).p == pytest.approx(chance)
        assert floats.low <= floats.value <= floats.high
        assert (floats.low <= 0 <= floats.high) == (chance >= 0.05)


@given(ROWS)
def test_bounds_are_reached_when_unmeasured_rows_have_the_smallest_or_the_largest_number(rows):
    a, _, known, _, _, video = arrays(rows)
    some = share(a, video, measured=known)
    low, high = (filled(some, with_most=most).value for most in (False, True))
    assert low == pytest.approx(np.where(known, a, False).mean())
    assert high == pytest.approx(np.where(known, a, True).mean())


@given(st.lists(st.tuples(st.floats(0.01, 9), st.integers(0, 5)), min_size=1, max_size=30))
def test_medians_of_draws_are_medians_of_the_drawn_videos(rows):
    values, video = (np.array(column) for column in zip(*rows, strict=True))
    column = Median(values, video)
    assert column.value == pytest.approx(float(np.median(values)))
    draws = Bootstrap(video, replicates=20)
    drawn = []
    for weight in draws.weights:
        repeated = np.repeat(values, weight[draws.place].astype(int))
        drawn.append(np.median(repeated) if len(repeated) else np.nan)
    assert estimate(column, replicates=20) == draws.estimate(
        column.value, np.array(drawn), n=len(values), limits=(0.0, float("inf"))
    )


@given(st.lists(st.floats(-0.1, 0.1), min_size=10, max_size=30), st.floats(-0.2, 0.2))
def test_a_statistic_is_tested_by_its_values_without_each_video(gaps, value):
    """Two models whose mAP differs by `value`, and by `gaps` without each video: the plain delete-one jackknife."""
    video = np.repeat(np.arange(len(gaps)), 2)
    old = Statistic(0.5, np.full(len(gaps), 0.5), video, len(video))
    gap = Gap(Statistic(0.5 + value, 0.5 + np.array(gaps), video, len(video)), old)
    mean_gap = sum(gaps) / len(gaps)
    spread = ((len(gaps) - 1) / len(gaps) * sum((one - mean_gap) ** 2 for one in gaps)) ** 0.5
    found = gap.difference()
    assert found.value == pytest.approx(value)
    if spread < 1e-9:
        return
    assert gap.p == pytest.approx(2 * stats.t.sf(abs(value) / spread, len(gaps) - 1), abs=1e-9)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, len(gaps) - 1, value, spread))
    assert Gap(replace(old, value=None, reason="none"), old).difference().reason == "none"


def test_one_video_has_a_value_and_no_interval():
    video = np.zeros(4, dtype=int)
    for column in (share(np.array([True, False] * 2), video), rate(np.ones(4), np.full(4, 0.5), video)):
        assert estimate(column).low is None
        assert Gap(column, column).difference().reason == ONE_VIDEO
        assert Gap(column, column).p == 1


def test_columns_of_different_measures_are_refused():
    video = np.zeros(2, dtype=int)
    with pytest.raises(StrobeError, match="the same measure on the same rows"):
        Gap(share(np.ones(2, dtype=bool), video), mean(np.ones(2), video)).difference()
    with pytest.raises(StrobeError, match="as many sizes"):
        Column("rate", np.ones(2), np.ones(1), video)


def test_a_measure_at_its_end_for_every_model_is_saturated():
    video = np.zeros(2, dtype=int)
    every, some = share(np.ones(2, dtype=bool), video), share(np.array([True, False]), video)
    assert is_saturated([every, every])
    assert not is_saturated([every, some])
    assert not is_saturated([rate(np.zeros(2), np.ones(2), video)])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30))
def test_the_longest_run_without_the_most_frequent_answer(rows):
    answer, owner = (np.array(column) for column in zip(*sorted(rows, key=lambda row: row[1]), strict=True))
    sets = np.unique(owner, return_inverse=True)[1]
    found = longest_strays(answer, sets, np.arange(len(sets)), n_sets=int(sets.max()) + 1)
    for one in range(int(sets.max()) + 1):
        own = answer[sets == one].tolist()
        most = min(set(own), key=lambda label: (-own.count(label), label))
        longest = run = 0
        for label in own:
            run = 0 if label == most else run + 1
            longest = max(longest, run)
        assert found[one] == longest
