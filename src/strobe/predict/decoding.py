"""Decode frames ahead of the models, in threads or in processes. For each process, a thread waits for the results."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from strobe.core.errors import StrobeError, printable
from strobe.core.ports import DeviceModel, DeviceSource, FrameSource, SendableSource
from strobe.predict.decode_pool import DecodePool
from strobe.predict.forward import Runner
from strobe.predict.work import Work

__all__ = ["DecodeOptions", "Decoder", "PreparationFailed"]

Prepared = list[tuple[int, list[Any]]]
"""Rows. Each has the models that requested it, and the prepared input or the error of each model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How frames are decoded.

    `chunk` is the number of frames per task, `ahead` is the number of tasks decoded ahead, and `device_share` (m,
    n) means that the device decodes m of n batches.

    `device_lanes` is the number of threads that pass batches to the device for decoding; other threads run the model.

    If `processes` is above 0, that many processes decode instead of threads, provided that the source and the models
    allow it. The pixels are the same.
    """

    threads: int = 2
    processes: int = 0
    chunk: int = 4
    ahead: int = 12
    device_share: tuple[int, int] = (0, 1)
    device_lanes: int = 3

    def on_device(self, batch: int) -> bool:
        """Return whether the device decodes this batch of a shard.

        The choice is deterministic, and the device's batches are spread evenly.

        >>> [DecodeOptions(device_share=(2, 3)).on_device(batch) for batch in range(6)]
        [False, True, True, False, True, True]
        """
        some, whole = self.device_share
        return ((batch + 1) * some) // whole > (batch * some) // whole


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
        decode: DecodeOptions,
        frame_names: Sequence[str],
        as_input: frozenset[int] = frozenset(),
    ) -> None:
        self._source, self._decode, self._names, self._as_input = source, decode, frame_names, as_input
        self._elsewhere = _decode_pool(runners, source, decode)
        n_threads = decode.threads if self._elsewhere is None else decode.processes
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
            step = self._decode.chunk
            chunks = (rows[start : start + step] for start in range(0, len(rows), step))
        pending: deque[Future[Prepared]] = deque()
        try:
            while True:
                for chunk in islice(chunks, self._decode.ahead - len(pending)):
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
        found: dict[int, list[Any]] = {row: [] for row in rows}
        for some, frames in source.batches(rows):
            if frames is None:
                found |= dict(self._read_here(some, requested))
                continue
            for one in {id(one): one for row in some for one in requested[row] if one.failure is None}.values():
                places = [n for n, row in enumerate(some) if any(one is other for other in requested[row])]
                values = self._prepared_there(one, frames if len(places) == len(some) else frames[places])
                for n, value in zip(places, values, strict=True):
                    found[some[n]].append((one, value))
        return [(row, found[row]) for row in rows]

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

    def _read_elsewhere(self, pool: DecodePool, rows: list[int], requested: Mapping[int, list[Work]]) -> Prepared:
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


def _decode_pool(runners: Sequence[Runner], source: FrameSource, decode: DecodeOptions) -> DecodePool | None:
    """Return the decoding processes if they are requested, and if the source and the models can be sent to them."""
    plans = {runner.name: plan for runner in runners if (plan := runner.model.preparation) is not None}
    if not decode.processes or len(plans) < len(runners) or not isinstance(source, SendableSource):
        return None
    return DecodePool(source, plans, processes=decode.processes, chunk=decode.chunk)
