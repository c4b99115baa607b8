"""The tables of a run: records as rows, CSV that opens well in a spreadsheet, and every model on every set."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import ModelSets
from strobe.core.codec import LEFT_OUT
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.files import replacing, write_text
from strobe.core.parquet import arrow_of
from strobe.core.quoting import csv_text, safe_cell
from strobe.core.tables import texts
from strobe.report.study import applying, tables
from strobe.report.view import Cell, Row, Table, View

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


M = TypeVar("M", bound=ModelResult)


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
    later = {field.name: field.metadata == LEFT_OUT for field in fields(record)}
    return [(name, later[name]) for name in dict.fromkeys([*first, *later])]


def each(models: Mapping[str, M], rows: Callable[[M], Iterable[Row]]) -> Table:
    """Return the rows of every model, with the model's name in front."""
    return [{"model": name, **row} for name, model in models.items() for row in rows(model)]


def cell(value: Cell) -> Cell:
    """Return a cell as written to a CSV file."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(value, 6))
    return _text(value) if isinstance(value, str) else value


@lru_cache(4096)  # names and methods repeat very often
def _text(value: str) -> str:
    return str(safe_cell(printable(value, limit=2000)))


def as_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV that diffs well: six decimals, plain line ends, columns in order of first appearance.

    >>> as_csv([{"model": "a", "acc": 0.5}, {"model": "=cmd()", "acc": None}])
    "model,acc\\na,0.5\\n'=cmd(),\\n"
    """
    columns = list(dict.fromkeys(column for names in dict.fromkeys(map(tuple, rows)) for column in names))
    # The CSV writer itself writes floats by repr and None as an empty cell, so most cells need no conversion.
    return csv_text(
        columns,
        (
            [
                round(one, 6) if type(one) is float else one if one is None else cell(one)
                for one in map(row.get, columns)
            ]
            for row in rows
        ),
    )


def _with_unscored(results: Results, rows: Table) -> Table:
    """Add to each row how many frames and sets of its model are unscored, if any model has unscored frames or sets.

    Tables with models also get the number of sets that are scored for no model.
    """
    unscored = {name: model.unscored for name, model in results.models.items()}
    facts = results.dataset
    counts = {"unlabelled_sets": facts.unlabelled_sets, "sets_without_votes": facts.sets_without_votes}
    of_all = {name: count for name, count in counts.items() if count}
    own = any(found.sets for found in unscored.values())
    if not of_all and not own:
        return rows
    return [
        row | ({"unscored_frames": found.frames, "unscored_sets": found.sets} if own else {}) | of_all
        if (found := unscored.get(str(row.get("model"))))
        else row
        for row in rows
    ]


def write_tables(run: Path, results: Results) -> list[Path]:
    """Write every table that has rows to `run/tables/NAME.csv`, remove tables without rows, and return the paths."""
    written, view = [], View(results=results)
    used = {name for study in applying(view) for name in study.tables}
    for name, make in tables().items():
        rows = _with_unscored(results, make(view)) if name in used else []
        path = run / "tables" / f"{name}.csv"
        if rows:
            write_text(path, as_csv(rows))
            written.append(path)
        elif path.is_file():
            path.unlink()
    return written


MOST_CSV = 1_000_000
"""The most rows that a spreadsheet opens."""

_LAST = "set_id"
"""The column with the set's name in the dataset, if that name is a path. It is for joins, not for readers."""


def write_sets(run: Path, models: Sequence[ModelSets]) -> None:
    """Write `run/tables/sets.csv` and `sets.parquet`: grouped by model, with the sets in the dataset's order.

    A table too large for a spreadsheet is written only as Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for model in models for name in (*model.facts.columns, "model", *model.columns)))
    names = [name for name in names if name != _LAST] + [name for name in names if name == _LAST]
    if sum(len(model.row) for model in models) <= MOST_CSV:
        with replacing(run / "tables" / "sets.csv") as path, path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(names)
            for one in models:
                table, empty = _columns(one), [""] * len(one.row)
                rows.writerows(zip(*(_cells(table[name]) if name in table else empty for name in names), strict=True))
    parts = [pa.table({name: _arrow(column) for name, column in _columns(model).items()}) for model in models]
    whole = pa.concat_tables(parts, promote_options="default").select(names).unify_dictionaries()
    with replacing(run / "tables" / "sets.parquet") as path:
        pq.write_table(whole, path)


def _columns(one: ModelSets) -> dict[str, NDArray[Any]]:
    facts = {name: column[one.row] for name, column in one.facts.columns.items()}
    said = {name: one.names[name][column] if name in one.names else column for name, column in one.columns.items()}
    return {**facts, "model": texts([one.model] * len(one.row)), **said}


def _cells(column: NDArray[Any]) -> list[Cell]:
    if column.dtype == object:
        known = {value: cell(value) for value in set(column.tolist())}
        return [known[value] for value in column.tolist()]
    # Use the fewest digits that give the same number: 0.1 was stored as a 32-bit float.
    digits = 6 if column.dtype == np.float32 else None
    values = [float(f"{value:.{digits}g}") for value in column.tolist()] if digits else column.tolist()
    return [cell(None if value != value else value) for value in values]


def _arrow(column: NDArray[Any]) -> Any:
    import pyarrow as pa

    if column.dtype == object:
        places: dict[str, int] = {}
        codes = np.array([places.setdefault(value, len(places)) for value in column.tolist()], dtype=np.int32)
        return pa.DictionaryArray.from_arrays(arrow_of(pa, codes), arrow_of(pa, list(places)))
    return arrow_of(pa, column, np.isnan(column) if column.dtype.kind == "f" else None)
