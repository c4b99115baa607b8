import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.metrics.bootstrap import MOST_CLUSTERS, Bootstrap


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
    few = Bootstrap(np.arange(3)).mean(values)
    assert few.low is not None
    assert "3 videos" in (few.reason or "")
    many = Bootstrap(np.arange(12)).mean(np.arange(12.0))
    assert many.reason is None
    assert many.low < many.value < many.high


def test_mean_of_nothing_is_not_zero() -> None:
    assert Bootstrap(np.arange(3)).mean(np.zeros(3), use=np.zeros(3, bool)).value is None


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
