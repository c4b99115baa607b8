"""Parse prediction files (JSON, JSONL, CSV or Parquet) into frame names and values, without validating the values."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, printable
from strobe.core.files import read_json, reading, regular

__all__ = ["RawPredictions", "read_raw"]

_KINDS = (None, "logits", "probabilities", "labels")


@dataclass
class RawPredictions:
    """A file's content: a value (a class, or a row of scores) per frame, and its declarations."""

    frames: list[str]
    values: Sequence[Any]
    kind: str | None = None
    space: str | None = None
    columns: list[str] | None = None
    """The class names of a CSV's score columns."""


def read_raw(path: Path) -> RawPredictions:
    """Read the file by its suffix. Raises a one-line error if it cannot be parsed."""
    readers = {".json": _read_json, ".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidFile(path, f"unknown ending {printable(path.suffix)!r}", hint=f"expected {', '.join(readers)}")
    with reading(path):
        raw = reader(regular(path))
    if raw.kind not in _KINDS:
        raise InvalidFile(path, f"kind {printable(raw.kind)!r}; expected logits, probabilities or labels", where="kind")
    return raw


def _read_json(path: Path) -> RawPredictions:
    seen_twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    seen_twice.append(key)
                seen.add(key)
        return made

    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        read_json(path)  # parse again to report the position of the error in one line
        raise
    if seen_twice:
        raise InvalidFile(
            path,
            f"frame {printable(seen_twice[0])!r} appears twice ({len(seen_twice)} duplicates)",
            hint="keep one of each",
        )
    if isinstance(data, dict) and "predictions" in data and isinstance(data["predictions"], dict):
        kind, label_space, data = data.get("kind"), data.get("space"), data["predictions"]
        return RawPredictions(list(data), list(data.values()), kind=kind, space=label_space)
    if not isinstance(data, dict):
        raise InvalidFile(path, "expected a JSON object {frame: [scores]}")
    return RawPredictions(list(data), list(data.values()))


def _read_jsonl(path: Path) -> RawPredictions:
    frames: list[str] = []
    values: list[Any] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                frames.append(str(entry["frame"]))
                values.append(entry["scores"] if "scores" in entry else entry["label"])
            except (ValueError, RecursionError) as error:
                raise InvalidFile(path, f"not JSON ({printable(error, limit=80)})", where=f"line {number}") from error
            except (KeyError, TypeError) as error:
                raise InvalidFile(
                    path, 'expected {"frame": …, "scores": […]} or {"frame": …, "label": …}', where=f"line {number}"
                ) from error
    return RawPredictions(frames, values)


def _read_csv(path: Path) -> RawPredictions:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if not header or header[0] != "frame" or len(header) < 2:
            raise InvalidFile(path, "expected a header frame,label or frame,<classes…>", where="line 1")
        columns = header[1:] if header[1:] != ["label"] else None
        frames: list[str] = []
        values: list[Any] = []
        for number, line in enumerate(reader, start=2):
            if not line:
                continue
            if len(line) != len(header):
                raise InvalidFile(path, f"{len(line)} fields, expected {len(header)}", where=f"line {number}")
            frames.append(line[0])
            if columns is None:
                values.append(int(line[1]) if line[1].lstrip("-").isdecimal() else line[1])
                continue
            try:
                values.append([float(value) for value in line[1:]])
            except ValueError as error:
                raise InvalidFile(path, f"not a number ({error})", where=f"line {number}") from error
    return RawPredictions(frames, values, columns=columns)


def _read_parquet(path: Path) -> RawPredictions:
    from strobe.datasets.tables import read_parquet

    table, names = read_parquet(path, ("frame", "frame_id", "scores", "label"))
    key = next((name for name in ("frame", "frame_id") if name in names), None)
    value = next((name for name in ("scores", "label") if name in names), None)
    if key is None or value is None:
        raise InvalidFile(path, f"expected columns frame and scores or label, got {printable(', '.join(names))}")
    declared = {name.decode(): text.decode() for name, text in (table.schema.metadata or {}).items()}
    return RawPredictions(
        [str(name) for name in table.column(key).to_pylist()],
        _rows(table.column(value)),
        kind=declared.get("kind"),
        space=declared.get("space"),
    )


def _rows(column: Any) -> Sequence[Any]:
    """Return the column's values. Scores of equal length become one matrix, without a Python object per number."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values = column.combine_chunks()
        lengths = values.value_lengths() if not pa.types.is_fixed_size_list(kind) else None
        same = lengths is None or len(lengths.unique()) == 1
        flat = values.flatten()
        if same and len(values) and not values.null_count and not flat.null_count and pa.types.is_floating(flat.type):
            return list(flat.to_numpy().reshape(len(values), -1))
    return list(column.to_pylist())
