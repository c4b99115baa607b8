from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.metrics.intervals import Interval, clopper_pearson, clopper_pearson_bounds, proportion
from strobe.metrics.temporal import flip_shares, kaplan_meier, swings

cases = st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 5)), min_size=1, max_size=30)


def columns(rows: list[tuple[int, bool, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([float(time) for time, _, _ in rows]),
        np.array([event for _, event, _ in rows]),
        np.array([video for _, _, video in rows]),
    )


@given(cases)
def test_kaplan_meier_equals_the_product_by_hand(rows: list[tuple[int, bool, int]]) -> None:
    curve = kaplan_meier(*columns(rows))
    alive, median = 1.0, None
    for place, t in enumerate(sorted({time for time, _, _ in rows})):
        risk = sum(time >= t for time, _, _ in rows)
        events = sum(time == t and event for time, event, _ in rows)
        alive *= 1 - events / risk
        row = curve.survival[place]
        assert (row.distance, row.at_risk, row.events) == (t, risk, events)
        assert row.alive.value == pytest.approx(alive, abs=1e-12)
        if median is None and alive <= 0.5 + 1e-12:
            median = t
    assert curve.median == median


@given(cases)
def test_without_censoring_it_is_the_plain_share_with_its_interval(rows: list[tuple[int, bool, int]]) -> None:
    time, _, video = columns(rows)
    curve = kaplan_meier(time, np.ones(len(time), bool), video)
    for distance, alive in ((row.distance, row.alive) for row in curve.survival):
        share = proportion(time > distance, video)
        assert alive.value == pytest.approx(share.value, abs=1e-12)
        assert (alive.low is None) == (share.low is None)
        if share.low is not None:
            assert alive.low == pytest.approx(share.low, abs=1e-7)
            assert alive.high == pytest.approx(share.high, abs=1e-7)


@given(cases)
def test_greenwoods_variance_by_hand(rows: list[tuple[int, bool, int]]) -> None:
    time, event, _ = columns(rows)
    curve = kaplan_meier(time, event, np.arange(len(time)))
    total, before = 0.0, 1.0
    for risk, failed, alive in ((row.at_risk, row.events, row.alive) for row in curve.survival):
        if failed == risk:
            assert (alive.value, alive.low) == (0, 0)
            # The limit of S(1 − S)/v where nearly all of the sets at risk fail.
            share = before * 1e-9
            variance = share**2 * (total + (1 - 1e-9) / (risk * 1e-9))
            _, high = clopper_pearson_bounds(np.array(0.0), np.array(share * (1 - share) / variance))
            assert alive.high == pytest.approx(float(high), abs=1e-6)
            break
        before = alive.value
        total += failed / (risk * (risk - failed))
        if total == 0:
            assert alive.high == 1
            assert alive.low == pytest.approx(clopper_pearson(risk, risk).low)
            continue
        size = alive.value * (1 - alive.value) / (alive.value**2 * total)
        assert size <= len(time) + 1e-9
        assert alive.low <= alive.value <= alive.high
        low, high = clopper_pearson_bounds(np.array(alive.value * size), np.array(size))
        assert (alive.low, alive.high) == pytest.approx((float(low), float(high)))


def test_nothing_to_follow() -> None:
    empty = kaplan_meier(np.zeros(0), np.zeros(0, bool), np.zeros(0, int))
    assert (empty.n, empty.events, empty.median, empty.survival) == (0, 0, None, ())


@pytest.mark.parametrize(
    ("cluster", "interval", "method"),
    [
        ([0, 1, 2, 3], "auto", "greenwood"),
        ([0, 0, 1, 2], "auto", "korn-graubard"),
        ([0, 0, 0, 0], "auto", "korn-graubard"),
        ([0, 0, 1, 2], "clopper-pearson", "greenwood"),
    ],
)
def test_a_curve_has_the_method_of_its_interval(cluster: list[int], interval: Interval, method: str) -> None:
    time, event = np.array([1.0, 2.0, 2.0, 3.0]), np.array([True, False, True, False])
    curve = kaplan_meier(time, event, np.array(cluster), interval=interval)
    assert {row.alive.method for row in curve.survival} == {f"kaplan-meier, {method}"}
    assert {row.alive.low is None for row in curve.survival} == {set(cluster) == {0}}


def test_one_video_with_several_sets_has_no_interval() -> None:
    curve = kaplan_meier(np.array([1.0, 2.0]), np.array([True, False]), np.zeros(2, int))
    assert curve.survival[0].alive.low is None
    assert curve.survival[0].alive.reason


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=5))
def test_flip_shares_by_hand(sets: list[list[int]]) -> None:
    value = np.array([v for part in sets for v in part])
    owner = np.array([number for number, part in enumerate(sets) for _ in part])
    first = np.flatnonzero(owner[:-1] == owner[1:])
    share, has = flip_shares(value, first, first + 1, owner[first], n_sets=len(sets))
    for number, part in enumerate(sets):
        pairs = list(pairwise(part))
        assert has[number] == bool(pairs)
        if pairs:
            assert share[number] == pytest.approx(sum(a != b for a, b in pairs) / len(pairs))


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=5))
def test_swing_is_largest_less_smallest(sets: list[list[float]]) -> None:
    start = np.cumsum([0, *(len(part) for part in sets[:-1])])
    found = swings(np.array([v for part in sets for v in part]), start)
    assert found.tolist() == [max(part) - min(part) for part in sets]


def test_at_zero_the_interval_is_that_of_ten_of_ten() -> None:
    time = np.arange(1.0, 11.0)
    rows = kaplan_meier(time, np.ones(10, bool), np.arange(10)).survival
    assert [round(row.alive.high, 3) for row in rows[-2:]] == [0.445, 0.308]
    late = kaplan_meier(time, np.arange(10) % 2 == 1, np.arange(10)).survival  # the last one alone, after censoring
    assert late[-1].alive.value == 0
    assert 0.308 < late[-1].alive.high < 0.975


@pytest.mark.parametrize(("n", "videos", "censored"), [(10, 10, 0.0), (30, 30, 0.5), (30, 10, 0.0), (30, 10, 0.5)])
def test_intervals_near_and_at_zero_cover(n: int, videos: int, censored: float) -> None:
    """The true curve is 2^−t; half of the draws below share a video's chance."""
    rng, covered, at_zero = np.random.default_rng(5), [], 0
    for _ in range(300):
        video = np.arange(n) % videos
        shared = rng.random(n) < (0.5 if videos < n else 0.0)
        fails = np.ceil(-np.log2(np.where(shared, rng.random(videos)[video], rng.random(n))))
        ends = np.where(rng.random(n) < censored, rng.integers(1, 11, n), 12)
        for row in kaplan_meier(np.minimum(fails, ends), fails <= ends, video).survival:
            covered.append(row.alive.low <= 2.0**-row.distance <= row.alive.high)
            at_zero += row.alive.value == 0
    assert at_zero > 100
    assert np.mean(covered) >= 0.95
