"""Detections brought from outside, kept in the run folder so that the run can be scored again without the file."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, printable
from strobe.core.files import replacing, sha256_of_file
from strobe.datasets.read_detections import DetectionFile
from strobe.metrics.detection.tables import DetectionTable

__all__ = ["external_detectors", "read_external_detections", "write_external_detections"]

_FOLDER = "external-detections"


def _path(run: Path, name: str) -> Path:
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80]
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return run / _FOLDER / f"{plain if plain == name else f'{plain}-{digest}'}.parquet"


def write_external_detections(run: Path, found: DetectionFile, dataset: Dataset, *, source: Path) -> Path:
    """Keep the boxes, in the dataset's classes and with full precision: one row per frame that was looked at."""
    table, ids = found.table, dataset.frame_ids()
    starts = table.starts()
    rows = np.flatnonzero(table.scored)
    counts = starts[rows + 1] - starts[rows]
    ends = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    columns = {
        "frame_id": pa.array([ids[row] for row in rows], pa.string()),
        # Rows are sorted by frame and every box lies on a frame that was looked at, so the columns line up.
        "xyxy": pa.ListArray.from_arrays(pa.array(np.asarray(ends) * 4, pa.int32()), pa.array(table.xyxy.ravel())),
        "label": pa.ListArray.from_arrays(ends, pa.array(table.label.astype(np.int32))),
        "score": pa.ListArray.from_arrays(ends, pa.array(table.score)),
    }
    facts = {
        "strobe.schema": "1",
        "strobe.model": found.model,
        "strobe.space": found.source_space,
        "strobe.source": source.name,
        "strobe.sha256": sha256_of_file(source),
        "strobe.dropped": str(found.n_dropped),
    }
    path = _path(run, found.model)
    with replacing(path) as temporary:
        pq.write_table(pa.table(columns).replace_schema_metadata(facts), temporary, compression="zstd")
    return path


def external_detectors(run: Path) -> dict[str, dict[str, str]]:
    """The detectors whose boxes were brought into this run, with what was said of their files."""
    out = {}
    for path in sorted((run / _FOLDER).glob("*.parquet")):
        facts = {
            key.decode().removeprefix("strobe."): value.decode()
            for key, value in (pq.read_schema(path).metadata or {}).items()
            if key.startswith(b"strobe.")
        }
        out[facts["model"]] = facts
    return out


def read_external_detections(run: Path, name: str, dataset: Dataset) -> DetectionTable:
    """The kept boxes, aligned with the dataset's frames; frames it lacks are unscored."""
    path = _path(run, name)
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidFile(path, "not a readable Parquet file", hint="bring the detections in again") from error
    place = {frame: row for row, frame in enumerate(dataset.frame_ids())}
    frames = table.column("frame_id").to_pylist()
    unknown = next((frame for frame in frames if frame not in place), None)
    if unknown is not None:
        raise InvalidFile(path, f"frame {printable(unknown)} is not in {dataset.name}: made for another dataset")
    rows = np.array([place[frame] for frame in frames], dtype=np.int64)
    label = table.column("label").combine_chunks()
    counts = np.asarray(label.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    scored = np.zeros(len(dataset.frames), dtype=bool)
    scored[rows] = True
    flat = {
        name: table.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False)
        for name in ("xyxy", "label", "score")
    }
    return DetectionTable.of(
        np.repeat(rows, counts), flat["label"], flat["xyxy"].reshape(-1, 4), flat["score"],
        n_frames=len(dataset.frames), n_classes=len(dataset.info.label_space), scored=scored,
    )  # fmt: skip
