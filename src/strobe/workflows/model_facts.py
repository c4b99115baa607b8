"""What is known of a run's models beside their predictions: their type, and the best their classes allow."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strobe.analyses.overview import ceiling_of
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, UnknownName, printable
from strobe.core.labels import projection

__all__ = ["Ceilings", "model_types"]

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def model_types(path: Path | None) -> dict[str, tuple[str | None, bool]]:
    """Model type and whether it makes the trend line: the shipped testbed's word, then the user's CSV."""
    from strobe.models.testbed import entries

    known: dict[str, tuple[str | None, bool]] = {
        entry.model: (entry.model_type, entry.standard) for entry in entries() if entry.model
    }
    if path is None:
        return known
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                word = (row.get("standard") or "").strip().lower()
                if not row.get("model") or word not in _WORDS:
                    raise InvalidFile(path, "expected model,model_type,standard (yes or no)", where=f"line {number}")
                known[row["model"]] = (printable(row.get("model_type") or "") or None, _WORDS[word])
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFile(path, "not a readable CSV file") from error
    return known


class Ceilings:
    """The best a model can do on the dataset where some of its classes have no counterpart among the model's own."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._known: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}

    def of(self, facts: Mapping[str, Any]) -> dict[str, Any] | None:
        """The ceiling of a model by the facts of its run; None where every anchor and set is within reach."""
        source, childless = self._childless(facts)
        if not childless:
            return None
        key = (source, childless)
        if key not in self._known:
            self._known[key] = ceiling_of(self._dataset, source=source, childless=childless)
        found = self._known[key]
        return found if found["sets_out_of_reach"] else None

    def _childless(self, facts: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
        space = self._dataset.info.label_space
        if "childless" in facts:  # it was run here
            source = str(facts.get("spec", {}).get("label_space", {}).get("name", "the model's classes"))
            return source, tuple(space.index(str(name)) for name in facts["childless"])
        source = str(facts.get("space", space.name))
        try:
            return source, projection(source, space.name).childless
        except UnknownName:
            return source, ()
