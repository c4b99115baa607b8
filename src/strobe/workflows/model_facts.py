"""The types of models: from the shipped testbed, a run, or the user's CSV."""

import csv
from pathlib import Path

from strobe.core.errors import InvalidFile, printable
from strobe.core.files import reading
from strobe.runs.folder import Run

__all__ = ["Types", "known_types", "read_types"]

Types = dict[str, tuple[str | None, bool]]
"""Model type, and whether the trend line is fitted to the model, by name."""

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def known_types(run: Run, path: Path | None) -> tuple[Types, Types]:
    """Return every model's type by name: from the shipped testbed, then from the run, then from the user's CSV.

    The second value is to be stored in the run, so that later scoring needs no CSV.
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
    types: Types = {}
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            word = (row.get("standard") or "").strip().lower()
            if not row.get("model") or word not in _WORDS:
                raise InvalidFile(path, "expected model,model_type,standard (yes or no)", where=f"line {number}")
            types[row["model"]] = (printable(row.get("model_type") or "") or None, _WORDS[word])
    return types
