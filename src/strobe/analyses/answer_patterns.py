"""Checks of a model's answers before scoring: a constant answer, ties, and the same answers as another model.

A model that always gives the same answer never flickers, and a model that guesses is stable only by luck. Neither is
evidence about flicker, so a note accompanies the figures of such models everywhere.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from strobe.analyses.plan import Plan
from strobe.core.answers import BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Bools, blocks
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.errors import printable
from strobe.core.readings import folded, is_reading
from strobe.metrics.paired import LEVEL, sign_flip

ENOUGH_VIDEOS, LITTLE = 20, 0.25
"""Thresholds for reporting a model that is not significantly better than one constant answer.

With at least ENOUGH_VIDEOS videos, such a model is always reported. With fewer videos, which can hardly show a
difference, it is reported only if it also gains less than LITTLE, a share of the possible gain.
"""
PERHAPS = 0.2
"""Below this p-value, the model is probably better than one constant answer and stays in the headline."""
MANY_TIES = 0.005
"""If several classes share the highest score on at least this share of the frames, a note reports it."""

S = TypeVar("S", bound=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPattern:
    """Notes on a model's answers; omitted if there are none.

    `constant` is the class that the model answers on all of its `n_frames`, if the sets have two or more classes
    (`n_classes`). `best_constant` is the class that would be right most often, and `best_constant_acc` is its accuracy
    on the anchors. These two fields are present if the model is not significantly better than this class (`p`,
    one-sided; None if it is no better at all). `tied_frames` counts the frames in which several classes share the
    highest score. `blank_frames` counts the frames in which all scores are equal. `same_as` names models with identical
    answers.

    For a detector, `same_boxes` is the number of boxes per frame if every frame has the same boxes (0: no box at all).
    `constant` is the class of all its boxes. `own_ap` is its mean AP on the anchors, and `other_ap` the mean AP of its
    boxes from other videos. These two fields are present if `own_ap` is not significantly higher than `other_ap` (`p`).
    `misread` explains the unit, order or class numbering that its boxes seem to have.
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
    same_boxes: Count | None = field(default=None, metadata=LEFT_OUT)
    own_ap: Share | None = field(default=None, metadata=LEFT_OUT)
    other_ap: Share | None = field(default=None, metadata=LEFT_OUT)
    of_boxes: bool | None = field(default=None, metadata=LEFT_OUT)
    misread: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)

    @property
    def is_idle(self) -> bool:
        """Whether the model's figures are weak evidence on flicker.

        This is the case if the model gives one constant answer, or is hardly better than a constant answer.

        A detector whose boxes all have one class is not idle for that reason, because its boxes can still move and
        disappear.
        """
        better = self.p is not None and self.p < PERHAPS
        if self.of_boxes:
            return self.same_boxes is not None or (self.other_ap is not None and not better)
        return self.constant is not None or (self.best_constant is not None and not better)

    @property
    def warning(self) -> str | None:
        """The warning that the model is no better than a constant answer; None if the model is better."""
        if self.of_boxes:
            return self._warning_of_boxes()
        if self.constant is not None:
            return (
                f"it answers “{printable(self.constant)}” on every frame, although the sets have {self.n_classes} "
                "classes; a constant answer is no evidence about flicker"
            )
        if self.best_constant is None or self.best_constant_acc is None:
            return None
        above = "no higher than" if self.p is None else "not significantly above"
        test = "" if self.p is None else f"; p = {self.p:.2g}"
        little = ", so its stability is weak evidence" if self.is_idle else ""
        return (
            f"its accuracy on the anchors is {above} that of the constant answer “{printable(self.best_constant)}” "
            f"({100 * self.best_constant_acc:.1f} %{test}){little}"
        )

    def _warning_of_boxes(self) -> str | None:
        """Return the warning about a detector that ignores its frames, or whose class never changes."""
        if self.same_boxes is not None:
            boxes = "the same box" if self.same_boxes == 1 else f"the same {self.same_boxes:,} boxes"
            what = f"{boxes} on every frame" if self.same_boxes else "no box of the classes here on any frame"
            return f"it gives {what}: an answer that never changes is no evidence about flicker"
        if self.own_ap is not None and self.other_ap is not None:
            above = "no higher than" if self.p is None else "not significantly above"
            test = "" if self.p is None else f"; p = {self.p:.2g}"
            little = ", so its stability is weak evidence" if self.is_idle else ""
            return (
                f"its mean AP on the anchors ({100 * self.own_ap:.1f} %) is {above} that of the boxes it gave for "
                f"other videos ({100 * self.other_ap:.1f} %{test}){little}"
            )
        if self.constant is not None:
            return (
                f"all its boxes have the class “{printable(self.constant)}”, but the objects have {self.n_classes} "
                "classes: a class that never changes is no evidence about flicker"
            )
        return None

    def sentences(self) -> list[str]:
        """Return all notes on the model."""
        out = [*(self.misread or ()), *([self.warning] if self.warning else [])]
        tied, blank = self.tied_frames or 0, self.blank_frames or 0
        if blank or (tied and tied >= MANY_TIES * self.n_frames):
            equal = f", {blank:,} of them with equal scores for all classes" if blank else ""
            out.append(
                f"several classes share the highest score on {tied:,} of {self.n_frames:,} frames "
                f"({100 * tied / self.n_frames:.1f} %{equal}); the first of these classes counts as the answer"
            )
        if self.same_as:
            names = ", ".join(printable(name) for name in self.same_as)
            out.append(f"it gives the same answers as {names} on every frame; is it the same model?")
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
    tied, blank = predictions.ties(frames) if every else (0, 0)
    facts |= {"tied_frames": tied} if tied else {}
    facts |= {"blank_frames": blank} if blank else {}
    return AnswerPattern(n_frames=len(frames), **facts) if facts else None  # type: ignore[arg-type]


def _against_constant(plan: Plan, right: Bools, label: int) -> dict[str, object]:
    """Return the most frequent right class, unless the model is significantly better than this constant answer."""
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
    """Return a key that is equal for two models iff their answers are equal on every frame.

    If confidence is known, it must be equal too.
    """
    used = plan.frames_used
    hasher = hashlib.sha256(np.ascontiguousarray(predictions.state[used]).tobytes())
    hasher.update(predictions.label[used].astype(np.int64, copy=False).tobytes())
    if predictions.has_shares:
        for part in blocks(len(used)):
            hasher.update(predictions.confidence_at(used[part]).tobytes())
    return hasher.hexdigest()[:16]


def digest_of_boxes(found: BoxAnswers) -> str:
    """Return a key that is equal for two detectors iff all their boxes, classes and scores are equal."""
    hasher = hashlib.sha256(np.ascontiguousarray(found.state).tobytes())
    for column in (found.frame, found.label, found.xyxy, found.score):
        hasher.update(np.ascontiguousarray(column).tobytes())
    return hasher.hexdigest()[:16]


def with_twins(scores: Sequence[S]) -> list[S]:
    """Add to each score the names of models with identical answers, unless all answers are right."""
    out: list[S] = []
    for score in scores:
        perfect = score.headline[1].value == 1
        same = [other.model for other in scores if other.exact == score.exact and other.model != score.model]
        if same and score.exact and not perfect:
            pattern = replace(score.answers or AnswerPattern(n_frames=0), same_as=tuple(same))
            new = [note for note in pattern.sentences() if note not in (score.notes or ())]
            out.append(replace(score, answers=pattern, notes=(*(score.notes or ()), *new)))
        else:
            out.append(score)
    return out


def answer_lines(models: Mapping[str, Any]) -> list[str]:
    """Return the notes on the models' answers, each preceded by the model's name."""
    found = [(name, model.answers) for name, model in models.items() if model.answers is not None]
    return [f"{printable(name)}: {sentence}" for name, answers in found for sentence in answers.sentences()]


def note_lines(models: Mapping[str, Any]) -> list[str]:
    """Return the notes on all models. A note on one model begins with its name; a shared note appears once."""
    lines = []
    for name, model in models.items():
        own = model.answers.sentences() if model.answers is not None else []
        lines += [
            (printable(name) if note in own or is_reading(note) else "", note)
            for note in dict.fromkeys(model.notes or ())
        ]
    return folded(lines)
