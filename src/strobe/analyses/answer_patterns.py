"""Checks of a model's answers before scoring: one constant answer, ties, answers identical to another model's.

A model that always gives the same answer never flickers, and one that guesses is stable by luck. Neither is evidence
about flicker, so a note accompanies their figures everywhere.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from strobe.analyses.plan import Plan
from strobe.core.answers import BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Bools
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.errors import printable
from strobe.metrics.paired import LEVEL, sign_flip

__all__ = [
    "AnswerPattern",
    "answer_lines",
    "answer_pattern",
    "digest_of_answers",
    "digest_of_boxes",
    "note_lines",
    "with_twins",
]

ENOUGH_VIDEOS, LITTLE = 20, 0.25
"""Thresholds for reporting a model that is not significantly better than one constant answer.

From this number of videos on, it is always reported. With fewer, it is reported only if it also gains less than this
share of the possible gain, because few videos can hardly show a difference.
"""
PERHAPS = 0.2
"""Below this p-value, such a model may well be better than one constant answer and stays in the headline."""
MANY_TIES = 0.005
"""From this share of frames on, ties of the highest score are reported in a note."""

S = TypeVar("S", bound=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPattern:
    """Notes on a model's answers; omitted if there are none.

    `constant` is the one class it answers on all of its `n_frames`, if the sets have two or more classes
    (`n_classes`). `best_constant` is the class that would be right most often, and `best_constant_acc` its accuracy
    on the anchors. Both are present if the model is not significantly better (`p`, one-sided; None if it is no better
    at all). `tied_frames` are those whose highest score several classes share, `blank_frames` those whose scores are
    all equal. `same_as` names models with identical answers.
    """

    n_frames: Count
    n_classes: Count | None = field(default=None, metadata=LEFT_OUT)
    constant: str | None = field(default=None, metadata=LEFT_OUT)
    best_constant: str | None = field(default=None, metadata=LEFT_OUT)
    best_constant_acc: Share | None = field(default=None, metadata=LEFT_OUT)
    p: Share | None = field(default=None, metadata=LEFT_OUT)
    tied_frames: Count | None = field(default=None, metadata=LEFT_OUT)
    blank_frames: Count | None = field(default=None, metadata=LEFT_OUT)
    same_as: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)

    @property
    def is_idle(self) -> bool:
        """Whether its figures are weak evidence on flicker: one constant answer, or hardly better than that."""
        better = self.p is not None and self.p < PERHAPS
        return self.constant is not None or (self.best_constant is not None and not better)

    @property
    def warning(self) -> str | None:
        """The comparison with one constant answer in words; None if the model is better."""
        if self.constant is not None:
            return (
                f"it answers “{printable(self.constant)}” on every frame, and the sets are of {self.n_classes} "
                "classes: an answer that never changes says nothing about flicker"
            )
        if self.best_constant is None or self.best_constant_acc is None:
            return None
        above = "no higher than" if self.p is None else "not significantly above"
        test = "" if self.p is None else f"; p = {self.p:.2g}"
        little = ": how steady it is says little" if self.is_idle else ""
        return (
            f"its accuracy on the anchors is {above} that of always answering “{printable(self.best_constant)}” "
            f"({100 * self.best_constant_acc:.1f} %{test}){little}"
        )

    def sentences(self) -> list[str]:
        """Return all notes on the model."""
        out = [self.warning] if self.warning else []
        tied, blank = self.tied_frames or 0, self.blank_frames or 0
        if blank or (tied and tied >= MANY_TIES * self.n_frames):
            equal = f", {blank:,} of them with equal scores for all classes" if blank else ""
            out.append(
                f"several classes share the highest score on {tied:,} of {self.n_frames:,} frames "
                f"({100 * tied / self.n_frames:.1f} %{equal}); the first of them counts as the answer"
            )
        if self.same_as:
            names = ", ".join(printable(name) for name in self.same_as)
            out.append(f"it answers the same as {names} on every frame: is it the same model?")
        return out


def answer_pattern(plan: Plan, predictions: ClassAnswers, right: Bools) -> AnswerPattern | None:
    """Check a classifier's answers to the plan's frames; `right` (S,) marks the right anchors.

    If frames were skipped (--stop-early), only the anchors are checked, because the other answers are unknown.
    """
    state = predictions.state[plan.frames_used]
    frames = plan.frames_used[state == State.ANSWERED]
    if not len(frames):
        return None
    labels, names, counts = predictions.label[frames], plan.view.info.label_space.names, plan.by_class.n
    n_classes = int((counts > 0).sum())
    facts: dict[str, object] = {}
    every = not (state == State.SKIPPED).any()
    if n_classes > 1 and int(counts.max()) < plan.n_sets:
        if every and not (state == State.OUTSIDE).any() and (labels == labels[0]).all():
            facts |= {"constant": names[int(labels[0])], "n_classes": n_classes}
        facts |= _against_constant(plan, right, int(counts.argmax()))
    # Classes that share the highest score have at most half of the probability each.
    tied, blank = predictions.ties(frames[~(predictions.confidence[frames] > 0.51)]) if every else (0, 0)
    facts |= {"tied_frames": tied} if tied else {}
    facts |= {"blank_frames": blank} if blank else {}
    return AnswerPattern(n_frames=len(frames), **facts) if facts else None  # type: ignore[arg-type]


def _against_constant(plan: Plan, right: Bools, label: int) -> dict[str, object]:
    """Return the class that is right most often, if the model is not significantly better than it."""
    constant = np.zeros(plan.n_sets, dtype=bool)
    constant[plan.class_sets[plan.class_labels == label]] = True
    gap = right.astype(np.int64) - constant
    facts = {"best_constant": plan.view.info.label_space.names[label], "best_constant_acc": float(constant.mean())}
    if gap.sum() <= 0:
        return facts
    _, place = np.unique(plan.cluster, return_inverse=True)
    sums = np.bincount(place, weights=gap).astype(np.int64)
    far = sums.sum() > 6 * np.sqrt(float((sums * sums).sum()))  # p is far below 0.05, so the exact test is not needed
    little = gap.sum() < LITTLE * int((~constant).sum())
    if far or (len(sums) < ENOUGH_VIDEOS and not little) or (p := sign_flip(sums) / 2) < LEVEL:
        return {}
    return {**facts, "p": p}


def digest_of_answers(predictions: ClassAnswers, plan: Plan) -> str:
    """Return a key that two models share iff they answer every frame alike, with equal confidence if known."""
    used = plan.frames_used
    hasher = hashlib.sha256(np.ascontiguousarray(predictions.state[used]).tobytes())
    hasher.update(predictions.label[used].astype(np.int64, copy=False).tobytes())
    if predictions.has_shares:
        hasher.update(np.ascontiguousarray(predictions.confidence[used]).tobytes())
    return hasher.hexdigest()[:16]


def digest_of_boxes(found: BoxAnswers) -> str:
    """Return the same for a detector: every box, its class and its score."""
    hasher = hashlib.sha256(np.ascontiguousarray(found.state).tobytes())
    for column in (found.frame, found.label, found.xyxy, found.score):
        hasher.update(np.ascontiguousarray(column).tobytes())
    return hasher.hexdigest()[:16]


def with_twins(scores: Sequence[S]) -> list[S]:
    """Return the scores, each with the models that answer identically; ignored if all answers are right."""
    out: list[S] = []
    for one in scores:
        perfect = one.headline[1].value == 1
        same = [other.model for other in scores if other.exact == one.exact and other.model != one.model]
        if same and one.exact and not perfect:
            pattern = replace(one.answers or AnswerPattern(n_frames=0), same_as=tuple(same))
            new = [note for note in pattern.sentences() if note not in (one.notes or ())]
            out.append(replace(one, answers=pattern, notes=(*(one.notes or ()), *new)))
        else:
            out.append(one)
    return out


def answer_lines(models: Mapping[str, Any]) -> list[str]:
    """Return the notes on the models' answers, each with the model's name."""
    found = [(name, one.answers) for name, one in models.items() if one.answers is not None]
    return [f"{printable(name)}: {sentence}" for name, answers in found for sentence in answers.sentences()]


def note_lines(models: Mapping[str, Any]) -> list[str]:
    """Return the notes of every model: a note on one model begins with its name, a shared note appears once."""
    lines = []
    for name, one in models.items():
        own = one.answers.sentences() if one.answers is not None else []
        lines += [f"{printable(name)}: {note}" if note in own else note for note in one.notes or ()]
    return list(dict.fromkeys(lines))
