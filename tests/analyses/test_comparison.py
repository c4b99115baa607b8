import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from strobe.analyses.classification import score
from strobe.analyses.clips import ModelColumns
from strobe.analyses.comparison import Comparison, change, columns_of, compare, named, names_each
from strobe.analyses.gate import losses_of
from strobe.analyses.model_results import CLASSIFICATION, ClassificationScore
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.metrics.paired import holm, mcnemar, paired_difference
from strobe.metrics.power import PairSpread, pair_spread
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
    found = compare(dataset, scores)
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
    assert "No significant difference between m1 and m2" in of(found, "m1", "m2", "acc_orig").sentence
    drop = of(found, "m0", "m1", "drop")
    lost = [s.right_at(0) & ~s.right_at(3) for s in scores]
    assert (drop.only_a, drop.only_b) == (int((lost[0] & ~lost[1]).sum()), int((~lost[0] & lost[1]).sum()))
    assert drop.p == pytest.approx(stats.binomtest(drop.only_a, drop.only_a + drop.only_b, 0.5).pvalue)
    assert drop.p_holm == pytest.approx(holm([x.p for x in found if x.metric == "drop"])[0])
    assert drop.difference.value == pytest.approx(scores[0].drop.value - scores[1].drop.value)
    assert "m0 flickers less than m1" in drop.sentence


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_verdict_p_and_interval_never_contradict(data) -> None:
    """Any models on any videos: the interval holds 0 exactly where the corrected test does not decide."""
    videos = data.draw(st.integers(1, 14))
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=videos, max_size=videos))
    frames = [PlainFrame(video, 10 * place, {0}) for video, size in enumerate(sizes) for place in range(size)]
    world = World(1, 2, [None] * videos, frames, [PlainSet(row, []) for row in range(len(frames))])
    dataset, n = dataset_of(world), len(frames)
    base = score(dataset, ClassAnswers.from_labels("a", np.zeros(n, int)), options=QUICK)
    scores = []
    for model in range(data.draw(st.integers(2, 4))):
        rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
        skill = data.draw(st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]))
        # Whole videos and single sets differ, and some sets are unscored.
        first = np.where(rng.random(videos)[np.repeat(np.arange(videos), sizes)] < skill, 2, rng.integers(0, 3, n))
        first = np.where(rng.random(n) < 0.05, -1, first).astype(np.int32)
        scores.append(replace(base, model=f"m{model}", first_wrong=first))
    for c in compare(dataset, scores):
        if c.p_holm is None:
            continue
        found = c.difference
        sure = c.p_holm < 0.05
        assert c.sentence.startswith("No significant difference") != sure
        if found.low is None:
            assert not sure
            continue
        assert -1 <= found.low <= found.value <= found.high <= 1
        assert (found.low > 0 or found.high < 0) == sure, c
        shown = re.search(r"interval ([+−]?[0-9.]+) to ([+−]?[0-9.]+)", c.sentence).groups()
        low, high = (float(end.replace("−", "-")) for end in shown)
        assert (low > 0 or high < 0) == sure, c.sentence
        assert (float(re.search(r"p = ([0-9.e-]+) ", c.sentence)[1]) < 0.05) == sure, c.sentence


def test_the_interval_is_that_of_the_corrected_test() -> None:
    """24 images, 8 to 1: the plain test and a plain interval decide, ten pairs' correction does not."""
    gap = np.array([1] * 8 + [-1] + [0] * 15)
    p = mcnemar(8, 1)
    alone = paired_difference(gap, np.arange(24), p=p, p_holm=p, pairs=1)
    assert alone.low > 0
    among = paired_difference(gap, np.arange(24), p=p, p_holm=min(1.0, 10 * p), pairs=10)
    assert among.low <= 0 < alone.low
    assert among.high > alone.high
    assert among.value == alone.value


def test_the_interval_s_ends_by_hand() -> None:
    """At either end the shifted sums stand just at the critical value."""
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(40), 3)
    gap = rng.choice([-1, 0, 1], p=[0.1, 0.6, 0.3], size=120)
    found = paired_difference(gap, cluster, p=0.01, p_holm=0.02, pairs=2)
    for end in (found.low, found.high):
        sums = np.bincount(cluster, weights=gap - end)
        spread = np.sqrt((sums**2).sum() + 3 * (1 + end**2))
        assert abs(sums.sum()) / spread == pytest.approx(stats.norm.ppf(1 - 0.025 / 2))


def test_only_sets_scored_for_both_are_compared() -> None:
    dataset, scores = models([0.95, 0.9])
    first = scores[0].first_wrong.copy()
    first[:50] = -1
    found = compare(dataset, [replace(scores[0], first_wrong=first), scores[1]])
    c = of(found, "m0", "m1", "acc_orig")
    a, b = scores[0].right_at(0)[50:], scores[1].right_at(0)[50:]
    assert c.n_sets == 150
    assert c.difference.value == pytest.approx((a.sum() - b.sum()) / 150)
    nothing = replace(scores[0], first_wrong=np.full(200, -1, dtype=np.int32))
    c = of(compare(dataset, [nothing, scores[1]]), "m0", "m1", "acc_pmk")
    assert c.difference.value is None
    assert (c.n_sets, c.missing_sets, c.test, c.only_a, c.p) == (0, 200, "none", None, None)
    assert "so they cannot be compared" in c.sentence


def test_a_change_counts_the_sets_that_one_model_alone_holds() -> None:
    dataset, scores = models([0.99, 0.9], seed=3)
    pmk = of(compare(dataset, scores), "m0", "m1", "acc_pmk")
    forward, back = change(pmk), change(pmk, before="m1")
    assert (
        (forward.newly_broken, forward.newly_held) == (back.newly_held, back.newly_broken) == (pmk.only_a, pmk.only_b)
    )
    wanted = f"From m0 to m1: {pmk.only_b} sets newly held, {pmk.only_a} sets newly broken, of 200."
    assert forward.sentence() == wanted
    assert ", by the class of the most confident box: " in replace(forward, by_box=True).sentence()


def test_shared_videos_take_the_sign_flip_test() -> None:
    """Ten videos of four sets each, in which a beats b on all four of a few videos: sets are not independent."""
    frames = [PlainFrame(video, 10 * place, {0}) for video in range(10) for place in range(4)]
    world = World(1, 2, [None] * 10, frames, [PlainSet(row, []) for row in range(40)])
    dataset = dataset_of(world)
    a = score(dataset, ClassAnswers.from_labels("a", np.zeros(40, int)), options=QUICK)
    b = score(dataset, ClassAnswers.from_labels("b", np.repeat([1] * 3 + [0] * 7, 4)), options=QUICK)
    c = of(compare(dataset, [a, b]), "a", "b", "acc_orig")
    assert c.test == "video-level sign-flip"
    assert c.p_mcnemar == pytest.approx(2 * 0.5**12)
    assert c.p == pytest.approx(2 * 0.5**3)
    assert "No significant difference" in c.sentence


def test_models_of_different_data_are_refused() -> None:
    dataset, scores = models([0.9, 0.8])
    with pytest.raises(InvalidValue, match="each model once"):
        compare(dataset, [scores[0], scores[0]])
    with pytest.raises(InvalidValue, match="one k"):
        compare(dataset, [scores[0], replace(scores[1], k=2)])
    with pytest.raises(InvalidValue, match=r"m1 was scored on 3 sets, .* same dataset"):
        compare(dataset, [scores[0], replace(scores[1], video=np.zeros(3, np.int32))])
    assert compare(dataset, scores[:1]) == ()


def test_two_videos_cannot_decide_and_it_is_said() -> None:
    """Two videos: whatever they hold, no p-value can be below a half."""
    import strobe

    dataset = strobe.example_dataset(n_videos=2, k=3)
    right = np.full((len(dataset.frames), 2), -1.0)
    right[dataset.labels.frame, dataset.labels.label] = 1.0
    wrong = np.where(dataset.frames.index[:, None] == 0, -right, right)  # right on every anchor, wrong at offset −3
    scores = [
        score(dataset, strobe.Predictions.from_scores(name, values, kind="logits"))
        for name, values in (("steady", right), ("shaky", wrong))
    ]
    found = of(compare(dataset, scores), "steady", "shaky", "drop")
    assert found.difference.value == -1.0
    assert found.p == found.p_holm == 0.5
    assert found.difference.low <= 0 <= found.difference.high
    assert found.sentence.startswith("No significant difference"), found.sentence
    assert found.sentence.endswith("2 videos cannot give a significant result: p is at least 0.5.")


def test_the_figures_of_a_sentence_are_those_of_the_difference() -> None:
    """The sign never turns: every sentence speaks of the first model, and gives its figure minus the other's."""
    dataset, scores = models([0.9, 0.99], seed=3)
    for a, b in ((0, 1), (1, 0), (0, 0)):
        pair = [scores[a], replace(scores[b], model="other", first_wrong=np.roll(scores[b].first_wrong, a == b))]
        c = of(compare(dataset, pair), f"m{a}", "other", "acc_pmk")
        if a != b:
            assert f"m{a} is {'worse' if a == 0 else 'better'} than other in accuracy on whole sets" in c.sentence
            assert (c.difference.value < 0) == (a == 0)
        figures = [100 * one for one in (c.difference.value, c.difference.low, c.difference.high)]
        shown = re.search(r"\((\S+) points, 95 % interval (\S+) to (\S+);", c.sentence).groups()
        assert [float(one.replace("−", "-")) for one in shown] == pytest.approx(figures, abs=0.051)


def test_models_with_the_same_answers_are_named() -> None:
    dataset, (one, other) = models([0.95, 0.9])
    for c in compare(dataset, [one, other]):
        assert "same answers" not in c.sentence
    for c in compare(dataset, [one, replace(one, model="again")]):
        assert c.sentence.endswith("They give the same answers on every frame; are they the same model?")


def test_sets_that_one_model_alone_holds_are_named_flickering_ones_first() -> None:
    names = ["s0", "s1", "s2", "s3", "s4"]
    where, first = np.array([True, True, True, False, True]), np.array([0, 3, 1, 1, 2])
    assert named(names, where, first, 3) == ("s2", "s4", "s1")
    assert named(names, where, first, 9) == ("s2", "s4", "s1", "s0")
    assert named(names, ~where & False, first, 3) is None
    dataset, scores = models([0.95, 0.9], seed=3)
    unscored = scores[0].first_wrong.copy()
    unscored[:50] = -1
    scores[0] = replace(scores[0], first_wrong=unscored)
    c = of(compare(dataset, scores), "m0", "m1", "acc_pmk")
    a, b = (one.right_at(one.k) for one in scores)
    cohort = scores[0].scored & scores[1].scored
    for listed, only in ((c.sets_only_a, a & ~b & cohort), (c.sets_only_b, b & ~a & cohort)):
        ids = set(dataset.sets.set_id[only].tolist())
        assert len(listed) == min(len(ids), 20)
        assert {one for one in ids if any(one.endswith(name) for name in listed)} <= ids
        assert all(any(one.endswith(name) for one in ids) for name in listed)


def test_a_change_lists_the_sets_of_both_models_and_exists_for_whole_sets_alone() -> None:
    dataset, scores = models([0.99, 0.9], seed=3)
    found = compare(dataset, scores)
    pmk = of(found, "m0", "m1", "acc_pmk")
    assert pmk.sets_only_a
    assert pmk.sets_only_b
    forward, back = change(pmk), change(pmk, before="m1")
    assert (forward.broken, forward.held) == (back.held, back.broken) == (pmk.sets_only_a, pmk.sets_only_b)
    assert change(of(found, "m0", "m1", "acc_orig")) is None
    unchanged = replace(forward, newly_held=0, newly_broken=0)
    assert unchanged.sentence() == "From m0 to m1: no set newly held or newly broken, of 200."
    assert "0 sets newly held, 1 set newly broken" in replace(unchanged, newly_broken=1).sentence()
    assert "1 set newly held, 0 sets newly broken" in replace(unchanged, newly_held=1).sentence()


def spreads(new: ClassificationScore, old: ClassificationScore) -> dict[str, PairSpread]:
    columns = (ModelColumns(name=s.model, columns=columns_of(s), scored=s.scored) for s in (new, old))
    return {name: one.spread for name, one in losses_of(CLASSIFICATION, *columns).items() if one.spread is not None}


def test_the_spread_of_a_loss_is_that_of_the_pairs_of_sets() -> None:
    dataset, (new, old) = models([0.99, 0.9], seed=3)
    found = spreads(new, old)
    values = [{"acc_orig": s.right_at(0).astype(int), "acc_pmk": s.right_at(3).astype(int)} for s in (new, old)]
    for value in values:
        value["drop"] = value["acc_orig"] - value["acc_pmk"]
    assert list(found) == ["acc_orig", "acc_pmk", "drop"]
    for metric, spread in found.items():
        assert spread == pair_spread(values[0][metric] - values[1][metric], dataset.video_of_set)
    unscored = replace(old, first_wrong=np.full(200, -1, dtype=np.int32))
    assert spreads(new, unscored) == {}


def test_both_lists_of_sets_have_the_same_limit() -> None:
    dataset, scores = models([0.99, 0.6], seed=3)
    for both in (scores, scores[::-1]):
        c = next(c for c in compare(dataset, both) if c.metric == "acc_pmk")
        assert max(c.only_a, c.only_b) > 20
        listed = [len(names or ()) for names in (c.sets_only_a, c.sets_only_b)]
        assert listed == [min(c.only_a, 20), min(c.only_b, 20)]


def test_a_sentence_counts_the_sets_that_are_not_compared() -> None:
    dataset, scores = models([0.95, 0.9])
    assert all("; n = 200)" in c.sentence for c in compare(dataset, scores))
    first = scores[0].first_wrong.copy()
    first[:50] = -1
    found = compare(dataset, [replace(scores[0], first_wrong=first), scores[1]])
    assert all(re.search(r"; n = 150, 50 sets with.* not compared\)", c.sentence) for c in found)


@pytest.mark.parametrize(("n_models", "most"), [(1, 20), (2, 20), (14, 20), (15, 19), (20, 10), (64, 0)])
def test_many_models_list_fewer_sets_each(n_models: int, most: int) -> None:
    assert names_each(n_models) == most
