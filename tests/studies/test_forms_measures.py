"""The measures of a pair of models against plain loops over frames and sets."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from strobe.analyses.measures import figure, measures_of
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.studies.forms.measures import FormPair
from vid_shaped import PlainFrame, PlainSet, World, dataset_of


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, list[int], list[int], list[bool]]:
    """Small worlds with overlapping sets, the answers of two forms, and which frames the second form answered."""
    n_videos, frames, sets = draw(st.integers(1, 3)), [], []
    for video in range(n_videos):
        start, length = len(frames), draw(st.integers(1, 6))
        frames += [PlainFrame(video, index, {draw(st.integers(0, 2))}, None, "P") for index in range(length)]
        for anchor in draw(st.sets(st.integers(0, length - 1), min_size=1, max_size=3)):
            near = [(start + at, float(at - anchor)) for at in range(length) if at != anchor and abs(at - anchor) <= 2]
            sets.append(PlainSet(start + anchor, near))
    many = len(frames)
    old, new = (draw(st.lists(st.integers(0, 2), min_size=many, max_size=many)) for _ in range(2))
    return (
        World(2, 3, [None] * n_videos, frames, sets, "frame"),
        old,
        new,
        draw(st.lists(st.booleans(), min_size=many, max_size=many)),
    )


@settings(max_examples=80, deadline=None)
@given(worlds())
def test_every_column_is_that_of_a_plain_loop(made: tuple[World, list[int], list[int], list[bool]]) -> None:
    world, old, new, known = made
    plan = Plan(dataset_of(world), ScoreOptions())
    answers = [
        ClassAnswers.from_labels("old", np.array(old)),
        ClassAnswers.from_labels("new", np.array(new), scored=np.array(known)),
    ]
    columns = FormPair(plan, *answers).columns
    assert list(columns) == [one.name for one in measures_of("forms")[:6]]
    was = [label in frame.labels for label, frame in zip(old, world.frames, strict=True)]
    now = [label in frame.labels for label, frame in zip(new, world.frames, strict=True)]
    members = [sorted({one.anchor, *(row for row, _ in one.members)}) for one in world.sets]
    used = sorted({row for rows in members for row in rows if known[row]})
    whole = [rows for rows in members if all(known[row] for row in rows)]
    held = [(all(was[row] for row in rows), all(now[row] for row in rows)) for rows in whole]
    assert columns["negative_flips"].n == len(used)
    assert columns["negative_flip_sets"].n == len(whole)
    expected = {
        "negative_flips": sum(was[row] and not now[row] for row in used),
        "positive_flips": sum(now[row] and not was[row] for row in used),
        "changed": sum(old[row] != new[row] for row in used),
        "negative_flip_sets": sum(a and not b for a, b in held),
        "positive_flip_sets": sum(b and not a for a, b in held),
        "changed_sets": sum(any(old[row] != new[row] for row in rows) for rows in whole),
    }
    for name, column in columns.items():
        assert int(column.total[column.measured].sum()) == expected[name], name
    video = [world.frames[row].video for row in used]
    column = columns["changed"]
    assert sorted(column.video[column.measured].tolist()) == sorted(video)


def _world(labels: list[set[int]]) -> World:
    frames = [PlainFrame(0, index, label, None, "P") for index, label in enumerate(labels)]
    return World(1, 3, [None], frames, [PlainSet(1, [(0, -1.0), (2, 1.0)])], "frame")


def test_without_labels_only_changes_are_measured() -> None:
    plan = Plan(dataset_of(_world([set(), set(), set()])), ScoreOptions())
    old, new = (ClassAnswers.from_labels("m", np.array(one)) for one in ([0, 0, 0], [0, 1, 0]))
    assert list(FormPair(plan, old, new).columns) == ["changed", "changed_sets"]
    changed = next(one for one in measures_of("forms") if one.name == "changed")
    assert figure(changed, FormPair(plan, old, new)).value == 1 / 3
    lost = next(one for one in measures_of("forms") if one.name == "negative_flips")
    assert figure(lost, FormPair(plan, old, new)).reason == "no frame has a label, or a plan drew the sets with one"


def test_labels_that_a_plan_drew_count_no_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(dataset_of(_world([{0}, {0}, {0}])), ScoreOptions())
    pair = [ClassAnswers.from_labels("m", np.array(labels)) for labels in ([0, 0, 0], [0, 1, 0])]
    assert "negative_flips" in FormPair(plan, *pair).columns
    monkeypatch.setattr("strobe.studies.forms.measures.is_planned", lambda _: True)
    assert list(FormPair(plan, *pair).columns) == ["changed", "changed_sets"]


def test_objects_are_lost_found_relabelled_and_moved() -> None:
    plan = Plan(dataset_of(_world([{0}, {0}, {0}])), ScoreOptions())

    def boxes(rows: list[tuple[int, int, float]]) -> BoxAnswers:
        frame, label, left = (np.array(column) for column in zip(*rows, strict=True))
        xyxy = np.stack([left, left * 0, left + 20, left * 0 + 20], axis=1)
        return BoxAnswers.of(frame, label, xyxy, np.full(len(frame), 0.9), n_frames=3, n_classes=3)

    columns = FormPair(
        plan,
        boxes([(0, 0, 0.0), (1, 0, 0.0), (2, 0, 0.0), (2, 0, 50.0)]),
        boxes([(0, 1, 0.0), (1, 0, 3.0), (2, 0, 0.0), (0, 0, 50.0)]),
    ).columns
    assert {name: (int(one.total.sum()), one.n) for name, one in columns.items()} == {
        "objects_lost": (1, 4),
        "objects_found": (1, 4),
        "objects_relabelled": (1, 3),
        "objects_moved": (1, 3),
    }


def test_a_classifier_and_a_detector_have_no_columns() -> None:
    plan = Plan(dataset_of(_world([{0}, {0}, {0}])), ScoreOptions())
    boxes = BoxAnswers.of_frames([None, None, None], n_classes=3)
    assert FormPair(plan, ClassAnswers.from_labels("m", np.zeros(3, dtype=int)), boxes).columns == {}
