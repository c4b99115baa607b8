"""What is known of a run's models beside their predictions: their type, and the best their classes allow."""

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
"""Model type and whether the model makes the trend line, by name."""

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def known_types(run: Run, path: Path | None) -> tuple[Types, Types]:
    """Every model's type by name: the shipped testbed's word, then what the run remembers, then the user's CSV.

    The second is what the run is to remember, so that scoring it again needs no CSV.
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
    """The rows of a CSV model,model_type,standard; nothing without a file."""
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
    """The classes a model answers in by the facts of its run; None where they are neither kept nor shipped."""
    kept = facts.get("spec", {}).get("label_space")
    try:
        return LabelSpace.from_json(kept) if kept else space(str(facts.get("space", "")))
    except StrobeError:
        return None


class Ceilings:
    """The best a model can do on the dataset where some of its classes have no counterpart among the model's own."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._known: dict[tuple[str, tuple[int, ...]], Ceiling] = {}

    def of(self, facts: Mapping[str, Any]) -> Ceiling | None:
        """The ceiling of a model by the facts of its run; None where every anchor and set is within reach."""
        source, childless = self._childless(facts)
        if not childless:
            return None
        key = (source, childless)
        if key not in self._known:
            self._known[key] = ceiling_of(self._dataset, source=source, childless=childless)
        found = self._known[key]
        return found if found.sets_out_of_reach else None

    def of_detector(self, facts: Mapping[str, Any]) -> MapCeiling | None:
        """The same of a detector; None where every object is of a class it has."""
        source, childless = self._childless(facts)
        return map_ceiling_of(self._dataset, source=source, childless=childless) if childless else None

    def _childless(self, facts: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
        own = self._dataset.info.label_space
        source = str(facts.get("space", own.name))
        if "childless" in facts:
            kept = facts["childless"]
            if isinstance(kept, str):  # it was brought in a file, whose list may be a part of the dataset's
                listed = "the file's list of classes" if source == own.name else source
                return listed, tuple(own.index(name) for name in json.loads(kept))
            source = str(facts.get("spec", {}).get("label_space", {}).get("name", "the model's classes"))
            return source, tuple(own.index(str(name)) for name in kept)
        try:
            return source, () if source == own.name else projection_between(space(source), own).childless
        except StrobeError:
            return source, ()
