"""Records of the results as rows of a table, and tables as CSV that opens well in a spreadsheet."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeVar

from strobe.analyses.model_results import ModelResult
from strobe.core.codec import LEFT_OUT
from strobe.core.errors import printable
from strobe.core.estimate import Estimate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

M = TypeVar("M", bound=ModelResult)
Cell = str | float | bool | None
Row = dict[str, Cell]
Table = list[Row]


def spread(prefix: str, found: Estimate) -> Row:
    """Return an estimate as columns: the value, its interval, n, count and method."""
    return {
        prefix: found.value,
        f"{prefix}_low": found.low,
        f"{prefix}_high": found.high,
        f"{prefix}_n": found.n,
        f"{prefix}_count": found.count,
        f"{prefix}_method": found.method,
    }


def as_row(record: "DataclassInstance", *first: str) -> Row:
    """Return a record as columns: the fields in `first`, then the other fields in order. Lists and nested records are
    omitted.
    """
    out: Row = {}
    for name, is_later in _names(type(record), first):
        value = getattr(record, name)
        if isinstance(value, Estimate):
            out |= spread(name, value)
        elif value is None:
            if not is_later:
                out[name] = None
        elif not (is_dataclass(value) or isinstance(value, tuple | Mapping)):
            out[name] = value
    return out


@cache
def _names(record: "type[DataclassInstance]", first: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Return the names of a record's fields in this order, and whether each is omitted if it is None."""
    later = {one.name: one.metadata == LEFT_OUT for one in fields(record)}
    return [(name, later[name]) for name in dict.fromkeys([*first, *later])]


def each(models: Mapping[str, M], rows: Callable[[M], Iterable[Row]]) -> Table:
    """Return the rows of every model, with the model's name in front."""
    return [{"model": name, **found} for name, model in models.items() for found in rows(model)]


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Cell) -> Cell:
    """Return a cell as written to a CSV file."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(value, 6))
    return _text(value) if isinstance(value, str) else value


@lru_cache(4096)  # names and methods repeat very often
def _text(value: str) -> str:
    value = printable(value, limit=2000)
    return "'" + value if value.startswith(_FORMULA) else value  # a spreadsheet would run it as a formula


def as_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV that diffs well: six decimals, plain line ends, columns in order of first appearance.

    >>> as_csv([{"model": "a", "acc": 0.5}, {"model": "=cmd()", "acc": None}])
    "model,acc\\na,0.5\\n'=cmd(),\\n"
    """
    columns = list(dict.fromkeys(column for names in dict.fromkeys(map(tuple, rows)) for column in names))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    # The CSV writer itself writes floats by repr and None as an empty cell, so most cells need no conversion.
    writer.writerows(
        [round(one, 6) if type(one) is float else one if one is None else cell(one) for one in map(row.get, columns)]
        for row in rows
    )
    return out.getvalue()
