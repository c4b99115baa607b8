"""Facts on a run's models besides their predictions: their type, and the best result that their classes allow."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strobe.analyses.ceilings import Ceiling, MapCeiling
from strobe.analyses.overview import ceiling_of, map_ceiling_of
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import reading
from strobe.core.labels import LabelSpace, space
from strobe.core.projections import projection_between
from strobe.runs.folder import Run

__all__ = ["Ceilings", "Types", "classes_of", "known_types", "read_types"]

Types = dict[str, tuple[str | None, bool]]
"""Model type, and whether the trend line is fitted to the model, by name."""

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def known_types(run: Run, path: Path | None) -> tuple[Types, Types]:
    """Return every model's type by name: from the shipped testbed, then from the run, then from the user's CSV.

    The second value is stored in the run, so that scoring again needs no CSV.
    """
    from strobe.models.testbed import entries

    shipped: Types = {entry.model: (entry.model_type, entry.standard) for entry in entries() if entry.model}
    kept = run.about().get("model_types", {}) if run.exists else {}
    try:
        remembered: Types = {str(name): (kind, bool(standard)) for name, (kind, standard) in kept.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidFile(run.path / "run.json", "expected {model: [type, standard]}", where="model_types") from error
    known = remembered | read_types(path)
    return shipped | known, known


def read_types(path: Path | None) -> Types:
    """Return the rows of a CSV model,model_type,standard, or nothing without a file."""
    if path is None:
        return {}
    found: Types = {}
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            word = (row.get("standard") or "").strip().lower()
            if not row.get("model") or word not in _WORDS:
                raise InvalidFile(path, "expected model,model_type,standard (yes or no)", where=f"line {number}")
            found[row["model"]] = (printable(row.get("model_type") or "") or None, _WORDS[word])
    return found


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
            if isinstance(kept, str):  # its file may list only some of the dataset's classes
                listed = "the file's list of classes" if source == own.name else source
                return listed, tuple(own.index(name) for name in json.loads(kept))
            source = str(facts.get("spec", {}).get("label_space", {}).get("name", "the model's classes"))
            return source, tuple(own.index(str(name)) for name in kept)
        try:
            return source, () if source == own.name else projection_between(space(source), own).childless
        except StrobeError:
            return source, ()
