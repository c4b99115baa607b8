"""Read and write the dataset folder. Reading checks every rule and reports the file and the row. Writing is atomic.

A folder that was checked when it was written has digests of the checked content (`checked`) in dataset.json, and the
SHA-256 of every table. If all digests match, nothing is checked or computed again: columns are read on demand, frames
are found by number, and the texts of the frames need not be in memory.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from strobe.core.arrays import Ints, blocks
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, in_file, printable
from strobe.core.files import cannot_write, inside, replacing, sha256_of_file
from strobe.core.locks import writes
from strobe.core.parquet import arrow_of, numbers_of, open_bounded, written_out
from strobe.core.people import GROWING
from strobe.core.records import Verdict
from strobe.core.seals import DIGESTS, check_file, digest_of_json, read_digests, write_digests
from strobe.core.swaps import Staged, settle, swapping
from strobe.core.tables import Boxes, Frames, Hints, Labels, LazyColumn, Sets, Videos, texts
from strobe.store.checks import check_tables, said, variants_of, with_info
from strobe.store.dataset_json import read_info, write_info
from strobe.store.tables import Column, Table, TableSchema, columns_of, read_table, schemas

_ROWS = 2**17
"""Rows per block when a table's texts are converted to numbers."""


def _path(folder: Path, name: str) -> Path:
    """Return a table's file, which must be inside the folder."""
    return inside(folder, f"{name}.parquet")


def _read_tables(folder: Path, info: DatasetInfo, known: Mapping[str, TableSchema], names: Collection[str]) -> Dataset:
    """Return the dataset of a folder whose tables were checked. `names` are those that are read."""
    paths = {name: _path(folder, name) for name in known}

    def table(name: str) -> dict[str, Column]:
        return read_table(paths[name], known[name])

    videos, path = Videos(**table("videos")), paths["frames"]
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
    sets = _sets(paths["sets"], known["sets"], places)
    variants = variants_of(paths["variants"], table("variants")) if "variants" in names else None
    if "set_info" in names:
        sets = with_info(folder, sets, table("set_info"), variants)
    people: dict[str, Any] = {name: said(folder, name, table(name)) for name in GROWING if name in names}
    return Dataset(
        info=info,
        videos=videos,
        frames=frames,
        sets=sets,
        variants=variants,
        root=folder,
        labels=Labels(frame=places.of(paths["labels"]), label=_places(paths["labels"], "label", classes)),
        boxes=_boxes(paths["boxes"], known["boxes"], places, classes) if "boxes" in names else None,
        hints=_hints(paths["hints"], known["hints"], places, sets) if "hints" in names else None,
        **people,
    )


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
    table_schema = TableSchema(pa.schema([schema.arrow.field(name)]), schema.nulls)
    return read_table(path, table_schema)[name]


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


_REQUIRED = ("videos", "frames", "sets", "labels")
_OPTIONAL = ("boxes", "hints", *GROWING, "variants", "set_info")


def is_dataset(folder: Path) -> bool:
    """Return whether the folder contains a dataset; False if permissions prevent reading it."""
    settle(folder)
    return os.path.isfile(folder / "dataset.json")  # noqa: PTH113 (Path's raises where there is no permission)


def content(folder: Path) -> tuple[str, str]:
    """Return a digest of the table files and one of the files with people's answers. The tables are not parsed."""
    settle(folder)
    info, _, schema, _ = read_info(folder)
    out = []
    for names in (sorted(schemas(schema).keys() - GROWING.keys()), sorted(GROWING)):
        files = [path for name in names if (path := _path(folder, name)).is_file()]
        digests = {path.name: sha256_of_file(path) for path in files}
        out.append(digest_of_json({**digests, "classes": info.label_space.digest}))
    return out[0], out[1]


def identity(folder: Path) -> str:
    """Return a digest of what dataset.json says about the tables that never change. No table is read."""
    info, files, _, _ = read_info(folder)
    return digest_of_json({**files, "classes": info.label_space.digest})


def read(folder: Path, *, people: bool = True) -> Dataset:
    """Read the dataset in a folder. If a rule is broken, InvalidFile names the file, the row and the rule.

    Without `people`, votes and answers are not read, for callers that already have them or do not need them.
    """
    settle(folder)
    info, files, schema, digests = read_info(folder)
    for name in sorted(read_digests(folder)["files"]) if people else ():
        check_file(folder, name, hint=f"copy it again, or remove {DIGESTS} to use the answers as they are")
    known = {name: table for name, table in schemas(schema).items() if people or name not in GROWING}
    names = [name for name in known if _path(folder, name).is_file()]
    for name in known:
        if name in names:
            _check_digest(folder, name, files)
        elif name in _REQUIRED or f"{name}.parquet" in files:
            hint = "copy the whole dataset folder, or make it again"
            raise InvalidFile(_path(folder, name), "the file is missing", hint=hint)
    with in_file(folder):
        if digests is None or {f"{name}.parquet" for name in names if name not in GROWING} != set(files):
            check_tables(folder, info, names, lambda name: read_table(_path(folder, name), known[name]))
            dataset = _read_tables(folder, info, known, names)
            for name in Frames.__slots__:
                getattr(dataset.frames, name)  # read now, because no digest shows a later change of the file
            return dataset
        dataset = _read_tables(folder, info, known, names)
    # The digest covers votes, but dataset.json is not updated when votes are added.
    voted = bool(dataset.verdicts) or not people
    dataset.vouch(digest=None if voted else digests[0] or None, frames_digest=digests[1])
    return dataset


def _check_digest(folder: Path, name: str, files: Mapping[str, str]) -> None:
    """Raise InvalidFile if a table was changed after dataset.json was written."""
    path = _path(folder, name)
    if (expected := files.get(path.name)) is not None and sha256_of_file(path) != expected:
        raise InvalidFile(
            path,
            "its content differs from the digest in dataset.json",
            hint='it is damaged or was edited; make it again, or remove its line under "files" in dataset.json',
        )


# -- writing -----------------------------------------------------------------------------------------------------


def refuse_other_content(folder: Path, *, leftovers: Collection[str]) -> None:
    """Raise StrobeError if the folder is a file, or contains more than a dataset and an interrupted run's leftovers.

    Hidden files are ignored.
    """
    if folder.exists() and not folder.is_dir():
        raise StrobeError(f"{printable(folder)} is a file; choose a folder to write to")
    if is_dataset(folder) or not folder.is_dir():
        return
    if any(path.name not in leftovers and not path.name.startswith(".") for path in folder.iterdir()):
        raise StrobeError(f"{printable(folder)} is not empty and is not a dataset folder; choose another folder")


@writes("folder")
def write(dataset: Dataset, folder: Path, *, overwrite: bool = False) -> Path:
    """Write the tables and dataset.json. Media are not touched, because the caller writes them.

    All files are written to a temporary folder first and moved into place in one step. An error such as a full disk
    leaves the folder unchanged. A killed process leaves either the old dataset or the new one.
    """
    if is_dataset(folder) and not overwrite:
        raise StrobeError(f"{printable(folder)} already contains a dataset; choose another folder or remove it first")
    if folder.exists() and not folder.is_dir():
        raise StrobeError(f"{printable(folder)} is a file; choose a folder to write to")
    tables, number = columns_of(dataset), dataset.schema
    with swapping(folder) as staged:
        files: dict[str, str] = {}
        path = staged.root
        try:
            for name, table in tables.items():
                path = staged.root / f"{name}.parquet"
                files[path.name] = _write_table(path, table, schemas(number)[name].arrow)
            path = staged.root / "dataset.json"
            digests = "" if dataset.verdicts else dataset.digest(), dataset.frames_digest()
            write_info(path, dataset.info, files, number, digests=digests)
            _write_digests(staged, {})
        except OSError as error:
            raise cannot_write(folder / path.name, error) from error
        for name in _OPTIONAL:
            if name not in tables:
                staged.remove(f"{name}.parquet")
    return folder


@writes("folder")
def append_verdicts(
    folder: Path, verdicts: Iterable[Verdict], *, unreviewed: Literal["exclude", "keep"] | None = None
) -> Dataset:
    """Add votes to a dataset folder and return the dataset. A vote with an existing id is not added twice.

    `unreviewed` decides how sets without votes are treated. None keeps the folder's setting.
    """
    dataset = _appended(folder, read(folder), "verdicts", "verdict_id", verdicts)
    info = replace(dataset.info, reviewed="votes", unreviewed=unreviewed or dataset.info.unreviewed)
    if not dataset.verdicts or info == dataset.info:
        return dataset
    _, files, schema, known = read_info(folder)
    with replacing(folder / "dataset.json") as temporary:
        # votes change the digest of the dataset
        write_info(temporary, info, files, schema, digests=known and ("", known[1]))
    return replace(dataset, info=info)


@writes("folder")
def append_answers(folder: Path, table: str, answers: Iterable[Any]) -> Dataset:
    """Add people's answers, or sets to ask about, to a table. A row with an existing id is not added twice."""
    return _appended(folder, read(folder), table, "sample_id" if table == "samples" else "answer_id", answers)


def _appended(folder: Path, dataset: Dataset, table: str, key: str, records: Iterable[Any]) -> Dataset:
    """Add the records whose ids are new, and return the dataset. The table's file is replaced atomically."""
    by_id = {getattr(record, key): record for record in getattr(dataset, table)}
    before = len(by_id)
    for record in records:
        by_id.setdefault(getattr(record, key), record)
    if len(by_id) == before:
        return dataset
    changed = replace(dataset, **{table: tuple(by_id.values())})  # type: ignore[arg-type]  # `table` is a key of GROWING
    with swapping(folder) as staged:
        path = staged.root / f"{table}.parquet"
        try:
            _write_table(path, columns_of(changed)[table], schemas(dataset.schema)[table].arrow)
            _write_digests(staged, read_digests(folder)["files"])
        except OSError as error:
            raise cannot_write(folder / path.name, error) from error
    return changed


def _write_digests(staged: Staged, keep: Mapping[str, str]) -> None:
    """Write the digests of the tables of people's answers, which dataset.json does not list."""
    people = [path for path in staged.root.glob("*.parquet") if path.stem in GROWING]
    if people:
        write_digests(staged.root, people, keep=keep, more={})
    else:
        staged.remove(DIGESTS)


def _write_table(path: Path, table: Table, schema: pa.Schema) -> str:
    """Write the table and return its sha256. It contains no times, so equal content gives equal bytes."""
    with pq.ParquetWriter(path, schema, compression="zstd") as file:
        for rows in blocks(max(table.n, 1)):  # pyarrow's default number of rows in a row group
            columns = {name: pa.array(table.columns[name](rows), schema.field(name).type) for name in schema.names}
            file.write_table(pa.table(columns, schema=schema))
    return sha256_of_file(path)
