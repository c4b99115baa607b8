"""What boxes say of a frame, held against slow and plain references."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.answers import BoxAnswers, State
from strobe.core.boxed import BoxChoice, classes_of, picked
from strobe.core.errors import InvalidValue
from strobe.core.tables import Boxes

CLASSES = 3
boxes_of_a_frame = st.lists(
    st.tuples(st.integers(-3, CLASSES - 1), st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.9, 1.0])), max_size=5
)


def answers(frames: list[list[tuple[int, float]]], *, scored: list[bool] | None = None) -> BoxAnswers:
    rows = [(place, *one) for place, frame in enumerate(frames) for one in frame]
    frame, label, score = (np.array(column) for column in zip(*rows, strict=True)) if rows else (np.zeros(0),) * 3
    return BoxAnswers.of(
        frame.astype(np.int64), label.astype(np.int64), np.zeros((len(rows), 4)), score.astype(np.float64),
        n_frames=len(frames), n_classes=CLASSES, model="d", scored=None if scored is None else np.array(scored),
    )  # fmt: skip


def plainly(frame: list[tuple[int, float]], merge: str, *, every: bool) -> int:
    """The class of a frame by hand: −1 where it has none."""
    best, found = -math.inf, -1
    for label in [*range(CLASSES), *(range(-1, -4, -1) if every else ())]:
        scores = [max(score, 1e-12) for one, score in frame if one == label]
        if not scores:
            continue
        value = {"max": max(scores), "sum": sum(scores), "noisyor": 1 - math.prod(1 - score for score in scores)}[merge]
        if np.float32(value) > np.float32(best):
            best, found = value, max(label, -1)
    return found


@given(st.lists(boxes_of_a_frame, min_size=1, max_size=6), st.sampled_from(["max", "sum", "noisyor"]), st.booleans())
def test_classes_equal_the_plain_reference(frames: list[Any], merge: str, every: bool) -> None:
    rows = np.arange(len(frames))
    found = classes_of(answers(frames), rows, merge=merge, every_class=every)
    assert found.label.tolist() == [plainly(frame, merge, every=every) for frame in frames]
    assert ((found.state == State.OUTSIDE) == (found.label < 0)).all()
    assert found.probability is not None
    np.testing.assert_allclose(found.probability.sum(axis=1), (found.label >= 0).astype(float))
    part = classes_of(answers(frames), rows[::2], merge=merge, every_class=every)
    assert part.label.tolist() == found.label[::2].tolist()


def test_a_frame_nobody_looked_at_is_not_one_without_a_box() -> None:
    found = classes_of(answers([[], [], [(1, 0.5)]], scored=[True, False, True]), np.arange(3))
    assert [State(one).name for one in found.state] == ["OUTSIDE", "MISSING", "ANSWERED"]
    with pytest.raises(InvalidValue, match=r"d: a box has the score 3; classes are derived from scores in \[0, 1\]"):
        classes_of(answers([[(0, 3.0)]]), np.arange(1))


SIZES = np.array([[100, 60]] * 4)


def one_frame(*rows: tuple[tuple[float, float, float, float], int, float]) -> BoxAnswers:
    xyxy, label, score = ([row[place] for row in rows] for place in range(3))
    return BoxAnswers.of(
        np.zeros(len(rows), dtype=np.int64), np.array(label), np.array(xyxy, dtype=np.float64), np.array(score),
        n_frames=1, n_classes=CLASSES,
    )  # fmt: skip


def test_each_pick_takes_its_box() -> None:
    found = one_frame(
        ((0, 0, 20, 20), 0, 0.9), ((0, 0, 50, 50), 1, 0.3), ((44, 24, 56, 36), -2, 0.5), ((0, 0, 10, 10), 1, 0.4)
    )

    def box(pick: str, *, score: float = 0.0) -> list[float]:
        how = BoxChoice(pick=pick, score=score)
        return picked(found, how, sizes_wh=SIZES[:1], labels={0: [1]})[0].tolist()

    assert box("best") == [0, 0, 20, 20]
    assert box("largest") == [0, 0, 50, 50]
    assert box("largest", score=0.35) == [0, 0, 20, 20], "one below the score is none"
    assert box("label") == [0, 0, 10, 10], "the surest of a right class"
    assert box("centre") == [44, 24, 56, 36], "of whatever class"
    assert all(math.isnan(value) for value in box("best", score=0.95))


def test_of_true_boxes_the_largest_of_the_label_is_taken_and_crowds_are_none() -> None:
    truth = Boxes(
        frame=np.array([0, 0, 0, 1, 2]), label=np.array([1, 1, 1, 0, 1]), track=np.full(5, -1),
        xyxy=np.array([[0, 0, 10, 10], [5, 5, 30, 30], [0, 0, 90, 60], [0, 0, 20, 20], [0, 0, 20, 20.0]]),
        crowd=np.array([False, False, True, False, False]),
    )  # fmt: skip
    found = picked(truth, BoxChoice(pick="label"), sizes_wh=SIZES, labels={0: [1], 1: [1], 2: [0, 1]})
    assert found[[0, 2]].tolist() == [[5, 5, 30, 30], [0, 0, 20, 20]]
    assert np.isnan(found[[1, 3]]).all(), "another class, and no box at all"


@pytest.mark.parametrize(
    ("xyxy", "context", "shows"),
    [
        ((-20, 5, 0, 20), 3.0, False),  # beside the image, however far around it one looks
        ((-20, 5, 9, 20), 1.0, True),
        ((30, 30, 31, 31), 1.0, False),  # a pixel
        ((30, 30, 31, 31), 8.0, True),
        ((96, 10, 140, 30), 1.0, False),  # four columns of it are inside
    ],
)
def test_a_box_with_nothing_to_see_is_none(xyxy: Any, context: float, shows: bool) -> None:
    found = picked(one_frame((xyxy, 0, 0.9)), BoxChoice(pick="best", context=context), sizes_wh=SIZES[:1], labels={})
    assert bool(np.isfinite(found).all()) is shows
    second = one_frame((xyxy, 0, 0.9), ((10, 10, 40, 40), 0, 0.1))
    taken = picked(second, BoxChoice(pick="best", context=context), sizes_wh=SIZES[:1], labels={})[0].tolist()
    assert taken == (list(xyxy) if shows else [10, 10, 40, 40]), "the next best is taken"
