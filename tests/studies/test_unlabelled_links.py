"""Links of a detector without labels: what is planted into true boxes is measured, and nothing else."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from strobe.core.answers import BoxAnswers, State
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.estimate import Missing
from strobe.core.tables import Hints
from strobe.metrics.links import LinkRules
from strobe.studies.unlabelled.records_links import LinkScore
from strobe.studies.unlabelled.score_links import CASES, LinkOptions, link_score


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


def scored(world: Dataset, found: BoxAnswers, options: LinkOptions | None = None) -> LinkScore:
    score = link_score(world, found, options)
    assert isinstance(score, LinkScore)
    return score


def true_answers(world: Dataset, planted: ModuleType) -> BoxAnswers:
    return planted.plant(world, planted.Faults()).answers


def test_a_perfect_detector_has_no_events(planted: ModuleType, world: Dataset) -> None:
    """The true boxes end on whole pixels: about 0.2 pixels of the centre and 0.4 of the size (objects: 45–77 px)."""
    truth = planted.plant(world, planted.Faults())
    score = scored(world, truth.answers)
    assert score.links == score.shares.links == truth.tracks
    assert (score.gaps, score.class_changes, score.crossings, score.cases) == (0, 0, 0, ())
    assert isinstance(score.gap_lengths, Missing)
    shares = score.shares
    for share in (shares.gaps, shares.class_changes, shares.crossings, shares.interrupted, shares.missing):
        assert share.value == share.low == 0
        assert share.high is not None
        assert share.high < 0.25
    assert shares.centre_jitter.value is not None
    assert shares.size_jitter.value is not None
    assert 0 < shares.centre_jitter.value < 0.0075
    assert 0 < shares.size_jitter.value < 0.0125


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
    shares = scored(world, smooth).shares
    for jitter in (shares.centre_jitter, shares.size_jitter):
        assert jitter.value is not None
        assert jitter.value < 1e-12


def test_planted_faults_are_recovered(planted: ModuleType, world: Dataset) -> None:
    rows = list(planted.rows(world, seed=2))
    print("\n" + planted.table(rows))
    for row in rows:
        where = (row.case, row.figure)
        low, high = row.measured.low, row.measured.high
        assert low is not None
        assert high is not None
        assert low <= row.realised <= high, where
        if not row.figure.startswith("jitter"):
            assert row.measured.value == pytest.approx(row.realised, abs=0.045), where  # two of the 45 tracks
        elif row.planted:
            assert row.measured.value == pytest.approx(row.realised, rel=0.08), where
    shares = [row for row in rows if not row.figure.startswith("jitter")]
    assert sum(row.covered for row in shares) >= len(shares) - 3  # the probabilities themselves, 95 % of the time


def test_intervals_cover_the_planted_probabilities(planted: ModuleType, world: Dataset) -> None:
    faults = planted.Faults(gap=0.3, class_change=0.2, dip=0.25, jitter=0.02)
    values, covered = [], []
    for seed in range(20):
        answers = planted.plant(world, faults, seed=seed).answers
        shares = scored(world, answers, LinkOptions(bootstrap=False)).shares
        found = (shares.gaps, shares.class_changes, shares.crossings)
        values.append([share.value for share in found])
        covered.append(
            [share.low <= rate <= share.high for share, rate in zip(found, (0.3, 0.2, 0.25), strict=True)]  # type: ignore[operator]
        )
    assert np.mean(values, axis=0) == pytest.approx([0.3, 0.2, 0.25], abs=0.045)  # three standard errors
    assert (np.sum(covered, axis=0) >= 17).all()


def test_a_gap_that_is_longer_than_allowed_starts_a_new_link(planted: ModuleType, world: Dataset) -> None:
    faulty = planted.plant(world, planted.Faults(gap=1.0), seed=3)
    strict = scored(world, faulty.answers, LinkOptions(rules=LinkRules(max_gap=0)))
    assert strict.gaps == 0
    assert strict.links == 2 * faulty.tracks
    lenient = scored(world, faulty.answers)
    assert lenient.links <= faulty.tracks + 2
    assert not isinstance(lenient.gap_lengths, Missing)
    assert lenient.gap_lengths.longest_frames == 3


def test_frames_without_answers_are_no_gaps(planted: ModuleType, world: Dataset) -> None:
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
    assert (score.gaps, score.class_changes) == (0, 0)
    assert score.notes is not None
    assert score.notes[0].startswith(f"{score.missing_frames} frames have no answer")
    # The same frames, answered without a box, are gaps.
    empty = scored(world, replace(answers, **columns))
    assert empty.missing_frames == 0
    assert empty.gaps >= score.links // 2 - 2


def test_links_end_at_cuts(planted: ModuleType, world: Dataset) -> None:
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
    assert [case.sure for case in score.cases] == sorted((case.sure for case in score.cases), reverse=True)
    assert {case.kind for case in score.cases} == {"gap", "class change", "crossing"}
    index = world.frames.index
    for case in score.cases:
        videos = {str(world.videos.video_id[world.frames.video[row]]) for row in (case.before, case.after)}
        assert videos == {case.video}
        assert index[case.after] - index[case.before] == case.frames + 1
        if case.during is not None:
            assert index[case.before] < index[case.during] < index[case.after]
        if case.kind == "class change":
            assert case.label_before != case.label_after
        elif case.kind == "gap":
            assert case.during is not None
            assert case.score_during is None
        else:
            assert case.score_during == planted.DIP


def test_figures_add_up(planted: ModuleType, world: Dataset) -> None:
    faulty = planted.plant(world, planted.Faults(gap=0.4, class_change=0.3, dip=0.2, jitter=0.02), seed=6)
    score = scored(world, faulty.answers)
    assert sum(row.gaps for row in score.videos) == score.gaps
    assert sum(row.class_changes for row in score.videos) == score.class_changes
    assert sum(row.crossings for row in score.videos) == score.crossings
    assert sum(row.links for row in score.videos) == score.shares.links == sum(c.shares.links for c in score.by_length)
    assert sum(row.with_gap for row in score.videos) == score.shares.gaps.count
    assert sum(row.frames for row in score.videos) == score.frames
    assert score.shares.interrupted.count is not None
    assert score.shares.interrupted.count >= (score.shares.gaps.count or 0)
    again = decode(LinkScore, encode(score))
    assert again == score
    plain = scored(world, faulty.answers, LinkOptions(bootstrap=False))
    assert plain.shares.centre_jitter.value == score.shares.centre_jitter.value
    assert plain.shares.missing.low is None


def test_data_without_links(planted: ModuleType, world: Dataset) -> None:
    answers = true_answers(world, planted)
    n = len(world.frames)
    none = np.zeros(0, dtype=int)
    empty = BoxAnswers.of(none, none, np.zeros((0, 4)), np.zeros(0), n_frames=n, n_classes=answers.n_classes)
    score = scored(world, empty)
    assert (score.links, score.shares.gaps.value, score.one_frame.value) == (0, None, None)
    assert score.notes == ("no link has 3 frames, so gaps cannot be measured",)
    unanswered = replace(empty, state=np.full(n, State.MISSING, dtype=np.uint8))
    assert isinstance(link_score(world, unanswered), Missing)
    other = replace(world, info=replace(world.info, axis="blur"))
    assert isinstance(link_score(other, answers), Missing)
    with pytest.raises(InvalidValue, match="one answer per frame"):
        link_score(world, replace(empty, state=empty.state[:-1]))
