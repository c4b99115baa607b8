"""Agreement against hand-worked published examples and slow plain references."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, rating_counts, raw_agreement

M = -1
KRIPPENDORFF_2011 = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, M, M, M],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, M, 3],
        [M, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, M],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, M],
    ]
).T
FLEISS_1971 = np.array(
    [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]
)  # fmt: skip


def test_krippendorff_example_of_four_observers():
    assert krippendorff_alpha(rating_counts(KRIPPENDORFF_2011, n_classes=6)).value == pytest.approx(0.743, abs=5e-4)


def test_krippendorff_example_of_two_observers_binary():
    a, b = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    counts = rating_counts(np.array([a, b]).T, n_classes=2)
    assert krippendorff_alpha(counts).value == pytest.approx(0.095, abs=5e-4)
    assert raw_agreement(counts).value == pytest.approx(0.6)


def test_fleiss_example():
    assert fleiss_kappa(FLEISS_1971).value == pytest.approx(0.210, abs=5e-4)


def test_cohen_example():
    # 20 both yes, 5 yes/no, 10 no/yes, 15 both no: observed 0.7, chance 0.5.
    a = np.array([1] * 25 + [0] * 25)
    b = np.array([1] * 20 + [0] * 5 + [1] * 10 + [0] * 15)
    found = cohen_kappa(a, b, n_classes=2)
    assert found.value == pytest.approx(0.4)
    assert found.low < 0.4 < found.high
    assert found.n == 50


def test_perfect_agreement_is_one_and_all_same_is_null():
    counts = rating_counts(np.array([[0, 0], [1, 1], [2, 2]]), n_classes=3)
    for measure in (raw_agreement, fleiss_kappa, krippendorff_alpha):
        assert measure(counts).value == pytest.approx(1.0)
    same = rating_counts(np.zeros((5, 3), dtype=int), n_classes=3)
    assert raw_agreement(same).value == 1.0
    for measure in (fleiss_kappa, krippendorff_alpha):
        assert measure(same).value is None
        assert "same" in measure(same).reason
    assert cohen_kappa(np.zeros(4, int), np.zeros(4, int), n_classes=2).value is None


def test_nothing_to_compare_is_null_not_zero():
    single = rating_counts(np.array([[0, M], [M, 1]]), n_classes=2)
    for measure in (raw_agreement, fleiss_kappa, krippendorff_alpha):
        assert measure(single).value is None
        assert measure(single).n == 0


def test_one_cluster_has_no_interval():
    counts = rating_counts(np.array([[0, 1], [1, 1], [0, 0]]), n_classes=2)
    assert raw_agreement(counts, cluster=np.zeros(3, int)).low is None


def test_interval_is_seeded_and_wider_for_fewer_clusters():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 300)
    ratings = np.stack([np.where(rng.random(300) < 0.8, truth, rng.integers(0, 3, 300)) for _ in range(3)], axis=1)
    counts = rating_counts(ratings, n_classes=3)
    one, again = krippendorff_alpha(counts, seed=3), krippendorff_alpha(counts, seed=3)
    assert one == again
    assert one.low < one.value < one.high
    assert krippendorff_alpha(counts[:30]).high - krippendorff_alpha(counts[:30]).low > one.high - one.low


ratings_strategy = st.integers(2, 4).flatmap(
    lambda raters: st.lists(st.lists(st.integers(-1, 2), min_size=raters, max_size=raters), min_size=1, max_size=12)
)


def _plain(ratings):
    """Raw agreement, Fleiss' kappa and Krippendorff's alpha the slow way, from lists."""
    items = [[r for r in row if r >= 0] for row in ratings]
    items = [row for row in items if len(row) >= 2]
    if not items:
        return None, None, None
    pairs = [(x, y) for row in items for x, y in combinations(row, 2)]
    raw = sum(x == y for x, y in pairs) / len(pairs)
    flat = [r for row in items for r in row]
    shares = [flat.count(c) / len(flat) for c in range(3)]
    chance = sum(p * p for p in shares)
    agreement = sum(
        sum(x == y for x, y in combinations(row, 2)) / (len(row) * (len(row) - 1) / 2) for row in items
    ) / len(items)
    kappa = None if abs(1 - chance) < 1e-12 else (agreement - chance) / (1 - chance)
    n = len(flat)
    observed = (
        sum(
            sum(1 for i in range(len(row)) for j in range(len(row)) if i != j and row[i] != row[j]) / (len(row) - 1)
            for row in items
        )
        / n
    )
    expected = sum(1 for i in range(n) for j in range(n) if i != j and flat[i] != flat[j]) / (n * (n - 1))
    alpha = None if expected < 1e-12 else 1 - observed / expected
    return raw, kappa, alpha


@settings(max_examples=60, deadline=None)
@given(ratings_strategy)
def test_against_plain_references(ratings):
    counts = rating_counts(np.array(ratings), n_classes=3)
    for measure, expected in zip((raw_agreement, fleiss_kappa, krippendorff_alpha), _plain(ratings), strict=True):
        found = measure(counts, draws=20).value
        assert found == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_the_same_seed_draws_the_same_interval_and_without_draws_there_is_none():
    counts = rating_counts(np.random.default_rng(0).integers(0, 3, (30, 4)), n_classes=3)
    cluster = np.arange(30) // 2
    for measure in (raw_agreement, fleiss_kappa, krippendorff_alpha):
        first, again, other = (measure(counts, cluster=cluster, seed=seed, draws=200) for seed in (1, 1, 2))
        assert first == again
        assert (first.low, first.high) != (other.low, other.high)
        none = measure(counts, cluster=cluster, draws=0)
        assert (none.value, none.low, none.method) == (first.value, None, first.method)


def test_an_estimate_without_an_interval_has_its_method_and_a_reason():
    counts = rating_counts(np.array([[0, 1], [1, 1], [0, 0]]), n_classes=2)
    assert raw_agreement(counts, cluster=np.zeros(3, int)).method == "cluster-bootstrap"
    # One draw of two items: if one of the items is drawn twice, the draw has a single class and no kappa.
    found = [cohen_kappa(np.array([0, 1]), np.array([0, 1]), n_classes=2, seed=seed, draws=1) for seed in range(8)]
    none = [one for one in found if one.low is None]
    assert 0 < len(none) < 8
    assert {(one.reason, one.method) for one in none} == {("too few differing ratings", "cluster-bootstrap")}


def test_ratings_of_another_shape_or_class_are_refused():
    with pytest.raises(InvalidValue, match="two rows of one length"):
        cohen_kappa(np.zeros(3, int), np.zeros(4, int), n_classes=2)
    with pytest.raises(InvalidValue, match="two rows of one length"):
        cohen_kappa(np.zeros((2, 2), int), np.zeros((2, 2), int), n_classes=2)
    for wrong in (-2, 2):
        with pytest.raises(InvalidValue, match="-1 to 1"):
            rating_counts(np.array([[0, wrong]]), n_classes=2)


def test_the_interval_has_the_percentiles_of_plain_draws():
    ratings = np.random.default_rng(4).integers(-1, 3, (12, 3))
    counts, cluster = rating_counts(ratings, n_classes=3), np.arange(12) // 3
    rng, drawn = np.random.Generator(np.random.PCG64(5)), []
    for _ in range(60):
        videos = rng.integers(0, 4, 4).tolist()
        drawn.append(_plain([row for video in videos for row in ratings[cluster == video].tolist()]))
    for place, measure in enumerate((raw_agreement, fleiss_kappa, krippendorff_alpha)):
        found = measure(counts, cluster=cluster, seed=5, draws=60)
        usable = [one[place] for one in drawn if one[place] is not None]
        assert (found.low, found.high) == pytest.approx(tuple(np.percentile(usable, [2.5, 97.5])))


def test_without_other_wishes_there_are_2000_draws_of_seed_0():
    rng = np.random.default_rng(6)
    ratings, video = rng.integers(0, 3, (200, 2)), {"cluster": rng.integers(0, 30, 200)}
    counts, (a, b) = rating_counts(ratings, n_classes=3), ratings.T
    for measure in (raw_agreement, fleiss_kappa, krippendorff_alpha):
        assert measure(counts, **video) == measure(counts, **video, seed=0, draws=2000)
        assert measure(counts, **video) != measure(counts, **video, seed=0, draws=2001)
    default = cohen_kappa(a, b, n_classes=3, **video)
    assert default == cohen_kappa(a, b, n_classes=3, **video, seed=0, draws=2000)
    assert default != cohen_kappa(a, b, n_classes=3, **video, seed=0, draws=2001)
