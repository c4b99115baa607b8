"""A model's answers, one record per task: what stores keep, what metrics read, and nothing else between them.

Every row is in one of five states, and only the first two count: a row that was not answered is counted apart and is
never a wrong one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints, are_pixels, blocks
from strobe.core.errors import expect
from strobe.core.labels import check_scores, confidence_of, top_confidence
from strobe.core.records import Detections
from strobe.core.tasks import Task

__all__ = ["ANSWERS", "Answers", "BoxAnswers", "ClassAnswers", "ScoreRows", "State", "check_places"]

Scores = NDArray[np.float64] | NDArray[np.float32]
_BLOCK = 2**16
"""Scores looked at at once, so that memory does not grow with the dataset."""


class ScoreRows(Protocol):
    """Scores (N, C) that lie elsewhere, a file say: some rows at a time."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and classes there are."""

    def __getitem__(self, rows: NDArray[Any], /) -> Scores:
        """The scores of these rows, (…, C)."""

    def __len__(self) -> int:
        """How many rows there are."""


States = NDArray[np.uint8]
Kind = Literal["logits", "probabilities", "labels"]

_NO_REASONS: Mapping[int, str] = MappingProxyType({})


class State(IntEnum):
    """How a row was answered. `OUTSIDE` is an answer that is none of the dataset's classes: scored, and wrong.

    `SKIPPED` was left out on purpose, because its set was settled without it (--stop-early); `MISSING` is not there.
    """

    ANSWERED = 0
    OUTSIDE = 1
    UNREADABLE = 2
    SKIPPED = 3
    MISSING = 4


def states_of(n: int, scored: Bools | None, reasons: Mapping[int, str] = _NO_REASONS) -> States:
    """The state of `n` rows: answered where `scored` (None: everywhere), unreadable where there is a reason."""
    state = np.zeros(n, dtype=np.uint8)
    if scored is not None:
        state[~np.asarray(scored, dtype=bool)] = State.MISSING
    state[list(reasons)] = State.UNREADABLE
    return state


@dataclass(frozen=True, kw_only=True)
class ClassAnswers:
    """A classifier's word on every row (a dataset's frames, or some of them), columns of one length.

    `label` is −1 where there is none. `scores` (N, C) are in the dataset's classes as the model gave them, or None
    where only labels were given; with `shares` they are probabilities worked out earlier and are used as they are.
    `own_label` and `own_confidence` are the model's best class before any projection, where known. `reasons` says of
    unreadable rows why.
    """

    model: str
    kind: Kind
    label: NDArray[np.int64]
    state: States
    scores: Scores | ScoreRows | None = None
    shares: bool = False
    own_label: NDArray[np.int32] | None = None
    own_confidence: NDArray[np.float32] | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.state)
        for name in ("label", "scores", "own_label", "own_confidence"):
            column = getattr(self, name)
            expect(column is None or len(column) == n, f"ClassAnswers.{name}", f"{n} rows", None)
        expect(self.label.ndim == 1, "ClassAnswers.label", "shape (N,)", self.label.shape)
        expect(not n or int(self.label.min()) >= -1, "ClassAnswers.label", "a class, or −1", None)
        expect(self.scores is None or len(self.scores.shape) == 2, "ClassAnswers.scores", "shape (N, C)", None)

    def __len__(self) -> int:
        return len(self.state)

    def __repr__(self) -> str:
        return f"<ClassAnswers {self.model}: {self.kind}, {int(self.scored.sum())} of {len(self)} frames answered>"

    @classmethod
    def from_scores(
        cls,
        model: str,
        scores: Scores | ScoreRows,
        *,
        kind: Literal["logits", "probabilities"],
        scored: Bools | None = None,
        outside: Bools | None = None,
        names: Sequence[str] | None = None,
        own_label: NDArray[np.int32] | None = None,
        own_confidence: NDArray[np.float32] | None = None,
        reasons: Mapping[int, str] = _NO_REASONS,
    ) -> "ClassAnswers":
        """From scores (N, C) in the dataset's classes; rows where `scored` is False are not looked at.

        Ties go to the lowest class. Rows that are `outside` were answered with none of the classes, and need no scores.

        >>> import numpy as np
        >>> ClassAnswers.from_scores("m", np.array([[1.0, 1.0], [0.0, 2.0]]), kind="logits").label.tolist()
        [0, 1]
        """
        expect(len(scores.shape) == 2, "scores", "shape (N, C)", scores.shape)
        state = states_of(len(scores), scored, reasons)
        if outside is not None:
            state[(state == State.ANSWERED) & outside] = State.OUTSIDE
        label, ranked = np.full(len(scores), -1, dtype=np.int64), True
        for near in blocks(len(scores), max(1, _BLOCK // max(scores.shape[1], 1))):
            rows = near.start + np.flatnonzero(state[near] == State.ANSWERED)
            part = scores[rows]
            label[rows] = best = part.argmax(axis=1)
            ranked &= bool(np.isfinite(part[np.arange(len(rows)), best]).all())  # a NaN counts as the largest
        if not ranked:
            seen = np.flatnonzero(state == State.ANSWERED)
            check_scores(scores[seen], names=[names[i] if names else f"row {i}" for i in seen.tolist()], what=model)
        return cls(
            model=model, kind=kind, label=label, state=state, scores=scores, own_label=own_label,
            own_confidence=own_confidence, reasons=dict(reasons),
        )  # fmt: skip

    @classmethod
    def from_labels(cls, model: str, label: Ints, *, scored: Bools | None = None) -> "ClassAnswers":
        """From one class per row; −1 is an answer outside the dataset's classes (wrong, and scored)."""
        known = np.asarray(label).astype(np.int64)
        state = states_of(len(known), scored)
        state[(state == State.ANSWERED) & (known < 0)] = State.OUTSIDE
        return cls(model=model, kind="labels", label=known, state=state)

    def as_classes(self) -> "ClassAnswers":
        """These answers: one class a row, by which any two models can be compared."""
        return self

    @property
    def scored(self) -> Bools:
        """Which rows have an answer, (N,)."""
        return np.asarray(self.state <= State.OUTSIDE)

    @property
    def has_shares(self) -> bool:
        """Whether probabilities are known, and not labels alone."""
        return self.scores is not None

    def shares_of(self, rows: Ints) -> Floats:
        """Softmax over the dataset's classes for these rows, (…, C); NaN where there is no answer.

        An answer outside the classes leaves none of them any share.
        """
        if self.scores is None:
            raise ValueError("labels alone have no shares")
        scores, state = self.scores[rows], self.state[rows]
        if self.shares:
            return scores.astype(np.float64, copy=False)
        found = np.full(scores.shape, np.nan)
        found[state == State.OUTSIDE] = 0.0
        seen = state == State.ANSWERED
        found[seen] = confidence_of(scores[seen].astype(np.float64), kind=self.kind)
        return found

    def share_of(self, rows: Ints, labels: Ints) -> Floats:
        """The probability of one class for each of these rows, (R,); NaN where unknown."""
        out = np.full(len(rows), np.nan)
        if self.scores is not None:
            for part in _blocks(np.arange(len(rows)), self.scores.shape[1]):
                out[part] = self.shares_of(rows[part])[np.arange(len(part)), labels[part]]
        return out

    @property
    def probability(self) -> Floats | None:
        """`shares_of` all rows, (N, C); None where only labels are known."""
        return self.shares_of(np.arange(len(self))) if self.has_shares else None

    @cached_property
    def confidence(self) -> Floats:
        """The probability of the predicted class, NaN where unknown."""
        out = np.full(len(self), np.nan)
        if self.scores is not None:
            for rows in _blocks(np.arange(len(self)), self.scores.shape[1]):
                out[rows] = self._top_share(rows)
        return out

    def ties(self, rows: Ints) -> tuple[int, int]:
        """On how many of these rows several classes share the highest score, and on how many all scores are equal.

        >>> import numpy as np
        >>> answers = ClassAnswers.from_scores("m", np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), kind="logits")
        >>> answers.ties(np.arange(2))
        (2, 1)
        """
        tied = blank = 0
        if self.scores is None:
            return 0, 0
        for part in _blocks(rows, self.scores.shape[1]):
            scores, label = self.scores[part], self.label[part]
            shared = np.count_nonzero(scores == scores[np.arange(len(part)), label][:, None], axis=1)
            some = np.flatnonzero(shared > 1)
            tied += len(some)
            blank += int((shared[some] == np.isfinite(scores[some]).sum(axis=1)).sum())
        return tied, blank

    def _top_share(self, rows: Ints) -> Floats:
        """The largest of `shares_of` each row, without the others."""
        if self.scores is None or self.shares:
            return np.asarray(self.shares_of(rows).max(axis=1))
        state = self.state[rows]
        found = np.where(state == State.OUTSIDE, 0.0, np.nan)
        seen = state == State.ANSWERED
        found[seen] = top_confidence(self.scores[rows[seen]].astype(np.float64), kind=self.kind)
        return found


def _blocks(rows: Ints, width: int) -> Iterator[Ints]:
    """The rows in pieces that hold about _BLOCK numbers each."""
    many = max(1, _BLOCK // max(width, 1))
    return (rows[first : first + many] for first in range(0, len(rows), many))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxAnswers:
    """A detector's boxes, one row each, sorted by frame, then score (highest first), then label: `BoxAnswers.of`.

    That order decides ties everywhere. `state` (F,) is per frame: one without rows that was answered is an empty
    answer, one that was not is missing. `reasons` says of unreadable frames why. A box of a class that is none of the
    dataset's has −1 − its place among the detector's own as `label`; such boxes are stored, and left out of what is
    scored.
    """

    frame: Ints
    label: Ints
    xyxy: Floats
    score: Floats
    state: States
    n_classes: int
    model: str = ""
    reasons: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.frame)
        expect(self.xyxy.shape == (n, 4), "BoxAnswers.xyxy", f"shape ({n}, 4)", self.xyxy.shape)
        expect(len(self.label) == n and len(self.score) == n, "BoxAnswers", "columns of one length", None)
        known = np.maximum(self.label, 0)
        check_places("BoxAnswers", self.frame, known, n_frames=self.n_frames, n_classes=self.n_classes)
        expect(bool(np.isfinite(self.score).all()), "BoxAnswers.score", "finite numbers", "NaN or infinity")
        expect(bool(are_pixels(self.xyxy).all()), "BoxAnswers.xyxy", "finite numbers, at most 1e9", "others")
        expect(
            _in_order(self.frame, self.score, self.label),
            "BoxAnswers",
            "rows sorted by frame, then score from the highest, then label",
            "another order",
        )
        with_rows = np.zeros(self.n_frames, dtype=bool)
        with_rows[self.frame] = True
        expect(bool((self.scored | ~with_rows).all()), "BoxAnswers.state", "answered where there are boxes", None)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        answered = f"{int(self.scored.sum())} of {self.n_frames} frames answered"
        return f"<BoxAnswers {self.model}: {len(self)} boxes, {answered}>"

    @property
    def n_frames(self) -> int:
        """How many frames there are, with boxes or without."""
        return len(self.state)

    @property
    def scored(self) -> Bools:
        """Which frames were looked at, (F,)."""
        return np.asarray(self.state <= State.OUTSIDE)

    def starts(self) -> NDArray[np.int64]:
        """Where each frame's rows begin, and where the last frame's end, (F + 1,)."""
        return np.asarray(np.searchsorted(self.frame, np.arange(self.n_frames + 1)), dtype=np.int64)

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
        model: str = "",
        reasons: Mapping[int, str] = _NO_REASONS,
    ) -> "BoxAnswers":
        """From columns in any order; boxes that tie in frame, score and label keep theirs.

        Without `scored` every frame counts as looked at.

        >>> boxes = np.array([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 5.0]])
        >>> zeros = np.zeros(2, dtype=np.int64)
        >>> found = BoxAnswers.of(zeros, zeros, boxes, np.array([0.2, 0.9]), n_frames=1, n_classes=1)
        >>> found.score.tolist()
        [0.9, 0.2]
        """
        frame, label = np.asarray(frame), np.asarray(label)
        score = np.asarray(score, dtype=np.float64)
        boxes = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
        if not _in_order(frame, score, label):
            order = _order(frame, score, label)
            # take and not boxes[order]: nine times faster for rows of four.
            frame, label, boxes, score = frame[order], label[order], np.take(boxes, order, axis=0), score[order]
        state = states_of(n_frames, scored, reasons)
        return cls(
            frame=frame, label=label, xyxy=boxes, score=score, state=state, n_classes=n_classes, model=model,
            reasons=dict(reasons),
        )  # fmt: skip

    @classmethod
    def of_frames(
        cls,
        found: Sequence[Detections | None],
        *,
        n_classes: int,
        model: str = "",
        reasons: Mapping[int, str] = _NO_REASONS,
    ) -> "BoxAnswers":
        """From what a detector found in each frame; None where it was not looked at."""
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
            model=model,
            reasons=reasons,
        )

    def merged(self) -> "BoxAnswers":
        """The same boxes as one class, in the same order: localization."""
        return BoxAnswers(
            frame=self.frame, label=np.zeros(len(self), dtype=np.int8), xyxy=self.xyxy, score=self.score,
            state=self.state, n_classes=1, model=self.model, reasons=self.reasons,
        )  # fmt: skip

    def as_classes(self) -> ClassAnswers:
        """The class of each frame's most confident box; a frame without one is answered outside, and wrong."""
        starts = self.starts()
        has_box = starts[1:] > starts[:-1]
        best = np.full(self.n_frames, -1, dtype=np.int64)
        best[has_box] = self.label[starts[:-1][has_box]]
        return ClassAnswers.from_labels(self.model, best, scored=self.scored)


Answers = ClassAnswers | BoxAnswers

ANSWERS: Mapping[Task, type[ClassAnswers] | type[BoxAnswers]] = {
    Task.CLASSIFICATION: ClassAnswers,
    Task.DETECTION: BoxAnswers,
}
"""The record each task answers with."""


def check_places(name: str, frame: Ints, label: Ints, *, n_frames: int, n_classes: int) -> None:
    """Refuse boxes on frames or of classes that are not there; `name` is whose columns these are."""
    if len(frame):
        low, high = int(frame.min()), int(frame.max())
        expect(low >= 0 and high < n_frames, f"{name}.frame", f"0–{n_frames - 1}", (low, high))
        low, high = int(label.min()), int(label.max())
        expect(low >= 0 and high < n_classes, f"{name}.label", f"0–{n_classes - 1}", (low, high))


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
