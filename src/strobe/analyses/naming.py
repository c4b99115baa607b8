"""People's answers to "What is this?" as a table with a row per image and a column per person.

The rules:

- A person's latest answer on an image counts.
- A class is right according to the dataset's label rule. "None of these", "cannot tell" and "too late" are answers.
  Each is a category of its own and counts as wrong.
- An image is an anchor, or a member of a variant. An image shown as a control counts only as a control, and an image
  shown for practice does not count. An answer that gives a set its label says nothing about people, and is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools, Floats, Ints, Texts
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, printable
from strobe.core.people import LABEL, SAID, NameAnswer, latest_answers
from strobe.core.variants import ANCHOR

Said = Literal["class", "none", "unsure", "late"]

CONTROL = "control"
"""The condition of an image that is shown as an attention check."""

PRACTICE = "practice"
"""The condition of a practice image, whose class is shown to the person."""

MEMBER = "member"
"""The role of images other than anchors if variants have no names."""


@dataclass(frozen=True, kw_only=True)
class NamingTable:
    """The answers of P people to N images; each of these images is in a set and has an answer.

    `row` (N,) is the set row that scores an image: the anchor row, if the image is an anchor. `said` (N, P) is a class,
    or −1 if there is no answer. Three numbers beyond the classes mean none, unsure and late, in this order. `right` (N,
    P) is 1, 0, or −1. `seconds` is NaN if unknown, and `shown` is the condition. `elsewhere` counts answers about
    images that are in no set.
    """

    dataset: Dataset
    people: tuple[str, ...]
    row: Ints
    said: NDArray[np.int64]
    right: NDArray[np.int8]
    seconds: Floats
    shown: Texts
    elsewhere: int

    @classmethod
    def of(cls, dataset: Dataset) -> "NamingTable":
        """Build the table from the dataset's answers, using only answers that count."""
        row_of = _judged_by(dataset)
        latest = latest_answers(answer for answer in dataset.names if answer.condition != LABEL)
        frame_ids = sorted((name for name in latest if name in row_of), key=row_of.__getitem__)
        people = sorted({person for name in frame_ids for person in latest[name]})
        column = {person: index for index, person in enumerate(people)}
        shape = len(frame_ids), len(people)
        category, seconds = np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
        shown = np.full(shape, "", dtype=object)
        classes = {label: place for place, label in enumerate(dataset.info.label_space.ids)}
        for line, name in enumerate(frame_ids):
            for person, answer in latest[name].items():
                at = line, column[person]
                category[at], shown[at] = _category(answer, classes), answer.condition
                seconds[at] = np.nan if answer.seconds is None else answer.seconds
        return cls(
            dataset=dataset,
            people=tuple(people),
            row=np.array([row_of[name] for name in frame_ids], dtype=np.int64),
            said=category,
            right=_right(dataset, [row_of[name] for name in frame_ids], category),
            seconds=seconds,
            shown=shown,
            elsewhere=sum(map(len, latest.values())) - int((category >= 0).sum()),
        )

    @classmethod
    def by_models(cls, dataset: Dataset, answers: Sequence[ClassAnswers]) -> "NamingTable":
        """Build the same table for models; each model gives one answer per image, and this answer always counts."""
        rows = np.array(sorted(_judged_by(dataset).values()), dtype=np.int64)
        frame, n_classes = dataset.sets.frame[rows], len(dataset.info.label_space)
        category = np.stack([np.where(answer.label < 0, n_classes, answer.label)[frame] for answer in answers], axis=1)
        category = np.where(np.stack([answer.scored[frame] for answer in answers], axis=1), category, -1).astype(
            np.int64
        )
        return cls(
            dataset=dataset,
            people=tuple(answer.model for answer in answers),
            row=rows,
            said=category,
            right=_right(dataset, rows.tolist(), category),
            seconds=np.full(category.shape, np.nan),
            shown=np.full(category.shape, "", dtype=object),
            elsewhere=0,
        )

    @property
    def n_classes(self) -> int:
        """The number of classes; answers with a higher number name no class."""
        return len(self.dataset.info.label_space)

    @property
    def frame(self) -> Ints:
        """The frame of each image, (N,)."""
        return self.dataset.sets.frame[self.row]

    @property
    def source(self) -> Ints:
        """The source of each image, (N,), which intervals resample."""
        return self.dataset.video_of_set[self.dataset.sets.set[self.row]]

    @property
    def variant(self) -> Texts:
        """The role of each image, (N,): `anchor`, its variant, or `member` if variants have no names."""
        sets, variants = self.dataset.sets, self.dataset.variants
        place = sets.variant[sets.set[self.row]]
        named = np.full(len(place), MEMBER, dtype=object) if variants is None else variants.variant[place]
        return np.where(sets.is_anchor[self.row], ANCHOR, named).astype(object)

    @property
    def is_control(self) -> Bools:
        """Return which answers were given to a control, (N, P)."""
        return np.asarray((self.shown == CONTROL) & (self.said >= 0), dtype=bool)

    @property
    def counts(self) -> Bools:
        """Return which answers count, (N, P): those given neither to controls nor for practice."""
        return np.asarray((self.said >= 0) & (self.shown != CONTROL) & (self.shown != PRACTICE), dtype=bool)

    def word(self, category: int) -> Said:
        """Return the name of a category of `said`: a class, none, unsure or late."""
        return cast(Said, SAID[max(category - self.n_classes + 1, 0)])

    def judge(self, label: Ints, scored: Bools) -> NDArray[np.int8]:
        """Return whether a model with one class per frame is right on each image, (N,): 1, 0, or −1 if unscored."""
        right = self.dataset.right_rows(label)[self.row]
        return np.where(scored[self.frame], right, -1).astype(np.int8)


def _judged_by(dataset: Dataset) -> dict[str, int]:
    """Return the set row of every frame in a set: its row as an anchor if it has one, else its first row."""
    sets, ids = dataset.sets, dataset.frame_ids()
    order = np.lexsort((np.arange(len(sets.set)), ~sets.is_anchor))
    frames, first = np.unique(sets.frame[order], return_index=True)
    return {ids[frame]: int(order[place]) for frame, place in zip(frames.tolist(), first.tolist(), strict=True)}


def _category(answer: NameAnswer, classes: dict[str, int]) -> int:
    if answer.said != "class":
        return len(classes) + SAID.index(answer.said) - 1
    if answer.label not in classes:
        raise InvalidValue(
            f"names: {printable(answer.annotator)} named the class {printable(answer.label)!r}, which the dataset does "
            f"not have (answer {printable(answer.answer_id)}); remove that row from names.parquet"
        )
    return classes[answer.label]


def _right(dataset: Dataset, rows: list[int], category: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return whether each answer (N, P) is right by the dataset's label rule."""
    n_classes, out = len(dataset.info.label_space), np.full(category.shape, -1, dtype=np.int8)
    label = np.full(len(dataset.sets.set), -1, dtype=np.int64)
    for index, column in enumerate(category.T):
        label[rows] = np.where(column < n_classes, column, -1)
        out[:, index] = np.where(column >= 0, dataset.right(label)[rows], -1)
    return out
