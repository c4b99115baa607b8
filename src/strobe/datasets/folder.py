"""The dataset folder: read with every rule checked by file and row, written whole or not at all."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from strobe.core.dataset import NO_PTS, Boxes, Dataset, DatasetInfo, Frames, Hints, Labels, Sets, Videos, texts
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, printable
from strobe.core.files import make_folder, read_json, replacing, write_json
from strobe.core.labels import LabelSpace
from strobe.core.records import Verdict
from strobe.datasets.tables import SCHEMAS, Column, read_table

__all__ = ["SCHEMA", "append_verdicts", "is_dataset", "read", "write"]

SCHEMA = 1
"""The folder format this version writes; a folder with a higher number is refused."""

_REQUIRED = ("videos", "frames", "sets", "labels")
_OPTIONAL = ("boxes", "hints", "verdicts")


def is_dataset(folder: Path) -> bool:
    """Whether the folder holds a dataset."""
    return (folder / "dataset.json").is_file()


def read(folder: Path) -> Dataset:
    """The dataset in a folder; an InvalidFile line names file, row and rule where one is broken."""
    info, files = _read_info(folder)
    tables: dict[str, dict[str, Column]] = {}
    for name in (*_REQUIRED, *_OPTIONAL):
        path = folder / f"{name}.parquet"
        if path.exists():
            _check_whole(path, files)
            tables[name] = read_table(path, SCHEMAS[name])
        elif name in _REQUIRED or f"{name}.parquet" in files:
            raise InvalidFile(path, "the file is missing", hint="copy the whole dataset folder, or make it again")
    try:
        return _assemble(folder, info, tables)
    except InvalidValue as error:
        raise InvalidFile(folder, str(error)) from error


def _read_info(folder: Path) -> tuple[DatasetInfo, dict[str, str]]:
    path = folder / "dataset.json"
    if folder.is_file():
        raise StrobeError(
            f"{printable(folder)} is a file, not a dataset folder; give the folder that holds dataset.json"
        )
    if not folder.is_dir():
        raise StrobeError(f"no such dataset folder: {printable(folder)}")
    if not path.is_file():
        raise StrobeError(
            f"{printable(folder)} is no dataset folder: it has no dataset.json; "
            "make one with strobe build, simulate or import"
        )
    data = read_json(path)
    if not isinstance(data, dict):
        raise InvalidFile(path, "expected a JSON object")
    schema = data.get("schema")
    if not isinstance(schema, int):
        raise InvalidFile(path, "no schema number", where="schema")
    if schema > SCHEMA:
        raise InvalidFile(
            path, f"format {schema} is newer than this strobe reads ({SCHEMA})", where="schema", hint="upgrade strobe"
        )
    try:
        label_space = LabelSpace.from_json(data["label_space"])
        info = DatasetInfo(
            name=data["name"],
            version=str(data.get("version", "1")),
            axis=data["axis"],
            k=int(data["k"]),
            label_space=label_space,
            label_source=data["label_source"],
            reviewed=data.get("reviewed", "none"),
            licence=data.get("licence", ""),
            provenance=data.get("provenance", {}),
        )
    except KeyError as error:
        raise InvalidFile(path, f"the field {error} is missing") from error
    except (InvalidValue, TypeError, ValueError) as error:
        raise InvalidFile(path, str(error)) from error
    return info, dict(data.get("files", {}))


def _check_whole(path: Path, files: Mapping[str, str]) -> None:
    expected = files.get(path.name)
    if expected is not None and hashlib.sha256(path.read_bytes()).hexdigest() != expected:
        raise InvalidFile(
            path,
            "its content is not what dataset.json recorded",
            hint='it is damaged or was edited; make it again, or remove its line under "files" in dataset.json',
        )


def _assemble(folder: Path, info: DatasetInfo, tables: dict[str, dict[str, Column]]) -> Dataset:
    raw_videos, raw_frames = tables["videos"], tables["frames"]
    if not len(raw_frames["frame_id"]):
        raise InvalidFile(folder / "frames.parquet", "no frames", hint="an empty dataset cannot be scored")
    if not len(tables["sets"]["set_id"]):
        raise InvalidFile(folder / "sets.parquet", "no sets", hint="an empty dataset cannot be scored")
    videos = Videos(**{name: raw_videos[name] for name in SCHEMAS["videos"].names})
    video = _places(folder, "frames", "video_id", raw_frames["video_id"], videos.video_id, "videos.parquet")
    ids = raw_frames["frame_id"]
    _unique(folder / "frames.parquet", "frame_id", ids)
    _unique(folder / "frames.parquet", "key", raw_frames["key"])
    for row, (found, owner, index) in enumerate(zip(ids, raw_frames["video_id"], raw_frames["index"], strict=True)):
        if found != f"{owner}:{index}":
            raise InvalidFile(
                folder / "frames.parquet",
                f"frame_id is {printable(found)!r}, expected video_id:index",
                where=f"row {row}",
            )
    frames = Frames(
        video=video,
        **{name: raw_frames[name] for name in SCHEMAS["frames"].names if name not in ("frame_id", "video_id")},
    )
    sets = _sets(folder, tables["sets"], ids)
    hints = _hints(folder, tables["hints"], sets, ids) if "hints" in tables else None
    raw = tables["labels"]
    labels = Labels(
        frame=_places(folder, "labels", "frame_id", raw["frame_id"], ids, "frames.parquet"),
        label=_label_places(folder, "labels", raw["label"], info.label_space),
    )
    boxes = _boxes(folder, tables["boxes"], ids, info.label_space) if "boxes" in tables else None
    verdicts = _verdicts(folder, tables["verdicts"]) if "verdicts" in tables else ()
    return Dataset(
        info=info, videos=videos, frames=frames, sets=sets, labels=labels, boxes=boxes, hints=hints, verdicts=verdicts,
        root=folder,
    )  # fmt: skip


def _unique(path: Path, column: str, values: Column) -> None:
    if len(set(values)) != len(values):
        seen: set[object] = set()
        for row, value in enumerate(values):
            if value in seen:
                raise InvalidFile(path, f"{column} {printable(value)!r} stands twice", where=f"row {row}")
            seen.add(value)


def _places(folder: Path, table: str, column: str, values: Column, known: Column, where: str) -> NDArray[np.int32]:
    place = {value: row for row, value in enumerate(known)}
    out = np.empty(len(values), dtype=np.int32)
    for row, value in enumerate(values):
        found = place.get(value)
        if found is None:
            raise InvalidFile(
                folder / f"{table}.parquet", f"{column} {printable(value)!r} is not in {where}", where=f"row {row}"
            )
        out[row] = found
    return out


def _label_places(folder: Path, table: str, values: Column, label_space: LabelSpace) -> NDArray[np.int32]:
    place = {label: row for row, label in enumerate(label_space.ids)}
    out = np.empty(len(values), dtype=np.int32)
    for row, value in enumerate(values):
        if value not in place:
            raise InvalidFile(
                folder / f"{table}.parquet",
                f"label {printable(value)!r} is no class of {label_space.name} ({len(label_space)} classes)",
                where=f"row {row}",
            )
        out[row] = place[value]
    return out


def _sets(folder: Path, raw: dict[str, Column], ids: Column) -> Sets:
    frame = _places(folder, "sets", "frame_id", raw["frame_id"], ids, "frames.parquet")
    if not np.isfinite(raw["distance"]).all():
        row = int(np.flatnonzero(~np.isfinite(raw["distance"]))[0])
        raise InvalidFile(folder / "sets.parquet", "distance is not a finite number", where=f"row {row}")
    names = list(dict.fromkeys(raw["set_id"]))
    place = {name: row for row, name in enumerate(names)}
    owner = np.array([place[name] for name in raw["set_id"]], dtype=np.int32)
    order = np.lexsort((raw["distance"], owner))
    return Sets(
        set_id=texts(names),
        set=owner[order],
        frame=frame[order],
        distance=raw["distance"][order],
        is_anchor=raw["is_anchor"][order],
    )


def _hints(folder: Path, raw: dict[str, Column], sets: Sets, ids: Column) -> Hints:
    have = {pair: row for row, pair in enumerate(zip(raw["set_id"].tolist(), raw["frame_id"].tolist(), strict=True))}
    wanted = list(zip(sets.set_id[sets.set].tolist(), ids[sets.frame].tolist(), strict=True))
    missing = [pair for pair in wanted if pair not in have]
    if missing:
        raise InvalidFile(
            folder / "hints.parquet", f"{len(missing)} set rows have no hint, first {printable(missing[0])}"
        )
    rows = np.array([have[pair] for pair in wanted], dtype=np.int64)
    return Hints(**{name: raw[name][rows] for name in ("cut", "blur", "motion", "exposure", "duplicate")})


def _boxes(folder: Path, raw: dict[str, Column], ids: Column, label_space: LabelSpace) -> Boxes:
    xyxy = np.stack([raw[name] for name in ("x0", "y0", "x1", "y1")], axis=1).astype(np.float64).reshape(-1, 4)
    bad = ~(np.isfinite(xyxy).all(axis=1) & (xyxy[:, 2] > xyxy[:, 0]) & (xyxy[:, 3] > xyxy[:, 1]))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InvalidFile(
            folder / "boxes.parquet", f"expected x0 < x1 and y0 < y1, got {xyxy[row].tolist()}", where=f"row {row}"
        )
    return Boxes(
        frame=_places(folder, "boxes", "frame_id", raw["frame_id"], ids, "frames.parquet"),
        label=_label_places(folder, "boxes", raw["label"], label_space),
        xyxy=xyxy,
        track=raw["track"],
        crowd=raw["crowd"],
    )


def _verdicts(folder: Path, raw: dict[str, Column]) -> tuple[Verdict, ...]:
    out = []
    for row in range(len(raw["verdict_id"])):
        seconds = float(raw["seconds"][row])
        right = int(raw["label_right"][row])
        try:
            out.append(
                Verdict(
                    **{
                        name: str(raw[name][row])
                        for name in (
                            "verdict_id",
                            "annotator",
                            "at",
                            "set_id",
                            "frame_id",
                            "reason",
                            "note",
                            "page_version",
                        )
                    },
                    stage=raw["stage"][row],
                    decision=raw["decision"][row],
                    label_right=None if right < 0 else bool(right),
                    bad_anchor=bool(raw["bad_anchor"][row]),
                    labels=tuple(raw["labels"][row]),
                    seconds=None if np.isnan(seconds) else seconds,
                )
            )
        except InvalidValue as error:
            raise InvalidFile(folder / "verdicts.parquet", str(error), where=f"row {row}") from error
    return tuple(out)


# -- writing -----------------------------------------------------------------------------------------------------


def write(dataset: Dataset, folder: Path, *, overwrite: bool = False) -> Path:
    """Write the tables and, last, dataset.json. Media are not touched: who makes the dataset puts them there."""
    if is_dataset(folder) and not overwrite:
        raise StrobeError(f"{printable(folder)} already holds a dataset; choose another folder or remove it first")
    if folder.exists() and not folder.is_dir():
        raise StrobeError(f"{printable(folder)} is a file; choose a folder to write to")
    make_folder(folder)
    files = {}
    for name, columns in _columns(dataset).items():
        files[f"{name}.parquet"] = _write_table(folder / f"{name}.parquet", columns, SCHEMAS[name].arrow)
    _write_info(folder, dataset.info, files)
    for name in _OPTIONAL:
        if f"{name}.parquet" not in files:
            (folder / f"{name}.parquet").unlink(missing_ok=True)
    return folder


def append_verdicts(folder: Path, verdicts: Iterable[Verdict]) -> Dataset:
    """Add votes to a dataset folder; a vote whose id is there already is not added twice. Returns the dataset."""
    dataset = read(folder)
    known = {verdict.verdict_id for verdict in dataset.verdicts}
    fresh = []
    for verdict in verdicts:
        if verdict.verdict_id not in known:
            known.add(verdict.verdict_id)
            fresh.append(verdict)
    info = replace(dataset.info, reviewed="votes")
    changed = replace(dataset, info=info, verdicts=(*dataset.verdicts, *fresh))
    columns = _columns(changed)["verdicts"]
    _, files = _read_info(folder)
    files["verdicts.parquet"] = _write_table(folder / "verdicts.parquet", columns, SCHEMAS["verdicts"].arrow)
    _write_info(folder, info, files)
    return changed


def _write_info(folder: Path, info: DatasetInfo, files: Mapping[str, str]) -> None:
    write_json(
        folder / "dataset.json",
        {
            "schema": SCHEMA,
            "name": info.name,
            "version": info.version,
            "axis": info.axis,
            "k": info.k,
            "label_source": info.label_source,
            "reviewed": info.reviewed,
            "licence": info.licence,
            "provenance": dict(info.provenance),
            "files": dict(files),
            "label_space": info.label_space.to_json(),
        },
    )


def _write_table(path: Path, columns: Mapping[str, Any], schema: pa.Schema) -> str:
    """Write the table; its sha256 comes back. No statistics or time stamps: equal content gives equal bytes."""
    table = pa.table(
        {name: pa.array(columns[name], type=schema.field(name).type) for name in schema.names}, schema=schema
    )
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
        return hashlib.sha256(temporary.read_bytes()).hexdigest()


def _nullable(values: NDArray[Any], null: object) -> list[Any]:
    return [None if value == null else value for value in values.tolist()]


def _columns(dataset: Dataset) -> dict[str, dict[str, Any]]:
    videos, frames, sets = dataset.videos, dataset.frames, dataset.sets
    ids = texts(dataset.frame_ids())
    label_ids = texts(dataset.info.label_space.ids)
    known_time = frames.time_den > 0
    out: dict[str, dict[str, Any]] = {
        "videos": {
            "video_id": videos.video_id,
            "name": videos.name,
            "fps_num": np.ma.masked_array(videos.fps_num, videos.fps_den <= 0).tolist(),
            "fps_den": _nullable(videos.fps_den, 0),
            "n_frames": _nullable(videos.n_frames, -1),
            "path": _nullable(videos.path, ""),
            "codec": _nullable(videos.codec, ""),
        },
        "frames": {
            "frame_id": ids,
            "video_id": videos.video_id[frames.video],
            "index": frames.index,
            "key": frames.key,
            "pts": _nullable(frames.pts, NO_PTS),
            "time_num": np.ma.masked_array(frames.time_num, ~known_time).tolist(),
            "time_den": _nullable(frames.time_den, 0),
            "pict_type": _nullable(frames.pict_type, ""),
            "width": _nullable(frames.width, 0),
            "height": _nullable(frames.height, 0),
            "sha256": _nullable(frames.sha256, ""),
            "media": _nullable(frames.media, ""),
        },
        "sets": {
            "set_id": sets.set_id[sets.set],
            "frame_id": ids[sets.frame],
            "distance": sets.distance,
            "is_anchor": sets.is_anchor,
        },
        "labels": {"frame_id": ids[dataset.labels.frame], "label": label_ids[dataset.labels.label]},
    }
    if dataset.boxes is not None:
        boxes = dataset.boxes
        out["boxes"] = {
            "frame_id": ids[boxes.frame],
            "label": label_ids[boxes.label],
            **{name: boxes.xyxy[:, place] for place, name in enumerate(("x0", "y0", "x1", "y1"))},
            "track": _nullable(boxes.track, -1),
            "crowd": boxes.crowd,
        }
    if dataset.hints is not None:
        hints = {name: getattr(dataset.hints, name) for name in Hints.__slots__}
        out["hints"] = {"set_id": sets.set_id[sets.set], "frame_id": ids[sets.frame], **hints}
    if dataset.verdicts:
        out["verdicts"] = {
            name: [getattr(verdict, name) for verdict in dataset.verdicts] for name in SCHEMAS["verdicts"].names
        }
        out["verdicts"]["labels"] = [list(verdict.labels) for verdict in dataset.verdicts]
    return out
