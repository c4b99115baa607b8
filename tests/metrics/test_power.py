"""How often a limit on a loss fails, held against simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.core.estimate import Estimate
from strobe.metrics.power import PairSpread, PlainSpread, fails, pair_spread, spread_of, videos_needed


def _losses(rng: np.random.Generator, *, churn: float, loss: float, n: int, draws: int) -> np.ndarray:
    """Measured losses: sets newly broken and newly held, drawn one by one."""
    kinds = rng.multinomial(n, [churn / 2 + loss, churn / 2, 1 - churn - loss], size=draws)
    return np.asarray((kinds[:, 0] - kinds[:, 1]) / n)


@pytest.mark.parametrize(("churn", "n", "limit"), [(0.1, 200, 0.02), (0.2, 400, 0.05), (0.02, 1000, 0.01)])
@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_limit_on_the_figure_fails_as_often_as_it_does_in_draws(
    churn: float, n: int, limit: float, times: int
) -> None:
    loss = times * limit
    drawn = _losses(np.random.default_rng(0), churn=churn, loss=loss, n=n, draws=20_000)
    ties = (abs(drawn - limit) < 1e-9).mean() / 2  # the normal distribution has none
    expected = fails(PairSpread(churn=churn, size=n), loss, limit=limit, ends=0)
    assert (drawn > limit + 1e-9).mean() + ties == pytest.approx(expected, abs=0.05)


def test_the_planned_videos_keep_their_promise() -> None:
    n = videos_needed(PairSpread(churn=0.1, size=1), 1, limit=0.02, ends=0)
    rng = np.random.default_rng(0)
    alarms, caught = ((_losses(rng, churn=0.1, loss=loss, n=n, draws=20_000) > 0.02).mean() for loss in (0.0, 0.04))
    assert alarms == pytest.approx(0.05, abs=0.01)
    assert caught >= 0.9


@given(
    churn=st.floats(0.001, 0.9),
    size=st.floats(5, 1e5),
    limit=st.floats(0.001, 0.4),
    more=st.floats(0, 0.4),
    ends=st.sampled_from([0, 1]),
)
def test_a_limit_fails_more_often_with_more_loss_and_on_the_interval_less_often(
    churn: float, size: float, limit: float, more: float, ends: int
) -> None:
    spread = PlainSpread(error=PairSpread(churn=churn, size=size).at(0.0))
    at, beyond = (fails(spread, true, limit=limit, ends=ends) for true in (limit, limit + more))
    assert at == pytest.approx((0.5, 0.025)[ends])
    assert at <= beyond + 1e-12
    assert beyond <= fails(spread, limit + more, limit=limit, ends=0) + 1e-12


def test_the_spread_of_a_difference_follows_from_its_interval() -> None:
    figure = Estimate(value=0.02, low=-0.0392, high=0.0792, n=100)
    assert spread_of(figure).at(0.5) == pytest.approx(0.0302, abs=1e-4)


def test_sets_of_one_video_that_agree_count_for_less() -> None:
    gap = np.repeat([1, -1, 0, 0, 0, 0, 0, 0], 5)
    apart, together = pair_spread(gap, np.arange(40)), pair_spread(gap, np.repeat(np.arange(8), 5))
    assert apart.size == 40
    assert together.size == pytest.approx(8)
    assert pair_spread(np.zeros(40, dtype=int), np.repeat(np.arange(8), 5)).size == 8


@pytest.mark.parametrize(("gap", "churn"), [([1] * 9 + [-1] + [0] * 30, 0.075), ([-1] * 4 + [1] * 4 + [0] * 2, 0.9)])
def test_churn_is_twice_the_rarer_direction_and_half_a_set(gap: list[int], churn: float) -> None:
    assert pair_spread(np.array(gap), np.arange(len(gap))) == PairSpread(churn=churn, size=len(gap))
    assert pair_spread(-np.array(gap), np.arange(len(gap))).churn == churn


@pytest.mark.parametrize("limit", [0.02, 0.1, 0.4])
def test_one_video_less_than_planned_is_too_few(limit: float) -> None:
    spread = PairSpread(churn=0.1, size=1)
    n = videos_needed(spread, 1, limit=limit, ends=0)

    def enough(videos: int) -> bool:
        many = PairSpread(churn=0.1, size=videos)
        return fails(many, 0.0, limit=limit, ends=0) <= 0.05 and fails(many, 2 * limit, limit=limit, ends=0) >= 0.8

    assert enough(n)
    assert n == 2 or not enough(n - 1)


def test_videos_whose_changes_cancel_count_once_each() -> None:
    assert pair_spread(np.tile([1, -1], 6), np.repeat(np.arange(6), 2)).size == 6


def test_a_margin_of_nothing_cannot_be_planned_and_no_more_than_every_set_changes() -> None:
    with pytest.raises(InvalidValue, match="above 0"):
        videos_needed(PairSpread(churn=0.1, size=1), 1, limit=0.0, ends=0)
    assert PairSpread(churn=0.9, size=1).at(0.5) == pytest.approx((1 - 0.25) ** 0.5)


def test_two_videos_are_enough_to_see_that_their_sets_agree() -> None:
    assert pair_spread(np.repeat([1, -1], 5), np.repeat([0, 1], 5)).size == pytest.approx(2)
    with pytest.raises(InvalidValue, match="at least one set, got 0"):
        pair_spread(np.zeros(0, dtype=int), np.zeros(0, dtype=int))
