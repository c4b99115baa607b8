"""The classes that a model answers in, and the best result that they allow on a dataset."""

import json
from collections.abc import Mapping
from typing import Any

from strobe.analyses.ceilings import Ceiling, MapCeiling
from strobe.analyses.overview import ceiling_of, map_ceiling_of
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect
from strobe.core.labels import LabelSpace, space
from strobe.core.projections import projection_between

__all__ = ["Ceilings", "classes_of"]


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
        names = json.loads(kept)
    except ValueError:
        names = None
    listed = isinstance(names, list) and all(isinstance(one, str) for one in names)
    expect(listed, "childless", "a list of the dataset's classes", kept)
    return list(names or ())
