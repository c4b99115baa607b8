"""The stateless function the engine maps over shards: read frames, run models, hand back predictions.

Frames are decoded ahead while a model runs, once for all models of the run: on threads, or on processes with a thread
each that waits for it. Where a model would rather decode on its own device, a fixed share of its batches takes that way
and the rest stays with the threads, so that both work at once and the same frames always go the same way.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.errors import StrobeError, out_of_memory, printable
from strobe.core.ports import EncodedClassifier, FrameSource, SendableSource
from strobe.core.tasks import Task
from strobe.predict.decode_pool import DecodePool
from strobe.predict.forward import FORWARDS, Block, Runner
from strobe.predict.parts import Shard, ShardResult

__all__ = ["DecodeOptions", "Interrupted", "ShardWorker"]

_JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How frames are decoded: threads, frames a task, tasks ahead; and the device's share of batches (m of n).

    `processes` above 0 decodes on that many processes instead of threads, where source and models allow it. The pixels
    are the same.
    """

    threads: int = 2
    processes: int = 0
    chunk: int = 4
    ahead: int = 12
    device_share: tuple[int, int] = (0, 1)
    device_lanes: int = 4

    def on_device(self, batch: int) -> bool:
        """Whether this batch of a shard is decoded by the device; spread evenly and the same every time.

        >>> [DecodeOptions(device_share=(2, 3)).on_device(batch) for batch in range(6)]
        [False, True, True, False, True, True]
        """
        some, whole = self.device_share
        return ((batch + 1) * some) // whole > (batch * some) // whole


class Interrupted(KeyboardInterrupt):
    """Ctrl-C inside a shard, with the batches that were already done."""

    def __init__(self, done: ShardResult) -> None:
        super().__init__()
        self.done = done


@dataclass(slots=True)
class _Work:
    """One model's progress through one shard."""

    runner: Runner
    batches: list[NDArray[np.int64]]
    done: list[Block] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)
    failure: str | None = None


class ShardWorker:
    """Runs models over the frames of a shard. Holds threads and models, and nothing of earlier shards."""

    def __init__(
        self,
        runners: Sequence[Runner],
        source: FrameSource,
        *,
        decode: DecodeOptions,
        frame_names: Sequence[str],
        tick: Callable[[int], None] | None = None,
    ) -> None:
        self._runners = {runner.name: runner for runner in runners}
        self._source, self._decode, self._names = source, decode, frame_names
        self._tick = tick or (lambda done: None)  # noqa: ARG005 (nobody watches)
        self._elsewhere = _decode_pool(runners, source, decode)
        n_threads = decode.threads if self._elsewhere is None else decode.processes
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="decode")
        self._lanes = ThreadPoolExecutor(decode.device_lanes, thread_name_prefix="device")
        self._readers = ThreadPoolExecutor(max(1, len(runners)), thread_name_prefix="read")
        self._closed = False
        self._n_forwards = max([runner.model.lanes for runner in runners], default=1)
        self._forwards = ThreadPoolExecutor(self._n_forwards, thread_name_prefix="forward")

    def close(self) -> None:
        """Let go of threads and processes; what waits is dropped."""
        self._closed = True
        for pool in (self._pool, self._readers, self._lanes, self._forwards):
            pool.shutdown(wait=False, cancel_futures=True)
        if self._elsewhere is not None:
            self._elsewhere.close()

    def __call__(self, shard: Shard) -> ShardResult:
        """The shard's predictions. Ctrl-C raises Interrupted with whole batches kept."""
        work = [_Work(self._runners[name], _plan(shard, self._runners[name], rows)) for name, rows in _due(shard)]
        try:
            feeds = [feed for one in work for feed in self._start_device_batches(one)]
            self._cpu_batches(work)
            for feed in feeds:
                for future in feed.result():
                    future.result()
        except KeyboardInterrupt as error:
            self.close()
            raise Interrupted(_result(work, shard, complete=False)) from error
        return _result(work, shard, complete=True)

    # -- decoding on threads or processes ------------------------------------------------------------------------

    def _cpu_batches(self, work: list[_Work]) -> None:
        waiting = {id(one): deque(batch.tolist() for batch in one.batches) for one in work}
        rows = sorted({row for one in work for batch in one.batches for row in batch.tolist()})
        if not rows:
            return
        wanted = _wanted(work)
        ready: dict[int, dict[int, Any]] = {id(one): {} for one in work}
        running: deque[Future[None]] = deque()
        for row, prepared in self._ahead(rows, wanted):
            for one, value in prepared:
                ready[id(one)][row] = value
                queue = waiting[id(one)]
                while queue and queue[0][-1] <= row:
                    batch = queue.popleft()
                    values = [(place, ready[id(one)].pop(place, None)) for place in batch]
                    self._start_batch(one, values, running)
        for future in running:
            future.result()

    def _start_batch(self, one: _Work, values: list[tuple[int, Any]], running: deque[Future[None]]) -> None:
        """Run the batch here, or in a lane where the model has several; never more waiting than there are lanes."""
        if one.runner.model.lanes == 1:
            self._run_batch(one, values)
            return
        running.append(self._forwards.submit(self._run_batch, one, values))
        if len(running) > self._n_forwards:
            running.popleft().result()

    def _ahead(self, rows: list[int], wanted: Mapping[int, list[_Work]]) -> Iterator[tuple[int, list[Any]]]:
        """Every row with what was prepared of it, in order, a bounded number of tasks ahead."""
        chunks = [rows[start : start + self._decode.chunk] for start in range(0, len(rows), self._decode.chunk)]
        pending: deque[Future[list[tuple[int, list[Any]]]]] = deque()
        place = 0
        try:
            while place < len(chunks) or pending:
                while place < len(chunks) and len(pending) < self._decode.ahead:
                    pending.append(self._pool.submit(self._read_chunk, chunks[place], wanted))
                    place += 1
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _read_chunk(self, rows: list[int], wanted: Mapping[int, list[_Work]]) -> list[tuple[int, list[Any]]]:
        if self._elsewhere is not None:
            return self._read_elsewhere(self._elsewhere, rows, wanted)
        out = []
        for row in rows:
            models = [one for one in wanted[row] if one.failure is None]
            try:
                image = self._source.read(row) if models else None
            except StrobeError as error:
                out.append((row, [(one, error) for one in wanted[row]]))
                continue
            prepared: list[Any] = []
            for one in models:
                try:
                    prepared.append((one, one.runner.model.prepare(image)))  # type: ignore[arg-type]
                except Exception as error:
                    prepared.append((one, _Failed(error)))
            out.append((row, prepared))
        return out

    def _read_elsewhere(
        self, pool: DecodePool, rows: list[int], wanted: Mapping[int, list[_Work]]
    ) -> list[tuple[int, list[Any]]]:
        models = [[one for one in wanted[row] if one.failure is None] for row in rows]
        try:
            found = pool.read(rows, [[one.runner.name for one in some] for some in models])
        except StrobeError as error:
            failed = _Failed(StrobeError(f"{error}; it was at {printable(self._names[rows[0]])} or soon after"))
            return [(row, [(one, failed) for one in some]) for row, some in zip(rows, models, strict=True)]
        out: list[tuple[int, list[Any]]] = []
        for row, some, values in zip(rows, models, found, strict=True):
            if isinstance(values, StrobeError):
                out.append((row, [(one, values) for one in some]))
                continue
            kept = [_Failed(value) if isinstance(value, Exception) else value for value in values]
            out.append((row, list(zip(some, kept, strict=True))))
        return out

    def _run_batch(self, one: _Work, values: list[tuple[int, Any]]) -> None:
        if one.failure is not None:
            return
        for row, value in values:
            if isinstance(value, _Failed):
                one.failure = explain(one.runner, value.error, n=len(values), what=f"preparing {self._names[row]}")
                return
            if isinstance(value, StrobeError):
                one.errors[row] = printable(value)
                self._tick(1)
        good = [(row, value) for row, value in values if not isinstance(value, StrobeError)]
        if good:
            self._forward(one, [row for row, _ in good], [value for _, value in good])

    # -- decoding on the device ----------------------------------------------------------------------------------

    def _start_device_batches(self, one: _Work) -> list[Future[list[Future[None]]]]:
        model = one.runner.model
        if not self._decode.device_share[0] or not isinstance(model, EncodedClassifier):
            return []
        on_device = [batch.tolist() for place, batch in enumerate(one.batches) if self._decode.on_device(place)]
        one.batches = [batch for place, batch in enumerate(one.batches) if not self._decode.on_device(place)]
        return [self._readers.submit(self._feed_device, one, on_device)]

    def _feed_device(self, one: _Work, batches: list[list[int]]) -> list[Future[None]]:
        """Read files ahead in this one thread and hand whole batches to the device's lanes; those still running.

        One reader is faster than many: reading is little work but much taking turns with the interpreter. It does not
        wait for its last batches, so that the next shard's files are read meanwhile.
        """
        running: deque[Future[None]] = deque()
        for rows in batches:
            if one.failure is not None or self._closed:
                break
            running.append(self._lanes.submit(self._device_batch, one, rows, self._read_files(rows)))
            if len(running) > self._decode.device_lanes + 1:
                running.popleft().result()
        return list(running)

    def _device_batch(self, one: _Work, rows: list[int], read: list[tuple[int, bytes | StrobeError | None]]) -> None:
        if one.failure is not None:
            return
        for row, content in read:
            if isinstance(content, StrobeError):
                one.errors[row] = printable(content)
                self._tick(1)
        jpegs = [(row, content) for row, content in read if isinstance(content, bytes) and content[:3] == _JPEG]
        prepared = self._prepare_encoded(one, [content for _, content in jpegs]) if jpegs else None
        if prepared is not None:
            self._forward(one, [row for row, _ in jpegs], prepared)
        finished = {row for row, _ in jpegs} if prepared is not None else set()
        odd = [row for row in rows if row not in one.errors and row not in finished]
        if odd and one.failure is None:  # no JPEG, or a broken one among them: the threads' way tells which
            found = self._read_chunk(odd, {key: [one] for key in odd})
            self._run_batch(one, [(row, values[0][1]) for row, values in found])

    def _read_files(self, rows: list[int]) -> list[tuple[int, bytes | StrobeError | None]]:
        out: list[tuple[int, bytes | StrobeError | None]] = []
        for row in rows:
            try:
                out.append((row, self._source.read_encoded(row)))
            except StrobeError as error:
                out.append((row, error))
        return out

    def _prepare_encoded(self, one: _Work, files: list[bytes]) -> Any:
        try:
            return cast(EncodedClassifier, one.runner.model).prepare_encoded(files)
        except Exception as error:
            if out_of_memory(error):
                one.failure = explain(one.runner, error, n=len(files), what="decoding")
            return None

    # -- the model -----------------------------------------------------------------------------------------------

    def _forward(self, one: _Work, rows: list[int], prepared: Any) -> None:
        runner = one.runner
        begin = time.perf_counter()
        try:
            block = FORWARDS[Task(runner.model.spec.task)].block(runner, rows, prepared, self._names)
        except Exception as error:
            one.failure = explain(runner, error, n=len(rows), what=f"{self._names[rows[0]]} and {len(rows) - 1} more")
            return
        one.done.append(replace(block, seconds=time.perf_counter() - begin))
        self._tick(len(rows))


@dataclass(frozen=True, slots=True)
class _Failed:
    """A model's own exception, carried from where frames are decoded to where it is reported."""

    error: Exception


def _decode_pool(runners: Sequence[Runner], source: FrameSource, decode: DecodeOptions) -> DecodePool | None:
    """The processes that decode, where they were asked for and source and models can be sent to them."""
    plans = {runner.name: plan for runner in runners if (plan := runner.model.preparation) is not None}
    if not decode.processes or len(plans) < len(runners) or not isinstance(source, SendableSource):
        return None
    return DecodePool(source, plans, processes=decode.processes, chunk=decode.chunk)


def _due(shard: Shard) -> list[tuple[str, NDArray[Any]]]:
    return [(name, rows) for name, rows in shard.needed.items() if len(rows)]


def _plan(shard: Shard, runner: Runner, needed: NDArray[Any]) -> list[NDArray[np.int64]]:
    """The batches of the shard that hold a needed row, cut at fixed places and kept whole."""
    size = runner.batch_size
    rows = np.asarray(shard.rows, dtype=np.int64)
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [batch for batch in batches if np.isin(batch, needed).any()]


def _wanted(work: list[_Work]) -> dict[int, list[_Work]]:
    wanted: dict[int, list[_Work]] = {}
    for one in work:
        for batch in one.batches:
            for row in batch.tolist():
                wanted.setdefault(row, []).append(one)
    return wanted


def _result(work: list[_Work], shard: Shard, *, complete: bool) -> ShardResult:
    result = ShardResult(complete=complete)
    for one in work:
        name = one.runner.name
        result.forward_s[name] = sum(block.seconds for block in one.done)
        result.dropped_boxes[name] = sum(block.dropped for block in one.done)
        if one.failure is not None:
            result.failures[name] = one.failure
        part = _part(one, np.asarray(shard.needed[name]))
        if part is not None:
            result.parts[name] = part
    return result


def _part(one: _Work, needed: NDArray[Any]) -> tuple[NDArray[np.int64], Answers] | None:
    """What was predicted of the needed rows, ascending; rows run again only to fill a batch are left out."""
    done, errors = list(one.done), dict(one.errors)
    rows = np.array([*(row for block in done for row in block.rows), *errors], dtype=np.int64)
    keep = np.flatnonzero(np.isin(rows, needed))
    keep = keep[np.argsort(rows[keep], kind="stable")]
    if not len(keep):
        return None
    task = Task(one.runner.model.spec.task)
    reasons = {place: errors[row] for place, row in enumerate(rows[keep].tolist()) if row in errors}
    return rows[keep], FORWARDS[task].answers(one.runner, done, len(errors), keep, reasons)


def explain(runner: Runner, error: Exception, *, n: int, what: str) -> str:
    """A model's failure in one line: what it was doing, and what to try."""
    if isinstance(error, StrobeError):
        return str(error)
    if out_of_memory(error):
        tip = f"try --batch-size {max(1, n // 2)}" if n > 1 else "use a smaller model, or --device cpu"
        return f"{runner.name}: out of memory with a batch of {n}; {tip} (finished work is kept)"
    return f"{runner.name}: raised {type(error).__name__} on {printable(what)}: {printable(error, limit=200)}"
