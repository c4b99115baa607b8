"""Shards of work, and one model's progress in a shard: its batches, their outputs, and the returned answers."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.arrays import Ints
from strobe.core.errors import StrobeError, expect, out_of_memory, printable
from strobe.core.tasks import Task
from strobe.predict.forward import FORWARDS, Block, Runner

__all__ = ["Shard", "ShardResult", "Work", "result_of", "wanted", "work_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A unit of work: frame rows, and for each model the rows it has not predicted yet.

    Batches are cut at fixed positions of `rows`, so a resumed run makes the same batches as an uninterrupted run.
    """

    rows: Ints
    needed: Mapping[str, Ints]

    def __str__(self) -> str:
        return f"frames {int(self.rows[0])} to {int(self.rows[-1])}"

    def __post_init__(self) -> None:
        expect(
            len(self.rows) > 0 and bool((np.diff(self.rows) > 0).all()),
            "Shard.rows",
            "ascending, without repeats",
            None,
        )


@dataclass(slots=True, kw_only=True)
class ShardResult:
    """A shard's results: the rows (ascending) and answers of each model that ran, and an error for each failed model.

    `made_on` is the kind of device that each model ran on.
    """

    parts: dict[str, tuple[NDArray[np.int64], Answers]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    forward_s: dict[str, float] = field(default_factory=dict)
    made_on: dict[str, str] = field(default_factory=dict)
    complete: bool = True


@dataclass(slots=True)
class Work:
    """One model's progress in one shard. Other threads, and Ctrl-C, see either all answers of a batch or none."""

    runner: Runner
    batches: list[NDArray[np.int64]]
    done: list[Block] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)
    failure: str | None = None

    def forward(self, rows: list[int], prepared: Sequence[Any], names: Sequence[str]) -> bool:
        """Run the model on prepared frames and keep its output. Returns False if it failed."""
        begin = time.perf_counter()
        try:
            block = FORWARDS[Task(self.runner.model.spec.task)].block(self.runner, rows, prepared, names)
        except Exception as error:
            self.fail(error, n=len(rows), what=f"{names[rows[0]]} and {len(rows) - 1} more")
            return False
        self.done.append(replace(block, seconds=time.perf_counter() - begin))
        return True

    def fail(self, error: Exception, *, n: int, what: str) -> None:
        """Record the model's failure in one line: the number of frames `n`, the step, and a remedy."""
        name = self.runner.name
        if isinstance(error, StrobeError):
            self.failure = str(error)
        elif out_of_memory(error):
            tip = f"try --batch-size {max(1, n // 2)}" if n > 1 else "use a smaller model, or --device cpu"
            self.failure = f"{name}: out of memory with a batch of {n}; {tip} (finished work is kept)"
        else:
            problem = printable(error, limit=200)
            self.failure = f"{name}: raised {type(error).__name__} on {printable(what)}: {problem}"

    def part(self, needed: NDArray[Any]) -> tuple[NDArray[np.int64], Answers] | None:
        """Return the predictions for the needed rows in ascending order, without the rows that only filled a batch."""
        done, errors = list(self.done), dict(self.errors)
        rows = np.array([*(row for block in done for row in block.rows), *errors], dtype=np.int64)
        keep = np.flatnonzero(np.isin(rows, needed))
        keep = keep[np.argsort(rows[keep], kind="stable")]
        if not len(keep):
            return None
        reasons = {place: errors[row] for place, row in enumerate(rows[keep].tolist()) if row in errors}
        answers = FORWARDS[Task(self.runner.model.spec.task)].answers
        return rows[keep], answers(self.runner, done, len(errors), keep, reasons)


def work_of(shard: Shard, runners: Mapping[str, Runner]) -> list[Work]:
    """Return a shard's work for each model that needs some of the shard's rows."""
    return [Work(runners[name], _plan(shard, runners[name], rows)) for name, rows in shard.needed.items() if len(rows)]


def _plan(shard: Shard, runner: Runner, needed: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Return the complete batches, cut at fixed positions of the shard, that contain a needed row."""
    size = runner.batch_size
    rows = np.asarray(shard.rows, dtype=np.int64)
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [batch for batch in batches if np.isin(batch, needed).any()]


def wanted(work: Sequence[Work]) -> dict[int, list[Work]]:
    """Return the models that request each row."""
    models_of_row: dict[int, list[Work]] = {}
    for model_work in work:
        for batch in model_work.batches:
            for row in batch.tolist():
                models_of_row.setdefault(row, []).append(model_work)
    return models_of_row


def result_of(work: Sequence[Work], shard: Shard, *, complete: bool) -> ShardResult:
    """Return the shard's results so far."""
    result = ShardResult(complete=complete)
    for model_work in work:
        name = model_work.runner.name
        result.forward_s[name] = sum(block.seconds for block in model_work.done)
        result.made_on[name] = model_work.runner.made_on
        if model_work.failure is not None:
            result.failures[name] = model_work.failure
        part = model_work.part(np.asarray(shard.needed[name]))
        if part is not None:
            result.parts[name] = part
    return result
