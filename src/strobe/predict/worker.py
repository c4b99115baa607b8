"""The stateless function that the engine maps over shards: read frames, run models, return predictions.

Frames are decoded ahead while a model runs, once for all models of the run. If a model can decode on its own device,
the device decodes a fixed share of its batches, and the decoder decodes the rest. The two work in parallel, and each
frame always takes the same path. A few threads each read the files of one batch and let the device decode them. They
pass the results to the threads that run the model, one per lane. All shards share these threads.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

from strobe.core.errors import StrobeError, out_of_memory, printable
from strobe.core.ports import EncodedClassifier, FrameSource
from strobe.predict.decoding import DecodeOptions, Decoder, PreparationFailed
from strobe.predict.forward import Runner
from strobe.predict.work import Shard, ShardResult, Work, result_of, wanted, work_of

__all__ = ["Interrupted", "ShardWorker"]

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
        decode: DecodeOptions,
        frame_names: Sequence[str],
        as_input: Collection[int] = (),
        tick: Callable[[int], None] | None = None,
    ) -> None:
        self._runners = {runner.name: runner for runner in runners}
        self._source, self._decode, self._names = source, decode, frame_names
        self._as_input = frozenset(as_input)
        self._tick = tick or (lambda done: None)  # noqa: ARG005 (without progress)
        self._decoder = Decoder(runners, source, decode, frame_names, self._as_input)
        self._device = ThreadPoolExecutor(decode.device_lanes, thread_name_prefix="device")
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
        if not self._decode.device_share[0] or not isinstance(model, EncodedClassifier):
            return None
        on_device = [batch.tolist() for place, batch in enumerate(task.batches) if self._decode.on_device(place)]
        task.batches = [batch for place, batch in enumerate(task.batches) if not self._decode.on_device(place)]
        return self._readers.submit(self._feed_device, task, on_device)

    def _feed_device(self, task: Work, batches: list[list[int]]) -> "list[_Decoding]":
        """Pass batches to the decoding threads, a few ahead of the model. Return the batches that are still running.

        The function does not wait for its last batches, so that the next shard's files can be read in the meantime.
        """
        under_way: deque[_Decoding] = deque()
        for rows in batches:
            if task.failure is not None or self._closed:
                break
            under_way.append(self._device.submit(self._decode_batch, task, rows))
            if len(under_way) > self._decode.device_lanes + task.runner.model.lanes:
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
