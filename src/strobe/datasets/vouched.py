"""Read a folder that was checked when it was written: columns on demand, frames by number.

For such a folder, dataset.json has digests of the checked content (`checked`) in addition to the SHA-256 of every
table. If all digests match, nothing is checked or computed again, and the texts of the frames need not be in memory.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from strobe.core.arrays import Ints
from strobe.core.columns import arrow_of, numbers_of
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.inside import inside
from strobe.core.parquet import open_bounded, written_out
from strobe.core.people import PEOPLE
from strobe.core.tables import Boxes, Frames, Hints, Labels, LazyColumn, Sets, Videos, texts
from strobe.datasets.assemble import said, variants_of, with_info
from strobe.datasets.tables import Column, TableSchema, read_table, schemas

__all__ = ["read_vouched"]

_ROWS = 2**17
"""Rows per block when a table's texts are converted to numbers."""


def read_vouched(folder: Path, info: DatasetInfo, schema: int, *, people: bool = True) -> Dataset:
    """Return the dataset of a verified folder; if `people` is false, people's answers are not read."""
    known = schemas(schema)

    def table(name: str) -> dict[str, Column]:
        return read_table(inside(folder, f"{name}.parquet"), known[name])

    def have(name: str) -> bool:
        return name in known and inside(folder, f"{name}.parquet").is_file()

    videos = Videos(**table("videos"))
    path = folder / "frames.parquet"
    ids = arrow_of(pa, videos.video_id.tolist())
    video = _places(path, "video_id", ids)
    index = _numbers(path, known["frames"], "index")
    if int(index.max(initial=0)) < 2**31:
        index = index.astype(np.int32)
    later = {
        name: LazyColumn(partial(_numbers, path, known["frames"], name), len(video))
        for name in known["frames"].names
        if name not in ("frame_id", "video_id", "index")
    }
    frames = Frames(video=video, index=index, **later)  # type: ignore[arg-type]  # read on first use
    places = _FrameIds(ids, video, index)
    classes = arrow_of(pa, info.label_space.ids)
    sets = _sets(folder / "sets.parquet", known["sets"], places)
    variants = variants_of(folder / "variants.parquet", table("variants")) if have("variants") else None
    if have("set_info"):
        sets = with_info(folder, sets, table("set_info"), variants)
    spoken: dict[str, Any] = {name: said(folder, name, table(name)) for name in PEOPLE if people and have(name)}
    return Dataset(
        info=info, videos=videos, frames=frames, sets=sets, variants=variants, root=folder,
        labels=Labels(
            frame=places.of(folder / "labels.parquet"), label=_places(folder / "labels.parquet", "label", classes)
        ),
        boxes=_boxes(folder / "boxes.parquet", known["boxes"], places, classes) if have("boxes") else None,
        hints=_hints(folder / "hints.parquet", known["hints"], places, sets) if have("hints") else None,
        **spoken,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _FrameIds:
    """Looks up frames by video and index, without creating the texts `video_id:index`."""

    videos: pa.Array
    video: Ints
    index: Ints

    def of(self, path: Path) -> NDArray[np.int32]:
        """Return, for every row of a table, the row of its frame."""
        span = int(self.index.max()) + 1
        key = self.video.astype(np.int64) * span + self.index
        order = None if bool((key[1:] > key[:-1]).all()) else np.argsort(key, kind="stable")
        rows = []
        for batch in _batches(path, "frame_id"):
            parts = pc.split_pattern(batch, ":", max_splits=1, reverse=True).flatten()
            of_video = pc.index_in(_every_second(parts, 0), value_set=self.videos)
            place = pc.cast(_every_second(parts, 1), pa.int64())
            wanted = numbers_of(of_video).astype(np.int64) * span + numbers_of(place)
            at = np.searchsorted(key, wanted, sorter=order)
            rows.append((at if order is None else order[at]).astype(np.int32))
        return np.concatenate([np.empty(0, dtype=np.int32), *rows])


def _every_second(values: pa.Array, first: int) -> pa.Array:
    return values.take(arrow_of(pa, np.arange(first, len(values), 2)))


def _batches(path: Path, column: str) -> Any:
    """Yield the column's texts in blocks of rows."""
    file, cost = open_bounded(path, [column])
    with file:
        for batch in file.iter_batches(_ROWS, columns=[column]):
            yield written_out(path, pa.Table.from_batches([batch]), cost).column(0).combine_chunks()


def _places(path: Path, column: str, known: pa.Array) -> NDArray[np.int32]:
    """Return the position of each text of a column among the known texts."""
    found = [numbers_of(pc.index_in(batch, value_set=known)).astype(np.int32) for batch in _batches(path, column)]
    return np.concatenate([np.empty(0, dtype=np.int32), *found])


def _numbers(path: Path, schema: TableSchema, name: str) -> Column:
    """Return one column, as `read_table` does."""
    one = TableSchema(pa.schema([schema.arrow.field(name)]), schema.nulls)
    return read_table(path, one)[name]


def _sets(path: Path, schema: TableSchema, places: _FrameIds) -> Sets:
    names: dict[str, int] = {}
    owners = []
    for batch in _batches(path, "set_id"):
        coded = batch.dictionary_encode()
        here = [names.setdefault(name, len(names)) for name in coded.dictionary.to_pylist()]
        owners.append(np.array(here, dtype=np.int32)[numbers_of(coded.indices)])
    owner, frame = np.concatenate(owners), places.of(path)
    distance, is_anchor = (_numbers(path, schema, name) for name in ("distance", "is_anchor"))
    step = np.diff(owner)
    if not bool(((step > 0) | ((step == 0) & (np.diff(distance) >= 0))).all()):
        order = np.lexsort((distance, owner))
        owner, frame, distance, is_anchor = owner[order], frame[order], distance[order], is_anchor[order]
    return Sets(set_id=texts(list(names)), set=owner, frame=frame, distance=distance, is_anchor=is_anchor)


def _boxes(path: Path, schema: TableSchema, places: _FrameIds, classes: pa.Array) -> Boxes:
    return Boxes(
        frame=places.of(path),
        label=_places(path, "label", classes),
        xyxy=np.stack([_numbers(path, schema, name) for name in ("x0", "y0", "x1", "y1")], axis=1).reshape(-1, 4),
        track=_numbers(path, schema, "track"),
        crowd=_numbers(path, schema, "crowd"),
    )


def _hints(path: Path, schema: TableSchema, places: _FrameIds, sets: Sets) -> Hints:
    n = len(places.video)
    owner = _places(path, "set_id", arrow_of(pa, sets.set_id.tolist())).astype(np.int64)
    have, wanted = owner * n + places.of(path), sets.set.astype(np.int64) * n + sets.frame
    order = np.argsort(have, kind="stable")
    rows = order[np.searchsorted(have, wanted, sorter=order)]
    return Hints(**{name: _numbers(path, schema, name)[rows] for name in Hints.__slots__})
