"""Shards of work, a model's forward over one batch, and the answers of a shard in the dataset's classes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Ints
from strobe.core.errors import ModelFailed, StrobeError, expect, out_of_memory, printable, spelled
from strobe.core.labels import Projection
from strobe.core.ports import Classifier, Detector
from strobe.core.records import Detections
from strobe.core.score_kinds import ROUNDING_16_BITS
from strobe.core.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A loaded model with the map to the dataset's classes. Shards record `made_on`, the kind of its device."""

    name: str
    model: Classifier | Detector
    projection: Projection
    merge: str = "max"
    made_on: str = ""

    @property
    def batch_size(self) -> int:
        """Images per forward."""
        return self.model.spec.batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The output of one forward.

    It is appended in one step, so that other threads, and Ctrl-C, see all of it or nothing.
    """

    rows: list[int]
    seconds: float = 0.0
    scores: NDArray[np.float32] | None = None
    own_label: NDArray[np.int32] | None = None
    own_confidence: NDArray[np.float32] | None = None
    found: list[Detections] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Forward:
    """The two functions of a task.

    The first runs a batch through the model, and the second merges the answers of blocks.

    The second function takes the blocks, the number of unreadable rows, the rows of each block to keep, and the error
    of each unreadable row.
    """

    block: Callable[[Runner, list[int], Sequence[Any], Sequence[str]], Block]
    answers: Callable[[Runner, Sequence[Block], int, NDArray[np.int64], Mapping[int, str]], Answers]


def own_best(scores: NDArray[np.float32], *, kind: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the model's own best class and its confidence, before any projection."""
    best = scores.argmax(axis=1)
    top = scores[np.arange(len(best)), best]
    # The softmax of the largest logit is 1 / Σ exp(logit − largest logit).
    confidence = 1 / np.exp(scores - top[:, None]).sum(axis=1, dtype=np.float64) if kind == "logits" else top
    return best.astype(np.int32), confidence.astype(np.float32)


def project_detections(found: Detections, projection: Projection) -> Detections:
    """Return boxes with the dataset's labels.

    If a box's class maps to no label, the box gets −1 minus the number of its own class.
    """
    if projection.is_identity:
        return found
    own = found.label.astype(np.int64)
    label = projection.map_labels(own)
    label = np.where(label >= 0, label, -1 - own)
    return Detections(xyxy=found.xyxy, label=label.astype(np.int32), score=found.score)


def _scores(runner: Runner, rows: list[int], prepared: Sequence[Any], names: Sequence[str]) -> Block:
    scores = cast(Classifier, runner.model).forward(prepared)
    n_classes = len(runner.model.spec.label_space)
    shape = getattr(scores, "shape", None)
    if shape != (len(rows), n_classes):
        raise ModelFailed(
            f"{runner.name}: returned scores of shape {shape}, expected ({len(rows)}, {n_classes}): one row per "
            f"image, one column per class of {runner.model.spec.label_space.name}"
        )
    scores = np.asarray(scores, dtype=np.float32)
    wrong = ~np.isfinite(scores).all(axis=1)
    if wrong.any():
        row = rows[int(np.flatnonzero(wrong)[0])]
        raise ModelFailed(
            f"{runner.name}: returned NaN or infinity for {int(wrong.sum())} frame(s), first "
            f"{printable(names[row])}; if it runs in half precision, try <<precision=float32>>"
        )
    return block_of(runner, rows, scores)


def block_of(runner: Runner, rows: list[int], scores: NDArray[np.float32]) -> Block:
    """Return the model's own answers and the scores of the dataset's classes. Raises ModelFailed for no probability."""
    spec = runner.model.spec
    scores = scores * np.float32(spec.scale)
    if spec.kind == "probabilities" and (np.abs(scores - 0.5) > 0.5 + ROUNDING_16_BITS).any():
        raise ModelFailed(
            f"{runner.name}: returned scores between {scores.min():.3g} and {scores.max():.3g}, but its scores are "
            "declared or read as probabilities"
        )
    own_label, own_confidence = own_best(scores, kind=spec.kind)
    projected = runner.projection.apply(scores, kind=spec.kind, merge=runner.merge).astype(np.float32)
    return Block(rows=rows, scores=projected, own_label=own_label, own_confidence=own_confidence)


def _class_answers(
    runner: Runner, done: Sequence[Block], blank: int, keep: NDArray[np.int64], reasons: Mapping[int, str]
) -> Answers:
    width = len(runner.projection.target)

    def column(name: str, shape: tuple[int, ...], value: float, dtype: type[np.generic]) -> NDArray[Any]:
        blanks = np.full((blank, *shape), value, dtype=dtype)
        return np.concatenate([*(getattr(block, name) for block in done), blanks])[keep]

    scores = column("scores", (width,), np.nan, np.float32)
    state = np.zeros(len(keep), dtype=np.uint8)
    state[runner.projection.outside(scores)] = State.OUTSIDE
    state[list(reasons)] = State.UNREADABLE
    return ClassAnswers(
        model=runner.name,
        # Sums of probabilities are stored as logarithms, so that stored values can be ranked like logits.
        kind="logits" if runner.merge == "sum" else runner.model.spec.kind,
        label=np.where(state == State.ANSWERED, scores.argmax(axis=1), -1),
        state=state,
        scores=scores,
        own_label=column("own_label", (), -1, np.int32),
        own_confidence=column("own_confidence", (), np.nan, np.float32),
        reasons=reasons,
    )


def _boxes(runner: Runner, rows: list[int], prepared: Sequence[Any], names: Sequence[str]) -> Block:  # noqa: ARG001 (the signature of all tasks)
    found = cast(Detector, runner.model).forward(prepared)
    if not isinstance(found, list) or len(found) != len(rows):
        raise ModelFailed(f"{runner.name}: expected a list of {len(rows)} Detections, got {type(found).__name__}")
    return Block(rows=rows, found=[project_detections(boxes, runner.projection) for boxes in found])


def _box_answers(
    runner: Runner, done: Sequence[Block], blank: int, keep: NDArray[np.int64], reasons: Mapping[int, str]
) -> Answers:
    found = [*(boxes for block in done for boxes in block.found), *([None] * blank)]
    return BoxAnswers.of_frames(
        [found[place] for place in keep.tolist()],
        n_classes=len(runner.projection.target),
        model=runner.name,
        reasons=reasons,
    )


FORWARDS: Mapping[Task, Forward] = {
    Task.CLASSIFICATION: Forward(_scores, _class_answers),
    Task.DETECTION: Forward(_boxes, _box_answers),
}


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
            tip = f"try <<batch_size={max(1, n // 2)}>>" if n > 1 else "use a smaller model, or <<device=cpu>>"
            self.failure = spelled(f"{name}: out of memory with a batch of {n}; {tip} (finished work is kept)")
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
        reasons = {index: errors[row] for index, row in enumerate(rows[keep].tolist()) if row in errors}
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
