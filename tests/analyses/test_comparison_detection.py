"""Two detectors on the same sets: the paired jackknife against a plain one, and the sets they part on."""

import numpy as np
import pytest
from scipy import stats

from strobe.analyses.comparison import change
from strobe.analyses.comparison_detection import compare_detectors
from strobe.analyses.detection import DetectionOptions, has_boxes, score
from strobe.analyses.per_set import box_sets, set_facts
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset

OPTIONS = DetectionOptions(bootstrap=False)
AREAS = DetectionOptions(bootstrap=False, interpolation="voc-all-points")
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
    return dataset, made, [score(dataset, one, model=name, options=OPTIONS)
                           for one, name in zip(made, ("start", "trained"), strict=True)]  # fmt: skip


def test_the_difference_has_the_interval_of_values_without_each_video(pair) -> None:
    dataset, made, scores = pair
    found = compare_detectors(dataset, scores)
    assert [one.metric for one in found] == ["map_orig", "map_pmk", "map_drop"]
    names = dataset.videos.name.tolist()
    for place, one in enumerate(found):
        whole = scores[0].headline[place].value - scores[1].headline[place].value
        assert one.difference.value == pytest.approx(whole)
        gaps = []
        for gone in names:
            # The chosen frame of a set does not hang on other videos, so leaving one out is scoring the rest.
            rest = dataset.only_videos([name for name in names if name != gone])
            kept = [score(rest, answers, model="m", options=AREAS).headline[place].value for answers in made]
            gaps.append(kept[0] - kept[1])
        spread = np.sqrt((len(gaps) - 1) / len(gaps) * ((np.array(gaps) - np.mean(gaps)) ** 2).sum())
        reach = stats.t.ppf(0.975, len(gaps) - 1) * spread
        assert one.difference.low == pytest.approx(whole - reach)
        assert one.difference.high == pytest.approx(whole + reach)
        assert one.p == pytest.approx(2 * stats.t.sf(abs(whole) / spread, len(gaps) - 1))
        assert (one.difference.low <= 0 <= one.difference.high) == (one.p_holm >= 0.05)
    assert "trained is better than start in mAP on the worst frames" in found[1].sentence


def test_sets_are_counted_and_named_by_whether_ap_falls(pair) -> None:
    dataset, _, scores = pair
    whole = compare_detectors(dataset, scores)[1]
    facts = set_facts(dataset)
    tables = [box_sets(dataset, facts, one.model, one) for one in scores]
    held = [set(facts.columns["set"][one.row][one.columns["holds"]].tolist()) for one in tables]
    assert (whole.only_a, whole.only_b) == (len(held[0] - held[1]), len(held[1] - held[0]))
    assert set(whole.sets_only_b or ()) <= held[1] - held[0]
    assert whole.only_b
    told = change(whole)
    assert told is not None
    assert told.sentence().endswith("newly broken, of 24 (held: AP nowhere below the anchor's).")
    for one, table in zip(scores, tables, strict=True):
        broken = ~table.columns["holds"]
        assert np.array_equal(table.columns["ap_chosen"] < table.columns["ap_anchor"],
                              np.array([row.status == "breaks" for row in one.chosen_frames]))  # fmt: skip
        assert (table.columns["ap_anchor"][broken] > table.columns["ap_chosen"][broken]).sum() == one.errors.failing


def test_few_videos_have_no_interval_and_missing_answers_no_comparison(zoo) -> None:
    dataset = zoo.dataset(n_videos=4, k=2)
    made = [detector(dataset, zoo, misses=0.3, seed=seed) for seed in range(2)]
    few = compare_detectors(dataset, [score(dataset, one, model=f"m{i}", options=OPTIONS)
                                      for i, one in enumerate(made)])  # fmt: skip
    assert few[0].difference.low is None
    assert few[0].p is None
    assert few[1].only_a is not None
    assert "no interval below ten" in (few[0].difference.reason or "")
    assert has_boxes(dataset)
    assert not has_boxes(zoo.dataset(n_videos=4, boxes=False))
