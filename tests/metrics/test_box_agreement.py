"""Agreement on boxes against slow plain references."""

from itertools import combinations
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.box_agreement import median_box, median_overlap, pairwise_iou


@st.composite
def boxes(draw, most=6):
    """Boxes on a small grid of whole pixels."""
    side = st.integers(0, 11)
    found = []
    for _ in range(draw(st.integers(1, most))):
        x0, y0 = draw(side), draw(side)
        found.append((x0, y0, x0 + 1 + draw(side), y0 + 1 + draw(side)))
    return found


def pixels(box):
    """The pixels of a box, one by one."""
    x0, y0, x1, y1 = box
    return {(x, y) for x in range(x0, x1) for y in range(y0, y1)}


@given(boxes())
def test_overlap_counts_pixels(found):
    expected = [len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b)) for a, b in combinations(found, 2)]
    assert pairwise_iou(np.array(found, dtype=float)).tolist() == pytest.approx(expected)


@given(boxes())
def test_the_middle_box_is_the_median_of_each_side_and_has_an_area(found):
    x0, y0, x1, y1 = median_box(np.array(found, dtype=float)).tolist()
    assert [x0, y0, x1, y1] == [median(side) for side in zip(*found, strict=True)]
    assert x1 > x0
    assert y1 > y0


@given(boxes(), st.randoms())
def test_nobody_is_first(found, random):
    other = list(found)
    random.shuffle(other)
    assert median_box(np.array(found, dtype=float)).tolist() == median_box(np.array(other, dtype=float)).tolist()
    one, two = (np.sort(pairwise_iou(np.array(some, dtype=float))).tolist() for some in (found, other))
    assert one == pytest.approx(two)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), min_size=1, max_size=12), st.integers(0, 3))
def test_median_overlap_and_its_draws_as_repeated_values(rows, seed):
    cluster = np.array([row[0] for row in rows])
    overlap = np.array([row[1] / 20 for row in rows])
    found = median_overlap(overlap, cluster=cluster, seed=seed)
    assert found.value == median(overlap.tolist())
    assert found.n == len(rows)
    draws = Bootstrap(cluster, seed=seed)
    if draws.n_clusters == 1:
        assert found.low is None
        return
    slow = [
        median([float(overlap[row]) for row in range(len(rows)) for _ in range(int(often[draws.place[row]]))])
        for often in draws.weights
    ]
    expected = draws.estimate(found.value, np.array(slow), n=len(rows), limits=(0.0, 1.0))
    assert (found.low is None) == (expected.low is None)
    if found.low is not None:
        assert [found.low, found.high] == pytest.approx([expected.low, expected.high])


def test_nothing_is_not_zero():
    found = median_overlap(np.zeros(0), cluster=np.zeros(0, dtype=int))
    assert found.value is None
    assert "two people" in found.reason
    assert pairwise_iou(np.array([[0.0, 0.0, 1.0, 1.0]])).size == 0
    with pytest.raises(InvalidValue):
        median_box(np.zeros((0, 4)))
    with pytest.raises(InvalidValue):
        median_overlap(np.zeros(2), cluster=np.zeros(1, dtype=int))


def test_the_interval_comes_from_all_draws_of_the_seed():
    rng = np.random.default_rng(0)
    overlap, cluster = rng.random(60), np.repeat(np.arange(20), 3)
    draws = Bootstrap(cluster, seed=9)  # with this seed, every end of the interval depends on the first draw
    slow = [median(np.repeat(overlap, often[draws.place].astype(int)).tolist()) for often in draws.weights]
    expected = draws.estimate(median(overlap.tolist()), np.array(slow), n=60, limits=(0.0, 1.0))
    found = median_overlap(overlap, cluster=cluster, seed=9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.low, found.high) != (median_overlap(overlap, cluster=cluster).low, found.high)
