"""A model's answers, one record per task: stores write them and metrics read them.

Every row has one of five states, and only the first two are scored. A row without an answer is counted separately and
never counts as wrong.
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
from strobe.core.box_order import in_order, order_of
from strobe.core.errors import expect
from strobe.core.labels import check_scores, confidence_of, log_sum_and_lead
from strobe.core.records import Detections
from strobe.core.tasks import Task

Scores = NDArray[np.float64] | NDArray[np.float32]
_BLOCK = 2**16
"""The number of scores processed at once, so that memory does not grow with the dataset."""
_FINE, _LEAST = 2**-10, 2**-23
"""The relative and absolute amounts subtracted from a lead. They exceed what rounding to 16 bits can add to it."""


class ScoreRows(Protocol):
    """Scores (N, C) stored elsewhere, for example in a file, and read a few rows at a time."""

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and classes."""

    def __getitem__(self, rows: NDArray[Any], /) -> Scores:
        """Return the scores of these rows, (…, C)."""

    def __len__(self) -> int:
        """Return the number of rows."""


States = NDArray[np.uint8]
Kind = Literal["logits", "probabilities", "labels"]

_NO_REASONS: Mapping[int, str] = MappingProxyType({})


class State(IntEnum):
    """How a row was answered.

    `OUTSIDE` is an answer outside the dataset's classes, which is scored and counts as wrong. An `UNREADABLE` row has a
    frame that could not be read, or that a service did not answer. `SKIPPED` rows were left out on purpose, because
    their set was decided without them (--stop-early). `MISSING` rows have no answer.
    """

    ANSWERED = 0
    OUTSIDE = 1
    UNREADABLE = 2
    SKIPPED = 3
    MISSING = 4


def states_of(n: int, scored: Bools | None, reasons: Mapping[int, str] = _NO_REASONS) -> States:
    """Return the state of `n` rows: answered if `scored` (None: all rows), unreadable if `reasons` has the row."""
    state = np.zeros(n, dtype=np.uint8)
    if scored is not None:
        state[~np.asarray(scored, dtype=bool)] = State.MISSING
    state[list(reasons)] = State.UNREADABLE
    return state


@dataclass(frozen=True, kw_only=True)
class ClassAnswers:
    """A classifier's answers as columns of equal length, with one row per frame of a dataset or of a selection.

    `label` is −1 for rows without a label. `scores` (N, C) are the model's scores over the dataset's classes, or None
    if only labels were given. With `shares`, the scores are probabilities computed earlier and are used unchanged.
    `own_label` and `own_confidence` are the model's best class before any projection, if known. `reasons` explains
    the unreadable rows. `said` has the model's words for rows outside the classes, if it answers in words.
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
    said: Mapping[int, str] = field(default_factory=dict)

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
        """Build answers from scores (N, C) over the dataset's classes. Ties go to the lowest class index.

        Args:
            scored: The rows that have an answer, (N,); by default every row.
            outside: The rows whose answer is outside these classes; they need no scores.
            names: The name of each row for error messages.

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
            ranked &= bool(np.isfinite(part[np.arange(len(rows)), best]).all())  # NaN counts as the maximum
        if not ranked:
            seen = np.flatnonzero(state == State.ANSWERED)
            check_scores(scores[seen], names=[names[i] if names else f"row {i}" for i in seen.tolist()], what=model)
        return cls(
            model=model,
            kind=kind,
            label=label,
            state=state,
            scores=scores,
            own_label=own_label,
            own_confidence=own_confidence,
            reasons=dict(reasons),
        )

    @classmethod
    def from_labels(cls, model: str, label: Ints, *, scored: Bools | None = None) -> "ClassAnswers":
        """Build answers from one class per row; −1 is an answer outside the dataset's classes, which counts as wrong.

        >>> ClassAnswers.from_labels("m", np.array([1, -1])).state.tolist() == [State.ANSWERED, State.OUTSIDE]
        True
        """
        known = np.asarray(label).astype(np.int64)
        state = states_of(len(known), scored)
        state[(state == State.ANSWERED) & (known < 0)] = State.OUTSIDE
        return cls(model=model, kind="labels", label=known, state=state)

    def as_classes(self) -> "ClassAnswers":
        """Return these answers reduced to one class per row, so that any two models can be compared."""
        return self

    @property
    def scored(self) -> Bools:
        """The rows that have an answer, (N,)."""
        return np.asarray(self.state <= State.OUTSIDE)

    @property
    def has_shares(self) -> bool:
        """Whether probabilities are known, not only labels."""
        return self.scores is not None

    def shares_of(self, rows: Ints) -> Floats:
        """Return the softmax over the dataset's classes for these rows, (…, C); NaN for rows without an answer.

        For an answer outside the classes, every class has probability zero.
        """
        if self.scores is None:
            raise ValueError("the answers are labels without scores, so they have no shares")
        scores, state = _rows_of(self.scores, rows), self.state[rows]
        if self.shares:
            return scores
        seen = state == State.ANSWERED
        if seen.all():
            known = self.__dict__.get("_scale_and_lead")
            log_sum = None if known is None else known[0].take(rows)
            return np.asarray(confidence_of(scores, kind=self.kind, log_sum=log_sum), dtype=np.float64)
        shares = np.full(scores.shape, np.nan)
        shares[state == State.OUTSIDE] = 0.0
        shares[seen] = confidence_of(scores[seen], kind=self.kind)
        return shares

    def share_of(self, rows: Ints, labels: Ints) -> Floats:
        """Return the probability of one class for each of these rows, (R,); NaN if unknown."""
        out = np.full(len(rows), np.nan)
        if self.scores is not None:
            for part in _blocks(np.arange(len(rows)), self.scores.shape[1]):
                out[part] = self.shares_of(rows[part])[np.arange(len(part)), labels[part]]
        return out

    @property
    def probability(self) -> Floats | None:
        """Return `shares_of` for all rows, (N, C), or None if only labels are known."""
        return self.shares_of(np.arange(len(self))) if self.has_shares else None

    @cached_property
    def confidence(self) -> Floats:
        """The probability of the predicted class, NaN if unknown."""
        return self.confidence_at(np.arange(len(self)))

    def confidence_at(self, rows: Ints) -> Floats:
        """Return the largest probability in each of these rows, without computing the other probabilities."""
        scale = self._scale_and_lead[0].take(rows)
        return scale if self.shares else np.exp(0.0 - scale)

    @property
    def lead(self) -> NDArray[np.float16]:
        """A lower bound on the lead of the predicted class over the next best class, in probability. NaN if unknown."""
        return self._scale_and_lead[1]

    @cached_property
    def _scale_and_lead(self) -> tuple[Floats, NDArray[np.float16]]:
        """Return each row's log softmax sum (with `shares`, its largest share), and the lead of each row's label."""
        scale, lead = np.full(len(self), np.nan), np.full(len(self), np.nan, dtype=np.float16)
        if self.scores is None:
            return scale, lead
        if not self.shares:
            scale[self.state == State.OUTSIDE] = np.inf
        known = np.flatnonzero((self.state == State.ANSWERED) | self.shares)
        for rows in _blocks(known, self.scores.shape[1]):
            scores, label = _rows_of(self.scores, rows), self.label[rows]
            if self.shares:
                scale[rows], every = scores.max(axis=1), np.arange(len(rows))
                own = scores[every, label]
                scores[every, label] = 0.0
                ahead = own - scores.max(axis=1)
            else:
                scale[rows], ahead = log_sum_and_lead(scores, label, kind=self.kind)
            lead[rows] = ahead - _FINE * np.abs(ahead) - _LEAST
        return scale, lead

    def ties(self, rows: Ints) -> tuple[int, int]:
        """Count the rows in which several classes share the highest score, and the rows in which all scores are equal.

        >>> import numpy as np
        >>> answers = ClassAnswers.from_scores("m", np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), kind="logits")
        >>> answers.ties(np.arange(2))
        (2, 1)
        """
        tied = blank = 0
        if self.scores is None:
            return 0, 0
        near = rows[~(self.lead[rows] > 0)]
        for part in _blocks(near, self.scores.shape[1]):
            scores, label = self.scores[part], self.label[part]
            shared = np.count_nonzero(scores == scores[np.arange(len(part)), label][:, None], axis=1)
            some = np.flatnonzero(shared > 1)
            tied += len(some)
            blank += int((shared[some] == np.isfinite(scores[some]).sum(axis=1)).sum())
        return tied, blank


def _rows_of(scores: Scores | ScoreRows, rows: Ints) -> Floats:
    """Return a copy of these rows; np.take is twice as fast as indexing."""
    found = scores.take(rows, axis=0) if isinstance(scores, np.ndarray) else scores[rows]
    return found.astype(np.float64, copy=False)


def _blocks(rows: Ints, width: int) -> Iterator[Ints]:
    """Split the rows into blocks of about _BLOCK numbers each."""
    many = max(1, _BLOCK // max(width, 1))
    return (rows[first : first + many] for first in range(0, len(rows), many))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxAnswers:
    """A detector's boxes, one per row, sorted by frame, then score (highest first), then label; see `BoxAnswers.of`.

    This order resolves all ties. `state` (F,) is per frame: an answered frame without rows is an empty answer, and an
    unanswered frame is missing. `reasons` explains the unreadable frames. If the dataset lacks the detector's class
    number i, boxes of that class have the `label` −1 − i. Such boxes are stored but not scored.
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
        expect(bool(are_pixels(self.xyxy).all()), "BoxAnswers.xyxy", "finite numbers, at most 1e9", "other values")
        expect(
            in_order(self.frame, self.score, self.label),
            "BoxAnswers",
            "rows sorted by frame, then score from the highest, then label",
            "another order",
        )
        with_rows = np.zeros(self.n_frames, dtype=bool)
        with_rows[self.frame] = True
        expect(bool((self.scored | ~with_rows).all()), "BoxAnswers.state", "answered for every frame with boxes", None)

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        answered = f"{int(self.scored.sum())} of {self.n_frames} frames answered"
        return f"<BoxAnswers {self.model}: {len(self)} boxes, {answered}>"

    @property
    def n_frames(self) -> int:
        """The number of frames, with or without boxes."""
        return len(self.state)

    @property
    def scored(self) -> Bools:
        """The frames that were answered, (F,)."""
        return np.asarray(self.state <= State.OUTSIDE)

    def starts(self) -> NDArray[np.int64]:
        """The first row of each frame, followed by the number of rows, (F + 1,)."""
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
        """Build answers from columns in any order; boxes with the same frame, score and label keep their order.

        Without `scored`, every frame counts as answered.

        >>> boxes = np.array([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 5.0]])
        >>> zeros = np.zeros(2, dtype=np.int64)
        >>> found = BoxAnswers.of(zeros, zeros, boxes, np.array([0.2, 0.9]), n_frames=1, n_classes=1)
        >>> found.score.tolist()
        [0.9, 0.2]
        """
        frame, label = np.asarray(frame), np.asarray(label)
        score = np.asarray(score, dtype=np.float64)
        boxes = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
        if not in_order(frame, score, label):
            order = order_of(frame, score, label)
            # np.take is nine times faster than boxes[order] for rows of four.
            frame, label, boxes, score = frame[order], label[order], np.take(boxes, order, axis=0), score[order]
        state = states_of(n_frames, scored, reasons)
        return cls(
            frame=frame,
            label=label,
            xyxy=boxes,
            score=score,
            state=state,
            n_classes=n_classes,
            model=model,
            reasons=dict(reasons),
        )

    @classmethod
    def of_frames(
        cls,
        found: Sequence[Detections | None],
        *,
        n_classes: int,
        model: str = "",
        reasons: Mapping[int, str] = _NO_REASONS,
    ) -> "BoxAnswers":
        """Build answers from the detections in each frame; None marks an unanswered frame."""
        sizes = [0 if one is None else len(one) for one in found]
        nonempty = [one for one in found if one is not None and len(one)]
        return cls.of(
            np.repeat(np.arange(len(found)), sizes),
            np.concatenate([one.label for one in nonempty]) if nonempty else np.zeros(0, dtype=np.int64),
            np.concatenate([one.xyxy for one in nonempty]) if nonempty else np.zeros((0, 4)),
            np.concatenate([one.score for one in nonempty]) if nonempty else np.zeros(0),
            n_frames=len(found),
            n_classes=n_classes,
            scored=np.array([one is not None for one in found], dtype=bool),
            model=model,
            reasons=reasons,
        )

    def merged(self) -> "BoxAnswers":
        """Return the same boxes with a single class, in the same order, to score only their localization."""
        return BoxAnswers(
            frame=self.frame,
            label=np.zeros(len(self), dtype=np.int8),
            xyxy=self.xyxy,
            score=self.score,
            state=self.state,
            n_classes=1,
            model=self.model,
            reasons=self.reasons,
        )

    def as_classes(self) -> ClassAnswers:
        """Return the class of each frame's most confident box; a frame without boxes gets `OUTSIDE`, which is wrong."""
        starts = self.starts()
        has_box = starts[1:] > starts[:-1]
        best = np.full(self.n_frames, -1, dtype=np.int64)
        best[has_box] = self.label[starts[:-1][has_box]]
        return ClassAnswers.from_labels(self.model, best, scored=self.scored)


Answers = ClassAnswers | BoxAnswers


def task_of(answers: Answers) -> Task:
    """Return the task of these answers."""
    return Task.DETECTION if isinstance(answers, BoxAnswers) else Task.CLASSIFICATION


def check_places(name: str, frame: Ints, label: Ints, *, n_frames: int, n_classes: int) -> None:
    """Refuse boxes whose frame or class does not exist; `name` is used in the error message."""
    if len(frame):
        low, high = int(frame.min()), int(frame.max())
        expect(low >= 0 and high < n_frames, f"{name}.frame", f"0–{n_frames - 1}", (low, high))
        low, high = int(label.min()), int(label.max())
        expect(low >= 0 and high < n_classes, f"{name}.label", f"0–{n_classes - 1}", (low, high))
