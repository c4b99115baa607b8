"""Changes of objects against slow, plain loops, and their edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.answers import BoxAnswers
from strobe.metrics.object_changes import object_changes


def _iou(a, b):
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    inside = max(wide, 0.0) * max(high, 0.0)
    return inside / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inside)


def _best(table, least, row=0, used=frozenset()):
    """The largest total overlap and its number of pairs, by trying every assignment."""
    if row == len(table):
        return 0.0
    best = _best(table, least, row + 1, used)
    for column, value in enumerate(table[row]):
        if value >= least and column not in used:
            best = max(best, value + _best(table, least, row + 1, used | {column}))
    return best


BOXES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 6), st.integers(0, 1), st.floats(0.1, 1)),
    max_size=9,
)


def _answers(boxes):
    xyxy = np.array([[x, y, x + 5, y + 5] for _, x, y, _, _ in boxes], dtype=float).reshape(-1, 4)
    frame, label, score = (np.array([box[place] for box in boxes]) for place in (0, 3, 4))
    return BoxAnswers.of(frame.astype(int), label.astype(int), xyxy, score.astype(float), n_frames=3, n_classes=2)


@given(BOXES, BOXES)
def test_objects_are_paired_with_the_largest_total_overlap(before, after):
    old, new = _answers(before), _answers(after)
    found = object_changes(old, new, np.arange(3))
    for frame in range(3):
        a, b = (
            [row for row in range(len(one)) if one.frame[row] == frame and one.score[row] >= 0.5] for one in (old, new)
        )
        mine = old.frame[found.old] == frame
        table = [[_iou(old.xyxy[x], new.xyxy[y]) for y in b] for x in a]
        assert float(found.overlap[mine].sum()) == pytest.approx(_best(table, 0.5))
        assert sorted([*found.old[mine].tolist(), *(row for row in found.lost.tolist() if row in a)]) == a
        assert sorted([*found.new[mine].tolist(), *(row for row in found.found.tolist() if row in b)]) == b
    assert (found.overlap >= 0.5).all()
    assert (old.frame[found.old] == new.frame[found.new]).all()


def test_boxes_of_other_frames_and_faint_boxes_do_not_count():
    old = _answers([(0, 0, 0, 0, 0.9), (1, 0, 0, 0, 0.9), (0, 6, 6, 0, 0.3)])
    found = object_changes(old, _answers([]), np.array([0]))
    assert old.frame[found.lost].tolist() == [0]
    assert not len(found.old)
