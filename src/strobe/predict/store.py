"""Predictions on disk: append-only Parquet shards per model, each frame exactly once.

    predictions/<model>/model.json               what made them, and their key
    predictions/<model>/<key>-<first>-<last>.parquet

The key is a digest of everything that can change a prediction. Shards of another key lie beside and are never read.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import cannot_write, make_folder, read_json, replacing, write_json
from strobe.core.records import Detections
from strobe.predict.parts import Part

__all__ = ["ModelStore", "Stored", "folder_of", "lock", "models_of", "prediction_key"]

SCHEMA = 1


def prediction_key(facts: dict[str, Any]) -> str:
    """The digest of the facts predictions depend on; any change makes another key.

    >>> prediction_key({"weights": "a"}) == prediction_key({"weights": "b"})
    False
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def folder_of(run: Path, name: str) -> Path:
    """The folder of a model's predictions; names that cannot be folder names get a digest at the end."""
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80]
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return run / "predictions" / (plain if plain == name else f"{plain}-{digest}")


def models_of(run: Path) -> list[str]:
    """The names of the models a run holds predictions of, sorted."""
    return sorted(str(read_json(path)["name"]) for path in (run / "predictions").glob("*/model.json"))


@contextmanager
def lock(run: Path) -> Iterator[None]:
    """Hold the run's predictions for writing; a second writer gets one line. The system frees it when we die."""
    folder = make_folder(run / "predictions")
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows: no lock, the shards are still whole
        yield
        return
    try:
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise cannot_write(folder / ".lock", error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StrobeError(f"another strobe is predicting into {printable(run)}; wait for it to end") from error
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A model's predictions for all frames, in the order of the frame table.

    `scores` (F, C) is NaN where there is none; `raw_label` is −1 there. `error` holds the reason where a frame could
    not be read. `detections` is one per frame or None.
    """

    seen: NDArray[np.bool_]
    error: dict[int, str]
    scores: NDArray[np.float32] | None = None
    raw_label: NDArray[np.int32] | None = None
    raw_confidence: NDArray[np.float32] | None = None
    detections: tuple[Detections | None, ...] | None = None


class ModelStore:
    """One model's shards in a run folder, for one key."""

    def __init__(self, run: Path, name: str, *, key: str, frame_ids: list[str], task: str, n_classes: int) -> None:
        self.folder = folder_of(run, name)
        self.name, self.key, self.task = name, key, task
        self._ids, self._n_classes = frame_ids, n_classes

    def describe(self, facts: dict[str, Any]) -> None:
        """Write model.json: what made the predictions of this key. Other keys' shards stay, unread."""
        content = {"schema": SCHEMA, "name": self.name, "key": self.key, "task": self.task, **facts}
        path = self.folder / "model.json"
        if not path.is_file() or read_json(path) != json.loads(json.dumps(content)):
            write_json(path, content)

    def shards(self) -> list[Path]:
        """The files of this key, in order of their first frame."""
        return sorted(self.folder.glob(f"{self.key}-*.parquet"))

    def stored(self, *, retry_errors: bool = False) -> tuple[NDArray[np.bool_], int]:
        """Which frames have an answer (F,), and how many of these answers are that the frame cannot be read.

        Such frames count as answered, so that they are not tried for ever; with `retry_errors` they are taken out of
        their shards first. A shard that cannot be read is removed and done again; a frame in two shards is an error.
        """
        rows = {name: row for row, name in enumerate(self._ids)}
        done = np.zeros(len(self._ids), dtype=bool)
        n_errors = 0
        for left in self.folder.glob(".*.tmp"):
            left.unlink(missing_ok=True)  # a kill in the middle of writing; we hold the lock, so nobody is at it
        for path in self.shards():
            try:
                table = _read(path, ["frame_id", "error"])
            except InvalidFile:
                path.unlink(missing_ok=True)
                continue
            if retry_errors and table.column("error").null_count < len(table):
                self._drop_errors(path)
                if not path.is_file():
                    continue
                table = _read(path, ["frame_id", "error"])
            self._mark(path, table.column("frame_id").to_pylist(), rows, done)
            n_errors += len(table) - table.column("error").null_count
        return done, n_errors

    def _mark(self, path: Path, names: list[str], rows: dict[str, int], done: NDArray[np.bool_]) -> list[int]:
        places = []
        for name in names:
            row = rows.get(name)
            if row is None:
                raise InvalidFile(path, f"holds frame {printable(name)}, which the dataset does not")
            if done[row]:
                raise InvalidFile(path, f"frame {printable(name)} is stored twice", hint="remove one of the two shards")
            done[row] = True
            places.append(row)
        return places

    def _drop_errors(self, path: Path) -> None:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        whole = _read(path, None)
        kept = whole.filter(pc.is_null(whole.column("error")))
        if not len(kept):
            path.unlink()
            return
        with replacing(path) as temporary:
            pq.write_table(kept, temporary, compression="zstd")

    def write(self, part: Part) -> Path:
        """Add a shard, whole or not at all."""
        import pyarrow.parquet as pq

        table = _classes_table(part, self._ids) if part.scores is not None else _boxes_table(part, self._ids)
        table = table.replace_schema_metadata({"strobe.key": self.key, "strobe.schema": str(SCHEMA)})
        path = self.folder / f"{self.key}-{int(part.row[0]):08d}-{int(part.row[-1]):08d}.parquet"
        with replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
        return path

    def read(self) -> Stored:
        """All shards merged; every frame at most once, asserted."""
        n = len(self._ids)
        rows = {name: row for row, name in enumerate(self._ids)}
        done, errors = np.zeros(n, dtype=bool), {}
        classify = self.task == "classification"
        scores = np.full((n, self._n_classes), np.nan, dtype=np.float32) if classify else None
        raw_label = np.full(n, -1, dtype=np.int32)
        raw_confidence = np.full(n, np.nan, dtype=np.float32)
        boxes: list[Detections | None] = [] if classify else [None] * n
        for path in self.shards():
            table = _read(path, None)
            places = np.array(self._mark(path, table.column("frame_id").to_pylist(), rows, done), dtype=np.int64)
            reasons = zip(places.tolist(), table.column("error").to_pylist(), strict=True)
            errors.update({place: reason for place, reason in reasons if reason is not None})
            good = np.array([place not in errors for place in places.tolist()], dtype=bool)
            if scores is not None:
                _fill_scores(path, table, places, good, scores)
                raw_label[places[good]] = table.column("raw_label").to_numpy()[good]
                raw_confidence[places[good]] = table.column("raw_confidence").to_numpy()[good]
            else:
                for place, found in zip(places.tolist(), _detections(table), strict=True):
                    boxes[place] = None if place in errors else found
        seen = done.copy()
        seen[list(errors)] = False
        if classify:
            return Stored(seen=seen, error=errors, scores=scores, raw_label=raw_label, raw_confidence=raw_confidence)
        return Stored(seen=seen, error=errors, detections=tuple(boxes))


def _read(path: Path, columns: list[str] | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path).read(columns=columns)
    except (pa.ArrowException, OSError, KeyError) as error:
        hint = "remove it and run predict again"
        raise InvalidFile(path, f"not a readable shard ({printable(error, limit=80)})", hint=hint) from error


def _classes_table(part: Part, ids: list[str]) -> Any:
    import pyarrow as pa

    scores = part.scores
    if scores is None or part.raw_label is None or part.raw_confidence is None:
        raise StrobeError("a part without scores cannot be stored as a classification")
    bad = np.array([reason is not None for reason in part.error], dtype=bool)
    flat = pa.array(scores.astype(np.float32).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, scores.shape[1], mask=pa.array(bad))
    return pa.table(
        {
            "frame_id": pa.array([ids[row] for row in part.row], pa.string()),
            "scores": lists,
            "raw_label": pa.array(part.raw_label.astype(np.int32), mask=bad),
            "raw_confidence": pa.array(part.raw_confidence.astype(np.float32), mask=bad),
            "error": pa.array(list(part.error), pa.string()),
        }
    )


def _boxes_table(part: Part, ids: list[str]) -> Any:
    import pyarrow as pa

    found = part.detections or ()
    return pa.table(
        {
            "frame_id": pa.array([ids[row] for row in part.row], pa.string()),
            "xyxy": pa.array([None if d is None else d.xyxy.ravel().tolist() for d in found], pa.list_(pa.float64())),
            "label": pa.array([None if d is None else d.label.tolist() for d in found], pa.list_(pa.int32())),
            "score": pa.array([None if d is None else d.score.tolist() for d in found], pa.list_(pa.float64())),
            "error": pa.array(list(part.error), pa.string()),
        }
    )


def _fill_scores(path: Path, table: Any, places: Any, good: Any, scores: NDArray[np.float32]) -> None:
    column = table.column("scores").combine_chunks()
    width = column.type.list_size
    if width != scores.shape[1]:
        raise InvalidFile(path, f"holds {width} scores per frame, the dataset has {scores.shape[1]} classes")
    # `flatten` leaves null rows out, `values` keeps them; take the first, whatever lies under the nulls.
    scores[places[good]] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)


def _detections(table: Any) -> Iterator[Detections]:
    columns = (table.column(name).to_pylist() for name in ("xyxy", "label", "score"))
    for xyxy, label, score in zip(*columns, strict=True):
        yield Detections(
            xyxy=np.array(xyxy or [], dtype=np.float64).reshape(-1, 4),
            label=np.array(label or [], dtype=np.int32),
            score=np.array(score or [], dtype=np.float64),
        )
