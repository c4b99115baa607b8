"""Select a detector's boxes as suggestions for people who are asked to locate an image's object."""

import numpy as np

from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import expect

Corners = tuple[int, int, int, int]


def suggested_boxes(dataset: Dataset, answers: BoxAnswers) -> dict[str, Corners]:
    """Return, by frame, each anchor's most confident box of one of its classes (or else of any class), in whole pixels.

    Boxes are clipped to the image; boxes outside the image are dropped.
    """
    expect(answers.n_frames == len(dataset.frames), "answers", f"on {len(dataset.frames)} frames", answers.n_frames)
    ids, starts, labels = dataset.frame_ids(), answers.starts(), dataset.labels.by_frame()
    box_of = {}
    for row in dict.fromkeys(dataset.sets.anchor_frame.tolist()):
        of_frame = range(int(starts[row]), int(starts[row + 1]))
        # Rows are sorted by descending score.
        own = [place for place in of_frame if int(answers.label[place]) in labels.get(row, ())]
        for place in (*own, *of_frame):
            box = _whole(answers.xyxy[place].tolist(), int(dataset.frames.width[row]), int(dataset.frames.height[row]))
            if box is not None:
                box_of[ids[row]] = box
                break
    return box_of


def _whole(xyxy: list[float], width: int, height: int) -> Corners | None:
    """Return the sides rounded to pixel borders inside the image; an image size of zero means unknown.

    >>> _whole([-3.2, 1.6, 7.4, 12.0], 10, 10), _whole([11.0, 0.0, 15.0, 4.0], 10, 10)
    ((0, 2, 7, 10), None)
    """
    most = (width or np.inf, height or np.inf) * 2
    x0, y0, x1, y1 = (int(min(max(round(side), 0), far)) for side, far in zip(xyxy, most, strict=True))
    return (x0, y0, x1, y1) if x1 > x0 and y1 > y0 else None
