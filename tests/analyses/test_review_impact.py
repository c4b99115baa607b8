from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from strobe.analyses.classification import score
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.tables import Labels
from strobe.studies.review.score import ReviewStages, impact
from vid_shaped import dataset_of, predictions_of, random_scores, vid_world


@pytest.fixture(scope="module")
def stages() -> tuple[Dataset, Dataset, Dataset, ClassAnswers]:
    """Review drops the anchors of every fifth set and every member beyond ±1; densification adds a label."""
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=60, k=3, n_classes=4, n_frames=None)
    a = dataset_of(world)
    last = np.unique(a.labels.frame)[-20:]
    lacking = np.array([min(set(range(4)) - set(a.labels_of(frame))) for frame in last.tolist()])
    dense = Labels(frame=np.append(a.labels.frame, last), label=np.append(a.labels.label, lacking))
    c_labels = replace(a, labels=dense)
    kept_sets = c_labels.sets.set % 5 != 0
    b = c_labels.keep_rows(kept_sets)
    c = c_labels.keep_rows(kept_sets & (np.abs(c_labels.sets.distance) <= 1))
    return a, b, c, predictions_of("m", random_scores(rng, world, 0.9))


def test_three_stages_by_hand(stages: tuple[Dataset, Dataset, Dataset, ClassAnswers]) -> None:
    a, b, c, predictions = stages
    found = impact(ReviewStages.of(a, b, c), predictions, replicates=200)
    for part, dataset in ((found.a, a), (found.b, b), (found.c, c)):
        right = dataset.right_rows(predictions.label)
        orig = right[dataset.sets.is_anchor]
        whole = np.ones(dataset.n_sets, dtype=bool)
        np.logical_and.at(whole, dataset.sets.set, right)
        assert (part.acc_orig.count, part.acc_pmk.count) == (int(orig.sum()), int(whole.sum()))
        assert part.drop.n == dataset.n_sets
    assert (found.a.drop.n, found.b.drop.n, found.c.drop.n) == (60, 48, 48)
    assert found.b.acc_orig == found.c.acc_orig  # the same anchors
    assert found.drop_difference.value == pytest.approx(found.a.drop.value - found.c.drop.value)
    assert found.drop_difference.low < found.drop_difference.value < found.drop_difference.high
    assert [row.offset for row in found.a.per_offset] == [-3, -2, -1, 0, 1, 2, 3]
    assert [row.offset for row in found.c.per_offset] == [-1, 0, 1]


def test_nothing_reviewed_away_changes_nothing(stages: tuple[Dataset, Dataset, Dataset, ClassAnswers]) -> None:
    _, b, _, predictions = stages
    found = impact(ReviewStages.of(b, b, b), predictions, replicates=50)
    difference = found.drop_difference
    assert (difference.value, difference.low, difference.high) == (0, None, None)
    assert "its uncertainty on that side is unknown" in difference.reason


def test_the_bootstrap_by_hand(stages: tuple[Dataset, Dataset, Dataset, ClassAnswers]) -> None:
    a, b, c, predictions = stages
    views = ReviewStages.of(a, b, c)
    found = impact(views, predictions, replicates=100, seed=2)
    parts = [score(stage.plan.dataset, predictions, prepared=stage) for stage in (views.a, views.c)]
    lost = [part.right_at(0) & ~part.right_at(3) for part in parts]
    videos = [a.video_of_set, c.video_of_set]
    draws = []
    for index in np.random.Generator(np.random.PCG64(2)).integers(0, 60, size=(100, 60)):
        drops = []
        for bad, video in zip(lost, videos, strict=True):
            chosen = [place for v in index for place in np.flatnonzero(video == v)]
            drops.append(bad[chosen].mean())
        draws.append(drops[0] - drops[1])
    expected = np.percentile(draws, [2.5, 97.5])
    # Videos weigh as often as they have sets in either stage: some have two, some one.
    sizes = np.bincount(np.concatenate(videos))
    further = stats.t.ppf(0.975, [sizes.sum() ** 2 / (sizes**2).sum() - 1, 59])
    value = found.drop_difference.value
    expected = value + further[0] / further[1] * (expected - value)
    assert (found.drop_difference.low, found.drop_difference.high) == pytest.approx(tuple(expected))


def test_stages_of_different_frames_are_refused(stages: tuple[Dataset, Dataset, Dataset, ClassAnswers]) -> None:
    a, b, _, _ = stages
    other = dataset_of(vid_world(np.random.default_rng(1), n_sets=5, k=3, n_classes=4, n_frames=None))
    with pytest.raises(InvalidValue, match="review stage c"):
        ReviewStages.of(a, b, other)
