"""Check the tables of a dataset folder. Errors name the file, the row and the rule."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Ints, are_pixels, blocks
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, InvalidValue, in_file, printable
from strobe.core.files import json_of
from strobe.core.labels import LabelSpace
from strobe.core.parquet import arrow_of, numbers_of
from strobe.core.people import GROWING
from strobe.core.tables import KINDS, Sets, pairs_differ, recipe_of, texts
from strobe.core.variants import NO_VARIANT, STATUSES, Target, Variant, Variants
from strobe.store.tables import Column

Read = Callable[[str], dict[str, Column]]
"""The columns of a table, by its file's stem."""


def check_tables(folder: Path, info: DatasetInfo, names: Collection[str], read: Read) -> None:
    """Check every rule of a folder's tables. `names` are the stems of its files. Each table is read when it is needed.

    The rules of variants and of facts about sets are checked when they are read (`variants_of`, `with_info`).
    """
    videos, frames, sets, labels = (read(name) for name in ("videos", "frames", "sets", "labels"))
    ids, path = frames["frame_id"], folder / "frames.parquet"
    if not len(ids):
        raise InvalidFile(path, "no frames", hint="an empty dataset cannot be scored")
    _unique(folder / "videos.parquet", "video_id", videos["video_id"])
    _known(folder / "videos.parquet", "kind", videos.get("kind"), KINDS)
    _places(folder, "frames", "video_id", frames["video_id"], videos["video_id"], "is not in videos.parquet")
    _unique(path, "frame_id", ids)
    _unique(path, "key", frames["key"])
    _check_ids(path, frames)
    _check_frames(path, frames, n_videos=len(videos["video_id"]))
    _check_sets(folder, sets, ids)
    if "variants" in names and "set_info" not in names:
        raise InvalidFile(folder / "set_info.parquet", "the file is missing", hint="it gives the variant of each set")
    if "hints" in names:
        _check_hints(folder, read("hints"), sets)
    if "boxes" in names:
        _check_boxes(folder, read("boxes"), ids, info.label_space)
    of_frame = _frame_places(folder, "labels", labels, ids)
    label = _label_places(folder, "labels", labels["label"], info.label_space)
    _unique_pairs(folder / "labels.parquet", "the label", labels, ("frame_id", "label"), of_frame, label)


def _texts(values: Column | Sequence[str]) -> pa.ChunkedArray:
    """Convert texts to Arrow in blocks of rows, so that few texts are in memory twice."""
    return pa.chunked_array([arrow_of(pa, list(values[rows])) for rows in blocks(len(values))], pa.string())


def _check_ids(path: Path, raw: dict[str, Column]) -> None:
    """Return the name of every frame, made of its video and index."""
    colon = arrow_of(pa, [":"])[0]
    for rows in blocks(len(raw["frame_id"])):
        index = pc.cast(arrow_of(pa, raw["index"][rows]), pa.string())
        named = pc.binary_join_element_wise(_texts(raw["video_id"][rows]), index, colon)
        right = pc.equal(named, _texts(raw["frame_id"][rows]))
        if not pc.all(right).as_py():
            row = rows.start + int(np.flatnonzero(~numbers_of(right))[0])
            found = printable(raw["frame_id"][row])
            raise InvalidFile(path, f"frame_id is {found!r}, expected video_id:index", where=f"row {row}")


def _refuse(path: Path, rules: Iterable[tuple[str, Bools]]) -> None:
    """Raise for the first row with a problem."""
    for problem, bad in rules:
        if bad.any():
            raise InvalidFile(path, problem, where=f"row {int(np.flatnonzero(bad)[0])}")


def _check_frames(path: Path, raw: dict[str, Column], *, n_videos: int) -> None:
    rules = (
        ("index is negative", raw["index"] < 0),
        ("index is too large", raw["index"] >= 2**62 // n_videos),
        ("time_den is negative", raw["time_den"] < 0),
        ("width or height is negative", (raw["width"] < 0) | (raw["height"] < 0)),
        ("pict_type is not I, P or B", ~np.isin(raw["pict_type"], ("I", "P", "B", ""))),
    )
    _refuse(path, rules)
    for row, text in enumerate(raw.get("recipe", ())):
        try:
            recipe_of(text)
        except InvalidValue as error:
            raise InvalidFile(path, str(error), where=f"row {row}") from error


def _known(path: Path, column: str, values: Column | None, names: tuple[str, ...]) -> None:
    for row, value in enumerate(() if values is None else values):
        if value not in names:
            raise InvalidFile(
                path, f"{column} {printable(value)!r} is not one of {', '.join(names)}", where=f"row {row}"
            )


def _unique(path: Path, column: str, values: Column) -> None:
    if pc.count_distinct(_texts(values)).as_py() != len(values):
        _refuse_twice(path, column, values)


def _unique_pairs(path: Path, what: str, raw: dict[str, Column], names: tuple[str, str], a: Ints, b: Ints) -> None:
    """Check that no two rows agree in both columns `names`. `a` and `b` hold the columns' values as numbers."""
    if not pairs_differ(a, b):
        _refuse_twice(path, what, zip(*(raw[name].tolist() for name in names), strict=True))


def _refuse_twice(path: Path, column: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for row, value in enumerate(values):
        if value in seen:
            raise InvalidFile(path, f"{column} {printable(value)!r} appears twice", where=f"row {row}")
        seen.add(value)


def _places(
    folder: Path, table: str, column: str, values: Column, known: Column | Sequence[str], strange: str
) -> NDArray[np.int32]:
    """Return the position of each value among the known values. `strange` is the error text for an unknown value."""
    known_texts, out = _texts(known), np.empty(len(values), dtype=np.int32)
    for rows in blocks(len(values)):
        places = pc.index_in(_texts(values[rows]), value_set=known_texts)
        if places.null_count:
            row = rows.start + int(np.flatnonzero(numbers_of(places.is_null()))[0])
            raise InvalidFile(
                folder / f"{table}.parquet", f"{column} {printable(values[row])!r} {strange}", where=f"row {row}"
            )
        out[rows] = numbers_of(places)
    return out


def _frame_places(folder: Path, table: str, raw: dict[str, Column], ids: Column) -> NDArray[np.int32]:
    return _places(folder, table, "frame_id", raw["frame_id"], ids, "is not in frames.parquet")


def _label_places(folder: Path, table: str, values: Column, label_space: LabelSpace) -> NDArray[np.int32]:
    strange = f"is not a class of {label_space.name} ({len(label_space)} classes)"
    return _places(folder, table, "label", values, label_space.ids, strange)


def _check_sets(folder: Path, raw: dict[str, Column], ids: Column) -> None:
    path = folder / "sets.parquet"
    if not len(raw["set_id"]):
        raise InvalidFile(path, "no sets", hint="an empty dataset cannot be scored")
    frame = _frame_places(folder, "sets", raw, ids)
    names = list(dict.fromkeys(raw["set_id"]))
    owner = _places(folder, "sets", "set_id", raw["set_id"], names, "is not itself")
    rules = (
        ("distance is not a finite number", ~np.isfinite(raw["distance"])),
        ("the distance of the anchor is not 0", raw["is_anchor"] & (raw["distance"] != 0)),
    )
    _refuse(path, rules)
    _unique_pairs(path, "the frame of the set", raw, ("set_id", "frame_id"), owner, frame)
    anchors = np.bincount(owner[raw["is_anchor"]], minlength=len(names))
    if (anchors != 1).any():
        at = int(np.flatnonzero(anchors != 1)[0])
        where = f"row {int(np.flatnonzero(owner == at)[0])}"
        raise InvalidFile(
            path,
            f"set {printable(names[at])!r} has {int(anchors[at])} anchors; every set needs exactly one",
            where=where,
        )


def variants_of(path: Path, raw: dict[str, Column]) -> Variants:
    """Return the variants that a table lists."""
    rows = []
    for row in range(len(raw["variant"])):
        try:
            target = str(raw["target"][row])
            rows.append(
                Variant(
                    **{
                        name: raw[name].item(row)
                        for name in ("variant", "axis", "unit", "ordered", "role", "estimated")
                    },
                    fields=_object(raw["fields"][row]),
                    levels=tuple(raw["levels"][row]),
                    target=Target(
                        name=target,
                        weights=str(raw["target_weights"][row]),
                        preprocessing=_object(raw["target_preprocessing"][row]),
                    )
                    if target
                    else None,
                )
            )
        except (InvalidValue, TypeError) as error:
            raise InvalidFile(path, str(error), where=f"row {row}") from error
    _unique(path, "variant", raw["variant"])
    if not rows:
        raise InvalidFile(path, "no variants")
    return Variants.of(rows)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json_of(text)
    except ValueError as error:
        raise InvalidValue(f"expected JSON, got {printable(text, limit=60)}") from error
    if not isinstance(value, dict):
        raise InvalidValue(f"expected a JSON object, got {printable(text, limit=60)}")
    return value


def with_info(folder: Path, sets: Sets, raw: dict[str, Column], variants: Variants | None) -> Sets:
    """Return the sets with their entries in set_info.parquet."""
    path = folder / "set_info.parquet"
    _unique(path, "set_id", raw["set_id"])
    place = _places(folder, "set_info", "set_id", raw["set_id"], sets.set_id, "is not in sets.parquet")
    if len(place) < len(sets):
        missing = next(name for name in sets.set_id if name not in set(raw["set_id"]))
        raise InvalidFile(path, f"set {printable(missing)!r} of sets.parquet has no row")
    _known(path, "status", raw["status"], STATUSES)
    names = texts([NO_VARIANT]) if variants is None else variants.variant
    variant = _places(folder, "set_info", "variant", raw["variant"], names, "is not in variants.parquet")
    searched = np.isin(raw["status"].astype(str), ("found", "censored"))
    rules = (
        ("reach is negative or infinite", np.isinf(raw["reach"]) | (raw["reach"] < 0)),
        ("margin is infinite", np.isinf(raw["margin"])),
        ("status is found or censored, but reach is missing", searched & np.isnan(raw["reach"])),
    )
    _refuse(path, rules)
    order = np.argsort(place)
    own = {name: raw[name][order] for name in ("group", "status", "reach", "margin")}
    return replace(sets, variant=variant[order], **own)


def _check_hints(folder: Path, raw: dict[str, Column], sets: dict[str, Column]) -> None:
    have = set(zip(raw["set_id"].tolist(), raw["frame_id"].tolist(), strict=True))
    pairs = zip(sets["set_id"].tolist(), sets["frame_id"].tolist(), strict=True)
    missing = [pair for pair in pairs if pair not in have]
    if missing:
        raise InvalidFile(
            folder / "hints.parquet", f"{len(missing)} set rows have no hint, first {printable(missing[0])}"
        )


def _check_boxes(folder: Path, raw: dict[str, Column], ids: Column, label_space: LabelSpace) -> None:
    xyxy = np.stack([raw[name] for name in ("x0", "y0", "x1", "y1")], axis=1).astype(np.float64).reshape(-1, 4)
    bad = ~(are_pixels(xyxy).all(axis=1) & (xyxy[:, 2] > xyxy[:, 0]) & (xyxy[:, 3] > xyxy[:, 1]))
    if bad.any():
        rule = f"expected finite x0 < x1 and y0 < y1 of at most 1e9, got {xyxy[bad][0].tolist()}"
        _refuse(folder / "boxes.parquet", [(rule, bad)])
    _frame_places(folder, "boxes", raw, ids)
    _label_places(folder, "boxes", raw["label"], label_space)


def said(folder: Path, table: str, raw: dict[str, Column]) -> tuple[Any, ...]:
    """Return a table of people's answers as records: texts unchanged, null as None, lists as tuples."""
    columns: dict[str, list[Any]] = {name: column.tolist() for name, column in raw.items()}
    if "seconds" in columns:
        columns["seconds"] = [None if np.isnan(value) else value for value in columns["seconds"]]
    if "label_right" in columns:
        columns["label_right"] = [None if value < 0 else bool(value) for value in columns["label_right"]]
    if "labels" in columns:
        columns["labels"] = [tuple(value) for value in columns["labels"]]
    if "xyxy" in columns:
        columns["xyxy"] = [tuple(value) or None for value in columns["xyxy"]]
    out = []
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        with in_file(folder / f"{table}.parquet", where=f"row {row}"):
            out.append(GROWING[table](**dict(zip(columns, values, strict=True))))
    return tuple(out)
