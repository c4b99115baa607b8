"""Boxes as columns: what is there (`TruthTable`) and what a detector says is there (`DetectionTable`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Boxes
from strobe.core.errors import expect
from strobe.core.records import Detections

__all__ = ["DetectionTable", "TruthTable"]

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def _starts(frame: Ints, n_frames: int) -> NDArray[np.int64]:
    """Where each frame's rows begin in a table sorted by frame, and where the last ends, (F + 1,)."""
    return np.asarray(np.searchsorted(frame, np.arange(n_frames + 1)), dtype=np.int64)


def _box_area(xyxy: Floats) -> Floats:
    return np.asarray((xyxy[:, 2] - xyxy[:, 0]) * (xyxy[:, 3] - xyxy[:, 1]), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthTable:
    """Objects that are there, one row each, sorted by frame and then by label: make one with `TruthTable.of`.

    `crowd` marks regions that are neither to be found nor to be blamed for (pycocotools' iscrowd); `area` is the
    object's area in pixels, the box's where nothing better is known; `track` names an object through its video, −1
    where unknown.
    """

    frame: Ints
    label: Ints
    xyxy: Floats
    crowd: Bools
    area: Floats
    track: Ints
    n_frames: int
    n_classes: int

    def __post_init__(self) -> None:
        n = len(self.frame)
        expect(self.xyxy.shape == (n, 4), "TruthTable.xyxy", f"shape ({n}, 4)", self.xyxy.shape)
        for name in ("label", "crowd", "area", "track"):
            expect(len(getattr(self, name)) == n, f"TruthTable.{name}", f"{n} rows", len(getattr(self, name)))
        _check_places(self, "TruthTable")
        key = self.frame.astype(np.int64) * self.n_classes + self.label
        expect(bool((np.diff(key) >= 0).all()), "TruthTable", "rows sorted by frame, then label", "another order")

    def __len__(self) -> int:
        return len(self.frame)

    @classmethod
    def of(
        cls,
        frame: Ints,
        label: Ints,
        xyxy: Floats,
        *,
        n_frames: int,
        n_classes: int,
        crowd: Bools | None = None,
        area: Floats | None = None,
        track: Ints | None = None,
    ) -> "TruthTable":
        """The table from columns in any order; rows of one frame and class keep theirs."""
        order = np.lexsort((label, frame))
        boxes = np.take(np.asarray(xyxy, dtype=np.float64).reshape(-1, 4), order, axis=0)
        return cls(
            frame=np.asarray(frame)[order],
            label=np.asarray(label)[order],
            xyxy=boxes,
            crowd=np.zeros(len(order), dtype=bool) if crowd is None else np.asarray(crowd, dtype=bool)[order],
            area=_box_area(boxes) if area is None else np.asarray(area, dtype=np.float64)[order],
            track=np.full(len(order), -1) if track is None else np.asarray(track)[order],
            n_frames=n_frames,
            n_classes=n_classes,
        )

    @classmethod
    def of_boxes(cls, boxes: Boxes, *, n_frames: int, n_classes: int) -> "TruthTable":
        """The table of a dataset's boxes."""
        return cls.of(
            boxes.frame, boxes.label, boxes.xyxy, crowd=boxes.crowd, track=boxes.track,
            n_frames=n_frames, n_classes=n_classes,
        )  # fmt: skip

    def merged(self) -> "TruthTable":
        """The same objects as one class, in the same order: localization."""
        return TruthTable(
            frame=self.frame, label=np.zeros(len(self), dtype=np.int64), xyxy=self.xyxy, crowd=self.crowd,
            area=self.area, track=self.track, n_frames=self.n_frames, n_classes=1,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionTable:
    """What was found, one row per box, sorted by frame, then score (highest first), then label: `DetectionTable.of`.

    That order decides ties everywhere. `scored` (F,) says which frames were looked at: a frame without rows that was
    looked at is an empty answer, one that was not is missing.
    """

    frame: Ints
    label: Ints
    xyxy: Floats
    score: Floats
    scored: Bools
    n_classes: int

    def __post_init__(self) -> None:
        n = len(self.frame)
        expect(self.xyxy.shape == (n, 4), "DetectionTable.xyxy", f"shape ({n}, 4)", self.xyxy.shape)
        expect(len(self.label) == n and len(self.score) == n, "DetectionTable", "columns of one length", None)
        _check_places(self, "DetectionTable")
        expect(bool(np.isfinite(self.score).all()), "DetectionTable.score", "finite numbers", "NaN or infinity")
        expect(bool(np.isfinite(self.xyxy).all()), "DetectionTable.xyxy", "finite numbers", "NaN or infinity")
        expect(
            _in_order(self.frame, self.score, self.label),
            "DetectionTable",
            "rows sorted by frame, then score from the highest, then label",
            "another order",
        )
        with_rows = np.zeros(len(self.scored), dtype=bool)
        with_rows[self.frame] = True
        expect(bool((self.scored | ~with_rows).all()), "DetectionTable.scored", "True where there are boxes", None)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def n_frames(self) -> int:
        """How many frames there are, with boxes or without."""
        return len(self.scored)

    def starts(self) -> NDArray[np.int64]:
        """Where each frame's rows begin, and where the last frame's end, (F + 1,)."""
        return _starts(self.frame, self.n_frames)

    @classmethod
    def of(
        cls,
        frame: Ints,
        label: Ints,
        xyxy: Floats,
        score: Floats,
        *,
        n_frames: int,
        n_classes: int,
        scored: Bools | None = None,
    ) -> "DetectionTable":
        """The table from columns in any order; boxes that tie in frame, score and label keep theirs.

        Without `scored` every frame counts as looked at.

        >>> boxes = np.array([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 5.0]])
        >>> zeros = np.zeros(2, dtype=np.int64)
        >>> table = DetectionTable.of(zeros, zeros, boxes, np.array([0.2, 0.9]), n_frames=1, n_classes=1)
        >>> table.score.tolist()
        [0.9, 0.2]
        """
        frame, label = np.asarray(frame), np.asarray(label)
        score = np.asarray(score, dtype=np.float64)
        boxes = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
        if not _in_order(frame, score, label):
            order = _order(frame, score, label)
            # take and not boxes[order]: nine times faster for rows of four.
            frame, label, boxes, score = frame[order], label[order], np.take(boxes, order, axis=0), score[order]
        return cls(
            frame=frame,
            label=label,
            xyxy=boxes,
            score=score,
            scored=np.ones(n_frames, dtype=bool) if scored is None else np.asarray(scored, dtype=bool),
            n_classes=n_classes,
        )

    @classmethod
    def of_frames(cls, found: Sequence[Detections | None], *, n_classes: int) -> "DetectionTable":
        """The table from one answer per frame; None where a frame was not looked at."""
        sizes = [0 if one is None else len(one) for one in found]
        some = [one for one in found if one is not None and len(one)]
        return cls.of(
            np.repeat(np.arange(len(found)), sizes),
            np.concatenate([one.label for one in some]) if some else np.zeros(0, dtype=np.int64),
            np.concatenate([one.xyxy for one in some]) if some else np.zeros((0, 4)),
            np.concatenate([one.score for one in some]) if some else np.zeros(0),
            n_frames=len(found),
            n_classes=n_classes,
            scored=np.array([one is not None for one in found], dtype=bool),
        )

    def merged(self) -> "DetectionTable":
        """The same boxes as one class, in the same order: localization."""
        return DetectionTable(
            frame=self.frame, label=np.zeros(len(self), dtype=np.int8), xyxy=self.xyxy, score=self.score,
            scored=self.scored, n_classes=1,
        )  # fmt: skip


def _check_places(table: "TruthTable | DetectionTable", name: str) -> None:
    if len(table.frame):
        low, high = int(table.frame.min()), int(table.frame.max())
        expect(low >= 0 and high < table.n_frames, f"{name}.frame", f"0–{table.n_frames - 1}", (low, high))
        low, high = int(table.label.min()), int(table.label.max())
        expect(low >= 0 and high < table.n_classes, f"{name}.label", f"0–{table.n_classes - 1}", (low, high))


def _in_order(frame: Ints, score: Floats, label: Ints) -> bool:
    step = np.diff(frame)
    if (step < 0).any():
        return False
    same = step == 0
    if (same & (score[1:] > score[:-1])).any():
        return False
    return not (same & (score[1:] == score[:-1]) & (label[1:] < label[:-1])).any()


_SMALL = 256  # frames with more detections are sorted one by one


def _order(frame: Ints, score: Floats, label: Ints) -> NDArray[np.int64]:
    """The stable order by frame, score from the highest, label.

    np.lexsort does it; where the rows already come frame by frame, sorting short rows of a matrix is ten times faster.
    """
    if not len(frame) or (np.diff(frame) < 0).any() or np.isnan(score).any():
        return np.asarray(np.lexsort((label, -score, frame)), dtype=np.int64)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(frame) > 0)))
    sizes = np.diff(np.append(starts, len(frame)))
    order = np.arange(len(frame))
    small = np.flatnonzero(sizes <= _SMALL)
    for width in np.unique(sizes[small]):
        rows = starts[small[sizes[small] == width]][:, None] + np.arange(width)
        order[rows] = np.take_along_axis(rows, np.argsort(-score[rows], axis=1), axis=1)
    for place in np.flatnonzero(sizes > _SMALL):
        rows = np.arange(starts[place], starts[place] + sizes[place])
        order[rows] = rows[np.argsort(-score[rows])]
    # That sort leaves equal scores in any order; frames that have some are sorted again, by all keys.
    ordered = score[order]
    tied = np.flatnonzero((ordered[1:] == ordered[:-1]) & (frame[1:] == frame[:-1]))
    if len(tied):
        again = np.flatnonzero(np.isin(frame, frame[tied]))
        order[again] = again[np.lexsort((label[again], -score[again], frame[again]))]
    return order
