"""The classes that a model answers in, and the best result that they allow on a dataset."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strobe.core.codec import Count, Share
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect
from strobe.core.files import json_of
from strobe.core.labels import LabelSpace, space
from strobe.core.projections import projection_between, shipped_between


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The upper bound for a model whose classes allow no right answer on some anchors and sets."""

    source: str
    childless: tuple[str, ...]
    n: Count
    anchors_out_of_reach: Count
    sets_out_of_reach: Count
    acc_orig: Share
    acc_pmk: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCeiling:
    """The upper bound for a detector whose classes (`source`) lack some of the dataset's classes (`childless`).

    The bound is mAP on the anchors if every other class is detected perfectly. `n_classes` counts the classes with an
    object on the anchors, and `n_objects` counts the objects on all frames of the sets.
    """

    source: str
    childless: tuple[str, ...]
    n_classes: Count
    n_objects: Count
    objects_out_of_reach: Count
    map_orig: Share


def ceiling(dataset: Dataset, *, source: str = "ilsvrc-2012") -> Ceiling | None:
    """Return the ceiling of a model with a shipped label space; None if no shipped map covers the dataset's classes."""
    found = shipped_between(space(source), dataset.info.label_space)
    return None if found is None else ceiling_of(dataset, source=source, childless=found.childless)


def ceiling_of(dataset: Dataset, *, source: str, childless: Collection[int]) -> Ceiling:
    """Return the upper bound for a model that has other classes.

    It counts anchors and sets for which the model can give no right answer.

    `childless` are the classes of the dataset for which `source` has no class; those that occur in the dataset's sets
    are listed. A set is out of reach if its anchor or any member is out of reach.
    """
    reachable = np.ones(len(dataset.info.label_space), dtype=bool)
    reachable[list(childless)] = False
    can = np.zeros(len(dataset.frames), dtype=bool)
    can[dataset.labels.frame[reachable[dataset.labels.label]]] = True
    sets = dataset.sets
    anchors = can[sets.anchor_frame]
    judged = dataset.judged_frame
    lost = np.bincount(sets.set[~can[judged]], minlength=dataset.n_sets) > 0
    present = set(dataset.labels.label[np.isin(dataset.labels.frame, judged)].tolist())
    return Ceiling(
        source=source,
        childless=tuple(dataset.info.label_space.names[place] for place in childless if place in present),
        n=dataset.n_sets,
        anchors_out_of_reach=int((~anchors).sum()),
        sets_out_of_reach=int(lost.sum()),
        acc_orig=float(anchors.mean()),
        acc_pmk=float(1 - lost.mean()),
    )


def map_ceiling_of(dataset: Dataset, *, source: str, childless: Collection[int]) -> MapCeiling | None:
    """Return the upper bound for a detector that lacks the classes `childless`; None if no object has such a class."""
    boxes, sets = dataset.boxes, dataset.sets
    if boxes is None:
        return None
    used = ~boxes.crowd & np.isin(boxes.frame, sets.frame)
    out = used & np.isin(boxes.label, list(childless))
    if not out.any():
        return None
    present, names = set(boxes.label[out].tolist()), dataset.info.label_space.names
    anchored = np.unique(boxes.label[used & np.isin(boxes.frame, sets.anchor_frame)])
    return MapCeiling(
        source=source,
        childless=tuple(names[place] for place in childless if place in present),
        n_classes=len(anchored),
        n_objects=int(used.sum()),
        objects_out_of_reach=int(out.sum()),
        map_orig=1.0 - float(np.isin(anchored, list(childless)).mean()) if len(anchored) else 0.0,
    )


def classes_of(facts: Mapping[str, Any]) -> LabelSpace | None:
    """Return the classes that a model answers in, from the facts of its run, or None if they are unknown."""
    kept = facts.get("spec", {}).get("label_space")
    try:
        return LabelSpace.from_json(kept) if kept else space(str(facts.get("space", "")))
    except StrobeError:
        return None


class Ceilings:
    """The best possible result of a model that lacks some of the dataset's classes."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._known: dict[tuple[str, tuple[int, ...]], Ceiling] = {}

    def of(self, facts: Mapping[str, Any]) -> Ceiling | None:
        """Return the ceiling of a model from its facts, or None if it has the classes of all anchors and sets."""
        source, childless = self._childless(facts)
        if not childless:
            return None
        key = (source, childless)
        if key not in self._known:
            self._known[key] = ceiling_of(self._dataset, source=source, childless=childless)
        found = self._known[key]
        return found if found.sets_out_of_reach else None

    def of_detector(self, facts: Mapping[str, Any]) -> MapCeiling | None:
        """Return the ceiling of a detector, or None if it has the classes of all objects."""
        source, childless = self._childless(facts)
        return map_ceiling_of(self._dataset, source=source, childless=childless) if childless else None

    def _childless(self, facts: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
        own = self._dataset.info.label_space
        source = str(facts.get("space", own.name))
        if "childless" in facts:
            kept = facts["childless"]
            if isinstance(kept, str):  # a file of predictions may list only some of the dataset's classes
                listed = "the file's list of classes" if source == own.name else source
                return listed, tuple(own.index(name) for name in _names(kept))
            source = str(facts.get("spec", {}).get("label_space", {}).get("name", "the model's classes"))
            return source, tuple(own.index(str(name)) for name in kept)
        try:
            return source, () if source == own.name else projection_between(space(source), own).childless
        except StrobeError:
            return source, ()


def _names(kept: str) -> list[str]:
    """Return the list of classes that a file of predictions records as JSON; raise InvalidValue if it is not a list."""
    try:
        names = json_of(kept)
    except ValueError:
        names = None
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    expect(listed, "childless", "a list of the dataset's classes", kept)
    return list(names or ())
