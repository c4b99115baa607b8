"""Predictions brought from outside, kept in the run folder so that the run can be scored again without the file."""

import hashlib
import re
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, printable
from strobe.core.files import replacing, sha256_of_file
from strobe.core.predictions import Predictions
from strobe.datasets.read_predictions import PredictionFile

__all__ = ["external_models", "read_external", "write_external"]

_FOLDER = "external"


def _path(run: Path, name: str) -> Path:
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80]
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return run / _FOLDER / f"{plain if plain == name else f'{plain}-{digest}'}.parquet"


def write_external(run: Path, found: PredictionFile, dataset: Dataset, *, source: Path) -> Path:
    """Keep the predictions, in the dataset's classes and with full precision, under external/."""
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
        "strobe.schema": "1",
        "strobe.model": predictions.model,
        "strobe.kind": found.kind,
        "strobe.space": found.source_space,
        "strobe.source": source.name,
        "strobe.sha256": sha256_of_file(source),
        "strobe.declared": str(found.kind_declared),
    }
    path = _path(run, predictions.model)
    table = pa.table(columns).replace_schema_metadata(facts)
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return path


def external_models(run: Path) -> dict[str, dict[str, str]]:
    """The models whose predictions were brought into this run, with what was said of their files."""
    out = {}
    for path in sorted((run / _FOLDER).glob("*.parquet")):
        facts = {
            key.decode().removeprefix("strobe."): value.decode()
            for key, value in (pq.read_schema(path).metadata or {}).items()
            if key.startswith(b"strobe.")
        }
        out[facts["model"]] = facts
    return out


def read_external(run: Path, name: str, dataset: Dataset) -> Predictions:
    """The kept predictions, aligned with the dataset's frames; frames it lacks are unscored."""
    path = _path(run, name)
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(path, "not a readable Parquet file", hint="bring the predictions in again") from error
    kind = cast(Literal["logits", "probabilities", "labels"], table.schema.metadata[b"strobe.kind"].decode())
    place = {frame: row for row, frame in enumerate(dataset.frame_ids())}
    frames = table.column("frame_id").to_pylist()
    unknown = [frame for frame in frames if frame not in place]
    if unknown:
        raise InvalidFile(path, f"frame {printable(unknown[0])} is not in {dataset.name}: made for another dataset")
    rows = np.array([place[frame] for frame in frames], dtype=np.int64)
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
