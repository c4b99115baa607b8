"""Pure functions of a frame's boxes: its class, and the box to crop around."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Floats, Ints
from strobe.core.crops import LEAST_SIDE, cut_of
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.tables import Boxes

MERGERS = ("max", "sum", "noisyor")
"""How the scores of a class's boxes are combined: the highest, their sum, or 1 − ∏(1 − s)."""

PICKS = ("best", "largest", "label", "centre")
"""Ways to choose a box: the most confident, the largest, the most confident of a right class, the most central.

Among true boxes, `label` chooses the largest. The most central box is the nearest to the image's centre.
"""

_FAINT = 1e-12
"""The weight of a box with score 0, which still counts as a detection."""


def classes_of(
    boxes: BoxAnswers, rows: NDArray[np.int64], *, merge: str = "max", every_class: bool = False
) -> ClassAnswers:
    """Return class answers for these frames from their boxes; a frame without a box is *outside*.

    The score of a class combines the scores of its boxes. With `every_class`, boxes of classes outside the dataset
    compete too; if such a box wins, the answer is *outside*. Ties go to the dataset's classes before other classes, and
    then to the lowest class.
    """
    expect(merge in MERGERS, "boxes", f"one of {', '.join(MERGERS)}", merge)
    n, width = len(rows), boxes.n_classes
    starts = boxes.starts()
    sizes = starts[rows + 1] - starts[rows]
    place = np.repeat(np.arange(n), sizes)
    box = np.repeat(starts[rows] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    label, score = boxes.label[box].astype(np.int64), boxes.score[box]
    if not bool(((score >= 0) & (score <= 1)).all()):
        odd = float(score[(score < 0) | (score > 1)][0])
        raise InvalidValue(
            f"{printable(boxes.model)}: a box has the score {odd:g}; classes are derived from scores in [0, 1]"
        )
    others = -1 - label[label < 0]
    total = width + (int(others.max()) + 1 if every_class and len(others) else 0)
    column = np.where(label >= 0, label, width - 1 - label)
    use = column < total
    merged = _merged(place[use], column[use], np.maximum(score[use], _FAINT), (n, total), merge)
    best = merged.argmax(axis=1) if n else np.zeros(0, dtype=np.int64)
    scores = merged[:, :width].astype(np.float32)
    looked_at = boxes.scored[rows]
    outside = looked_at & ((best >= width) | np.isneginf(scores).all(axis=1))
    answered = looked_at & ~outside
    chosen = np.where(answered, scores.argmax(axis=1) if n else 0, -1)
    surest = np.where(answered, scores.max(axis=1, initial=-np.inf), np.nan)
    scores[~answered] = np.nan
    return ClassAnswers(
        model=boxes.model,
        kind="probabilities",
        label=chosen,
        scores=scores,
        state=np.where(outside, State.OUTSIDE, boxes.state[rows]).astype(np.uint8),
        own_label=chosen.astype(np.int32),
        own_confidence=surest.astype(np.float32),
        reasons={at: boxes.reasons[row] for at, row in enumerate(rows.tolist()) if row in boxes.reasons},
    )


def _merged(row: Ints, column: Ints, score: Floats, shape: tuple[int, int], merge: str) -> Floats:
    """Return the scores as a matrix, with −inf for a class without a score."""
    out = np.full(shape, -np.inf)
    if merge == "max":
        np.maximum.at(out, (row, column), score)
        return out
    total = np.zeros(shape)
    with np.errstate(divide="ignore"):  # a box with score 1
        np.add.at(total, (row, column), score if merge == "sum" else -np.log1p(-score))
    out[row, column] = (total if merge == "sum" else -np.expm1(-total))[row, column]
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxChoice:
    """The rule that chooses a frame's box, and the margin of the crop.

    Boxes below `score` and boxes that are too small are ignored.
    """

    pick: str
    context: float = 1.0
    score: float = 0.0

    def __post_init__(self) -> None:
        expect(self.pick in PICKS, "pick", f"one of {', '.join(PICKS)}", self.pick)
        expect(1 <= self.context <= 100, "context", "1–100", self.context)
        expect(0 <= self.score <= 1, "score", "0–1", self.score)


def picked(
    found: Boxes | BoxAnswers, how: BoxChoice, *, sizes_wh: NDArray[np.int64], labels: Mapping[int, Collection[int]]
) -> Floats:
    """Return the box chosen in each frame, (F, 4); NaN if the rule chooses no box.

    `sizes_wh` (F, 2) holds the frames' sizes, and `labels` their right classes. A box counts if part of it is inside
    its frame and the crop around it has at least LEAST_SIDE pixels per side; crowds do not count.
    """
    score = found.score if isinstance(found, BoxAnswers) else np.zeros(len(found.frame))
    use = score >= how.score if isinstance(found, BoxAnswers) else ~found.crowd
    if how.pick == "label":
        right = zip(found.frame.tolist(), found.label.tolist(), strict=True)
        use = use & np.array([label in labels.get(frame, ()) for frame, label in right], dtype=bool)
    rows = np.flatnonzero(use)
    frame, box = found.frame[rows], np.asarray(found.xyxy, dtype=np.float64)[rows]
    area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
    away = np.hypot(*((box[:, :2] + box[:, 2:]) / 2 - sizes_wh[frame] / 2).T)
    first = {"best": -score[rows], "label": -score[rows], "largest": -area, "centre": away}[how.pick]
    out = np.full((len(sizes_wh), 4), np.nan)
    for place in np.lexsort((-area, first, frame)).tolist():
        row = int(frame[place])
        if math.isnan(out[row, 0]) and _shows(box[place].tolist(), sizes_wh[row].tolist(), how.context):
            out[row] = box[place]
    return out


def _shows(xyxy: Sequence[float], size_wh: Sequence[int], context: float) -> bool:
    """Return whether part of the box is visible and the crop around it is large enough."""
    size = (int(size_wh[0]), int(size_wh[1]))
    grown = cut_of(xyxy, size, context=context) if cut_of(xyxy, size) else None
    return grown is not None and min(grown[2] - grown[0], grown[3] - grown[1]) >= LEAST_SIDE
