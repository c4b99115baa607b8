"""Objects of a detector without labels: what is planted into true boxes is measured, and nothing else."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import BoxAnswers, State
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.estimate import Missing
from strobe.core.tables import Hints
from strobe.studies.unlabelled.records_links import LinkScore
from strobe.studies.unlabelled.score_links import CASES, link_score


@pytest.fixture(scope="module")
def planted() -> ModuleType:
    """The script that plants faults."""
    path = Path(__file__).parents[2] / "benchmarks" / "planted_links.py"
    spec = importlib.util.spec_from_file_location("planted_links", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted_links"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def world(planted: ModuleType) -> Dataset:
    return planted.world(24, seed=5)


def scored(world: Dataset, found: BoxAnswers, options: ScoreOptions | None = None) -> LinkScore:
    score = link_score(world, found, options)
    assert isinstance(score, LinkScore)
    return score


def true_answers(world: Dataset, planted: ModuleType) -> BoxAnswers:
    return planted.plant(world, planted.Faults()).answers


def test_a_perfect_detector_has_no_events(planted: ModuleType, world: Dataset) -> None:
    """The true boxes end on whole pixels: about 0.2 pixels of the centre and 0.4 of the size (objects: 45–77 px)."""
    truth = planted.plant(world, planted.Faults())
    score = scored(world, truth.answers)
    assert score.objects == truth.tracks
    assert (score.outages, score.class_changes, score.vanished, score.cases) == (0, 0, 0, ())
    found = {name: one.value for name, one in score.measures.items()}
    assert (found["outage_seconds"], found["completeness"], found["longest_outage"]) == (0, 1, 0)
    assert 0 < found["centre_jitter"] < 0.0075
    assert 0 < found["size_jitter"] < 0.0125
    assert 0.1 < found["centre_jitter_pixels"] < 0.3


def test_boxes_on_smooth_paths_have_no_jitter(planted: ModuleType, world: Dataset) -> None:
    """The first box of every track, moved by a cubic in time: zero up to rounding, so an interval has no width."""
    answers = true_answers(world, planted)
    time = world.frames.index[answers.frame] / 31
    base = np.array([200.0, 100, 260, 180])
    xyxy = base + (40 * time**3 - 30 * time)[:, None] + np.array([0, 0, 20, 10]) * time[:, None] ** 2
    one = np.unique(answers.frame, return_index=True)[1]
    smooth = BoxAnswers.of(
        answers.frame[one], answers.label[one], xyxy[one], answers.score[one],
        n_frames=answers.n_frames, n_classes=answers.n_classes,
    )  # fmt: skip
    measures = scored(world, smooth).measures
    for name in ("centre_jitter", "size_jitter"):
        assert measures[name].value is not None
        assert measures[name].value < 1e-12


def test_planted_faults_are_recovered(planted: ModuleType, world: Dataset) -> None:
    rows = list(planted.rows(world, seed=2))
    print("\n" + planted.table(rows))
    for row in rows:
        where = (row.case, row.figure)
        if not row.figure.startswith("jitter"):
            assert row.measured.value == pytest.approx(row.realised, rel=0.1, abs=0.002), where
        elif row.planted:
            assert row.measured.value == pytest.approx(row.realised, rel=0.08), where


def test_longer_outages_count_more_whatever_their_length(planted: ModuleType, world: Dataset) -> None:
    """The middle third of every track is lost: longer than any short gap, and all of it is counted."""
    answers = true_answers(world, planted)
    lost = (world.frames.index >= 10) & (world.frames.index < 20)
    kept = ~lost[answers.frame]
    columns = {name: getattr(answers, name)[kept] for name in ("frame", "label", "xyxy", "score")}
    whole, score = scored(world, answers), scored(world, replace(answers, **columns))
    assert whole.measures["completeness"].value == 1
    assert score.measures["longest_outage"].value >= 10 / 30
    assert score.measures["completeness"].value < 0.75
    assert {one.frames for one in score.longest if one.returns} <= {10}
    assert len(score.longest) == score.outages


def test_frames_without_answers_are_no_outages(planted: ModuleType, world: Dataset) -> None:
    answers = true_answers(world, planted)
    middle = world.frames.index == 15
    kept = ~middle[answers.frame]
    state = answers.state.copy()
    state[middle] = State.MISSING
    columns = {name: getattr(answers, name)[kept] for name in ("frame", "label", "xyxy", "score")}
    score = scored(world, replace(answers, **columns, state=state))
    used = np.unique(world.sets.frame)
    assert score.missing_frames == int(middle[used].sum())
    assert score.frames == len(used) - score.missing_frames
    assert (score.outages, score.class_changes) == (0, 0)
    assert score.notes is not None
    assert score.notes[0].startswith(f"{score.missing_frames} frames have no answer")
    # The same frames, answered without a box, are outages.
    empty = scored(world, replace(answers, **columns))
    assert empty.missing_frames == 0
    assert empty.outages >= score.objects - 2


def test_lives_end_at_cuts(planted: ModuleType, world: Dataset) -> None:
    answers = true_answers(world, planted)
    label = np.where(world.frames.index[answers.frame] >= 20, (answers.label + 1) % 8, answers.label)
    switched = BoxAnswers.of(
        answers.frame, label, answers.xyxy, answers.score, n_frames=answers.n_frames, n_classes=answers.n_classes
    )
    assert scored(world, switched).class_changes > 0
    none = np.zeros(len(world.sets.set))
    index = world.frames.index[world.sets.frame]
    for first in (20, 8):  # after and before the anchor in frame 15
        cut = np.where((index >= first) if first > 15 else (index < first), 1.0, 0.0)
        hints = Hints(cut=cut, blur=none, motion=none, exposure=none, duplicate=none.astype(bool))
        score = scored(replace(world, hints=hints), switched)
        assert score.cuts == len(world.videos)
        assert (score.class_changes == 0) == (first == 20)


def test_cases_name_the_frames_around_an_event(planted: ModuleType, world: Dataset) -> None:
    faulty = planted.plant(world, planted.Faults(gap=0.6, class_change=0.6, dip=0.6), seed=4)
    score = scored(world, faulty.answers)
    assert len(score.cases) == CASES
    assert {case.kind for case in score.cases} == {"outage", "class change"}
    index = world.frames.index
    for case in score.cases:
        videos = {str(world.videos.video_id[world.frames.video[row]]) for row in (case.before, case.after)}
        assert videos == {case.video}
        assert index[case.after] - index[case.before] == case.frames + 1
        if case.during is not None:
            assert index[case.before] < index[case.during] < index[case.after]
        if case.kind == "class change":
            assert case.label_before != case.label_after
        else:
            assert case.during is not None
            assert case.score_during in (None, planted.DIP)


def test_figures_add_up(planted: ModuleType, world: Dataset) -> None:
    faulty = planted.plant(world, planted.Faults(gap=0.4, class_change=0.3, dip=0.2, jitter=0.02), seed=6)
    score = scored(world, faulty.answers)
    for name in ("objects", "vanished", "appeared", "outages", "class_changes", "frames"):
        assert sum(getattr(row, name) for row in score.videos) == getattr(score, name), name
    assert sum(row.outage_seconds for row in score.videos) == pytest.approx(score.outage_seconds)
    assert sum(one.seconds for one in score.longest) == pytest.approx(score.outage_seconds)
    rate = score.measures["outage_seconds"].value
    assert rate == pytest.approx(60 * score.outage_seconds / score.object_seconds)
    assert rate == pytest.approx(60 * (1 - score.measures["completeness"].value))
    again = decode(LinkScore, encode(score))
    assert again == score
    plain = scored(world, faulty.answers, ScoreOptions(bootstrap=False))
    assert plain.measures["centre_jitter"].value == score.measures["centre_jitter"].value
    assert plain.measures["outage_seconds"].low is None


def test_data_without_objects(planted: ModuleType, world: Dataset) -> None:
    answers = true_answers(world, planted)
    n = len(world.frames)
    none = np.zeros(0, dtype=int)
    empty = BoxAnswers.of(none, none, np.zeros((0, 4)), np.zeros(0), n_frames=n, n_classes=answers.n_classes)
    score = scored(world, empty)
    assert (score.objects, {one.value for one in score.measures.values()}) == (0, {None})
    assert score.notes == ("no box has a score of at least 0.5, so there is no object to follow",)
    unanswered = replace(empty, state=np.full(n, State.MISSING, dtype=np.uint8))
    assert isinstance(link_score(world, unanswered), Missing)
    other = replace(world, info=replace(world.info, axis="blur"))
    assert isinstance(link_score(other, answers), Missing)
    with pytest.raises(InvalidValue, match="one answer per frame"):
        link_score(world, replace(empty, state=empty.state[:-1]))
