import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strobe.core.errors import InvalidValue
from strobe.metrics.intervals import (
    LEAST_FREEDOM,
    Grouping,
    clopper_pearson,
    clopper_pearson_bounds,
    mean_bounds,
    mean_share,
    one_group,
    proportion,
)


def plain_clopper_pearson(count: float, n: float) -> tuple[float, float]:
    low = 0.0 if count == 0 else stats.beta.ppf(0.025, count, n - count + 1)
    high = 1.0 if count == n else stats.beta.ppf(0.975, count + 1, n - count)
    return low, high


def plain_korn_graubard(right: list[bool], cluster: list[int]) -> tuple[float, float] | None:
    """As docs/methods.md writes it."""
    n, groups = len(right), sorted(set(cluster))
    if len(groups) == n:
        return plain_clopper_pearson(sum(right), n)
    g = len(groups)
    if g == 1:
        return None
    p = sum(right) / n
    squares, sizes = 0.0, []
    for video in groups:
        inside = [r for r, c in zip(right, cluster, strict=True) if c == video]
        squares += (sum(inside) - p * len(inside)) ** 2
        sizes.append(len(inside))
    even = n**2 / sum(m * m for m in sizes)
    weight, part = 1 - even / g, 1 / max(even, 20)
    q = (p + weight * part / 2) / (1 + weight * part)
    scale = even / max(even - 1, 0.1)
    v = scale * squares / n**2
    w = v + scale * weight * part**2 * (0.5 - p) ** 2
    if p in (0, 1):
        size = even
    elif w < 1e-15:
        size = n
    else:
        ratio = stats.t.ppf(0.975, n - 1) / stats.t.ppf(0.975, max(even - 1, 0.1))
        size = min([n, q * (1 - q) / w * ratio**2, *([p * (1 - p) / v * ratio**2] if v > 1e-15 else [])])
    return plain_clopper_pearson(p * size, size)


@pytest.mark.parametrize(
    ("count", "n", "printed"),
    [
        (749, 1109, (67.5, 64.7, 70.3)),
        (582, 1109, (52.5, 49.5, 55.5)),
        (940, 1109, (84.8, 82.5, 86.8)),
        (1158, 2030, (57.0, 54.9, 59.2)),
        (1796, 2030, (88.5, 87.0, 89.8)),
    ],
)
def test_printed_intervals(count: int, n: int, printed: tuple[float, float, float]) -> None:
    estimate = clopper_pearson(count, n)
    assert tuple(round(100 * x, 1) for x in (estimate.value, estimate.low, estimate.high)) == printed
    assert (estimate.n, estimate.count, estimate.method) == (n, count, "clopper-pearson")


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_clopper_pearson_equals_scipy_stats(pair: tuple[int, int]) -> None:
    estimate = clopper_pearson(*pair)
    low, high = plain_clopper_pearson(*pair)
    assert math.isclose(estimate.low, low, abs_tol=1e-10)
    assert math.isclose(estimate.high, high, abs_tol=1e-10)
    assert estimate.low <= estimate.value <= estimate.high


def test_guarded_at_nothing_and_everything() -> None:
    assert clopper_pearson(0, 20).low == 0.0
    assert clopper_pearson(20, 20).high == 1.0
    empty = clopper_pearson(0, 0)
    assert (empty.value, empty.reason, empty.method) == (None, "nothing to count", "clopper-pearson")
    with pytest.raises(InvalidValue, match="count"):
        clopper_pearson(3, 2)


observations = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=40)


@given(observations)
def test_korn_graubard_equals_the_written_definition(rows: list[tuple[bool, int]]) -> None:
    right, cluster = [r for r, _ in rows], [c for _, c in rows]
    estimate = proportion(np.array(right), np.array(cluster))
    expected = plain_korn_graubard(right, cluster)
    assert estimate.count == sum(right)
    assert estimate.n == len(right)
    if expected is None:
        assert estimate.low is None
        assert "one video" in (estimate.reason or "")
    else:
        assert estimate.low == pytest.approx(expected[0], abs=1e-9)
        assert estimate.high == pytest.approx(expected[1], abs=1e-9)


def test_videos_of_equal_size_have_the_published_interval() -> None:
    """The figures of Korn and Graubard's formula on G − 1 degrees of freedom, to the last digit."""
    rng = np.random.default_rng(0)
    right, cluster = rng.random(60) < 0.7, np.repeat(np.arange(12), 5)
    sums = right.reshape(12, 5).sum(axis=1)
    p = right.mean()
    v = 12 / 11 * ((sums - 5 * p) ** 2).sum() / 60**2
    size = min(60, p * (1 - p) / v * (stats.t.ppf(0.975, 59) / stats.t.ppf(0.975, 11)) ** 2)
    found = proportion(right, cluster)
    assert (found.low, found.high) == pytest.approx(plain_clopper_pearson(p * size, size), abs=1e-12)


def test_a_video_that_holds_half_of_the_sets_widens_the_interval() -> None:
    """20 videos of which one has 95 of the 190 sets weigh like 3.8: the interval is not that of 20."""
    cluster = np.concatenate([np.zeros(95, int), np.repeat(np.arange(1, 20), 5)])
    right = np.concatenate([np.arange(95) % 10 < 6, np.arange(95) % 10 < 7])
    uneven = Grouping(np.zeros(190, int), cluster, n_groups=1)
    assert uneven.effective_videos[0] == pytest.approx(190**2 / (95**2 + 19 * 25)) == pytest.approx(3.8)
    found = uneven.estimates(right)[0]
    assert found.high - found.low > 0.16  # 0.10 by G − 1 degrees of freedom


def test_one_video_with_nearly_everything_leaves_the_share_open() -> None:
    cluster = np.concatenate([np.zeros(990, int), np.arange(1, 11)])
    found = proportion(np.arange(1000) % 5 > 0, cluster)
    assert (found.value, round(found.low, 3), round(found.high, 3)) == (0.8, 0.0, 1.0)
    everything = proportion(np.ones(1000, bool), cluster)
    assert everything.low < 0.03


@given(observations)
def test_no_interval_ends_at_its_own_value_inside(rows: list[tuple[bool, int]]) -> None:
    found = proportion(np.array([r for r, _ in rows]), np.array([c for _, c in rows]))
    if found.low is not None:
        assert found.low < found.value or found.value == 0
        assert found.high > found.value or found.value == 1


@given(st.integers(1, 9), st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_the_mean_of_ones_and_zeros_has_the_interval_of_a_share(size: int, parts: list[float]) -> None:
    right = np.array([round(size * part) for part in parts], dtype=float)
    marks = np.concatenate([np.arange(size) < count for count in right])
    low, high = mean_share(right, np.full(len(parts), float(size)))
    share = proportion(marks, np.repeat(np.arange(len(parts)), size))
    if share.method == "korn-graubard":  # a mean may have more than n: sets that vary less than coins
        assert low >= share.low - 1e-9
        assert high <= share.high + 1e-9
    assert low <= share.value <= high


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1)), min_size=3, max_size=12))
def test_a_mean_over_unequal_videos_has_at_least_the_variance_of_the_jackknife(rows: list[tuple[int, float]]) -> None:
    size = np.array([m for m, _ in rows], dtype=float)
    total = np.array([m * part for m, part in rows])
    low, high = mean_share(total, size)
    mean, n = total.sum() / size.sum(), len(rows)
    assert low <= mean + 1e-9
    assert high >= mean - 1e-9
    left_out = [(total.sum() - t) / (size.sum() - m) for t, m in zip(total, size, strict=True)]
    variance = (n - 1) / n * sum((one - mean) ** 2 for one in left_out)
    if variance < 1e-9:
        return
    videos = size.sum() ** 2 / (size**2).sum()
    freedom = max(videos - 1, LEAST_FREEDOM)
    effective = mean * (1 - mean) / variance * (stats.t.ppf(0.975, size.sum() - 1) / stats.t.ppf(0.975, freedom)) ** 2
    reference = clopper_pearson_bounds(np.array([mean * effective]), np.array([effective]))
    assert low <= reference[0][0] + 1e-9
    assert high >= reference[1][0] - 1e-9


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_korn_graubard_is_clopper_pearson_for_singletons(right: list[bool]) -> None:
    cluster = np.arange(len(right))[::-1]
    assert proportion(np.array(right), cluster) == clopper_pearson(sum(right), len(right))


@given(observations, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows: list[tuple[bool, int]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = (proportion(np.array([r for r, _ in x]), np.array([c for _, c in x])) for x in (rows, shuffled))
    assert (one.count, one.n, one.method) == (two.count, two.n, two.method)
    assert one.low == pytest.approx(two.low, abs=1e-12)


def test_clopper_pearson_on_request_ignores_clusters() -> None:
    right, cluster = np.array([True, False, True, True]), np.array([0, 0, 1, 1])
    assert proportion(right, cluster, interval="clopper-pearson") == clopper_pearson(3, 4)
    assert proportion(right, cluster).method == "korn-graubard"
    assert one_group(cluster).estimates(np.stack([right, ~right])) == [proportion(x, cluster) for x in (right, ~right)]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from([0, 1, 2, 900_000])), max_size=40),
)
def test_grouping_equals_one_group_at_a_time(rows: list[tuple[bool, int, int]]) -> None:
    """The large cluster number makes the sparse way of counting be taken too."""
    right = np.array([r for r, _, _ in rows], dtype=bool)
    group, cluster = (np.array([row[i] for row in rows], dtype=np.int64) for i in (1, 2))
    found = Grouping(group, cluster, n_groups=5).estimates(right)
    assert len(found) == 5
    for number, estimate in enumerate(found):
        inside = group == number
        if not inside.any():
            assert (estimate.value, estimate.method) == (None, "clopper-pearson")
            continue
        alone = proportion(right[inside], cluster[inside])
        assert (estimate.count, estimate.n, estimate.method) == (alone.count, alone.n, alone.method)
        assert (estimate.low is None) == (alone.low is None)
        if alone.low is not None:
            assert estimate.low == pytest.approx(alone.low, abs=1e-12)
            assert estimate.high == pytest.approx(alone.high, abs=1e-12)


@given(st.integers(1, 3), st.lists(st.integers(0, 5), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_columns_together_equal_columns_alone(n_groups: int, cluster: list[int], random: Random) -> None:
    group = np.array([random.randrange(n_groups) for _ in cluster])
    columns = np.array([[random.random() < 0.6 for _ in cluster] for _ in range(4)])
    grouping = Grouping(group, np.array(cluster), n_groups=n_groups)
    assert grouping.estimates(columns) == [one for column in columns for one in grouping.estimates(column)]
    assert grouping.shares(columns).count.shape == (4, n_groups)


def test_grouping_refuses_what_does_not_fit() -> None:
    with pytest.raises(InvalidValue, match="interval"):
        Grouping(np.zeros(1, int), np.zeros(1, int), n_groups=1, interval="wald")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="right"):
        Grouping(np.zeros(2, int), np.zeros(2, int), n_groups=1).estimates(np.ones(3, bool))


def test_numbers_that_differ_by_rounding_alone_have_the_bounds_of_equal_ones() -> None:
    """Four videos whose score swing is 0.04, one of them a rounding error less: the bounds were NaN, or a point."""
    from strobe.metrics.intervals import mean_share

    size = np.ones(4)
    equal = mean_share(np.full(4, 0.04), size)
    for off in (7e-17, -1e-16, 3e-15):
        assert mean_share(np.array([0.04, 0.04, 0.04, 0.04 + off]), size) == pytest.approx(equal, abs=1e-9)
    assert equal[1] > 0.5


def test_bounds_of_means_of_many_samples_are_those_of_each():
    rng = np.random.default_rng(0)
    size = rng.integers(1, 9, (3, 12)).astype(float)
    total = size * rng.random((3, 12)) * np.array([[0.1], [0.5], [1.0]])
    low, high = mean_bounds(total, size)
    for place in range(3):
        assert mean_share(total[place], size[place]) == pytest.approx((low[place], high[place]))
