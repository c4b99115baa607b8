"""Shared steps of every command that makes a dataset folder: check the target, write, keep votes, print notes."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.people import GROWING
from strobe.core.ports import Progress
from strobe.store import dataset_folder as folder

_SPACES = ("imagenet-vid", "youtube-bb", "coco-80", "ilsvrc-2012")
"""Shipped label spaces that ImageNet models can answer in, smallest first."""


def made_before(destination: Path, same: Callable[[Dataset], bool]) -> Dataset | None:
    """Return the existing dataset if the same command with the same settings made it."""
    old = folder.read(destination) if folder.is_dataset(destination) else None
    if old is not None and not same(old):
        raise StrobeError(
            f"{printable(destination)} already contains a dataset made with other settings; choose another folder or "
            "remove it first"
        )
    return old


def finish(dataset: Dataset, destination: Path, *, old: Dataset | None, own_classes: bool, say: Progress) -> Dataset:
    """Write the dataset, replacing the old one. With `own_classes`, its classes are the labels that occur in it."""
    if old is not None:
        # A resumed or extended build keeps people's answers.
        answers: dict[str, Any] = {table: getattr(old, table) for table in GROWING}
        dataset = replace(dataset, **answers)
        if old.verdicts:
            kept = replace(dataset.info, reviewed=old.info.reviewed, unreviewed=old.info.unreviewed)
            dataset = replace(dataset, info=kept)
    folder.write(dataset, destination, overwrite=old is not None)
    advice = advice_on_classes(dataset.info.label_space) if own_classes and dataset.boxes is None else None
    for line in (advice, classes_alike(dataset.info.label_space) if own_classes else None):
        if line:
            say.note(line)
    return replace(dataset, root=destination)


def classes_alike(classes: LabelSpace) -> str | None:
    """Return a note about classes that are probably the same: their names differ only in case, spaces or hyphens.

    >>> classes_alike(LabelSpace.of_names("mine", ["Dog", "dog", "ice-cream", "ice cream", "cat"]))
    "classes that differ only in case or spaces count as different: 'Dog' and 'dog' (and 1 more); use one spelling \
if they are one class"
    >>> classes_alike(LabelSpace.of_names("mine", ["cat", "dog"])) is None
    True
    """
    groups: dict[str, list[str]] = {}
    for name in classes.names:
        groups.setdefault(" ".join(re.split(r"[\s_-]+", name.casefold().strip())), []).append(name)
    alike = [names for names in groups.values() if len(set(names)) > 1]
    if not alike:
        return None
    more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
    some = " and ".join(repr(printable(name)) for name in alike[0])
    said = f"classes that differ only in case or spaces count as different: {some}{more}"
    return f"{said}; use one spelling if they are one class"


def advice_on_classes(classes: LabelSpace) -> str | None:
    """Return a note about a dataset whose classes are the labels that occur in it, or None if no note is needed.

    A model answers in the dataset's classes. With one class, the model cannot be wrong. With a few classes, it is right
    more often than among all the classes it knows.

    >>> advice_on_classes(LabelSpace.of_names("mine", ["dog", "zebra"]))
    'a classifier chooses among these 2 classes; --label-space imagenet-vid makes it choose among 30'
    >>> advice_on_classes(LabelSpace.of_names("mine", ["flange", "gasket"])) is None
    True
    """
    wider = next((name for name in _SPACES if _has(space(name), classes)), None)
    if len(classes) == 1:
        way_out = f"--label-space {wider} makes it choose among {len(space(wider)):,}" if wider else "add other classes"
        return f"with one class a classifier is never wrong; {way_out}"
    if wider:
        many = f"a classifier chooses among these {len(classes)} classes"
        return f"{many}; --label-space {wider} makes it choose among {len(space(wider)):,}"
    return None


def _has(wide: LabelSpace, classes: LabelSpace) -> bool:
    return len(wide) > len(classes) and all(len(wide.matches(label)) == 1 for label in classes.ids)
