"""Parquet tables with a declared schema: read into numpy columns, with one error line per broken rule, and written."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, printable
from strobe.core.parquet import IN_PYTHON, numbers_of, read_bounded
from strobe.core.people import GROWING
from strobe.core.tables import NO_PTS, Hints, texts
from strobe.core.variants import NO_VARIANT

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
            nulls |= {one.name: float("nan")} if type(None) in kinds else {}
        elif int in kinds:
            types[one.name] = _INT
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
    **{table: _of_record(record) for table, record in GROWING.items()},
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


def read_table(path: Path, schema: TableSchema) -> dict[str, Column]:
    """Return the declared columns as numpy arrays (text as objects), with nulls replaced."""
    if not path.exists():  # a column is read when it is first used
        raise InvalidFile(
            path, "the dataset was removed or moved while it was in use", hint="put it back, and run the command again"
        )
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
        out[declared.name] = _to_numpy(path, declared, column, schema.nulls)
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
            row = next(index for index, value in enumerate(column.to_pylist()) if value is None)
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


ColumnPart = Callable[[slice], Any]


@dataclass(frozen=True, slots=True)
class Table:
    """The number of rows, and for each column a function that returns the values of some rows (None for null)."""

    n: int
    columns: Mapping[str, ColumnPart]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> "Table":
        """Return a table with these columns, which hold all rows."""
        return cls(len(next(iter(columns.values()))), {name: _plain(values) for name, values in columns.items()})

    def whole(self) -> dict[str, list[Any]]:
        """Return all rows of every column."""
        found = {name: column(slice(0, self.n)) for name, column in self.columns.items()}
        return {name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in found.items()}


def _plain(values: Any) -> ColumnPart:
    return lambda rows: values[rows]


def _nullable(values: NDArray[Any], null: int | str) -> ColumnPart:
    """Return the column with None in place of the value that stands for null."""
    if values.dtype == object:
        return lambda rows: [None if value == null else value for value in values[rows].tolist()]
    return lambda rows: np.ma.masked_equal(values[rows], null)


def columns_of(dataset: Dataset) -> dict[str, Table]:
    """Return every table by its name."""
    videos, frames, sets, labels = dataset.videos, dataset.frames, dataset.sets, dataset.labels
    ids, label_ids, later = dataset.frame_ids, texts(dataset.info.label_space.ids), dataset.schema > 1
    member: dict[str, ColumnPart] = {
        "set_id": lambda rows: sets.set_id[sets.set[rows]],
        "frame_id": lambda rows: ids(sets.frame[rows]),
    }
    out = {
        "videos": Table(
            len(videos),
            {
                "video_id": _plain(videos.video_id),
                "name": _plain(videos.name),
                "fps_num": lambda rows: np.ma.masked_array(videos.fps_num[rows], videos.fps_den[rows] <= 0),
                "fps_den": _nullable(videos.fps_den, 0),
                "n_frames": _nullable(videos.n_frames, -1),
                "path": _nullable(videos.path, ""),
                "codec": _nullable(videos.codec, ""),
                **({"kind": _plain(videos.kind)} if later else {}),
            },
        ),
        "frames": Table(
            len(frames),
            {
                "frame_id": ids,
                "video_id": lambda rows: videos.video_id[frames.video[rows]],
                "index": _plain(frames.index),
                "key": _plain(frames.key),
                "pts": _nullable(frames.pts, NO_PTS),
                "time_num": lambda rows: np.ma.masked_array(frames.time_num[rows], frames.time_den[rows] <= 0),
                "time_den": _nullable(frames.time_den, 0),
                "pict_type": _nullable(frames.pict_type, ""),
                "width": _nullable(frames.width, 0),
                "height": _nullable(frames.height, 0),
                "sha256": _nullable(frames.sha256, ""),
                "media": _nullable(frames.media, ""),
                **({"as_input": _plain(frames.as_input), "recipe": _nullable(frames.recipe, "")} if later else {}),
            },
        ),
        "sets": Table(len(sets.set), member | {"distance": _plain(sets.distance), "is_anchor": _plain(sets.is_anchor)}),
        "labels": Table(
            len(labels.frame),
            {"frame_id": lambda rows: ids(labels.frame[rows]), "label": lambda rows: label_ids[labels.label[rows]]},
        ),
    }
    if (boxes := dataset.boxes) is not None:
        out["boxes"] = Table(
            len(boxes.frame),
            {
                "frame_id": lambda rows: ids(boxes.frame[rows]),
                "label": lambda rows: label_ids[boxes.label[rows]],
                **{name: _plain(boxes.xyxy[:, index]) for index, name in enumerate(("x0", "y0", "x1", "y1"))},
                "track": _nullable(boxes.track, -1),
                "crowd": _plain(boxes.crowd),
            },
        )
    if dataset.hints is not None:
        hints = {name: _plain(getattr(dataset.hints, name)) for name in Hints.__slots__}
        out["hints"] = Table(len(sets.set), member | hints)
    for table in GROWING:
        if records := getattr(dataset, table):
            out[table] = Table(len(records), {name: partial(_said, records, name) for name in schemas(1)[table].names})
    return out | {name: Table.of(columns) for name, columns in variant_columns(dataset).items()}


def _said(records: tuple[Any, ...], name: str, rows: slice) -> list[Any]:
    values = [getattr(one, name) for one in records[rows]]
    return [list(value or ()) for value in values] if name in ("labels", "xyxy") else values


def variant_columns(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Return the table of variants and the table of facts about each set, if the dataset has them."""
    sets, variants = dataset.sets, dataset.variants
    out: dict[str, dict[str, Any]] = {}
    if variants is not None:
        targets = variants.target.tolist()
        out["variants"] = {
            **{name: getattr(variants, name) for name in ("variant", "axis", "unit", "ordered", "role", "estimated")},
            "fields": [_json(fields) for fields in variants.fields],
            "levels": [list(levels) for levels in variants.levels],
            "target": [target and target.name for target in targets],
            "target_weights": [target and (target.weights or None) for target in targets],
            "target_preprocessing": [target and _json(target.preprocessing) for target in targets],
        }
    if variants is not None or not sets.is_plain:
        name = texts([NO_VARIANT] * len(sets)) if variants is None else variants.variant[sets.variant]
        out["set_info"] = {
            "set_id": sets.set_id,
            "variant": [None if one == NO_VARIANT else one for one in name.tolist()],
            "group": sets.group,
            "status": sets.status,
            "reach": np.ma.masked_invalid(sets.reach).tolist(),
            "margin": np.ma.masked_invalid(sets.margin).tolist(),
        }
    return out


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True, ensure_ascii=False, allow_nan=False)
