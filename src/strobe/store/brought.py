"""Copy external answers into the run folder, so that the run can be scored again without the original file."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from strobe.core.answers import Answers, task_of
from strobe.core.errors import InvalidFile
from strobe.core.files import matching, sha256_of_file, write_bytes
from strobe.core.parquet import arrow_of, read_footer
from strobe.core.tasks import Task
from strobe.store.answer_tables import BROUGHT, AnswerShape, TablePart, parquet_of, read_columns, said_of
from strobe.store.frame_names import FrameNames
from strobe.store.shards import plain_name

Absent = Literal["error", "empty", "unscored"]
"""How a frame without rows is treated: as an error, as a frame without detections, or as not processed."""

_FOLDER = "external"
_AGAIN = "remove it and pass the file with -m preds:FILE again"


def keep_brought(
    run: Path, answers: Answers, *, frames: FrameNames, source: Path | None, facts: Mapping[str, str]
) -> Path:
    """Store a model's answers with these facts. The answers are in the dataset's classes and in full precision.

    `source` is the original file of the answers, or None if a program passed them.
    """
    task, rows = task_of(answers), np.flatnonzero(answers.scored)
    ids = {"frame_id": arrow_of(pa, frames.ids(rows))}
    metadata = {"schema": "1", "model": answers.model, "source": "memory", "sha256": ""}
    if source is not None:
        metadata |= {"source": source.name, "sha256": _digest(source)}
    path = run / _FOLDER / f"{plain_name(answers.model)}.parquet"
    columns = ids | BROUGHT[task].columns(answers, rows)
    write_bytes(path, parquet_of(columns, {**metadata, "task": task, **facts}).to_pybytes())
    return path


def _digest(source: Path) -> str:
    """Return the SHA-256 of a file, or of the names and digests of a folder's files."""
    if not source.is_dir():
        return sha256_of_file(source)
    files = sorted(path for path in source.rglob("*") if path.is_file())
    lines = [f"{path.relative_to(source).as_posix()} {sha256_of_file(path)}" for path in files]
    return sha256("\n".join(lines).encode()).hexdigest()


def brought_files(run: Path) -> dict[str, tuple[Path, dict[str, str]]]:
    """Return the models with external answers in this run, with their files and stored facts."""
    out = {}
    for path in matching(run, f"{_FOLDER}/*.parquet"):
        try:
            facts = said_of(read_footer(path, hint=_AGAIN).metadata)
            Task(facts.get("task", Task.CLASSIFICATION))
            out[facts["model"]] = path, facts
        except (OSError, KeyError, ValueError) as error:
            raise InvalidFile(path, "not a readable Parquet file", hint=_AGAIN) from error
    return out


def read_brought(
    path: Path,
    facts: Mapping[str, str],
    *,
    frames: FrameNames,
    n_classes: int,
    digest: str | None = None,
    sha256: str | None = None,
) -> Answers:
    """Return a stored file's answers, aligned with the dataset's frames. Frames without an answer are skipped.

    `digest` is the digest of the frames when the answers were made; the frames may have changed since then. `sha256` is
    the digest of the file.
    """
    table = read_columns(path, needs=["frame_id"], hint=_AGAIN, sha256=sha256)
    whole = AnswerShape(model=facts["model"], kind=facts.get("kind", ""), n_frames=len(frames), n_classes=n_classes)
    piece = TablePart(path, table, frames.places(table, digest or frames.digest))
    return BROUGHT[Task(facts.get("task", Task.CLASSIFICATION))].read(whole, [piece], hint=_AGAIN)
