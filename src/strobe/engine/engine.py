"""The engine divides missing predictions into shards, runs these through an Executor, and writes results on arrival.

An Executor runs on this machine, or elsewhere if an annex brings one and it is requested (`away`).
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.early import StoppedEarly
from strobe.core.answers import Answers, State
from strobe.core.codec import encode
from strobe.core.errors import expect
from strobe.core.locks import Lock
from strobe.core.ports import FrameSource, Progress
from strobe.core.records import ModelSpec
from strobe.core.remote import Usage
from strobe.engine.forward import Runner, Shard, ShardResult
from strobe.engine.running import EXECUTORS, ExecutorOptions
from strobe.engine.worker import EngineOptions, Interrupted, ShardWorker

if TYPE_CHECKING:
    from strobe.engine.running import Cluster


class AnswerStore(Protocol):
    """Stores a model's answers during a run and knows which frames already have one."""

    def stored(self, *, retry_errors: bool = False) -> tuple[NDArray[np.bool_], int]:
        """Return which frames have an answer, (F,), and the number of these that are recorded as unreadable."""

    def write(self, rows: NDArray[np.int64], answers: Answers, *, device: str = "") -> object:
        """Store the answers to these frames atomically; `device` is the kind of device that computed them."""


class RemoteWorkers(Protocol):
    """Other processes that run shards."""

    def results(self, shards: Iterable[Shard], tick: Callable[[int], None]) -> Iterator[ShardResult]:
        """Yield the result of each shard, in any order. `tick` is called as frames finish."""


@dataclass(slots=True)
class ModelOutcome:
    """A model's statistics: the frames predicted now, cached and unreadable, the seconds in `forward`, and its failure.

    `first_problem` is the error of the first frame that was unreadable this time. For a model behind an address,
    `spent` is what its requests used now, and `spent_before` is what they used earlier. If frames were asked several
    `times`, `again` has the statistics of all answers after the first. `lanes` is how many `forward` calls run at once.
    """

    n_new: int = 0
    n_kept: int = 0
    n_unreadable: int = 0
    first_problem: str | None = None
    forward_s: float = 0.0
    wall_s: float = 0.0
    error: str | None = None
    times: int = 1
    again: "ModelOutcome | None" = None
    spent: Usage | None = None
    spent_before: Usage = field(default_factory=Usage)
    lanes: int = 1

    @property
    def frames_per_second(self) -> float | None:
        """The frames per second of `forward` alone, in all lanes; None if nothing was predicted now."""
        return round(self.n_new * self.lanes / self.forward_s, 2) if self.n_new and self.forward_s else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOutcome:
    """The outcome of one model. `spec` is None if the model could not be loaded, and `ok` is False if it failed."""

    name: str
    ok: bool
    error: str | None = None
    spec: ModelSpec | None = None
    outcome: ModelOutcome | None = None
    stopped: StoppedEarly | None = None

    def summary(self) -> str:
        """Describe the outcome in one line."""
        if self.outcome is None:
            return self.error or "predictions are stored in the run folder"
        done = self.outcome
        rate = f", {done.n_new / done.wall_s:.1f} frames/s" if done.wall_s else ""
        bad = f", {done.n_unreadable} without an answer" if done.n_unreadable else ""
        if done.spent is not None:
            rate += f"; {done.spent.text()}"
        early = f"; stopped early: {self.stopped.text()}" if self.stopped else ""
        text = f"{done.n_new} new, {done.n_kept} cached{bad}{rate}{early}"
        if (more := done.again) is not None:
            text += f"; asked {more.times} times: {more.n_new} more answers new, {more.n_kept} cached"
        return f"FAILED after {text}: {self.error}" if self.error else text

    def to_json(self) -> dict[str, Any]:
        """Return the facts that run.json stores."""
        facts: dict[str, Any] = {"status": "done" if self.ok else "failed", "error": self.error}
        if self.spec is not None:
            facts |= {"weights": self.spec.weights, "preprocessing": dict(self.spec.preprocessing)}
            facts["batch_size"] = self.spec.batch_size
        if self.outcome is not None:
            facts["frames"] = {
                "new": self.outcome.n_new,
                "kept": self.outcome.n_kept,
                "unreadable": self.outcome.n_unreadable,
            }
            if (speed := self.outcome.frames_per_second) is not None:
                facts["frames_per_second"] = speed
            if (more := self.outcome.again) is not None:
                facts["repeated"] = {"times": more.times, "new": more.n_new, "kept": more.n_kept}
            if self.outcome.spent is not None:
                facts["spent"] = encode(self.outcome.spent + self.outcome.spent_before)
            facts["seconds"] = {"forward": round(self.outcome.forward_s, 3), "wall": round(self.outcome.wall_s, 3)}
        if self.stopped is not None:
            facts["stopped_early"] = encode(self.stopped)
        return facts


def run_models(
    runners: Sequence[Runner],
    stores: Mapping[str, AnswerStore],
    source: FrameSource,
    *,
    frame_names: Sequence[str],
    rows: NDArray[Any],
    options: EngineOptions,
    progress: Progress,
    as_input: Collection[int] = (),
    elsewhere: RemoteWorkers | None = None,
    number: int = 1,
) -> dict[str, ModelOutcome]:
    """Predict the rows that are not in a model's store yet. Frames are read once for all models.

    Rows in `as_input` are already model inputs, and are neither resized nor cropped.

    If a model fails, it is skipped and the others continue. On Ctrl-C, the complete batches of a local worker are kept.
    Work done `elsewhere` is kept only as complete shards. `number` says how often the
    frames are asked with this call, for the progress bar.
    """
    requested = np.zeros(len(frame_names), dtype=bool)
    requested[rows] = True
    stored = {runner.name: stores[runner.name].stored(retry_errors=options.retry_errors) for runner in runners}
    missing = {name: requested & ~mask for name, (mask, _) in stored.items()}
    lanes = {runner.name: runner.model.lanes for runner in runners}
    outcomes = {
        name: ModelOutcome(n_kept=int((requested & mask).sum()), n_unreadable=n_errors, lanes=lanes[name])
        for name, (mask, n_errors) in stored.items()
    }
    total = int(sum(mask.sum() for mask in missing.values()))
    if not total:
        return outcomes
    begin = time.perf_counter()
    names = ", ".join(runner.name for runner in runners if missing[runner.name].any())
    with progress.task(f"{'predict' if number == 1 else f'ask again ({number})'} {names}", total) as tick:
        worker = None
        shards = _shards(missing, np.flatnonzero(requested), options.shard_size, outcomes)
        if elsewhere is not None:
            results = elsewhere.results(shards, tick)
        else:
            worker = ShardWorker(
                runners, source, options=options, frame_names=frame_names, as_input=as_input, tick=tick
            )
            results = LocalExecutor(in_flight=options.in_flight).map(worker, shards)
        try:
            for result in results:
                _keep(result, stores, outcomes)
        except Interrupted as interrupted:
            _keep(interrupted.done, stores, outcomes)
            raise KeyboardInterrupt from interrupted
        finally:
            if worker is not None:
                worker.close()
    for outcome in outcomes.values():
        outcome.wall_s = time.perf_counter() - begin
    return outcomes


def _shards(
    missing: dict[str, NDArray[np.bool_]], rows: NDArray[Any], size: int, outcomes: dict[str, ModelOutcome]
) -> Iterator[Shard]:
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        needed = {
            name: part[mask[part]]
            for name, mask in missing.items()
            if outcomes[name].error is None and mask[part].any()
        }
        if needed:
            yield Shard(rows=part, needed=needed)


def _keep(result: ShardResult, stores: Mapping[str, AnswerStore], outcomes: dict[str, ModelOutcome]) -> None:
    for name, (rows, answers) in result.parts.items():
        stores[name].write(rows, answers, device=result.made_on.get(name, ""))
        outcomes[name].n_new += len(rows)
        unreadable = np.flatnonzero(answers.state == State.UNREADABLE).tolist()
        outcomes[name].n_unreadable += len(unreadable)
        if unreadable and outcomes[name].first_problem is None:
            outcomes[name].first_problem = answers.reasons[unreadable[0]]
    for name, seconds in result.forward_s.items():
        outcomes[name].forward_s += seconds
    for name, failure in result.failures.items():
        outcomes[name].error = outcomes[name].error or failure


@contextmanager
def away(
    engine: ExecutorOptions, device: str, say: Progress, *, held: Lock | None = None
) -> Iterator["Cluster | None"]:
    """Yield the engine's cluster, or None for this machine.

    `device` is the requested device. `held` is the lock of the output folder.
    """
    if engine.name == "local":
        yield None
        return
    with EXECUTORS[engine.name](engine, device, say, held) as cluster:
        yield cluster


_Item = TypeVar("_Item")


_Result = TypeVar("_Result")


class LocalExecutor:
    """Runs shards in this process, one after another in the calling thread, or a few at once in threads.

    Use an `in_flight` of 1 on a CPU, because the model uses every core. Use an `in_flight` of 2 on a GPU, to keep the
    GPU busy while a shard ends.

    >>> sorted(LocalExecutor(in_flight=2).map(lambda number: number * number, range(4)))
    [0, 1, 4, 9]
    """

    def __init__(self, *, in_flight: int = 1) -> None:
        expect(in_flight >= 1, "in_flight", ">= 1", in_flight)
        self._in_flight = in_flight

    def map(self, function: Callable[[_Item], _Result], shards: Iterable[_Item]) -> Iterator[_Result]:
        """Yield results as they finish. A shard is taken from the iterable only when it can start."""
        if self._in_flight == 1:
            for shard in shards:
                yield function(shard)
            return
        pool = ThreadPoolExecutor(self._in_flight, thread_name_prefix="shard")
        running: deque[Future[_Result]] = deque()
        try:
            for shard in shards:
                running.append(pool.submit(function, shard))
                if len(running) >= self._in_flight:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
