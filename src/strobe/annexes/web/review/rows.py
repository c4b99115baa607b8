"""Convert database rows to records and back. The columns of a table are the fields of its record."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from strobe.core.files import json_of

Answer = Any
"""One person's answer to one task of any question: a record of `strobe.core.people.PEOPLE`."""

Record = TypeVar("Record")


@cache
def _readers(kind: type[Any]) -> dict[str, Callable[[Any], Any]]:
    """Return columns with another representation in the database: booleans as 0 and 1, lists as JSON."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for name, hint in get_type_hints(kind).items():
        kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        if bool in kinds:
            readers[name] = bool
        elif any(get_origin(one) is tuple for one in kinds):
            readers[name] = lambda text: tuple(json_of(text))
    return readers


def columns(record: type[Any]) -> tuple[str, ...]:
    """Return the columns of a record's table."""
    return tuple(field.name for field in fields(record))


def row_of(record: Any) -> dict[str, Any]:
    """Return the values of a record's row."""
    return {name: _plain(getattr(record, name)) for name in columns(type(record))}


def record_of(kind: type[Record], row: Mapping[str, Any]) -> Record:
    """Return the record in a row of its table."""
    found = {name: row[name] for name in columns(kind)}
    for name, read in _readers(cast(Any, kind)).items():
        if found.get(name) is not None:
            found[name] = read(found[name])
    return kind(**found)


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return int(value)
    return json.dumps(value) if isinstance(value, tuple) else value
