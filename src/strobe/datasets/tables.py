"""Parquet tables with a declared schema, read into numpy columns. Each broken rule gives one error line."""

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strobe.core.columns import numbers_of
from strobe.core.errors import InvalidFile, printable
from strobe.core.parquet import IN_PYTHON, read_bounded
from strobe.core.people import PEOPLE
from strobe.core.tables import NO_PTS, texts

__all__ = ["Column", "TableSchema", "read_parquet", "read_table", "schemas"]

Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table, and the values that replace null in memory.

    A column without such a value must not contain null.
    """

    arrow: pa.Schema
    nulls: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The column names in order."""
        return list(self.arrow.names)


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in types.items()])


_TEXT, _INT, _FLOAT, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()


def _of_record(record: type[Any]) -> TableSchema:
    """Return the table schema for a record of people's answers. An optional text or number may be null."""
    types: dict[str, pa.DataType] = {}
    nulls: dict[str, Any] = {}
    for one in fields(record):
        kinds = get_args(one.type) if get_origin(one.type) is UnionType else (one.type,)
        lists = next((kind for kind in kinds if get_origin(kind) is tuple), None)
        if lists is not None:
            types[one.name] = pa.list_(_TEXT if get_args(lists)[0] is str else _FLOAT)
        elif bool in kinds:
            types[one.name] = _BOOL
            nulls |= {one.name: -1} if type(None) in kinds else {}
        elif float in kinds:
            types[one.name] = _FLOAT
            nulls[one.name] = float("nan")
        else:
            types[one.name] = _TEXT
            nulls |= {one.name: ""} if one.default == "" else {}
    return TableSchema(_schema(**types), nulls)


_FIRST: dict[str, TableSchema] = {
    "videos": TableSchema(
        _schema(
            video_id=_TEXT, name=_TEXT, fps_num=_INT, fps_den=_INT, n_frames=_INT, path=_TEXT, codec=_TEXT
        ),
        {"fps_num": 0, "fps_den": 0, "n_frames": -1, "path": "", "codec": ""},
    ),
    "frames": TableSchema(
        _schema(
            frame_id=_TEXT, video_id=_TEXT, index=_INT, key=_TEXT, pts=_INT, time_num=_INT, time_den=_INT,
            pict_type=_TEXT, width=_INT, height=_INT, sha256=_TEXT, media=_TEXT,
        ),
        {
            "pts": NO_PTS, "time_num": 0, "time_den": 0, "pict_type": "", "width": 0, "height": 0, "sha256": "",
            "media": "",
        },
    ),
    "sets": TableSchema(_schema(set_id=_TEXT, frame_id=_TEXT, distance=_FLOAT, is_anchor=_BOOL)),
    "labels": TableSchema(_schema(frame_id=_TEXT, label=_TEXT)),
    "boxes": TableSchema(
        _schema(frame_id=_TEXT, label=_TEXT, x0=_FLOAT, y0=_FLOAT, x1=_FLOAT, y1=_FLOAT, track=_INT, crowd=_BOOL),
        {"track": -1},
    ),
    "hints": TableSchema(
        _schema(
            set_id=_TEXT, frame_id=_TEXT, cut=_FLOAT, blur=_FLOAT, motion=_FLOAT, exposure=_FLOAT, duplicate=_BOOL
        )
    ),
    **{table: _of_record(record) for table, record in PEOPLE.items()},
}  # fmt: skip


def _wider(name: str, **types: pa.DataType) -> TableSchema:
    first = _FIRST[name]
    return TableSchema(_schema(**{one.name: one.type for one in first.arrow}, **types), {**first.nulls, "recipe": ""})


_SECOND: dict[str, TableSchema] = {
    **_FIRST,
    "videos": _wider("videos", kind=_TEXT),
    "frames": _wider("frames", as_input=_BOOL, recipe=_TEXT),
    "variants": TableSchema(
        _schema(
            variant=_TEXT, fields=_TEXT, target=_TEXT, target_weights=_TEXT, target_preprocessing=_TEXT, axis=_TEXT,
            unit=_TEXT, ordered=_BOOL, levels=pa.list_(_FLOAT), role=_TEXT, estimated=_BOOL,
        ),
        {"target": "", "target_weights": "", "target_preprocessing": "{}"},
    ),
    "set_info": TableSchema(
        _schema(set_id=_TEXT, variant=_TEXT, group=_TEXT, status=_TEXT, reach=_FLOAT, margin=_FLOAT),
        {"variant": "", "reach": float("nan"), "margin": float("nan")},
    ),
}  # fmt: skip


def schemas(number: int) -> dict[str, TableSchema]:
    """Return the table schemas of folder format 1 or 2."""
    return _SECOND if number > 1 else _FIRST


def read_parquet(path: Path, columns: Collection[str]) -> tuple[pa.Table, list[str]]:
    """Return the requested columns that the file has, and the names of all its columns.

    A file that would decompress to implausibly many bytes for its size is refused (`strobe.core.parquet`).
    """
    return read_bounded(path, columns)


def read_table(path: Path, schema: TableSchema) -> dict[str, Column]:
    """Return the declared columns as numpy arrays (text as objects), with nulls replaced."""
    table, names = read_bounded(path, schema.names, listed=IN_PYTHON)
    out: dict[str, Column] = {}
    for declared in schema.arrow:
        if declared.name not in names:
            raise InvalidFile(
                path, f"the column {declared.name} is missing", hint=f"it has {printable(', '.join(names))}"
            )
        column = table.column(declared.name)
        try:
            column = column.cast(declared.type)
        except pa.ArrowException as error:
            raise InvalidFile(path, f"the column {declared.name} is {column.type}, expected {declared.type}") from error
        try:
            out[declared.name] = _to_numpy(path, declared, column, schema.nulls)
        except UnicodeDecodeError as error:
            raise InvalidFile(path, f"the column {declared.name} is not UTF-8 text", hint="is it damaged?") from error
    return out


def _texts(chunk: pa.Array, null: Any) -> Column:
    """Return texts or lists as Python objects, with `null` for missing values. Repeated values share one object."""
    if pa.types.is_string(chunk.type) and not chunk.null_count:
        coded = chunk.dictionary_encode()
        found: Column = texts(coded.dictionary.to_pylist())[numbers_of(coded.indices)]
        return found
    out = np.empty(len(chunk), dtype=object)
    out[:] = [null if value is None else value for value in chunk.to_pylist()]
    return out


def _to_numpy(path: Path, declared: pa.Field, column: pa.ChunkedArray, nulls: dict[str, Any]) -> Column:
    if column.null_count:
        if declared.name not in nulls:
            row = next(place for place, value in enumerate(column.to_pylist()) if value is None)
            raise InvalidFile(path, f"the column {declared.name} is null", where=f"row {row}")
        if pa.types.is_boolean(declared.type):
            return np.array([nulls[declared.name] if value is None else int(value) for value in column.to_pylist()])
    if pa.types.is_string(declared.type) or pa.types.is_list(declared.type):
        parts = [_texts(chunk, nulls.get(declared.name)) for chunk in column.chunks]
        return np.concatenate([np.empty(0, dtype=object), *parts])
    values = numbers_of(column)
    if column.null_count:
        values = values.copy()
        values[numbers_of(column.is_null())] = nulls[declared.name]
    return values
