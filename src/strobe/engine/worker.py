"""The stateless function that the engine maps over shards: read frames, run models, return predictions.

Frames are decoded ahead while a model runs, once for all models of the run. A model that decodes on its own device gets
files instead. A few threads each read the files of one batch and let the device decode them. They pass the results to
the threads that run the model, one per lane. All shards share these threads.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from strobe.core.errors import StrobeError, expect, out_of_memory, printable
from strobe.core.ports import DeviceModel, DeviceSource, EncodedClassifier, FrameSource, SendableSource
from strobe.engine.forward import Runner, Shard, ShardResult, Work, result_of, wanted, work_of

if TYPE_CHECKING:
    from strobe.engine.decode_pool import DecodePool


_DEVICE_LANES = 3
"""The number of threads that pass batches to the device for decoding; other threads run the model."""

Prepared = list[tuple[int, list[Any]]]
"""Rows. Each has the models that requested it, and the prepared input or the error of each model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How the loop over shards runs: frames per shard, shards at once, and how frames are decoded.

    `retry_errors` tries unreadable frames again. `chunk` is the number of frames per decoding task, and `ahead` is the
    number of tasks decoded ahead. With `on_device`, a model that can do so decodes the files on its own device.

    If `processes` is above 0, that many processes decode instead of threads, provided that the source and the models
    allow it. The pixels are the same.
    """

    shard_size: int = 512
    retry_errors: bool = False
    in_flight: int = 1
    threads: int = 2
    processes: int = 0
    chunk: int = 4
    ahead: int = 12
    on_device: bool = False

    def __post_init__(self) -> None:
        expect(self.shard_size >= 1, "shard size", ">= 1", self.shard_size)


@dataclass(frozen=True, slots=True)
class PreparationFailed:
    """A model's exception, passed from the decoding thread to the thread that reports errors."""

    error: Exception


class Decoder:
    """Reads frames and prepares them for the models that request them."""

    def __init__(
        self,
        runners: Sequence[Runner],
        source: FrameSource,
        options: EngineOptions,
        frame_names: Sequence[str],
        as_input: frozenset[int] = frozenset(),
    ) -> None:
        self._source, self._options, self._names, self._as_input = source, options, frame_names, as_input
        self._elsewhere = _decode_pool(runners, source, options)
        n_threads = options.threads if self._elsewhere is None else options.processes
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="decode")

    def close(self) -> None:
        """Stop threads and processes. Pending work is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._elsewhere is not None:
            self._elsewhere.close()

    def ahead(self, rows: list[int], wanted: Mapping[int, list[Work]]) -> Iterator[tuple[int, list[Any]]]:
        """Yield every row in order with its prepared inputs. Decode a bounded number of tasks ahead."""
        if isinstance(self._source, DeviceSource):
            chunks = self._source.tasks(rows)
        else:
            step = self._options.chunk
            chunks = (rows[start : start + step] for start in range(0, len(rows), step))
        pending: deque[Future[Prepared]] = deque()
        try:
            while True:
                for chunk in islice(chunks, self._options.ahead - len(pending)):
                    pending.append(self._pool.submit(self.read, chunk, wanted))
                if not pending:
                    return
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def read(self, rows: list[int], requested: Mapping[int, list[Work]]) -> Prepared:
        """Return these rows, each prepared for the models that request it."""
        if self._elsewhere is not None:
            return self._read_elsewhere(self._elsewhere, rows, requested)
        if isinstance(self._source, DeviceSource):
            return self._read_on_device(self._source, rows, requested)
        return self._read_here(rows, requested)

    def _read_on_device(self, source: DeviceSource, rows: list[int], requested: Mapping[int, list[Work]]) -> Prepared:
        prepared: dict[int, list[Any]] = {row: [] for row in rows}
        for some, frames in source.batches(rows):
            if frames is None:
                prepared |= dict(self._read_here(some, requested))
                continue
            for one in {id(one): one for row in some for one in requested[row] if one.failure is None}.values():
                places = [n for n, row in enumerate(some) if any(one is other for other in requested[row])]
                values = self._prepared_there(one, frames if len(places) == len(some) else frames[places])
                for n, value in zip(places, values, strict=True):
                    prepared[some[n]].append((one, value))
        return [(row, prepared[row]) for row in rows]

    def _prepared_there(self, one: Work, frames: Any) -> Sequence[Any]:
        """Return the frames prepared for a model: on its device or, if the model prepares on the CPU, from a copy."""
        model = one.runner.model
        try:
            made = model.prepare_on_device(frames) if isinstance(model, DeviceModel) else None
            return made if made is not None else [model.prepare(image) for image in frames.cpu().numpy()]
        except Exception as error:
            return [PreparationFailed(error)] * len(frames)

    def _read_here(self, rows: list[int], requested: Mapping[int, list[Work]]) -> Prepared:
        out: Prepared = []
        for row in rows:
            models = [model_work for model_work in requested[row] if model_work.failure is None]
            try:
                image = self._source.read(row) if models else None
            except StrobeError as error:
                out.append((row, [(model_work, error) for model_work in requested[row]]))
                continue
            prepared: list[Any] = []
            for model_work in models:
                try:
                    model = model_work.runner.model
                    prepare = model.prepare_input if row in self._as_input else model.prepare
                    prepared.append((model_work, prepare(image)))  # type: ignore[arg-type]  # an image was read, because a model requests it
                except Exception as error:
                    prepared.append((model_work, PreparationFailed(error)))
            out.append((row, prepared))
        return out

    def _read_elsewhere(self, pool: "DecodePool", rows: list[int], requested: Mapping[int, list[Work]]) -> Prepared:
        models = [[model_work for model_work in requested[row] if model_work.failure is None] for row in rows]
        try:
            results = pool.read(
                rows, [[model_work.runner.name for model_work in row_work] for row_work in models], self._as_input
            )
        except StrobeError as error:
            failed = PreparationFailed(
                StrobeError(f"{error}; the error occurred at {printable(self._names[rows[0]])} or shortly after it")
            )
            return [
                (row, [(model_work, failed) for model_work in row_work])
                for row, row_work in zip(rows, models, strict=True)
            ]
        out: Prepared = []
        for row, row_work, values in zip(rows, models, results, strict=True):
            if isinstance(values, StrobeError):
                out.append((row, [(model_work, values) for model_work in row_work]))
                continue
            kept = [PreparationFailed(value) if isinstance(value, Exception) else value for value in values]
            out.append((row, list(zip(row_work, kept, strict=True))))
        return out


def _decode_pool(runners: Sequence[Runner], source: FrameSource, options: EngineOptions) -> "DecodePool | None":
    """Return the decoding processes if they are requested, and if the source and the models can be sent to them."""
    plans = {runner.name: plan for runner in runners if (plan := runner.model.preparation) is not None}
    if not options.processes or len(plans) < len(runners) or not isinstance(source, SendableSource):
        return None
    from strobe.engine.decode_pool import DecodePool

    return DecodePool(source, plans, processes=options.processes, chunk=options.chunk)


_JPEG, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C inside a shard. It carries the finished batches."""

    def __init__(self, done: ShardResult) -> None:
        super().__init__()
        self.done = done


class ShardWorker:
    """Runs models over the frames of a shard. The worker keeps threads and models, but no state from earlier shards."""

    def __init__(
        self,
        runners: Sequence[Runner],
        source: FrameSource,
        *,
        options: EngineOptions,
        frame_names: Sequence[str],
        as_input: Collection[int] = (),
        tick: Callable[[int], None] | None = None,
    ) -> None:
        self._runners = {runner.name: runner for runner in runners}
        self._source, self._options, self._names = source, options, frame_names
        self._as_input = frozenset(as_input)
        self._tick = tick or (lambda done: None)  # noqa: ARG005 (without progress)
        self._decoder = Decoder(runners, source, options, frame_names, self._as_input)
        self._device = ThreadPoolExecutor(_DEVICE_LANES, thread_name_prefix="device")
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="read")
        self._reading, self._closed = threading.Lock(), False
        lanes = {runner.model.lanes for runner in runners}
        self._forwards = {n: ThreadPoolExecutor(n, thread_name_prefix="forward") for n in lanes}

    def close(self) -> None:
        """Stop threads and processes. Pending work is dropped."""
        self._closed = True
        for pool in (self._readers, self._device, *self._forwards.values()):
            pool.shutdown(wait=False, cancel_futures=True)
        self._decoder.close()

    def __call__(self, shard: Shard) -> ShardResult:
        """Return the shard's predictions. Ctrl-C raises Interrupted with all complete batches."""
        work = work_of(shard, self._runners)
        try:
            feeds = [feed for one in work if (feed := self._start_device_batches(one)) is not None]
            self._cpu_batches(work)
            for feed in feeds:
                for decoded in feed.result():
                    _finish(decoded)
        except KeyboardInterrupt as error:
            self.close()
            raise Interrupted(result_of(work, shard, complete=False)) from error
        return result_of(work, shard, complete=True)

    # -- frames that the decoder prepares ------------------------------------------------------------------------

    def _cpu_batches(self, work: list[Work]) -> None:
        waiting = {id(task): deque(batch.tolist() for batch in task.batches) for task in work}
        rows = sorted({row for task in work for batch in task.batches for row in batch.tolist()})
        if not rows:
            return
        ready: dict[int, dict[int, Any]] = {id(task): {} for task in work}
        running: deque[Future[None]] = deque()
        for row, prepared in self._decoder.ahead(rows, wanted(work)):
            for task, value in prepared:
                ready[id(task)][row] = value
                queue = waiting[id(task)]
                while queue and queue[0][-1] <= row:
                    batch = queue.popleft()
                    values = [(place, ready[id(task)].pop(place, None)) for place in batch]
                    self._start_batch(task, values, running)
        for future in running:
            future.result()

    def _start_batch(self, task: Work, values: list[tuple[int, Any]], running: deque[Future[None]]) -> None:
        """Run the batch in this thread or in a lane. The number of waiting batches is at most the number of lanes."""
        model = task.runner.model
        if (
            model.lanes == 1 and model.device == "cpu"
        ):  # the model uses every core, so running anything else in parallel would not help
            self._run_batch(task, values)
            return
        running.append(self._forwards[model.lanes].submit(self._run_batch, task, values))
        if len(running) > model.lanes:
            running.popleft().result()

    def _run_batch(self, task: Work, values: list[tuple[int, Any]]) -> None:
        if task.failure is not None:
            return
        for row, value in values:
            if isinstance(value, PreparationFailed):
                task.fail(value.error, n=len(values), what=f"preparing {self._names[row]}")
                return
            if isinstance(value, StrobeError):
                task.errors[row] = printable(value)
                self._tick(1)
        good = [(row, value) for row, value in values if not isinstance(value, StrobeError)]
        if good:
            self._forward(task, [row for row, _ in good], [value for _, value in good])

    # -- decoding on the device ----------------------------------------------------------------------------------

    def _start_device_batches(self, task: Work) -> "Future[list[_Decoding]] | None":
        model = task.runner.model
        if not self._options.on_device or not isinstance(model, EncodedClassifier):
            return None
        batches, task.batches = [batch.tolist() for batch in task.batches], []
        return self._readers.submit(self._feed_device, task, batches)

    def _feed_device(self, task: Work, batches: list[list[int]]) -> "list[_Decoding]":
        """Pass batches to the decoding threads, a few ahead of the model. Return the batches that are still running.

        The function does not wait for its last batches, so that the next shard's files can be read in the meantime.
        """
        under_way: deque[_Decoding] = deque()
        for rows in batches:
            if task.failure is not None or self._closed:
                break
            under_way.append(self._device.submit(self._decode_batch, task, rows))
            if len(under_way) > _DEVICE_LANES + task.runner.model.lanes:
                _finish(under_way.popleft())
        return list(under_way)

    def _decode_batch(self, task: Work, rows: list[int]) -> list[Future[None]]:
        """Decode JPEG files on the model's device and other files with the decoder. Return the forwards of both."""
        if task.failure is not None:
            return []
        read = self._read_files(rows)
        for row, content in read:
            if isinstance(content, StrobeError):
                task.errors[row] = printable(content)
                self._tick(1)
        jpegs = [(row, content) for row, content in read if _is_jpeg(content)]
        prepared = self._prepare_encoded(task, [content for _, content in jpegs]) if jpegs else None
        decoded = [row for row, _ in jpegs] if prepared is not None else []
        forwards, lanes = [], self._forwards[task.runner.model.lanes]
        if decoded:
            forwards.append(lanes.submit(self._forward, task, decoded, prepared))
        known = {*decoded, *task.errors}
        odd = [row for row in rows if row not in known]
        if odd and task.failure is None:  # some files are damaged or not JPEG, and the decoder reports which
            found = self._decoder.ahead(odd, {row: [task] for row in odd})
            values = [(row, value) for row, prepared in found for _, value in prepared]
            forwards.append(lanes.submit(self._run_batch, task, values))
        return forwards

    def _read_files(self, rows: list[int]) -> list[tuple[int, bytes | StrobeError | None]]:
        with self._reading:  # one reading thread is faster than several that alternate at every file
            return [(row, self._read_file(row)) for row in rows]

    def _read_file(self, row: int) -> bytes | StrobeError | None:
        if row in self._as_input:  # the device would resize and crop it, so the decoder prepares it
            return None
        try:
            return self._source.read_encoded(row)
        except StrobeError as error:
            return error

    def _prepare_encoded(self, task: Work, files: list[Any]) -> Any:
        try:
            return cast(EncodedClassifier, task.runner.model).prepare_encoded(files)
        except Exception as error:
            if out_of_memory(error):
                task.fail(error, n=len(files), what="decoding")
            return None

    def _forward(self, task: Work, rows: list[int], prepared: Any) -> None:
        if task.forward(rows, prepared, self._names):
            self._tick(len(rows))


_Decoding = Future[list[Future[None]]]
"""A batch that is being decoded. Its result is the forwards that it started."""


def _finish(decoding: _Decoding) -> None:
    """Wait until the batch is decoded and the model has run on it."""
    for forward in decoding.result():
        forward.result()


def _is_jpeg(content: bytes | StrobeError | None) -> bool:
    """Return whether the data is a complete JPEG file.

    A truncated file must not reach a device, because its pixels would be mixed with stale memory.
    """
    return isinstance(content, bytes) and content.startswith(_JPEG) and content.rstrip(b"\0").endswith(_JPEG_END)
