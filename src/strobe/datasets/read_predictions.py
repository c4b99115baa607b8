"""Predictions brought from outside: JSON, JSONL, CSV or Parquet, scores or labels, keyed by frame.

| format | scores | labels |
|---|---|---|
| JSON | `{frame: [scores]}` | `{frame: class}` |
| JSON, declared | `{"kind": …, "space": …, "predictions": {…}}` | the same |
| JSONL | `{"frame": …, "scores": […]}` | `{"frame": …, "label": class}` |
| CSV | `frame,<one column per class>` | `frame,label` |
| Parquet | `frame`, `scores` (list) | `frame`, `label` |

A class is its number, its id or its name. Scores are in the dataset's classes, or in ILSVRC-2012's 1,000 and then
projected.
"""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace, Projection, projection, space
from strobe.core.predictions import Predictions

__all__ = ["Kind", "PredictionFile", "read_predictions"]

Kind = Literal["auto", "logits", "probabilities", "labels"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionFile:
    """What was read, and what had to be assumed about it."""

    predictions: Predictions
    kind: str
    kind_declared: bool
    source_space: str
    n_extra: int


@dataclass
class _Raw:
    frames: list[str]
    values: list[Any]
    kind: str | None = None
    space: str | None = None
    columns: list[str] | None = None  # the class names of a CSV's score columns


def read_predictions(
    path: Path,
    dataset: Dataset,
    *,
    name: str | None = None,
    kind: Kind = "auto",
    merge: str = "max",
    allow_missing: bool = False,
    ignore_extra: bool = False,
) -> PredictionFile:
    """The file's predictions in the order of the dataset's frames.

    Missing frames are an error that says how many and which first, unless `allow_missing`: then they are unscored.
    """
    if not path.exists():
        raise StrobeError(f"no such file: {printable(path)}")
    if path.is_dir():
        raise StrobeError(f"{printable(path)} is a folder; give one prediction file (JSON, JSONL, CSV or Parquet)")
    raw = _read(path)
    if not raw.frames:
        raise InvalidFile(path, "no predictions in it")
    _no_duplicates(path, raw.frames)
    rows, wanted, n_extra = _match(path, raw.frames, dataset, ignore_extra=ignore_extra)
    _nothing_missing(path, rows, dataset, allow_missing=allow_missing)
    values = [raw.values[place] for place in wanted]
    frames = [raw.frames[place] for place in wanted]
    scored = np.zeros(len(dataset.frames), dtype=bool)
    scored[rows] = True
    declared = kind if kind != "auto" else raw.kind
    model = name or path.stem
    label_space = dataset.info.label_space
    if _are_labels(values):
        if declared in ("logits", "probabilities"):
            raise InvalidFile(path, f"declared as {declared}, but it holds one class per frame, not scores")
        source, predicted = _labels(path, frames, values, label_space, raw.space)
        label = np.full(len(dataset.frames), -1, dtype=np.int64)
        label[rows] = predicted
        return PredictionFile(
            predictions=Predictions.from_labels(model, label, scored=scored),
            kind="labels", kind_declared=declared is not None, source_space=source, n_extra=n_extra,
        )  # fmt: skip
    if declared == "labels":
        raise InvalidFile(path, "declared as labels, but it holds scores")
    matrix = _matrix(path, frames, values)
    chosen = _projection(path, matrix.shape[1], label_space, raw)
    found = cast(Literal["logits", "probabilities"], declared or _guess_kind(matrix))
    if found == "probabilities" and bool((matrix < 0).any()):
        place = int(np.flatnonzero((matrix < 0).any(axis=1))[0])
        raise InvalidFile(path, "a negative probability", where=printable(frames[place]), hint="declare --kind logits")
    try:
        merged = chosen.apply(matrix, kind=found, merge=merge)
        scores = np.full((len(dataset.frames), len(label_space)), np.nan)
        scores[rows] = merged
        predictions = Predictions.from_scores(
            model,
            scores,
            kind="logits" if merge == "sum" else found,
            scored=scored,
            names=[str(key) for key in dataset.frames.key],
        )
    except InvalidValue as error:
        raise InvalidFile(path, str(error)) from error
    return PredictionFile(
        predictions=predictions, kind=found, kind_declared=declared is not None, source_space=chosen.source.name,
        n_extra=n_extra,
    )  # fmt: skip


# -- reading -----------------------------------------------------------------------------------------------------


def _read(path: Path) -> _Raw:
    readers = {".json": _read_json, ".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidFile(path, f"unknown ending {printable(path.suffix)!r}", hint=f"expected {', '.join(readers)}")
    return reader(path)


def _read_json(path: Path) -> _Raw:
    seen_twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            seen: set[str] = set()
            seen_twice.extend(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return made

    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        read_json(path)  # says where it breaks, in one line
        raise
    if seen_twice:
        raise InvalidFile(
            path,
            f"frame {printable(seen_twice[0])!r} stands twice ({len(seen_twice)} duplicates)",
            hint="keep one each",
        )
    if isinstance(data, dict) and "predictions" in data and isinstance(data["predictions"], dict):
        kind, label_space, data = data.get("kind"), data.get("space"), data["predictions"]
        if kind not in (None, "logits", "probabilities", "labels"):
            raise InvalidFile(path, f"kind {printable(kind)!r}; expected logits, probabilities or labels", where="kind")
        return _Raw(list(data), list(data.values()), kind=kind, space=label_space)
    if not isinstance(data, dict):
        raise InvalidFile(path, "expected a JSON object {frame: [scores]}")
    return _Raw(list(data), list(data.values()))


def _read_jsonl(path: Path) -> _Raw:
    raw = _Raw([], [])
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                raw.frames.append(str(entry["frame"]))
                raw.values.append(entry["scores"] if "scores" in entry else entry["label"])
            except json.JSONDecodeError as error:
                raise InvalidFile(path, f"not JSON ({error.msg})", where=f"line {number}") from error
            except (KeyError, TypeError) as error:
                raise InvalidFile(
                    path, 'expected {"frame": …, "scores": […]} or {"frame": …, "label": …}', where=f"line {number}"
                ) from error
    return raw


def _read_csv(path: Path) -> _Raw:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if not header or header[0] != "frame" or len(header) < 2:
            raise InvalidFile(path, "expected a header frame,label or frame,<classes…>", where="line 1")
        raw = _Raw([], [], columns=header[1:] if header[1:] != ["label"] else None)
        for number, line in enumerate(reader, start=2):
            if not line:
                continue
            if len(line) != len(header):
                raise InvalidFile(path, f"{len(line)} fields, expected {len(header)}", where=f"line {number}")
            raw.frames.append(line[0])
            if raw.columns is None:
                raw.values.append(int(line[1]) if line[1].lstrip("-").isdecimal() else line[1])
                continue
            try:
                raw.values.append([float(value) for value in line[1:]])
            except ValueError as error:
                raise InvalidFile(path, f"not a number ({error})", where=f"line {number}") from error
    return raw


def _read_parquet(path: Path) -> _Raw:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidFile(path, "not a readable Parquet file", hint="is it truncated?") from error
    key = next((name for name in ("frame", "frame_id") if name in table.column_names), None)
    value = next((name for name in ("scores", "label") if name in table.column_names), None)
    if key is None or value is None:
        raise InvalidFile(path, f"expected columns frame and scores or label, got {', '.join(table.column_names)}")
    return _Raw([str(name) for name in table.column(key).to_pylist()], table.column(value).to_pylist())


# -- checking ----------------------------------------------------------------------------------------------------


def _no_duplicates(path: Path, frames: list[str]) -> None:
    if len(set(frames)) == len(frames):
        return
    seen: set[str] = set()
    for frame in frames:
        if frame in seen:
            count = len(frames) - len(set(frames))
            raise InvalidFile(
                path, f"frame {printable(frame)!r} stands twice ({count} duplicates)", hint="keep one each"
            )
        seen.add(frame)


def _match(
    path: Path, frames: list[str], dataset: Dataset, *, ignore_extra: bool
) -> tuple[NDArray[np.int64], list[int], int]:
    """Dataset rows and file places of the frames both know, and how many only the file knows."""
    known = {str(key): row for row, key in enumerate(dataset.frames.key)}
    if frames and frames[0] not in known:
        known |= {key: row for row, key in enumerate(dataset.frame_ids())}
    places = [place for place, frame in enumerate(frames) if frame in known]
    unknown = [frame for frame in frames if frame not in known]
    if unknown and not (ignore_extra and places):
        near = UnknownName("frame", unknown[0], list(known)[:5000])
        raise InvalidFile(
            path,
            f"{len(unknown)} of {len(frames)} frames are not in {dataset.name}, first {printable(unknown[0])!r}",
            hint=f"the dataset's are named like {near.near[0] if near.near else next(iter(known))!r}; "
            "--ignore-extra leaves others out",
        )
    return np.array([known[frames[place]] for place in places], dtype=np.int64), places, len(unknown)


def _nothing_missing(path: Path, rows: NDArray[np.int64], dataset: Dataset, *, allow_missing: bool) -> None:
    needed = np.zeros(len(dataset.frames), dtype=bool)
    needed[dataset.sets.frame] = True
    n_needed = int(needed.sum())
    needed[rows] = False
    if needed.any() and not allow_missing:
        first = dataset.frames.key[int(np.flatnonzero(needed)[0])]
        raise InvalidFile(
            path,
            f"{int(needed.sum())} of {n_needed} frames have no prediction, first {printable(first)!r}",
            hint="predict them, or score what is there with --allow-missing",
        )


def _are_labels(values: list[Any]) -> bool:
    return isinstance(values[0], int | str) and not isinstance(values[0], bool)


def _labels(
    path: Path, frames: list[str], values: list[Any], label_space: LabelSpace, declared: str | None
) -> tuple[str, NDArray[np.int64]]:
    """Predicted classes in the dataset's space; −1 for a source class that maps to none."""
    source = label_space if declared in (None, label_space.name) else _named_space(path, declared)
    top = max((value for value in values if isinstance(value, int)), default=-1)
    if declared is None and top >= len(label_space):
        source = space("ilsvrc-2012")
    if top >= len(source):
        frame = next(f for f, value in zip(frames, values, strict=True) if value == top)
        raise InvalidFile(
            path, f"class {top} is outside {label_space.name} (0–{len(label_space) - 1})", where=printable(frame)
        )
    out = np.empty(len(values), dtype=np.int64)
    for place, value in enumerate(values):
        try:
            out[place] = value if isinstance(value, int) else source.index(value)
        except (UnknownName, TypeError) as error:
            raise InvalidFile(path, str(error), where=printable(frames[place])) from error
        if out[place] < 0:
            raise InvalidFile(path, f"class {value} is negative", where=printable(frames[place]))
    if source is not label_space:
        out = _map(path, source, label_space).map_labels(out)
    return source.name, out


def _named_space(path: Path, name: str | None) -> LabelSpace:
    try:
        return space(str(name))
    except UnknownName as error:
        raise InvalidFile(path, str(error), where="space") from error


def _matrix(path: Path, frames: list[str], values: list[Any]) -> NDArray[np.float64]:
    width = len(values[0]) if isinstance(values[0], list) else -1
    for frame, value in zip(frames, values, strict=True):
        if not isinstance(value, list):
            raise InvalidFile(
                path, f"expected a list of scores, got {printable(value, limit=60)}", where=printable(frame)
            )
        if len(value) != width:
            raise InvalidFile(path, f"{len(value)} scores, but {width} in the first frame", where=printable(frame))
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        for frame, value in zip(frames, values, strict=True):
            if any(not isinstance(score, int | float) for score in value):
                raise InvalidFile(path, "a score is not a number", where=printable(frame)) from error
        raise


def _projection(path: Path, width: int, label_space: LabelSpace, raw: _Raw) -> Projection:
    if raw.columns is not None and set(raw.columns) != {str(place) for place in range(width)}:
        source = _space_of_columns(path, raw.columns, label_space)
    elif raw.space not in (None, label_space.name):
        source = _named_space(path, raw.space)
    elif width == len(label_space):
        return Projection.identity(label_space)
    else:
        source = space("ilsvrc-2012")
    if width != len(source) or source.ids == label_space.ids:
        if source.ids == label_space.ids and width == len(source):
            return Projection.identity(label_space)
        raise InvalidFile(
            path,
            f"{width} scores per frame; expected {len(label_space)} ({label_space.name}) or 1000 (ilsvrc-2012)",
        )
    return _map(path, source, label_space)


def _space_of_columns(path: Path, columns: list[str], label_space: LabelSpace) -> LabelSpace:
    for candidate in (label_space, space("ilsvrc-2012")):
        if tuple(columns) in (candidate.ids, candidate.names):
            return candidate
    raise InvalidFile(
        path,
        f"the score columns ({printable(columns[0])}, …) are neither 0, 1, 2, … nor the classes of {label_space.name} "
        "in order, nor those of ilsvrc-2012",
        where="line 1",
    )


def _map(path: Path, source: LabelSpace, target: LabelSpace) -> Projection:
    try:
        return projection(source.name, target.name)
    except UnknownName as error:
        raise InvalidFile(
            path, f"scores in {source.name}, but no map from there to {target.name} ships with strobe"
        ) from error


def _guess_kind(matrix: NDArray[np.float64]) -> str:
    """Probabilities where every row is non-negative and sums to one, else logits; the guess is shown to the user."""
    with np.errstate(invalid="ignore"):
        whole = np.abs(matrix.sum(axis=1) - 1.0) < 1e-3
    return "probabilities" if bool((matrix >= 0).all() and whole.all()) else "logits"
