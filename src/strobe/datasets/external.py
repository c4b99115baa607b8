"""Predictions brought from outside, kept in the run folder so that the run can be scored again without the file."""

import hashlib
import re
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, printable
from strobe.core.files import replacing, sha256_of_file
from strobe.core.predictions import Predictions
from strobe.datasets.read_detections import DetectionFile
from strobe.datasets.read_predictions import PredictionFile
from strobe.metrics.detection.tables import DetectionTable

__all__ = [
    "external_models",
    "read_external",
    "read_external_detections",
    "write_external",
    "write_external_detections",
]

_FOLDER = "external"


def _path(run: Path, name: str) -> Path:
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80]
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return run / _FOLDER / f"{plain if plain == name else f'{plain}-{digest}'}.parquet"


def _write(run: Path, model: str, columns: dict[str, Any], source: Path, facts: dict[str, str]) -> Path:
    said = {"schema": "1", "model": model, "source": source.name, "sha256": sha256_of_file(source), **facts}
    table = pa.table(columns).replace_schema_metadata({f"strobe.{key}": value for key, value in said.items()})
    path = _path(run, model)
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return path


def write_external(run: Path, found: PredictionFile, dataset: Dataset, *, source: Path) -> Path:
    """Keep a classifier's predictions, in the dataset's classes and with full precision, under external/."""
    predictions = found.predictions
    ids = dataset.frame_ids()
    rows = np.flatnonzero(predictions.scored)
    columns = {
        "frame_id": pa.array([ids[row] for row in rows], pa.string()),
        "label": pa.array(predictions.label[rows], pa.int64()),
    }
    if predictions.probability is not None:
        flat = pa.array(predictions.probability[rows].astype(np.float64).ravel())
        columns["probability"] = pa.FixedSizeListArray.from_arrays(flat, predictions.probability.shape[1])
    facts = {
        "task": "classification",
        "kind": found.kind,
        "space": found.source_space,
        "declared": str(found.kind_declared),
    }
    return _write(run, predictions.model, columns, source, facts)


def write_external_detections(run: Path, found: DetectionFile, dataset: Dataset, *, source: Path) -> Path:
    """Keep a detector's boxes, in the dataset's classes, one row per frame that was looked at, under external/."""
    table = found.table
    ids = dataset.frame_ids()
    starts = table.starts()
    rows = np.flatnonzero(table.scored)
    ends = np.concatenate(([0], np.cumsum(starts[rows + 1] - starts[rows]))).astype(np.int32)
    columns = {
        "frame_id": pa.array([ids[row] for row in rows], pa.string()),
        # Rows are sorted by frame and every box lies on a frame that was looked at, so the columns line up.
        "xyxy": pa.ListArray.from_arrays(pa.array(ends * 4), pa.array(table.xyxy.ravel())),
        "label": pa.ListArray.from_arrays(pa.array(ends), pa.array(table.label.astype(np.int32))),
        "score": pa.ListArray.from_arrays(pa.array(ends), pa.array(table.score)),
    }
    facts = {"task": "detection", "space": found.source_space, "dropped": str(found.n_dropped)}
    return _write(run, found.model, columns, source, facts)


def external_models(run: Path) -> dict[str, dict[str, str]]:
    """The models whose predictions were brought into this run, with what was said of their files."""
    out = {}
    for path in sorted((run / _FOLDER).glob("*.parquet")):
        try:
            metadata = pq.read_schema(path).metadata or {}
            facts = {
                key.decode().removeprefix("strobe."): value.decode()
                for key, value in metadata.items()
                if key.startswith(b"strobe.")
            }
            out[facts["model"]] = facts
        except (pa.ArrowException, OSError, KeyError) as error:
            raise InvalidFile(path, "not a readable Parquet file", hint="remove it and bring the file again") from error
    return out


def read_external(run: Path, name: str, dataset: Dataset) -> Predictions:
    """A classifier's kept predictions, aligned with the dataset's frames; frames it lacks are unscored."""
    table, rows = _read(run, name, dataset)
    kind = cast(Literal["logits", "probabilities", "labels"], table.schema.metadata[b"strobe.kind"].decode())
    n = len(dataset.frames)
    scored = np.zeros(n, dtype=bool)
    scored[rows] = True
    label = np.full(n, -1, dtype=np.int64)
    label[rows] = table.column("label").to_numpy()
    probability = None
    if "probability" in table.column_names:
        column = table.column("probability").combine_chunks()
        width = column.type.list_size
        probability = np.full((n, width), np.nan)
        probability[rows] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return Predictions(model=name, kind=kind, label=label, scored=scored, probability=probability)


def read_external_detections(run: Path, name: str, dataset: Dataset) -> DetectionTable:
    """A detector's kept boxes, in the order of the dataset's frames."""
    table, rows = _read(run, name, dataset)
    lengths = table.column("label").combine_chunks().value_lengths()
    sizes = np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)
    scored = np.zeros(len(dataset.frames), dtype=bool)
    scored[rows] = True

    def flat(column: str) -> NDArray[Any]:
        return np.asarray(table.column(column).combine_chunks().flatten().to_numpy(zero_copy_only=False))

    return DetectionTable.of(
        np.repeat(rows, sizes), flat("label"), flat("xyxy").reshape(-1, 4), flat("score"),
        n_frames=len(dataset.frames), n_classes=len(dataset.info.label_space), scored=scored,
    )  # fmt: skip


def _read(run: Path, name: str, dataset: Dataset) -> tuple[pa.Table, NDArray[np.int64]]:
    path = _path(run, name)
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(path, "not a readable Parquet file", hint="bring the predictions in again") from error
    place = {frame: row for row, frame in enumerate(dataset.frame_ids())}
    frames = table.column("frame_id").to_pylist()
    unknown = [frame for frame in frames if frame not in place]
    if unknown:
        raise InvalidFile(path, f"frame {printable(unknown[0])} is not in {dataset.name}: made for another dataset")
    return table, np.array([place[frame] for frame in frames], dtype=np.int64)
