"""Which box is suggested: the surest of the picture's own class, in whole pixels inside it."""

import numpy as np
import pytest

from strobe.annexes.web.review.suggestions import suggested_boxes
from strobe.core.answers import BoxAnswers
from strobe.core.errors import InvalidValue


def found(dataset, rows):
    """Answers from rows (frame, label, score, box)."""
    return BoxAnswers.of(
        np.array([row[0] for row in rows], dtype=np.int64), np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[3] for row in rows], dtype=float), np.array([row[2] for row in rows], dtype=float),
        n_frames=len(dataset.frames), n_classes=3,
    )  # fmt: skip


def test_own_class_first_then_the_surest_of_any(zoo):
    dataset = zoo.dataset()  # anchors at rows 2, 7, 12, 17; classes 0, 1, 2, 0; images of 200×100
    rows = [
        (2, 1, 0.9, (0, 0, 50, 50)),
        (2, 0, 0.2, (10.4, 10.6, 60.2, 61.5)),
        (2, 0, 0.1, (0, 0, 9, 9)),
        (7, 0, 0.3, (1, 1, 5, 5)),
        (7, 2, 0.6, (-4, -4, 300, 300)),
        (12, 2, 0.9, (250, 10, 260, 20)),
        (12, 0, 0.5, (3, 3, 8, 9)),
        (0, 0, 0.9, (0, 0, 5, 5)),
    ]
    assert suggested_boxes(dataset, found(dataset, rows)) == {
        "v0:2": (10, 11, 60, 62),
        "v1:2": (0, 0, 200, 100),
        "v2:2": (3, 3, 8, 9),
    }


def test_answers_on_other_frames_are_refused(zoo):
    with pytest.raises(InvalidValue, match="on 20 frames"):
        suggested_boxes(zoo.dataset(), found(zoo.dataset(n_videos=3), []))
