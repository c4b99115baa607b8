from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from strobe.analyses.classification import ClassificationScore, ScoreOptions, score
from strobe.analyses.comparison import Comparison, compare
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.metrics.paired import holm
from vid_shaped import PlainFrame, PlainSet, World, dataset_of, predictions_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=1, windows=(), alphas=())


def models(accuracies: list[float], seed: int = 0) -> tuple[Dataset, list[ClassificationScore]]:
    rng = np.random.default_rng(seed)
    world = vid_world(rng, n_sets=200, k=3, n_classes=4, n_frames=None)
    dataset = dataset_of(world)
    return dataset, [
        score(dataset, predictions_of(f"m{i}", random_scores(rng, world, accuracy)), options=QUICK)
        for i, accuracy in enumerate(accuracies)
    ]


def of(found: list[Comparison], a: str, b: str, metric: str) -> Comparison:
    return next(c for c in found if (c.a, c.b, c.metric) == (a, b, metric))


def test_counts_p_values_and_sentences() -> None:
    dataset, scores = models([0.99, 0.9, 0.9], seed=3)
    found = compare(dataset, scores, replicates=300)
    assert len(found) == 9
    for k, metric in ((0, "acc_orig"), (3, "acc_pmk")):
        c = of(found, "m0", "m1", metric)
        a, b = scores[0].right_at(k), scores[1].right_at(k)
        assert (c.only_a, c.only_b) == (int((a & ~b).sum()), int((~a & b).sum()))
        assert c.p == pytest.approx(stats.binomtest(c.only_a, c.only_a + c.only_b, 0.5).pvalue)
        assert c.test == "exact McNemar"
        assert c.difference.value == pytest.approx((a.sum() - b.sum()) / 200)
        assert c.difference.low < c.difference.value < c.difference.high
        p = [x.p for x in found if x.metric == metric]
        assert c.p_holm == pytest.approx(holm(p)[0])
    assert "m0 is better than m1 in accuracy on whole sets" in of(found, "m0", "m1", "acc_pmk").sentence
    assert "No difference shown between m1 and m2" in of(found, "m1", "m2", "acc_orig").sentence
    drop = of(found, "m0", "m1", "drop")
    assert (drop.p, drop.only_a) == (None, None)
    assert drop.difference.value == pytest.approx(scores[0].drop.value - scores[1].drop.value)
    assert "m1 flickers more than m0" in drop.sentence


def test_the_bootstrap_of_a_difference_by_hand() -> None:
    dataset, scores = models([0.95, 0.9])
    found = of(compare(dataset, scores, replicates=200, seed=5), "m0", "m1", "drop").difference
    gap = np.array(
        [[s.right_at(0).astype(int) - s.right_at(3).astype(int)] for s in scores], dtype=float
    ).squeeze()  # (2, sets)
    gap = gap[0] - gap[1]
    index = np.random.Generator(np.random.PCG64(5)).integers(0, 200, size=(200, 200))
    draws = [gap[row].mean() for row in index]  # videos are numbered as sets here, one each
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(draws, [2.5, 97.5])))


def test_only_sets_scored_for_both_are_compared() -> None:
    dataset, scores = models([0.95, 0.9])
    first = scores[0].first_wrong.copy()
    first[:50] = -1
    found = compare(dataset, [replace(scores[0], first_wrong=first), scores[1]], replicates=100)
    c = of(found, "m0", "m1", "acc_orig")
    a, b = scores[0].right_at(0)[50:], scores[1].right_at(0)[50:]
    assert c.n_sets == 150
    assert c.difference.value == pytest.approx((a.sum() - b.sum()) / 150)
    nothing = replace(scores[0], first_wrong=np.full(200, -1, dtype=np.int32))
    c = of(compare(dataset, [nothing, scores[1]], replicates=100), "m0", "m1", "acc_pmk")
    assert c.difference.value is None
    assert "nothing can be said" in c.sentence


def test_shared_videos_take_the_sign_flip_test() -> None:
    """Ten videos of four sets each, in which a beats b on all four of a few videos: sets are not independent."""
    frames = [PlainFrame(video, 10 * place, {0}) for video in range(10) for place in range(4)]
    world = World(1, 2, [None] * 10, frames, [PlainSet(row, []) for row in range(40)])
    dataset = dataset_of(world)
    a = score(dataset, ClassAnswers.from_labels("a", np.zeros(40, int)), options=QUICK)
    b = score(dataset, ClassAnswers.from_labels("b", np.repeat([1] * 3 + [0] * 7, 4)), options=QUICK)
    c = of(compare(dataset, [a, b], replicates=100), "a", "b", "acc_orig")
    assert c.test == "video-level sign-flip"
    assert c.p_mcnemar == pytest.approx(2 * 0.5**12)
    assert c.p == pytest.approx(2 * 0.5**3)
    assert "No difference shown" in c.sentence


def test_models_of_different_data_are_refused() -> None:
    dataset, scores = models([0.9, 0.8])
    with pytest.raises(InvalidValue, match="each model once"):
        compare(dataset, [scores[0], scores[0]])
    with pytest.raises(InvalidValue, match="one k"):
        compare(dataset, [scores[0], replace(scores[1], k=2)])
    with pytest.raises(InvalidValue, match="same dataset"):
        compare(dataset, [scores[0], replace(scores[1], first_wrong=np.zeros(3, np.int32))])
    assert compare(dataset, scores[:1]) == ()


def test_few_videos_decide_nothing_about_the_drop() -> None:
    """Two videos: the bootstrap interval is known to be too narrow, and no exact test stands behind a drop."""
    import strobe

    dataset = strobe.example_dataset(n_videos=2, k=3)
    right = np.full((len(dataset.frames), 2), -1.0)
    right[dataset.labels.frame, dataset.labels.label] = 1.0
    wrong = np.where(dataset.frames.index[:, None] == 0, -right, right)  # right on every anchor, wrong at offset −3
    scores = [
        score(dataset, strobe.Predictions.from_scores(name, values, kind="logits"))
        for name, values in (("steady", right), ("shaky", wrong))
    ]
    found = of(compare(dataset, scores, replicates=200), "steady", "shaky", "drop")
    assert found.difference.value == -1.0
    assert found.difference.low == found.difference.high == -1.0
    assert found.sentence.startswith("No difference shown"), found.sentence
