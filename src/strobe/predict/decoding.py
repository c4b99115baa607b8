"""Decode frames ahead of the models, on threads, or on processes that each have a thread waiting for them."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, SendableSource
from strobe.predict.decode_pool import DecodePool
from strobe.predict.forward import Runner
from strobe.predict.work import Work

__all__ = ["DecodeOptions", "Decoder", "PreparationFailed"]

Prepared = list[tuple[int, list[Any]]]
"""Rows, and for each the models that requested it with their prepared input, or why it could not be prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How frames are decoded: threads, frames per task, tasks ahead, and the device's share of batches (m of n).

    `device_lanes` threads each have the device decode a batch, for the threads that run the model.

    `processes` above 0 decodes on that many processes instead of threads, if source and models allow it. The pixels are
    the same.
    """

    threads: int = 2
    processes: int = 0
    chunk: int = 4
    ahead: int = 12
    device_share: tuple[int, int] = (0, 1)
    device_lanes: int = 3

    def on_device(self, batch: int) -> bool:
        """Return whether the device decodes this batch of a shard. The choice is evenly spread and deterministic.

        >>> [DecodeOptions(device_share=(2, 3)).on_device(batch) for batch in range(6)]
        [False, True, True, False, True, True]
        """
        some, whole = self.device_share
        return ((batch + 1) * some) // whole > (batch * some) // whole


@dataclass(frozen=True, slots=True)
class PreparationFailed:
    """A model's own exception, carried from the decoding thread to where it is reported."""

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
        """Yield every row with its prepared inputs, in order, a bounded number of tasks ahead."""
        chunks = [rows[start : start + self._decode.chunk] for start in range(0, len(rows), self._decode.chunk)]
        pending: deque[Future[Prepared]] = deque()
        place = 0
        try:
            while place < len(chunks) or pending:
                while place < len(chunks) and len(pending) < self._decode.ahead:
                    pending.append(self._pool.submit(self.read, chunks[place], wanted))
                    place += 1
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def read(self, rows: list[int], wanted: Mapping[int, list[Work]]) -> Prepared:
        """Return these rows, prepared for the models that request each."""
        if self._elsewhere is not None:
            return self._read_elsewhere(self._elsewhere, rows, wanted)
        out: Prepared = []
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
                    model = one.runner.model
                    prepare = model.prepare_input if row in self._as_input else model.prepare
                    prepared.append((one, prepare(image)))  # type: ignore[arg-type]  # read where a model is
                except Exception as error:
                    prepared.append((one, PreparationFailed(error)))
            out.append((row, prepared))
        return out

    def _read_elsewhere(self, pool: DecodePool, rows: list[int], wanted: Mapping[int, list[Work]]) -> Prepared:
        models = [[one for one in wanted[row] if one.failure is None] for row in rows]
        try:
            found = pool.read(rows, [[one.runner.name for one in some] for some in models], self._as_input)
        except StrobeError as error:
            failed = PreparationFailed(
                StrobeError(f"{error}; it was at {printable(self._names[rows[0]])} or soon after")
            )
            return [(row, [(one, failed) for one in some]) for row, some in zip(rows, models, strict=True)]
        out: Prepared = []
        for row, some, values in zip(rows, models, found, strict=True):
            if isinstance(values, StrobeError):
                out.append((row, [(one, values) for one in some]))
                continue
            kept = [PreparationFailed(value) if isinstance(value, Exception) else value for value in values]
            out.append((row, list(zip(some, kept, strict=True))))
        return out


def _decode_pool(runners: Sequence[Runner], source: FrameSource, decode: DecodeOptions) -> DecodePool | None:
    """Return the decoding processes, if requested and if source and models can be sent to them."""
    plans = {runner.name: plan for runner in runners if (plan := runner.model.preparation) is not None}
    if not decode.processes or len(plans) < len(runners) or not isinstance(source, SendableSource):
        return None
    return DecodePool(source, plans, processes=decode.processes, chunk=decode.chunk)
