"""The training data as arrays: the target of every frame, and the members of every set that count."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.metrics.flicker import first_change
from strobe.metrics.pmk import first_wrong, right_at

_NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The target of each set row: `label` (R,), −1 if unknown, and all its labels (R, C), if they are requested."""

    label: Ints
    every: Bools


def targets_of(dataset: Dataset, *, multi_label: bool = False) -> Targets:
    """Return the class of each set row by the dataset's label rule, as `row_labels` does.

    Only with `multi_label`, all classes of a row are returned too: their table would be too large for many frames.
    """
    label, n_classes = row_labels(dataset, multi_label=multi_label), len(dataset.info.label_space)
    if not multi_label:
        return Targets(label, np.zeros((0, n_classes), dtype=bool))
    has = np.zeros((len(dataset.frames), n_classes), dtype=bool)
    has[dataset.labels.frame, dataset.labels.label] = True
    return Targets(label, has[dataset.judged_frame])


def row_labels(dataset: Dataset, *, multi_label: bool = False) -> Ints:
    """Return the class of each set row by the dataset's label rule, (R,), −1 if it is unknown.

    If a row has several classes, the class of the largest box is used. Raises StrobeError if nothing decides between
    several labels, unless `multi_label`.
    """
    n_frames, n_classes = len(dataset.frames), len(dataset.info.label_space)
    pairs = np.unique(dataset.labels.frame.astype(np.int64) * n_classes + dataset.labels.label)
    frame, label = np.divmod(pairs, n_classes)
    count = np.bincount(frame, minlength=n_frames)
    label_of_frame = np.full(n_frames, _NONE, dtype=np.int64)
    label_of_frame[frame[::-1]] = label[::-1]  # in descending order, so the smallest label remains
    several = np.flatnonzero(count > 1)
    judged = dataset.judged_frame
    if len(several) and not multi_label:
        largest = _largest(dataset)
        label_of_frame[several] = largest[several]
        lost = np.intersect1d(several[largest[several] == _NONE], judged)
        if len(lost):
            key = printable(dataset.frames.key[lost[0]])
            raise StrobeError(
                f"{printable(dataset.name)}: {len(lost)} frame(s) have several labels and no boxes to find the "
                f"largest object, first {key}; train on all labels with <<multi_label>>"
            )
    found = label_of_frame[judged]
    if not (found != _NONE).any():
        raise StrobeError(f"{printable(dataset.name)}: no frame has a label, so there is nothing to train on")
    return found


def _largest(dataset: Dataset) -> Ints:
    """Return the label of each frame's largest box, (F,), −1 if there is none. Crowds are not objects."""
    label_of_frame = np.full(len(dataset.frames), _NONE, dtype=np.int64)
    boxes = dataset.boxes
    if boxes is None:
        return label_of_frame
    area = np.prod(boxes.xyxy[:, 2:] - boxes.xyxy[:, :2], axis=1)
    order = np.argsort(area, kind="stable")
    order = order[~boxes.crowd[order].astype(bool)]
    label_of_frame[boxes.frame[order]] = boxes.label[order]  # written by ascending area, so the largest remains
    return label_of_frame


def _unread(dataset: Dataset) -> Targets:
    """Return the targets of a training that reads no label."""
    count = len(dataset.sets.set)
    return Targets(np.full(count, _NONE, dtype=np.int64), np.zeros((count, 0), dtype=bool))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSets:
    """Sets to train on.

    For each row, `frame` (R,) is its frame in the dataset, `pixel` (R,) its index among the prepared pixels, `label`
    (R,) its class, and `every` (R, C) all its classes, or (0, C) if only one counts. `anchor` (S,) is the row of each
    set's anchor. `member` (S, M) are rows, including the anchor, padded with −1.
    """

    frame: Ints
    pixel: Ints
    label: Ints
    every: Bools
    anchor: Ints
    member: Ints

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        sets: Ints,
        pixel_of_frame: Ints,
        *,
        k: int = 0,
        multi_label: bool = False,
        which: Literal["matching", "labelled", "all", "unread"] = "matching",
    ) -> "TrainingSets":
        """Return the given sets of a dataset, with the rows within `k` levels (0: all) that `which` selects.

        These are the rows with the anchor's label, the rows with any label, or all; `unread` is all without reading a
        label. Sets whose anchor is not selected are left out, and so are controls.
        """
        table = dataset.sets
        targets = _unread(dataset) if which == "unread" else targets_of(dataset, multi_label=multi_label)
        near = (dataset.row_levels() <= k) if k else np.ones(len(table.set), dtype=bool)
        chosen = np.isin(np.arange(len(table)), sets)
        if dataset.variants is not None:
            chosen &= (dataset.variants.role == "same")[table.variant]
        anchor_row = np.flatnonzero(table.is_anchor)
        counts = np.ones(len(table.set), dtype=bool) if which in ("all", "unread") else targets.label != _NONE
        chosen &= counts[anchor_row]
        own = anchor_row[table.set]
        if which == "matching" and multi_label:
            counts &= (targets.every == targets.every[own]).all(axis=1)
        elif which == "matching":
            counts &= targets.label == targets.label[own]
        rows = np.flatnonzero(near & counts & chosen[table.set])
        new_place = np.cumsum(chosen) - 1
        place = new_place[table.set[rows]]
        lengths = np.bincount(place, minlength=int(chosen.sum()))
        first = np.cumsum(lengths) - lengths
        member = np.full((len(lengths), max(1, int(lengths.max(initial=0)))), _NONE, dtype=np.int64)
        member[place, np.arange(len(rows)) - first[place]] = np.arange(len(rows))
        return cls(
            frame=table.frame[rows],
            pixel=pixel_of_frame[table.frame[rows]],
            label=targets.label[rows],
            every=targets.every[rows] if len(targets.every) else targets.every,
            anchor=np.flatnonzero(table.is_anchor[rows]),
            member=member,
        )

    def __len__(self) -> int:
        return len(self.anchor)

    @property
    def owner(self) -> Ints:
        """The set of each row, (R,)."""
        there = self.member >= 0
        owner = np.empty(len(self.frame), dtype=np.int64)
        owner[self.member[there]] = np.nonzero(there)[0]
        return owner

    @property
    def lengths(self) -> Ints:
        """The number of members of each set, including its anchor, (S,)."""
        return np.asarray((self.member >= 0).sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """The sets a model is evaluated on during training.

    `frames` (N,) are the frame rows to answer, and `pixel` has their indices among the prepared pixels.
    """

    dataset: Dataset
    sets: Ints
    frames: Ints
    pixel: Ints

    @classmethod
    def of(cls, dataset: Dataset, sets: Ints, pixel_of_frame: Ints, *, labelled: bool = True) -> "HeldOut":
        """Return the given sets of a dataset.

        If `labelled`, sets without labels are left out, because no answer is right or wrong there.
        """
        sets = np.asarray(sets)[dataset.labelled[sets]] if labelled else np.asarray(sets)
        if not len(sets):
            raise StrobeError(
                f"{printable(dataset.name)}: no held-out set has a label, so strobe cannot measure the model; label "
                "some sets, or pass another dataset with <<held_out>>"
            )
        chosen = np.isin(dataset.sets.set, sets)
        frames = np.unique(dataset.sets.frame[chosen])
        return cls(dataset=dataset, sets=np.asarray(sets), frames=frames, pixel=pixel_of_frame[frames])

    @property
    def named(self) -> "HeldOut | None":
        """The part with labels, with the same frames; None if there is none."""
        sets = self.sets[self.dataset.labelled[self.sets]]
        return replace(self, sets=sets) if len(sets) else None

    def flicker(self, predicted: NDArray[np.int64]) -> float:
        """Return the share of sets whose answers are not all the anchor's (at the dataset's own k); reads no label."""
        whole, table, k = self._whole(predicted), self.dataset.sets, self.dataset.info.k
        first = first_change(
            whole[table.frame], table.set, self.dataset.row_levels(), table.is_anchor, n_sets=len(table), never=k + 1
        )
        return float((first[self.sets] <= k).mean())

    def _whole(self, predicted: NDArray[np.int64]) -> Ints:
        """Return a class per frame of the dataset, −1 for frames that are not in `frames`."""
        whole = np.full(len(self.dataset.frames), _NONE, dtype=np.int64)
        whole[self.frames] = predicted
        return whole

    def accuracy(self, predicted: NDArray[np.int64]) -> tuple[float, float]:
        """Return acc_orig and acc_pmk (at the dataset's own k), from a class per frame of `frames`."""
        wrong, table, k = ~self.dataset.right_rows(self._whole(predicted)), self.dataset.sets, self.dataset.info.k
        first = first_wrong(wrong, table.set, self.dataset.row_levels(), n_sets=len(table), never=k + 1)
        right = right_at(first[self.sets], k=k)
        return float(right[:, 0].mean()), float(right[:, -1].mean())
