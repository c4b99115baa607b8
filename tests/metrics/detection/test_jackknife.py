"""Intervals of mAP: centred on the value, deterministic, and held against a plain reading of the formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from strobe.metrics.detection.jackknife import FEW_VIDEOS, ap_of_class, drop_between, few_per_class, mean_ap

MANY = np.array([40, 30])


def shares(n):
    return st.lists(st.floats(0, 1), min_size=n, max_size=n).map(np.array)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_every_interval_holds_its_value(data):
    n = data.draw(st.integers(2, 70))
    before, after = data.draw(st.floats(0, 1)), data.draw(st.floats(0, 1))
    without = data.draw(shares(n)), data.draw(shares(n))
    a, b = (mean_ap(x, w, of_class=MANY, n=n) for x, w in zip((before, after), without, strict=True))
    one = ap_of_class(before, without[0], videos=data.draw(st.integers(1, n)), n=n)
    for part in (a, b, one, drop_between(a, b, *without, n=n)):
        assert (part.low is None) == (part.high is None)
        if part.low is not None:
            assert part.low < part.value or part.value in (0, -1)
            assert part.high > part.value or part.value == 1
    for part in (a, b, one):
        if part.low is not None:
            assert 0 <= part.low <= part.high <= 1


def test_the_formulas_by_hand():
    rng = np.random.default_rng(2)
    n, before, after = 60, 0.6, 0.4
    x = before + 0.01 * rng.standard_normal(n)
    y = after + 0.5 * (x - before) + 0.01 * rng.standard_normal(n)
    ends = []
    for value, w in ((before, x), (after, y)):
        se = math.sqrt((n - 1) / n * sum((one - w.mean()) ** 2 for one in w))
        reach = stats.t.ppf(0.975, n - 1) * se / (value * (1 - value))
        centre = math.log(value / (1 - value))
        ends.append((1 / (1 + math.exp(reach - centre)), 1 / (1 + math.exp(-reach - centre))))
        found = mean_ap(value, w, of_class=MANY, n=n)
        assert (found.low, found.high) == pytest.approx(ends[-1], abs=1e-12)
    (l0, u0), (lk, uk) = ends
    r = stats.pearsonr(x, y).statistic
    low = 0.2 - math.sqrt((before - l0) ** 2 + (uk - after) ** 2 - 2 * r * (before - l0) * (uk - after))
    high = 0.2 + math.sqrt((u0 - before) ** 2 + (after - lk) ** 2 - 2 * r * (u0 - before) * (after - lk))
    drop = drop_between(*(mean_ap(v, w, of_class=MANY, n=n) for v, w in ((before, x), (after, y))), x, y, n=n)
    assert (drop.low, drop.high) == pytest.approx((low, high), abs=1e-12)


def test_where_there_is_no_interval_or_a_mark_it_says_why():
    x = np.linspace(0.4, 0.6, 60)
    assert mean_ap(0.5, x, of_class=MANY, n=60).reason is None
    assert "may be too narrow" in mean_ap(0.5, x[:20], of_class=MANY, n=20).reason
    assert "one video only" in mean_ap(0.5, x, of_class=np.array([1, 1, 58, 0]), n=60).reason
    assert mean_ap(0.5, x, of_class=np.array([1, 1, 29, 29, 0]), n=60).reason is None
    assert "at least ten" in mean_ap(0.5, x[:9], of_class=MANY, n=9).reason
    assert "no single video" in mean_ap(1.0, np.ones(60), of_class=MANY, n=60).reason
    assert "no object is left" in mean_ap(0.5, np.append(x, np.nan), of_class=MANY, n=60).reason
    assert mean_ap(np.nan, x, of_class=MANY, n=60).value is None
    assert "at least five" in ap_of_class(0.5, x, videos=4, n=4).reason
    assert ap_of_class(0.5, x, videos=5, n=5).low is not None
    few, whole = ap_of_class(0.5, x, videos=4, n=4), ap_of_class(0.5, x, videos=40, n=40)
    drop = drop_between(whole, few, x, x, n=40)
    assert drop.low is None
    assert drop.reason == few.reason


def test_few_videos_per_class_are_said():
    assert few_per_class(np.array([20, 40, 0])) is None
    assert "3 videos per class" in few_per_class(np.array([1, 3, 50, 0]))


@pytest.mark.parametrize(("value", "n"), [(0.97, 12), (0.999, 60), (0.02, 12), (0.0, 30), (1.0, 30)])
def test_an_interval_ends_at_its_own_value_at_0_and_1_alone(value, n):
    """Twelve videos keep the centre below 0.958: an mAP of 0.97 had 0.97 for its upper end."""
    found = mean_ap(value, np.tile([value - 0.0005, value + 0.0005], n // 2), of_class=MANY, n=n)
    assert (found.high > value) is (value < 1)
    assert (found.low < value) is (value > 0)


def test_videos_of_unequal_size_have_the_freedom_of_as_few_as_they_weigh_like():
    x = np.tile([0.59, 0.61], 30)
    even, uneven = (mean_ap(0.6, x, of_class=MANY, n=240, effective=effective) for effective in (60.0, 4.0))
    assert even == mean_ap(0.6, x, of_class=MANY, n=240)
    reach = [math.log(part.high / (1 - part.high)) - math.log(0.6 / 0.4) for part in (even, uneven)]
    assert reach[1] / reach[0] == pytest.approx(stats.t.ppf(0.975, 3) / stats.t.ppf(0.975, 59))
    assert "60 videos of unequal size count like 4" in uneven.reason
    classes = [ap_of_class(0.6, x, videos=60, n=240, effective=effective) for effective in (60.0, 4.0)]
    assert classes[0] == ap_of_class(0.6, x, videos=60, n=240)
    assert classes[1].high > classes[0].high


def test_a_drop_that_no_video_shows_has_no_interval():
    x = np.tile([0.49, 0.51], 30)
    one = mean_ap(0.5, x, of_class=MANY, n=60)
    same = drop_between(one, one, x, x, n=60)
    assert (same.value, same.low, same.high) == (0.0, None, None)
    assert "no single video" in same.reason


def test_marks_of_few_videos_and_reasons_of_drops():
    x = np.linspace(0.4, 0.6, 60)
    assert "only 9 videos show the class: the interval may be too narrow" in ap_of_class(0.5, x, videos=9, n=9).reason
    assert ap_of_class(0.5, x, videos=10, n=10).reason is None
    enough = np.linspace(0.4, 0.6, FEW_VIDEOS)
    assert mean_ap(0.5, enough, of_class=MANY, n=FEW_VIDEOS).reason is None
    assert mean_ap(0.5, enough[1:], of_class=MANY, n=FEW_VIDEOS - 1).reason is not None
    few, whole = ap_of_class(0.5, x, videos=4, n=4), ap_of_class(0.5, x, videos=40, n=40)
    assert drop_between(few, whole, x, x, n=40).reason == few.reason
    assert "1 video per class" in few_per_class(np.array([1, 1, 0]))


def test_a_class_of_few_videos_in_all_has_no_interval_and_a_drop_keeps_its_caution():
    without = 0.5 + 0.01 * np.random.default_rng(0).standard_normal(30)
    few = ap_of_class(0.5, without[:9], videos=9, n=9)
    assert (few.low, few.reason) == (None, "only 9 videos: an interval of AP needs at least ten")
    marked = ap_of_class(0.5, without, videos=9, n=30)
    sound = ap_of_class(0.6, without, videos=30, n=30)
    assert sound.reason is None
    for ends in ((marked, sound), (sound, marked)):
        drop = drop_between(*ends, without, without[::-1], n=30)
        assert drop.low < drop.value < drop.high
        assert drop.reason == marked.reason
