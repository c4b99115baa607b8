"""The measures of a pair of models: what one form changes against another. Each is a column, declared like any other.

A row is a frame, a set or an object. `FormPair.columns` has every column that two models have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from strobe.analyses.label_sample import is_planned
from strobe.analyses.measures import Measure, column_of, measures_of
from strobe.analyses.plan import Plan
from strobe.analyses.video_plan import answer_labels
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers
from strobe.core.arrays import Bools, Ints
from strobe.core.estimate import Missing
from strobe.metrics.columns import Column, share
from strobe.metrics.object_changes import MOVED, ObjectChanges, object_changes


@dataclass(frozen=True)
class FormPair:
    """The answers of an old and of a new form on the sets of a plan. A frame in several sets counts once."""

    plan: Plan
    old: Answers
    new: Answers

    @cached_property
    def labels(self) -> tuple[Ints, Ints]:
        """The answers of both forms on each set row, (R,); −1 is an answer outside the classes."""
        old, new = (answer_labels(answers.as_classes())[self.plan.frame] for answers in (self.old, self.new))
        return old, new

    @cached_property
    def has_label(self) -> Bools:
        """Whether each set row has a label, (R,). Labels of sets that a plan drew do not count: they are no sample."""
        if not len(self.plan.view.labels.frame) or is_planned(self.plan.dataset):
            return np.zeros(len(self.plan.frame), dtype=bool)
        return np.asarray(self.plan.view.right_labels[0] >= 0)

    @cached_property
    def right(self) -> tuple[Bools, Bools]:
        """Whether both forms are right on each set row with a label, (R,)."""
        if not self.has_label.any():
            return self.has_label, self.has_label
        old, new = (self.plan.view.right(labels) for labels in self.labels)
        return old, new

    @cached_property
    def scored(self) -> Bools:
        """The set rows that both forms answered, (R,)."""
        return np.asarray((self.old.scored & self.new.scored)[self.plan.frame])

    @cached_property
    def rows(self) -> Ints:
        """The set row of each distinct frame that both answered, a row with a label if there is one, (N,)."""
        order = np.lexsort((~self.has_label, self.plan.frame))
        rows = order[np.unique(self.plan.frame[order], return_index=True)[1]]
        return np.asarray(rows[self.scored[rows]])

    @cached_property
    def whole(self) -> Bools:
        """The sets that both forms answered on every frame, (S,)."""
        return self._every(self.scored)

    def _every(self, marks: Bools) -> Bools:
        """Return the sets whose every row is marked, (S,); `marks` is (R,)."""
        return np.asarray(np.bincount(self.plan.set_row[~marks], minlength=self.plan.n_sets) == 0)

    def flips(self, kind: str, per: str) -> Column | Missing:
        """Return the frames or sets that were right and are wrong, were wrong and are right, or changed their answer.

        A change from one wrong answer to another is a change, but no flip. A set is right if all its rows are.
        """
        if not (isinstance(self.old, ClassAnswers) and isinstance(self.new, ClassAnswers)):
            return Missing("it is for classifiers")
        same, (was, now), known = np.equal(*self.labels), self.right, self.has_label
        if kind != "changed" and not known.any():
            return Missing("no frame has a label, or a plan drew the sets with one")
        if per == "sets":
            same, was, now, known = (self._every(marks) for marks in (same, was, now, known))
            scored, video = self.whole, self.plan.cluster
        else:
            same, was, now, known, scored = (marks[self.rows] for marks in (same, was, now, known, self.scored))
            video = self.plan.view.frames.video[self.plan.frame[self.rows]]
        marks = {"negative": was & ~now, "positive": ~was & now, "changed": ~same}[kind]
        return share(marks, video, measured=scored if kind == "changed" else scored & known, rare=True)

    @cached_property
    def boxes(self) -> ObjectChanges | None:
        """The paired boxes on the frames that both answered; None for classifiers."""
        if not (isinstance(self.old, BoxAnswers) and isinstance(self.new, BoxAnswers)):
            return None
        return object_changes(self.old, self.new, np.unique(self.plan.frame[self.scored]))

    def objects(self, of: "OfObjects") -> Column | Missing:
        """Return a share of objects, from the frame of each and a mark."""
        if self.boxes is None or not (isinstance(self.old, BoxAnswers) and isinstance(self.new, BoxAnswers)):
            return Missing("it is for detectors")
        frame, marks = of(self.boxes, self.old, self.new)
        return share(marks, self.plan.view.frames.video[frame], rare=True)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Every column of what the new answers change against the old ones, by name.

        Classifiers have flips by frame and by set; without labels only the changed ones. Detectors have objects lost,
        found, relabelled and moved. A classifier and a detector have none.
        """
        found = {one.name: column_of(one, self) for one in measures_of("forms")}
        return {name: column for name, column in found.items() if isinstance(column, Column)}


Worse = Literal["more", "less"]
OfObjects = Callable[[ObjectChanges, BoxAnswers, BoxAnswers], tuple[Ints, Bools]]
"""What returns the frame of each object and a mark, from the paired boxes and both answers."""


def _flips(name: str, kind: str, per: Literal["frames", "sets"], worse: Worse, meaning: str) -> Measure[Any]:
    return Measure(
        name,
        meaning,
        family="forms",
        per=per,
        headline=per == "frames",
        more_is_worse=worse == "more",
        column=lambda pair: pair.flips(kind, per),
    )


def _gone(answers: BoxAnswers, paired: Ints, gone: Ints) -> tuple[Ints, Bools]:
    """Return the frames of the boxes of one form, and which of them have no partner."""
    return answers.frame[np.concatenate([paired, gone])], np.arange(len(paired) + len(gone)) >= len(paired)


def _objects(name: str, worse: Worse, of: OfObjects, meaning: str) -> Measure[Any]:
    is_worse, column = worse == "more", lambda pair: pair.objects(of)
    return Measure(name, meaning, family="forms", per="objects", more_is_worse=is_worse, column=column)


MEASURES: tuple[Measure[Any], ...] = (
    _flips("negative_flips", "negative", "frames", "more", "Share of frames that were right and are now wrong."),
    _flips("positive_flips", "positive", "frames", "less", "Share of frames that were wrong and are now right."),
    _flips("changed", "changed", "frames", "more", "Share of frames whose answer changed."),
    _flips(
        "negative_flip_sets", "negative", "sets", "more",
        "Share of sets that were right on every frame and are now wrong on one.",
    ),
    _flips(
        "positive_flip_sets", "positive", "sets", "less",
        "Share of sets that were wrong on some frame and are now right on all.",
    ),
    _flips("changed_sets", "changed", "sets", "more", "Share of sets with a frame whose answer changed."),
    _objects(
        "objects_lost", "more", lambda boxes, old, _: _gone(old, boxes.old, boxes.lost),
        "Share of the objects of the old form, at a score of 0.5, that the new form does not find.",
    ),
    _objects(
        "objects_found", "less", lambda boxes, _, new: _gone(new, boxes.new, boxes.found),
        "Share of the objects of the new form, at a score of 0.5, that the old form did not find.",
    ),
    _objects(
        "objects_relabelled", "more",
        lambda boxes, old, new: (old.frame[boxes.old], old.label[boxes.old] != new.label[boxes.new]),
        "Share of the objects that both forms find to which they give different classes.",
    ),
    _objects(
        "objects_moved", "more", lambda boxes, old, _: (old.frame[boxes.old], boxes.overlap < MOVED),
        f"Share of the objects that both forms find whose boxes overlap by less than {MOVED:g}.",
    ),
)  # fmt: skip
"""The measures of a pair of models, in the order of the tables."""
