"""Split sets by source into training and held-out sets, with every class on both sides and no shared pixels."""

import hashlib
from dataclasses import dataclass

import numpy as np

from strobe.core.arrays import Ints, Texts
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.ports import Progress
from strobe.core.quoting import csv_text
from strobe.train.sets import row_labels, targets_of

SPLIT, HELD = "split.csv", "held-out.txt"
"""Two files in a training's folder: every source with its side, and the held-out sources for --subset."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The sets of each side, as positions in the dataset. If `is_part` is False, another dataset is held out."""

    training: Ints
    held_out: Ints
    is_part: bool = True

    def files(self, dataset: Dataset) -> dict[str, str]:
        """Return the split as files to store with the run."""
        if not self.is_part:
            return {SPLIT: self.csv(dataset)}
        rows = np.unique(dataset.video_of_set[self.held_out])
        return {SPLIT: self.csv(dataset), HELD: "".join(f"{dataset.videos.video_id[row]}\n" for row in rows)}

    def csv(self, dataset: Dataset) -> str:
        """Return every source and its side."""
        side = {int(place): "training" for place in self.training}
        if self.is_part:
            side |= {int(place): "held-out" for place in self.held_out}
        videos, sets = dataset.videos, dataset.sets
        rows = (
            [videos.video_id[video], videos.name[video], sets.set_id[index], side[index]]
            for index, video in enumerate(dataset.video_of_set.tolist())
            if index in side
        )
        return csv_text(["source", "name", "set", "side"], rows)

    def digest(self, dataset: Dataset) -> str:
        """Return a digest that changes when a set changes sides."""
        return hashlib.sha256(self.csv(dataset).encode()).hexdigest()[:16]


def sides_of(
    dataset: Dataset,
    held_out: Dataset | None,
    *,
    share: float,
    seed: int,
    multi_label: bool,
    least_classes: int = 1,
    say: Progress,
) -> Split:
    """Split a dataset, or use all of it with a separate held-out dataset. Checks leaks and classes, and prints notes.

    Raises StrobeError if fewer than `least_classes` classes are trained on.
    """
    label = row_labels(dataset, multi_label=multi_label)[dataset.sets.is_anchor]
    if held_out is None:
        split, other, held_label = split_by_source(dataset, label, share=share, seed=seed), dataset, label
    else:
        other = held_out
        _same_classes(dataset, other, what="the held-out dataset")
        split = Split(training=np.arange(dataset.n_sets), held_out=np.arange(other.n_sets), is_part=False)
        held_label = row_labels(other, multi_label=multi_label)[other.sets.is_anchor]
    check_leaks(dataset, split.training, other, split.held_out)
    if least_classes > 1:
        _check_two_classes(dataset, split.training, other, split.held_out, multi_label=multi_label, say=say)
    trained, held = label[split.training], held_label[split.held_out]
    unseen = check_classes(dataset, trained[trained >= 0], held[held >= 0])
    if unseen:
        say.note(f"{len(unseen)} class(es) have no held-out clip, first {printable(unseen[0])}")
    if (trained < 0).any():
        say.note(f"{int((trained < 0).sum())} set(s) are excluded, because their anchor has no label")
    say.note(f"{len(split.training)} sets to train on, {len(split.held_out)} held out")
    return split


def sides_without_labels(
    dataset: Dataset, held_out: Dataset | None, *, share: float, seed: int, say: Progress
) -> Split:
    """Split a dataset, or use all of it with a separate held-out dataset, without reading a label. Checks leaks."""
    if held_out is None:
        nothing = np.zeros(dataset.n_sets, dtype=np.int64)
        split, other = split_by_source(dataset, nothing, share=share, seed=seed), dataset
    else:
        _same_classes(dataset, held_out, what="the held-out dataset")
        split, other = Split(np.arange(dataset.n_sets), np.arange(held_out.n_sets), is_part=False), held_out
    check_leaks(dataset, split.training, other, split.held_out)
    say.note(f"{len(split.training)} sets to train on, {len(split.held_out)} held out; their labels are not read")
    return split


def labelled_anchors(anchors: Dataset, dataset: Dataset, split: Split, held_out: Dataset | None) -> Ints:
    """Return the sets of `anchors` that may join a training on `dataset`, without those on the held-out side.

    Raises StrobeError for other classes, missing labels, or sources and pixels of the held-out side.
    """
    _same_classes(dataset, anchors, what="the dataset of <<anchors>>")
    sets = np.flatnonzero(row_labels(anchors)[anchors.sets.is_anchor] >= 0)
    if split.is_part and anchors.frames_digest() == dataset.frames_digest():
        sets = sets[~np.isin(anchors.video_of_set[sets], dataset.video_of_set[split.held_out])]
        if not len(sets):
            raise StrobeError(f"{printable(anchors.name)}: no set to train on has a label on its anchor")
    check_leaks(anchors, sets, held_out or dataset, split.held_out)
    return sets


def _same_classes(dataset: Dataset, other: Dataset, *, what: str) -> None:
    if other.info.label_space.ids != dataset.info.label_space.ids:
        raise StrobeError(
            f"{printable(other.name)} does not have the classes of {printable(dataset.name)}, so it cannot be {what}"
        )


def _check_two_classes(
    dataset: Dataset, training: Ints, other: Dataset, held_out: Ints, *, multi_label: bool, say: Progress
) -> None:
    """Raise StrobeError if all training frames have one class. Print a note if all held-out frames have one class."""
    sides = []
    for one, sets in ((dataset, training), (other, held_out)):
        targets, rows = targets_of(one, multi_label=multi_label), np.isin(one.sets.set, sets)
        label = targets.label[rows]
        sides.append(np.flatnonzero(targets.every[rows].any(axis=0)) if multi_label else np.unique(label[label >= 0]))
    names = [printable(dataset.info.label_space.names[side[0]]) if len(side) == 1 else "" for side in sides]
    if names[0]:
        raise StrobeError(
            f"{printable(dataset.name)}: all training clips have one class ({names[0]}), so a model that always "
            "answers it would be 100 % right; add clips of another class"
        )
    if names[1]:
        say.note(f"all held-out clips have one class ({names[1]}), so a model that always answers it is 100 % right")


def split_by_source(dataset: Dataset, label_of_set: Ints, *, share: float, seed: int) -> Split:
    """Hold out about `share` of the sources of every class. The only source of a class goes to training.

    Sets that share a source, a group or a frame with the same pixels stay together.
    """
    expect(0 < share < 1, "held-out share", "above 0 and below 1", share)
    part = _parts(dataset)
    n_parts = int(part.max()) + 1
    if n_parts < 2:
        raise StrobeError(
            f"{printable(dataset.name)}: all its sets share one source, so none can be held out; pass another "
            "dataset with <<held_out>>"
        )
    label = _usual_labels(part, label_of_set)
    names = _least_names(part, dataset.sets.set_id)
    lot = np.array([hashlib.sha256(f"{seed}\n{name}".encode()).hexdigest() for name in names])
    held = np.zeros(n_parts, dtype=bool)
    for one in np.unique(label):
        mine = np.flatnonzero(label == one)
        count = min(len(mine) - 1, max(1, round(share * len(mine))))
        held[mine[np.argsort(lot[mine])][:count]] = True
    if not held.any():
        raise StrobeError(
            f"{printable(dataset.name)}: no class has two sources, so none can be held out; pass another dataset with "
            "<<held_out>>"
        )
    return Split(training=np.flatnonzero(~held[part]), held_out=np.flatnonzero(held[part]))


def _usual_labels(part: Ints, label: Ints) -> Ints:
    """Return the most frequent label of each part, and the smallest of several."""
    pairs, count = np.unique(np.column_stack([part, label]), axis=0, return_counts=True)
    order = np.lexsort((pairs[:, 1], -count, pairs[:, 0]))
    first = np.unique(pairs[order, 0], return_index=True)[1]
    return np.asarray(pairs[order[first], 1])


def _least_names(part: Ints, names: Texts) -> list[str]:
    """Return the first name of each part in the order of the alphabet."""
    least: dict[int, str] = {}
    for one, name in zip(part.tolist(), map(str, names), strict=True):
        if one not in least or name < least[one]:
            least[one] = name
    return [least[one] for one in sorted(least)]


def _parts(dataset: Dataset) -> Ints:
    """Return the component of each set, (S,). Connected sets are in one component.

    Sets are connected by a source, a group or the pixels of a frame. Two frames with the same pixels connect their
    sources, because each frame's source is connected to the frame's sets.
    """
    sets, frames = dataset.sets, dataset.frames
    above: dict[object, object] = {}

    def root(node: object) -> object:
        while (up := above.setdefault(node, node)) != node:
            above[node] = above[up]
            node = up
        return node

    n_videos = len(dataset.videos)
    joined = np.unique(sets.set.astype(np.int64) * n_videos + frames.video[sets.frame])
    for place, video in zip(*(one.tolist() for one in np.divmod(joined, n_videos)), strict=True):
        above[root(place)] = root(("source", video))
    for place, group in enumerate(sets.group):
        above[root(place)] = root(("group", str(group)))
    for frame in np.unique(sets.frame).tolist():
        if frames.sha256[frame]:
            above[root(("pixels", _pixels(dataset, frame)))] = root(("source", int(frames.video[frame])))
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(root(place), len(numbers)) for place in range(dataset.n_sets)])


def _pixels(dataset: Dataset, frame: int) -> str:
    """Return a name for the pixels that a model sees of a frame."""
    return f"{dataset.frames.sha256[frame]} {dataset.frames.recipe[frame]}"


def check_leaks(training: Dataset, training_sets: Ints, held_out: Dataset, held_sets: Ints) -> None:
    """Raise StrobeError if a source or a frame's pixels are on both sides."""
    left, right = _seen(training, training_sets), _seen(held_out, held_sets)
    both = sorted(set(left) & set(right))
    if both:
        raise StrobeError(
            f"{len(both)} source(s) or frame(s) are on both the training and the held-out side, first "
            f"{printable(left[both[0]])}; remove them from one side"
        )


def _seen(dataset: Dataset, sets: Ints) -> dict[str, str]:
    frames = np.unique(dataset.sets.frame[np.isin(dataset.sets.set, sets)])
    found = {_pixels(dataset, row): str(dataset.frames.key[row]) for row in frames if dataset.frames.sha256[row]}
    videos = np.unique(dataset.frames.video[frames])
    return found | {f"source {dataset.videos.video_id[row]}": str(dataset.videos.name[row]) for row in videos}


def check_classes(dataset: Dataset, trained: Ints, held: Ints) -> list[str]:
    """Return the classes without held-out data. Raises StrobeError if a held-out class has no training data.

    `trained` and `held` are the labels of the sets of each side.
    """
    names = dataset.info.label_space.names
    missing = np.setdiff1d(held, trained)
    if len(missing):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise StrobeError(
            f"class {printable(names[missing[0]])}{more}: it is held out, but has no training clip; add training "
            "clips, or remove it from the held-out dataset"
        )
    return [names[label] for label in np.setdiff1d(trained, held)]
