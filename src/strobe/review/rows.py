"""Convert database rows to records and back. The columns of a table are the fields of its record."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from strobe.core.people import BoxAnswer, NameAnswer
from strobe.core.records import Verdict
from strobe.review.plan import ReviewTask

__all__ = ["Answer", "columns", "record_of", "row_of"]

Answer = Verdict | NameAnswer | BoxAnswer
"""One person's answer to one task of any question."""

Record = TypeVar("Record", ReviewTask, Verdict, NameAnswer, BoxAnswer)

_READ: dict[str, Callable[[Any], Any]] = {
    "label_right": bool,
    "bad_anchor": bool,
    "suggested": bool,
    "labels": lambda text: tuple(json.loads(text)),
    "xyxy": lambda text: tuple(json.loads(text)),
}
"""Columns with another representation in the database: booleans as 0 and 1, lists as JSON."""


def columns(record: type[Any]) -> tuple[str, ...]:
    """Return the columns of a record's table."""
    return tuple(field.name for field in fields(record))


def row_of(record: ReviewTask | Answer) -> dict[str, Any]:
    """Return the values of a record's row."""
    return {name: _plain(getattr(record, name)) for name in columns(type(record))}


def record_of(kind: type[Record], row: Mapping[str, Any]) -> Record:
    """Return the record in a row of its table."""
    found = {name: row[name] for name in columns(kind)}
    for name, read in _READ.items():
        if found.get(name) is not None:
            found[name] = read(found[name])
    return kind(**found)


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return json.dumps(value) if isinstance(value, tuple) else value
