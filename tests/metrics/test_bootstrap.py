import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from strobe.metrics.bootstrap import DIFFERENCES, METHOD, MOST_CLUSTERS, ONE_SIDED, SHARES, Bootstrap
from strobe.metrics.intervals import ONE_VIDEO


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(-3, 3), st.booleans()), min_size=1, max_size=15),
    st.integers(0, 3),
)
def test_ratios_equal_a_loop_over_the_same_draws(rows: list[tuple[int, float, bool]], seed: int) -> None:
    cluster = np.array([row[0] for row in rows])
    value = np.array([row[1] for row in rows])
    use = np.array([row[2] for row in rows])
    boot = Bootstrap(cluster, replicates=30, seed=seed)
    found = boot.ratio(np.where(use, value, 0.0), use)
    videos = sorted(set(cluster.tolist()))
    rng = np.random.Generator(np.random.PCG64(seed))
    for draw, index in enumerate(rng.integers(0, len(videos), size=(30, len(videos)))):
        chosen = [
            row for place in index for row in rows if row[0] == videos[place] and row[2]
        ]  # a video drawn twice counts twice
        if not chosen:
            assert np.isnan(found[draw])
        else:
            assert found[draw] == pytest.approx(sum(row[1] for row in chosen) / len(chosen), abs=1e-9)


def test_seeded_and_shared_between_models() -> None:
    cluster = np.arange(40) // 2
    one, two = Bootstrap(cluster, seed=3), Bootstrap(cluster, seed=3)
    assert (one.weights == two.weights).all()
    assert (one.weights.sum(axis=1) == 20).all()
    assert not (one.weights == Bootstrap(cluster, seed=4).weights).all()


def test_one_video_has_no_interval_and_few_are_marked() -> None:
    values = np.array([0.0, 1.0, 1.0])
    lone = Bootstrap(np.zeros(3, int)).mean(values)
    assert lone.value == pytest.approx(2 / 3)
    assert lone.low is None
    same = Bootstrap(np.zeros(3, int)).mean(np.ones(3))
    assert (same.value, same.low, same.reason) == (1.0, None, ONE_VIDEO)
    few = Bootstrap(np.arange(3)).mean(values)
    assert few.low is not None
    assert "3 videos" in (few.reason or "")
    many = Bootstrap(np.arange(12)).mean(np.arange(12.0))
    assert many.reason is None
    assert many.low < many.value < many.high


def test_mean_of_nothing_is_not_zero() -> None:
    none = Bootstrap(np.arange(3)).mean(np.zeros(3), count=np.zeros(3, bool))
    assert (none.value, none.method, none.reason) == (None, METHOD, "nothing to average")


def test_sums_have_a_column_for_each_column_of_values() -> None:
    boot = Bootstrap(np.array([0, 0, 1]), replicates=5)
    assert boot.per_video(np.array([1, 2, 4])).tolist() == [3.0, 4.0]
    assert boot.per_video(np.array([[1], [2], [4]])).tolist() == [[3.0], [4.0]]
    assert (boot.sums(np.ones(3)).shape, boot.sums(np.ones((3, 2))).shape) == ((5,), (5, 2))


def test_up_to_ten_thousand_videos_are_drawn_one_by_one() -> None:
    boot = Bootstrap(np.arange(MOST_CLUSTERS))
    assert (boot.n_clusters, boot.place.tolist()) == (MOST_CLUSTERS, list(range(MOST_CLUSTERS)))


def test_interval_of_a_mean_is_about_the_normal_one() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    found = Bootstrap(np.arange(400), replicates=4000).mean(values)
    half = 1.96 * values.std() / 20
    assert found.low == pytest.approx(values.mean() - half, abs=0.01)
    assert found.high == pytest.approx(values.mean() + half, abs=0.01)


def test_beyond_ten_thousand_videos_bags_are_drawn_and_the_interval_is_that_of_theory() -> None:
    rng = np.random.default_rng(0)
    n = 3 * MOST_CLUSTERS
    value = (rng.random(n) < 0.3).astype(float)
    boot = Bootstrap(np.arange(n), replicates=400, seed=1)
    assert boot.weights.shape == (400, MOST_CLUSTERS)
    assert np.bincount(boot.place).tolist() == [3] * MOST_CLUSTERS, "every bag holds as many"
    found = boot.mean(value)
    half = 1.96 * np.sqrt(value.mean() * (1 - value.mean()) / n)
    assert found.value == value.mean()
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.12)
    assert boot.mean(value) == Bootstrap(np.arange(n), replicates=400, seed=1).mean(value)


def test_videos_of_unequal_size_have_the_interval_of_as_few_as_they_weigh_like() -> None:
    """One of 20 videos holds half of the sets: 3.8 effective videos, and not the percentiles of 20."""
    rng = np.random.default_rng(0)
    cluster = np.concatenate([np.zeros(95, int), np.repeat(np.arange(1, 20), 5)])
    skill = rng.random(20)[cluster]
    values = rng.binomial(4, skill) / 4
    boot = Bootstrap(cluster, seed=0)
    low, high = np.percentile(boot.ratio(values, np.ones(190)), [2.5, 97.5])
    found = boot.mean(values)
    assert found.method == "korn-graubard"
    assert found.high - found.low > 1.3 * (high - low)
    assert boot.stretch == pytest.approx(stats.t.ppf(0.975, 2.8) / stats.t.ppf(0.975, 19), rel=1e-3)
    stretched = boot.estimate(found.value, boot.ratio(values, np.ones(190)), n=190)
    assert found.value - stretched.low == pytest.approx(boot.stretch * (found.value - low))
    assert stretched.high - found.value == pytest.approx(boot.stretch * (high - found.value))


def test_videos_of_one_size_have_the_percentiles_to_the_last_digit() -> None:
    values = np.random.default_rng(1).random(60)
    boot = Bootstrap(np.repeat(np.arange(12), 5))
    low, high = np.percentile(boot.ratio(values, np.ones(60)), [2.5, 97.5])
    found = boot.mean(values)
    assert (found.low, found.high, boot.stretch) == (low, high, 1.0)


@pytest.mark.parametrize(("value", "end"), [(0.0, "low"), (1.0, "high")])
def test_a_mean_without_spread_is_as_sure_as_its_videos_are_many(value: float, end: str) -> None:
    found = Bootstrap(np.arange(24) // 2).mean(np.full(24, value))
    assert getattr(found, end) == value
    other = found.high if value == 0 else 1 - found.low
    assert other == pytest.approx(1 - 0.025 ** (1 / 12))


def test_an_end_at_the_value_is_the_nearest_draw_beyond_it_or_there_is_no_interval() -> None:
    boot = Bootstrap(np.arange(20), replicates=100)
    draws = np.concatenate([np.full(97, 0.5), [0.4, 0.3, 0.6]])
    found = boot.estimate(0.5, draws, n=20, limits=SHARES)
    assert (found.low, found.high) == (0.4, 0.6)
    one_sided = boot.estimate(0.5, np.concatenate([np.full(90, 0.5), np.full(10, 0.4)]), n=20, limits=SHARES)
    assert (one_sided.low, one_sided.high, one_sided.reason) == (None, None, ONE_SIDED)
    at_limit = boot.estimate(1.0, np.concatenate([np.full(90, 1.0), np.full(10, 0.9)]), n=20, limits=SHARES)
    assert (at_limit.low, at_limit.high) == (0.9, 1.0)


def test_stretched_ends_stay_within_what_is_possible() -> None:
    cluster = np.concatenate([np.zeros(95, int), np.repeat(np.arange(1, 20), 5)])
    boot = Bootstrap(cluster, replicates=200)
    draws = np.linspace(0.0, 0.3, 200)
    found = boot.estimate(0.05, draws, n=190, limits=SHARES)
    assert found.low == 0.0
    assert boot.estimate(0.05, draws, n=190, limits=DIFFERENCES).low < 0
