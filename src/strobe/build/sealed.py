"""Records of finished build steps, from which the same command resumes. Each is JSON with its own digest."""

import hashlib
import json
from pathlib import Path
from typing import Any

from strobe.core.errors import StrobeError
from strobe.core.files import read_json, write_json


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write the record with its digest, atomically."""
    write_json(path, {**content, "digest": _digest(content)})


def read_sealed(path: Path) -> dict[str, Any] | None:
    """Return the record as written, or None if it is missing or damaged, in which case the step is done again."""
    try:
        note = read_json(path)
        return note if isinstance(note, dict) and note.pop("digest", None) == _digest(note) else None
    except (StrobeError, RecursionError):
        return None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
