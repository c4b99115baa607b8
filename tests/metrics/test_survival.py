"""A survival curve at a level and at its middle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.intervals import proportion
from strobe.metrics.survival import INVERTED, alive_at, median_of
from strobe.metrics.temporal import kaplan_meier

ends = st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.integers(0, 6)), min_size=1, max_size=25)


def columns(rows):
    time, found, video = (np.array(part) for part in zip(*rows, strict=True))
    return time.astype(float), found.astype(bool), video


@settings(max_examples=80, deadline=None)
@given(ends)
def test_the_interval_of_the_median_is_where_the_curves_interval_holds_a_half(rows) -> None:
    curve = kaplan_meier(*columns(rows))
    found = median_of(curve)
    assert found.value == curve.median
    assert found.n == len(rows)
    if found.low is None:
        assert found.reason
        return
    assert found.low <= found.value <= found.high
    for row in curve.survival:
        holds = row.alive.low <= 0.5 <= row.alive.high
        assert not holds or found.low <= row.distance < found.high


@settings(max_examples=80, deadline=None)
@given(ends, st.integers(1, 6))
def test_where_all_were_followed_it_is_the_plain_share(rows, level: int) -> None:
    time, found, video = columns(rows)
    time = np.where(found, time, 6.0)
    curve = kaplan_meier(time, found, video)
    estimate = alive_at(curve, level, video)
    last = found.all() and level >= time.max()
    held = ~(found & (time <= level))
    if level == 6 and not last:
        assert estimate.value == pytest.approx(held.mean())
        return
    want = proportion(held, video)
    assert estimate.value == pytest.approx(want.value, abs=1e-12)
    if want.low is not None:
        assert (estimate.low, estimate.high) == pytest.approx((want.low, want.high), abs=1e-9)


def test_nothing_and_too_far() -> None:
    none = kaplan_meier(np.empty(0), np.empty(0, dtype=bool), np.empty(0, dtype=int))
    assert median_of(none).reason == alive_at(none, 1.0, np.empty(0, dtype=int)).reason == "no search was made"
    curve = kaplan_meier(np.full(30, 2.0), np.arange(30) < 5, np.arange(30))
    assert median_of(curve).reason == "fewer than half of the searches found something"
    assert alive_at(curve, 2.1, np.arange(30)).reason == "no search went that far"
    assert alive_at(curve, 2.0000001, np.arange(30)).value == pytest.approx(25 / 30)
    with pytest.raises(InvalidValue, match="one for each of the 30"):
        alive_at(curve, 1.0, np.arange(3))
    most = kaplan_meier(np.full(10, 2.0), np.arange(10) < 6, np.arange(10))
    assert (
        median_of(most).reason == "the upper end of the interval is beyond the searched range; the interval begins at 2"
    )
    one = kaplan_meier(np.array([1.0, 2.0]), np.array([True, True]), np.zeros(2, dtype=int))
    assert "one video" in median_of(one).reason


def test_a_median_without_an_interval_has_its_method() -> None:
    few = kaplan_meier(np.full(30, 2.0), np.arange(30) < 5, np.arange(30))
    most = kaplan_meier(np.full(10, 2.0), np.arange(10) < 6, np.arange(10))
    assert {median_of(curve).method for curve in (few, most)} == {INVERTED}
