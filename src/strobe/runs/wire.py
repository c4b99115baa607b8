"""Answers sent between processes: converted to the Arrow columns of a shard file, and back."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from strobe.core.answers import ANSWERS, Answers
from strobe.core.tasks import Task
from strobe.runs.formats import SHARDS, AnswerShape, Rows, TablePart

__all__ = ["answers_of", "table_of"]


def table_of(rows: Rows, answers: Answers) -> pa.Table:
    """Return the answers to these rows as the columns of a shard, together with the row numbers."""
    task = next(task for task, record in ANSWERS.items() if isinstance(answers, record))
    said = {"task": task.value, "model": answers.model, "kind": getattr(answers, "kind", "")}
    held = SHARDS[task].columns(answers, np.arange(len(rows)))
    return pa.table({"row": pa.array(rows, pa.int64()), **held}).replace_schema_metadata(said)


def answers_of(table: pa.Table, *, n_classes: int) -> tuple[Rows, Answers]:
    """Return the rows and their answers. This is the inverse of `table_of`."""
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    problems = enumerate(table.column("error").to_pylist())
    shape = AnswerShape(
        model=metadata["model"], kind=metadata["kind"], n_frames=len(table), n_classes=n_classes, every_box=True,
        reasons={place: why for place, why in problems if why is not None},
    )  # fmt: skip
    piece = TablePart(Path(), table, np.arange(len(table)))
    return np.array(table.column("row")), SHARDS[Task(metadata["task"])].answers(shape, [piece])
