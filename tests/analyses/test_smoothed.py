"""Smoothing by hand: rejected frames are in the window, gaps are not neighbours, only accepted frames are judged."""

from dataclasses import replace

import numpy as np
import pytest

from strobe.analyses.classification import score
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.derivation import reviewed
from strobe.core.labels import LabelSpace
from strobe.core.records import Verdict
from vid_shaped import dataset_of, predictions_of, random_scores, vid_world


def strip(*, missing: tuple[int, ...] = ()) -> Dataset:
    """One anchor at index 3 of seven frames, in two videos alike; `missing` indices are not in the dataset."""
    grown = DatasetBuilder()
    for name in ("a", "b"):
        video = grown.video(video_id=frame_list_digest([name]), name=name)
        rows = {
            index: grown.frame(video=video, index=index, key=f"{name}/{index}", labels=[0])
            for index in range(7)
            if index not in missing
        }
        members = [(row, index - 3) for index, row in rows.items() if index != 3]
        grown.set(set_id=name, anchor=rows[3], members=members)
    return grown.build(DatasetInfo(name="strip", label_space=LabelSpace.of_names("two", ("no", "yes")), k=3))


def probabilities(dataset: Dataset, right: list[float]) -> ClassAnswers:
    """The probability of the right class (0) by frame index, the same in both videos."""
    p = np.array([right[index] for index in dataset.frames.index.tolist()])
    return ClassAnswers.from_scores("m", np.stack([p, 1 - p], axis=1), kind="probabilities")


def outcome(dataset: Dataset, predictions: ClassAnswers, method: str, parameter: float) -> tuple[float, float, float]:
    options = ScoreOptions(bootstrap=False, windows=(1, 2), alphas=(0.5,))
    found = score(dataset, predictions, options=options)
    part = next(one for one in found.smoothing if (one.method, one.parameter) == (method, parameter))
    assert part.acc_orig.value is not None
    assert part.acc_pmk.value is not None
    return part.acc_orig.value, part.acc_pmk.value, part.incomplete


def vote(dataset: Dataset, number: int, index: int, decision: str) -> Verdict:
    row = next(r for r in range(len(dataset.frames)) if dataset.frames.key[r] == f"{'ab'[number]}/{index}")
    return Verdict(
        verdict_id=f"{number}-{index}", annotator="ann", at="2026-01-01T00:00:00Z", stage="pair",
        set_id="ab"[number], frame_id=dataset.frame_ids()[row], decision=decision,  # type: ignore[arg-type]
    )  # fmt: skip


def test_rejected_frames_are_in_the_window_but_not_judged() -> None:
    candidates = strip()
    votes = tuple(
        vote(candidates, number, index, "dissimilar" if index == 5 else "similar")
        for number in (0, 1)
        for index in (0, 1, 2, 4, 5, 6)
    )
    dataset = reviewed(replace(candidates, verdicts=votes))
    assert len(dataset.sets.frame) == 12, "index 5 was rejected in both sets"
    steady = [0.9, 0.9, 0.9, 0.9, 0.4, 0.9, 0.9]
    assert outcome(dataset, probabilities(dataset, steady), "none", 0)[:2] == (1.0, 0.0)
    # (0.9 + 0.4 + 0.9) / 3 is above one half only with the rejected frame at index 5 in the window.
    assert outcome(dataset, probabilities(dataset, steady), "centred", 1)[:2] == (1.0, 1.0)
    worse = [0.9, 0.9, 0.6, 0.6, 0.4, 0.1, 0.9]
    assert outcome(dataset, probabilities(dataset, worse), "centred", 1)[:2] == (1.0, 0.0)
    # Index 5 itself is wrong after smoothing, (0.9 + 0.1 + 0.1) / 3, and nobody asks.
    only_it = [0.9, 0.9, 0.9, 0.9, 0.9, 0.0, 0.55]
    assert outcome(dataset, probabilities(dataset, only_it), "none", 0)[:2] == (1.0, 1.0)


def test_a_gap_is_no_neighbour() -> None:
    dataset = strip(missing=(4,))
    # Index 5 is alone with 6: (0.3 + 0.6) / 2 fails; taking 3 for its neighbour would give (0.9 + 0.3 + 0.6) / 3.
    wrong = [0.9, 0.9, 0.9, 0.9, 0.0, 0.3, 0.6]
    orig, perturbed, incomplete = outcome(dataset, probabilities(dataset, wrong), "centred", 1)
    assert (orig, perturbed) == (1.0, 0.0)
    assert incomplete == pytest.approx(4 / 6), "both ends, and both sides of the gap"
    # The exponential average weighs a frame after a gap of two by 1 − ½² = ¾.
    edge = [1.0, 1.0, 1.0, 1.0, 0.0, 0.3, 1.0]
    assert outcome(dataset, probabilities(dataset, edge), "ema", 0.5)[:2] == (1.0, 0.0)
    assert 0.25 * 1.0 + 0.75 * 0.3 < 0.5 < 0.5 * 1.0 + 0.5 * 0.3


def test_an_answer_outside_the_classes_weighs_like_any_other() -> None:
    dataset = strip()
    given = probabilities(dataset, [0.9] * 7)

    def outside(*places: int) -> ClassAnswers:
        marked = np.isin(dataset.frames.index, places)
        return ClassAnswers.from_scores("m", given.scores, kind="probabilities", outside=marked)  # type: ignore[arg-type]

    assert outcome(dataset, outside(4), "none", 0)[:2] == (1.0, 0.0)
    assert outcome(dataset, outside(4), "centred", 1)[:2] == (1.0, 1.0), "its neighbours have 1.8 of 3"
    assert outcome(dataset, outside(4, 5), "centred", 1)[:2] == (1.0, 0.0), "of 3, 4, 5 two are outside"
    assert outcome(dataset, outside(*range(7)), "centred", 2)[:2] == (0.0, 0.0), "no class comes of nothing"
    covered = score(dataset, outside(4, 5), options=ScoreOptions(bootstrap=False)).coverage
    assert covered is not None
    assert (covered.count, covered.n) == (10, 14)
    assert score(dataset, given, options=ScoreOptions(bootstrap=False)).coverage is None


def test_a_missing_frame_adds_nothing_to_any_class() -> None:
    dataset = strip(missing=(4,))
    given = probabilities(dataset, [0.9, 0.9, 0.6, 0.9, 0.0, 0.9, 0.9])
    marked = ClassAnswers.from_scores(
        "m", given.scores, kind="probabilities", outside=dataset.frames.index == 3  # type: ignore[arg-type]
    )  # fmt: skip
    # The window of the anchor has 0.6 for the right class, 1 for an answer outside the classes, and a missing frame.
    assert outcome(dataset, marked, "centred", 1)[0] == 0.0
    assert outcome(dataset, marked, "centred", 2)[0] == 1.0


@pytest.mark.parametrize("labels_only", [False, True])
def test_blocks_of_sets_and_strips_change_nothing(labels_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    world = vid_world(rng, n_sets=9, k=4, n_classes=3, n_frames=70)
    dataset, answers = dataset_of(world), predictions_of("m", random_scores(rng, world, 0.6))
    if labels_only:
        answers = ClassAnswers.from_labels("m", answers.label)
    options = ScoreOptions(bootstrap=False, control_seeds=1)
    whole = score(dataset, answers, options=options).smoothing
    assert len({part.acc_pmk.count for part in whole}) > 1
    assert (whole[0].method, whole[0].incomplete, whole[0].delay_frames) == ("none", 0.0, 0)
    for name, size in (("_CELLS", 1), ("_CELLS", 20), ("_VALUES", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(f"strobe.analyses.times.{name}", size)
            assert score(dataset, answers, options=options).smoothing == whole


def test_a_centred_window_needs_later_frames_that_no_causal_window_needs() -> None:
    candidates = strip()
    votes = tuple(
        vote(candidates, number, index, "dissimilar" if index >= 5 else "similar")
        for number in (0, 1)
        for index in (0, 1, 2, 4, 5, 6)
    )
    dataset = reviewed(replace(candidates, verdicts=votes))
    given = probabilities(dataset, [0.9, 0.9, 0.55, 0.55, 0.55, 0.0, 0.0])
    assert outcome(dataset, given, "causal", 2)[:2] == (1.0, 1.0)
    # At index 4, the rejected frames 5 and 6 outweigh the frames 2, 3 and 4.
    assert outcome(dataset, given, "centred", 2)[:2] == (1.0, 0.0)
