"""Every table of a dataset as stored on disk, column by column and in blocks of rows."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.people import PEOPLE
from strobe.core.tables import NO_PTS, Hints, texts
from strobe.core.variants import NO_VARIANT
from strobe.datasets.tables import schemas

__all__ = ["Table", "columns_of", "variant_columns"]

Column = Callable[[slice], Any]


@dataclass(frozen=True, slots=True)
class Table:
    """The number of rows, and for each column a function that returns the values of some rows (None for null)."""

    n: int
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> "Table":
        """Return a table with these columns, which hold all rows."""
        return cls(len(next(iter(columns.values()))), {name: _plain(values) for name, values in columns.items()})

    def whole(self) -> dict[str, list[Any]]:
        """Return all rows of every column."""
        found = {name: column(slice(0, self.n)) for name, column in self.columns.items()}
        return {name: values.tolist() if isinstance(values, np.ndarray) else values for name, values in found.items()}


def _plain(values: Any) -> Column:
    return lambda rows: values[rows]


def _nullable(values: NDArray[Any], null: int | str) -> Column:
    """Return the column with None in place of the value that stands for null."""
    if values.dtype == object:
        return lambda rows: [None if value == null else value for value in values[rows].tolist()]
    return lambda rows: np.ma.masked_equal(values[rows], null)


def columns_of(dataset: Dataset) -> dict[str, Table]:
    """Return every table by its name."""
    videos, frames, sets, labels = dataset.videos, dataset.frames, dataset.sets, dataset.labels
    ids, label_ids, later = dataset.frame_ids, texts(dataset.info.label_space.ids), dataset.schema > 1
    member: dict[str, Column] = {
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
                **{name: _plain(boxes.xyxy[:, place]) for place, name in enumerate(("x0", "y0", "x1", "y1"))},
                "track": _nullable(boxes.track, -1),
                "crowd": _plain(boxes.crowd),
            },
        )
    if dataset.hints is not None:
        hints = {name: _plain(getattr(dataset.hints, name)) for name in Hints.__slots__}
        out["hints"] = Table(len(sets.set), member | hints)
    for table in PEOPLE:
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
