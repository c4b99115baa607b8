"""The measures of a pair of models: what one form changes against another. Each is a column, declared like any other.

A row is a frame, a set or an object. `FormPair.columns` has every column that two models have.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from strobe.analyses.label_sample import is_planned
from strobe.analyses.measures import Measure, column_of, measure, measures_of
from strobe.analyses.plan import Plan
from strobe.analyses.video_plan import answer_labels
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers
from strobe.core.arrays import Bools, Ints
from strobe.core.estimate import Missing
from strobe.metrics.columns import Column, share
from strobe.metrics.negative_flips import MOVED, Flips, ObjectChanges, flips, object_changes, set_flips

_NO_CLASSES = "it is for classifiers"
_NO_BOXES = "it is for detectors"
_NO_LABELS = "no frame has a label, or a plan drew the sets with one"


@dataclass(frozen=True)
class FormPair:
    """The answers of an old and of a new form on the sets of a plan. A frame in several sets counts once."""

    plan: Plan
    old: Answers
    new: Answers

    @property
    def is_classes(self) -> bool:
        """Whether both answer with classes."""
        return isinstance(self.old, ClassAnswers) and isinstance(self.new, ClassAnswers)

    @cached_property
    def labels(self) -> tuple[Ints, Ints]:
        """The answers of both forms on each frame of the dataset, (F,); −1 is an answer outside its classes."""
        return answer_labels(self.old.as_classes()), answer_labels(self.new.as_classes())

    @cached_property
    def has_label(self) -> Bools:
        """Whether each set row has a label, (R,). Labels of sets that a plan drew do not count: they are no sample."""
        if not len(self.plan.view.labels.frame) or is_planned(self.plan.dataset):
            return np.zeros(len(self.plan.frame), dtype=bool)
        return np.asarray(self.plan.view.right_labels[0] >= 0)

    @cached_property
    def right(self) -> tuple[Bools, Bools]:
        """Whether both forms are right on each set row, (R,)."""
        if not self.has_label.any():
            nothing = np.zeros(len(self.plan.frame), dtype=bool)
            return nothing, nothing
        old, new = (self.plan.view.right_rows(label) for label in self.labels)
        return old, new

    @cached_property
    def scored(self) -> Bools:
        """The frames that both forms answered, (F,)."""
        return np.asarray(self.old.scored & self.new.scored)

    @cached_property
    def rows(self) -> Ints:
        """The set row of each distinct frame, a row with a label if there is one, (N,)."""
        order = np.lexsort((~self.has_label, self.plan.frame))
        return np.asarray(order[np.unique(self.plan.frame[order], return_index=True)[1]])

    @cached_property
    def by_row(self) -> Flips:
        """The flips of every set row, (R,)."""
        (old, new), (was, now) = self.labels, self.right
        return flips(old[self.plan.frame], new[self.plan.frame], was, now)

    @cached_property
    def by_set(self) -> Flips:
        """The flips of every set, (S,)."""
        return set_flips(self.by_row, *self.right, self.plan.set_row, n_sets=self.plan.n_sets)

    @cached_property
    def whole(self) -> Bools:
        """The sets that both forms answered on every frame, (S,)."""
        return self.of_all_rows(self.scored[self.plan.frame])

    def of_all_rows(self, marks: Bools) -> Bools:
        """Return the sets whose every row is marked, (S,); `marks` is (R,)."""
        return np.asarray(np.bincount(self.plan.set_row[~marks], minlength=self.plan.n_sets) == 0)

    def frames(self, kind: Literal["negative", "positive", "changed"]) -> Column | Missing:
        """Return flips of one kind, with a row per frame."""
        if not self.is_classes:
            return Missing(_NO_CLASSES)
        known = np.ones(len(self.rows), dtype=bool) if kind == "changed" else self.has_label[self.rows]
        if not known.any():
            return Missing(_NO_LABELS)
        frame = self.plan.frame[self.rows]
        video = self.plan.view.frames.video[frame]
        return share(getattr(self.by_row, kind)[self.rows], video, measured=known & self.scored[frame], rare=True)

    def sets(self, kind: Literal["negative", "positive", "changed"]) -> Column | Missing:
        """Return flips of one kind, with a row per set."""
        if not self.is_classes:
            return Missing(_NO_CLASSES)
        known = self.whole if kind == "changed" else self.whole & self.of_all_rows(self.has_label)
        if kind != "changed" and not self.has_label.any():
            return Missing(_NO_LABELS)
        return share(getattr(self.by_set, kind), self.plan.cluster, measured=known, rare=True)

    @cached_property
    def boxes(self) -> ObjectChanges | None:
        """The paired boxes on the frames that both answered; None for classifiers."""
        if not (isinstance(self.old, BoxAnswers) and isinstance(self.new, BoxAnswers)):
            return None
        used = self.plan.frames_used
        return object_changes(self.old, self.new, used[self.scored[used]])

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Every column of what the new answers change against the old ones, by name.

        Classifiers have flips by frame and by set; without labels only the changed ones. Detectors have objects lost,
        found, relabelled and moved. A classifier and a detector have none.
        """
        found = {one.name: column_of(one, self) for one in measures_of("forms")}
        return {name: column for name, column in found.items() if isinstance(column, Column)}

    def objects(self, frame: Ints, marks: Bools) -> Column:
        """Return a share of objects from the frame of each, (N,)."""
        return share(marks, self.plan.view.frames.video[frame], rare=True)


def _flips(name: str, meaning: str, per: Literal["frames", "sets"], *, more_is_worse: bool = True) -> Measure[Any]:
    """Declare one kind of flips (the first word of the name) by frame or by set."""
    kind = name.partition("_")[0]
    return Measure(
        name,
        meaning,
        family="forms",
        per=per,
        headline=per == "frames",
        more_is_worse=more_is_worse,
        column=lambda pair: getattr(pair, per)(kind),
    )


FLIPS = (
    _flips("negative_flips", "Share of frames that were right and are now wrong.", "frames"),
    _flips("positive_flips", "Share of frames that were wrong and are now right.", "frames", more_is_worse=False),
    _flips("changed", "Share of frames whose answer changed.", "frames"),
    _flips("negative_flip_sets", "Share of sets that were right on every frame and are now wrong on one.", "sets"),
    _flips(
        "positive_flip_sets",
        "Share of sets that were wrong on some frame and are now right on all.",
        "sets",
        more_is_worse=False,
    ),
    _flips("changed_sets", "Share of sets with a frame whose answer changed.", "sets"),
)
"""The flips of classifiers."""


@measure(worse="more", family="forms", per="objects")
def objects_lost(pair: FormPair) -> Column | Missing:
    """Share of the objects of the old form, at a score of 0.5, that the new form does not find."""
    if pair.boxes is None or not isinstance(pair.old, BoxAnswers):
        return Missing(_NO_BOXES)
    both = np.concatenate([pair.boxes.old, pair.boxes.lost])
    return pair.objects(pair.old.frame[both], np.arange(len(both)) >= len(pair.boxes.old))


@measure(worse="less", family="forms", per="objects")
def objects_found(pair: FormPair) -> Column | Missing:
    """Share of the objects of the new form, at a score of 0.5, that the old form did not find."""
    if pair.boxes is None or not isinstance(pair.new, BoxAnswers):
        return Missing(_NO_BOXES)
    both = np.concatenate([pair.boxes.new, pair.boxes.found])
    return pair.objects(pair.new.frame[both], np.arange(len(both)) >= len(pair.boxes.new))


@measure(worse="more", family="forms", per="objects")
def objects_relabelled(pair: FormPair) -> Column | Missing:
    """Share of the objects that both forms find to which they give different classes."""
    if pair.boxes is None or not (isinstance(pair.old, BoxAnswers) and isinstance(pair.new, BoxAnswers)):
        return Missing(_NO_BOXES)
    other = pair.old.label[pair.boxes.old] != pair.new.label[pair.boxes.new]
    return pair.objects(pair.old.frame[pair.boxes.old], np.asarray(other))


@measure(worse="more", family="forms", per="objects")
def objects_moved(pair: FormPair) -> Column | Missing:
    """Share of the objects that both forms find whose boxes overlap by less than 0.5."""
    if pair.boxes is None or not isinstance(pair.old, BoxAnswers):
        return Missing(_NO_BOXES)
    return pair.objects(pair.old.frame[pair.boxes.old], pair.boxes.overlap < MOVED)


MEASURES: tuple[Measure[Any], ...] = (
    *FLIPS,
    objects_lost,
    objects_found,
    objects_relabelled,
    objects_moved,
)
"""The measures of a pair of models, in the order of the tables."""
