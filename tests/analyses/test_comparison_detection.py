"""Two detectors on the same sets: the paired jackknife against a plain one, and the sets they part on."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from strobe.analyses.comparison import change, compare
from strobe.analyses.detection import has_boxes, score
from strobe.analyses.detection_parts import Curves, class_figures, map_figures
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.scoring import box_sets, set_facts
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.metrics.detection.jackknife import NO_SPREAD, ap_of_class, drop_between
from strobe.metrics.intervals import nothing
from strobe.studies.detection.records import DetectionOptions

HOW = ScoreOptions(bootstrap=False)
AREAS = DetectionOptions(interpolation="voc-all-points")
"""As the jackknife measures spread: COCO's 101 recalls jump in steps."""


def detector(dataset: Dataset, zoo, *, misses: float, seed: int) -> BoxAnswers:
    """The truth, some of it not found."""
    rng = np.random.default_rng(seed)
    answers = {row: [one for one in boxes if rng.random() > misses] for row, boxes in zoo.perfect(dataset).items()}
    return zoo.table(dataset, answers)


@pytest.fixture
def pair(zoo):
    dataset = zoo.dataset(n_videos=24, k=2)
    made = [detector(dataset, zoo, misses=share, seed=seed) for seed, share in enumerate((0.3, 0.02))]
    return dataset, made, [score(dataset, one, model=name, how=HOW)
                           for one, name in zip(made, ("start", "trained"), strict=True)]  # fmt: skip


def test_the_difference_has_the_interval_of_values_without_each_video(pair) -> None:
    dataset, made, scores = pair
    found = compare(dataset, scores)
    assert [one.metric for one in found] == ["map_orig", "map_pmk", "map_drop"]
    names = dataset.videos.name.tolist()
    for place, one in enumerate(found):
        whole = scores[0].headline[place].value - scores[1].headline[place].value
        assert one.difference.value == pytest.approx(whole)
        gaps = []
        for gone in names:
            # The chosen frame of a set does not hang on other videos, so leaving one out is scoring the rest.
            rest = dataset.only_videos([name for name in names if name != gone])
            kept = [score(rest, answers, model="m", options=AREAS, how=HOW).headline[place].value for answers in made]
            gaps.append(kept[0] - kept[1])
        spread = np.sqrt((len(gaps) - 1) / len(gaps) * ((np.array(gaps) - np.mean(gaps)) ** 2).sum())
        reach = stats.t.ppf(0.975, len(gaps) - 1) * spread
        assert one.difference.low == pytest.approx(whole - reach)
        assert one.difference.high == pytest.approx(whole + reach)
        assert one.p == pytest.approx(2 * stats.t.sf(abs(whole) / spread, len(gaps) - 1))
        assert (one.difference.low <= 0 <= one.difference.high) == (one.p_holm >= 0.05)
    assert "start is worse than trained in mAP on the worst frames" in found[1].sentence


def test_sets_are_counted_and_named_by_whether_ap_falls(pair) -> None:
    dataset, made, scores = pair
    whole = compare(dataset, scores)[1]
    facts = set_facts(dataset)
    tables = [box_sets(dataset, facts, boxes, one) for boxes, one in zip(made, scores, strict=True)]
    held = [set(facts.columns["set"][one.row][one.columns["holds"]].tolist()) for one in tables]
    assert (whole.only_a, whole.only_b) == (len(held[0] - held[1]), len(held[1] - held[0]))
    assert set(whole.sets_only_b or ()) <= held[1] - held[0]
    assert whole.only_b
    told = change(whole)
    assert told is not None
    assert told.sentence().endswith(
        "newly broken, of 24 (held: AP is above 0 on the anchor, and no frame has a lower AP)."
    )
    for one, table in zip(scores, tables, strict=True):
        broken = ~table.columns["holds"]
        assert np.array_equal(table.columns["ap_chosen"] < table.columns["ap_anchor"],
                              np.array([row.status == "breaks" for row in one.chosen_frames]))  # fmt: skip
        assert np.array_equal(~np.isnan(table.columns["first_wrong_distance"]), broken)
        assert np.array_equal(table.columns["anchor_right"], table.columns["ap_anchor"] > 0)
        assert np.array_equal(table.columns["first_wrong_distance"] == 0, ~table.columns["anchor_right"])
        assert (table.columns["ap_anchor"][broken] > table.columns["ap_chosen"][broken]).sum() == one.errors.failing


def test_a_row_of_a_detector_says_where_it_first_fails_and_what_it_said(zoo) -> None:
    dataset = zoo.dataset(k=2)  # frame 5·v + 2 is the anchor of video v
    answers = zoo.perfect(dataset)
    answers[3] = [(1, answers[3][0][1], 0.7), (0, answers[3][0][1], 0.6)]  # nearer, and less low than
    answers[0] = []  # the worst of the first set, two frames away
    answers[7] = [(2, answers[7][0][1], 0.4)]  # the anchor of the second
    answers[13] = [(0, answers[13][0][1], 0.8)]
    made = zoo.table(dataset, answers)
    found = box_sets(dataset, set_facts(dataset), made, score(dataset, made, model="m", how=HOW))
    columns = found.columns
    assert columns["anchor_right"].tolist() == [True, False, True, True]
    assert columns["holds"].tolist() == [False, False, False, True]
    assert columns["first_wrong_distance"][:3].tolist() == [1.0, 0.0, 1.0]
    assert np.isnan(columns["first_wrong_distance"][3])
    assert columns["chosen_distance"].tolist() == [-2.0, 0.0, 1.0, 0.0]
    names = [*dataset.info.label_space.names, "no box"]
    said = found.names["worst_answer"][columns["worst_answer"]].tolist()
    assert said == ["no box", names[2], names[0], names[0]]
    assert np.isnan(columns["worst_confidence"][0])
    assert columns["worst_confidence"][1:3].tolist() == pytest.approx([0.4, 0.8])


def test_few_videos_have_no_interval_and_missing_answers_no_comparison(zoo) -> None:
    dataset = zoo.dataset(n_videos=4, k=2)
    made = [detector(dataset, zoo, misses=0.3, seed=seed) for seed in range(2)]
    few = compare(dataset, [score(dataset, one, model=f"m{i}", how=HOW)
                                      for i, one in enumerate(made)])  # fmt: skip
    assert few[0].difference.low is None
    assert few[0].p is None
    assert few[1].only_a is not None
    assert "needs at least ten" in (few[0].difference.reason or "")
    assert has_boxes(dataset)
    assert not has_boxes(zoo.dataset(n_videos=4, boxes=False))


def test_detectors_scored_on_other_sets_are_not_compared_and_the_missing_are_counted(pair) -> None:
    dataset, _, (one, two) = pair
    lacking = [replace(score, unscored=replace(score.unscored, sets=many)) for score, many in ((one, 1), (two, 3))]
    for found in compare(dataset, lacking):
        assert (found.n_sets, found.missing_sets, found.p) == (0, 3, None)
        assert (found.a, found.b) == ("start", "trained")
        assert "lacks answers" in found.difference.reason
    for scores in ([lacking[0], two], [one, lacking[1]]):
        assert [found.p for found in compare(dataset, scores)] == [None] * 3


def test_settings_say_how_many_draws_there_were() -> None:
    assert AREAS.settings(ScoreOptions(replicates=70), 2).replicates == 70
    assert AREAS.settings(HOW, 2).replicates == 0


def test_with_several_pairs_each_interval_has_the_level_that_holm_leaves_it(zoo) -> None:
    dataset = zoo.dataset(n_videos=24, k=2)
    scores = [
        score(dataset, detector(dataset, zoo, misses=misses, seed=seed), model=f"m{seed}", options=AREAS, how=HOW)
        for seed, misses in enumerate((0.02, 0.1, 0.4))
    ]
    found = [one for one in compare(dataset, scores) if one.metric == "map_orig"]
    for one, (a, b) in zip(found, ((0, 1), (0, 2), (1, 2)), strict=True):
        gap = scores[a].without[0] - scores[b].without[0]
        error = np.sqrt(23 / 24 * ((gap - gap.mean()) ** 2).sum())
        reach = stats.t.ppf(1 - 0.025 * one.p / one.p_holm, 23) * error
        assert one.difference.high - one.difference.value == pytest.approx(reach)
    assert len({round(one.p_holm / one.p) for one in found if one.p_holm < 1}) > 1


def test_where_map_of_one_is_unknown_nothing_is_compared(pair) -> None:
    dataset, _, (one, two) = pair
    found = compare(dataset, [replace(one, map_orig=nothing("no object")), two])[0]
    assert (found.a, found.n_sets, found.p, found.difference.value) == ("start", 0, None, None)


def test_the_drop_of_a_class_joins_its_ends_at_the_first_and_the_last_level() -> None:
    rng = np.random.default_rng(0)
    without = 0.5 + 0.01 * rng.standard_normal((3, 1, 30))
    ap, videos = np.array([[0.6, 0.5, 0.4]]), np.full((1, 3), 30)
    curves = Curves(ap=ap, without=without, videos=videos, effective=30.0, effective_of_class=np.full((1, 3), 30.0))
    before, after, drop = class_figures(curves, 0, n=(30, 29))
    assert before == ap_of_class(0.6, without[0, 0], videos=30, n=30)
    assert after == ap_of_class(0.4, without[2, 0], videos=30, n=29)
    assert drop == drop_between(before, after, without[0, 0], without[2, 0], n=30)


def test_a_detector_without_map_is_not_compared_on_either_side(pair) -> None:
    dataset, _, (one, two) = pair
    unknown = replace(two, map_orig=nothing("no object"))
    for scores in ([one, unknown], [unknown, one]):
        assert compare(dataset, scores)[0].n_sets == 0


def test_two_equal_detectors_have_no_spread(pair) -> None:
    dataset, _, (one, _) = pair
    for found in compare(dataset, [one, replace(one, model="again")]):
        assert (found.difference.value, found.difference.low, found.difference.reason) == (0.0, None, NO_SPREAD)


def test_map_at_k_is_the_last_point_of_the_curve() -> None:
    rng = np.random.default_rng(0)
    ap, videos = np.array([[0.9, 0.7, 0.6, 0.4], [0.8, 0.7, 0.5, 0.1]]), np.full((2, 4), 30)
    without = ap.T[:, :, None] + 0.01 * rng.standard_normal((4, 2, 30))
    curves = Curves(ap=ap, without=without, videos=videos, effective=30.0, effective_of_class=np.full((2, 4), 30.0))
    found = map_figures(curves, n=60)
    assert [point.map.value for point in found.curve] == pytest.approx([0.85, 0.7, 0.55, 0.25])
    assert (found.map_orig, found.map_pmk) == (found.curve[0].map, found.curve[-1].map)
    assert found.drop.value == pytest.approx(0.6)


def test_no_more_than_twenty_sets_are_listed_for_either_detector(zoo) -> None:
    dataset = zoo.dataset(n_videos=24, k=1)
    good, bad = (
        score(dataset, detector(dataset, zoo, misses=misses, seed=0), model=f"{misses:g}", how=HOW)
        for misses in (0.0, 0.9)
    )
    for pair in ((good, bad), (bad, good)):
        found = compare(dataset, pair)[1]
        assert sorted((found.only_a, found.only_b)) == [0, max(found.only_a, found.only_b)]
        assert max(found.only_a, found.only_b) > 20
        assert len((found.sets_only_a or ()) + (found.sets_only_b or ())) == 20


def test_a_p_value_too_small_for_a_number_has_the_interval_of_all_pairs(zoo) -> None:
    dataset = zoo.dataset(n_videos=60, k=1)
    one = score(dataset, zoo.table(dataset, zoo.perfect(dataset)), model="one", how=HOW)
    spread = 1e-8 * np.tile([1.0, -1.0], 30)
    poor = replace(one, model="poor", map_orig=replace(one.map_orig, value=0.0), without=np.stack([spread, spread]))
    good = replace(one, without=np.ones((2, 60)))
    found = compare(dataset, [good, poor])[0]
    reach = stats.t.ppf(0.975, 59) * np.sqrt(59 / 60 * (spread**2).sum())
    assert (found.p, found.p_holm, found.difference.value) == (0.0, 0.0, 1.0)
    assert found.difference.high - 1 == pytest.approx(reach)
