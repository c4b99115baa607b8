"""Decode and prepare frames on worker processes, for a model that runs on an accelerator.

Decoding threads compete for the interpreter's lock; on sixteen cores, most of these threads wait. A worker process has
its own interpreter, which loads neither torch nor the caller's script. The worker receives rows and their files, writes
the pixels into shared memory, and reports unreadable frames. The memory of a few tasks at a time is lent to the models,
which read it without a copy. It is reused when nothing refers to its frames any more.

No resources remain after this process ends. The memory is an unnamed file that disappears with its last user. A worker
ends when the other end of its socket is closed, no matter how this process ended. Ctrl-C in a terminal does not reach
the workers.
"""

import math
import mmap
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Image, Preparation, SendableSource

_START = "import sys; sys.path[:] = sys.argv[4:]; from strobe.engine.decode_pool import work; work(*sys.argv[1:4])"
"""The worker's code.

It uses this process's import path, so modules in the working directory cannot replace strobe's.
"""

_LENT = 4
"""The number of finished tasks that may wait for a model while the worker works on the next."""

_NICE = 10
"""The workers' niceness.

They only use spare cores, because everything waits when the process that runs the models is delayed.
"""

_WAY_OUT = "try fewer <<workers>> (1 uses a thread instead)"

_Asked = tuple[int, bool, list[int]]
"""A row, whether it is already a model input, and the indices of the requested preparations."""

_Answer = StrobeError | list[Any]
"""The outcome of a frame: an error if it is unreadable, else the result or exception of each preparation."""

_Found = tuple[int, tuple[int, ...], tuple[Any, ...]] | tuple[None, Image, tuple[Any, ...]] | tuple[str, str]
"""The outcome as a worker sends it: the slot and shape of the pixels, and further results.

Pixels larger than a slot are sent directly. An exception is sent as its name and text.
"""


def can_start_workers() -> bool:
    """Return whether this system supports decoding processes: an executable Python and unnamed memory (Linux)."""
    return hasattr(os, "memfd_create") and bool(sys.executable) and not getattr(sys, "frozen", False)


class DecodePool:
    """Up to `processes` workers, each started when it is first needed. The same number of threads use the pool."""

    def __init__(
        self, source: SendableSource | None, plans: Mapping[str, Preparation], *, processes: int, chunk: int
    ) -> None:
        self._source, self._chunk = source, chunk
        self._plans = list(dict.fromkeys(plans.values()))  # models that need the same prepared pixels share them
        self._place = {name: self._plans.index(plan) for name, plan in plans.items()}
        self._idle: SimpleQueue[_Worker | None] = SimpleQueue()
        for _ in range(processes):
            self._idle.put(None)  # a worker not yet started
        self._started: set[_Worker] = set()
        self._guard, self._closed = threading.Lock(), False

    def read(
        self,
        rows: Sequence[int],
        wanted: Sequence[Sequence[str]],
        as_input: frozenset[int] = frozenset(),
        *,
        source: SendableSource | None = None,
    ) -> list[_Answer]:
        """Return the prepared pixels of each row in order, one array for each model that requests the row.

        Rows in `as_input` are already model inputs and are prepared as such. `source` replaces the pool's own source.

        A worker that dies is replaced once. Raise StrobeError if the replacement dies on the same frames.
        """
        asked = [
            (row, row in as_input, [self._place[name] for name in names])
            for row, names in zip(rows, wanted, strict=True)
        ]
        parts = [asked[start : start + self._chunk] for start in range(0, len(asked), self._chunk)]
        return [answer for part in parts for answer in self._read_chunk(part, source or self._source)]

    def close(self) -> None:
        """End the workers at once. Threads that wait for a worker get a CancelledError."""
        with self._guard:
            self._closed = True
            for worker in self._started:
                worker.process.kill()
            until = time.monotonic() + 1  # a worker that hangs on a dead disk is left to the system
            for worker in self._started:
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(timeout=max(0.0, until - time.monotonic()))
                worker.let_go()
            self._started.clear()

    def _read_chunk(self, asked: list[_Asked], whole: SendableSource | None) -> list[_Answer]:
        if whole is None:
            raise StrobeError("a pool of decoding processes needs a source of frames")
        source, status = whole.only([row for row, _, _ in asked]), ""
        worker = self._idle.get()
        try:
            for _ in range(2):  # retry once in a new worker, because the first may have died for an unrelated reason
                try:
                    if worker is None or worker.process.poll() is not None:  # a worker may have died while idle
                        worker = self._start(instead_of=worker)
                    return worker.ask(source, asked)
                except (EOFError, OSError):
                    status = self._ended(worker)
                    worker = None
        finally:
            self._idle.put(worker)
        raise StrobeError(f"a process that decodes frames died twice ({status}); {_WAY_OUT}")

    def _start(self, *, instead_of: "_Worker | None") -> "_Worker":
        with self._guard:
            if instead_of is not None:
                self._started.discard(instead_of)
            if self._closed:
                raise CancelledError
            try:
                worker = _Worker(self._plans, self._chunk)
            except OSError as error:
                reason = printable(error.strerror)
                raise StrobeError(f"cannot start a process to decode frames ({reason}); {_WAY_OUT}") from error
            self._started.add(worker)
        return worker

    def _ended(self, worker: "_Worker | None") -> str:
        """Return how the worker ended. Raises CancelledError if the pool ended it."""
        with self._guard:
            if self._closed or worker is None:
                raise CancelledError
            self._started.discard(worker)
        return worker.status()


class _Worker:
    """The parent's side of a worker process: the worker's socket, and the memory that the worker writes to."""

    def __init__(self, plans: Sequence[Preparation], chunk: int) -> None:
        self._plans, self._chunk = plans, chunk
        self._area_bytes = sum(plan.n_bytes for plan in plans) * chunk
        n_bytes = self._area_bytes * (1 + _LENT)
        self._free: SimpleQueue[int] = SimpleQueue()
        for area in range(1, 1 + _LENT):
            self._free.put(area)
        self._lent: dict[int, Any] = {}
        memory = os.memfd_create("strobe-decode")
        self._connection, theirs = Pipe()
        try:
            os.ftruncate(memory, n_bytes)
            self._memory: mmap.mmap | None = mmap.mmap(memory, n_bytes)
            self.process = subprocess.Popen(  # noqa: S603 (it runs strobe's own module)
                [sys.executable, "-c", _START, *map(str, (theirs.fileno(), memory, n_bytes, *sys.path))],
                pass_fds=(theirs.fileno(), memory),
                env=os.environ
                | {
                    "OPENBLAS_NUM_THREADS": "1",
                    "OMP_NUM_THREADS": "1",
                },  # otherwise numpy starts a dozen threads in each worker
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal must reach only this process
            )
        finally:
            os.close(memory)
            theirs.close()
        self._setup: Any = (list(plans), chunk)

    def ask(self, source: FrameSource, asked: list[_Asked]) -> list[_Answer]:
        """Return the prepared pixels. Raises EOFError or OSError if the worker is gone."""
        if self._setup is not None:
            self._connection.send(self._setup)
            self._setup = None
        try:
            area = self._free.get_nowait()
        except Empty:
            area = 0  # all other areas are in use, and their users may be waiting for these frames
        self._connection.send((source, asked, area))
        answers = self._connection.recv()
        slots = self._slots(area)
        return [
            StrobeError(answer) if isinstance(answer, str) else self._found(slots, n, answer, lent=area > 0)
            for n, answer in enumerate(answers)
        ]

    def let_go(self) -> None:
        """Free the memory explicitly, because a destructor would swallow a Ctrl-C."""
        self._memory, self._lent = None, {}

    def _slots(self, area: int) -> list[NDArray[np.uint8]]:
        """Return an area's slots. A lent area is returned when the last array that uses it is deleted."""
        if self._memory is None:
            raise EOFError
        pixels = np.frombuffer(self._memory, np.uint8, self._area_bytes, area * self._area_bytes)
        if area:  # this call runs entirely in C, so Ctrl-C cannot interrupt it
            self._lent[area] = weakref.ref(pixels, partial(self._free.put, area))
        return _slots(pixels, self._plans, self._chunk)

    def _found(self, slots: list[NDArray[np.uint8]], n: int, answer: list[_Found], *, lent: bool) -> list[Any]:
        """Return the worker's result for its n-th frame.

        The result is a copy if the memory is not lent, because such memory is reused.
        """
        made: dict[int, Image] = {}
        out: list[Any] = []
        for result in answer:
            if isinstance(result[0], str):
                out.append(_rebuilt(*result))
                continue
            slot, pixels, extras = result
            if slot is not None:
                if slot not in made:
                    seen = slots[slot][n, : math.prod(pixels)].reshape(pixels)
                    made[slot] = seen if lent else seen.copy()
                pixels = made[slot]
            out.append((pixels, *extras) if extras else pixels)
        return out

    def status(self) -> str:
        """Return how the process ended. Its socket is closed."""
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "it hung"
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"{name}: out of memory?" if name == "SIGKILL" else name


# -- in the worker process ---------------------------------------------------------------------------------------


def work(connection: str, memory: str, n_bytes: str) -> None:
    """Run the worker's main loop: answer requests until the other end of the socket is closed."""
    with suppress(EOFError, OSError):
        os.nice(_NICE)
        parent = Connection(int(connection))
        plans, chunk = parent.recv()
        areas = np.frombuffer(mmap.mmap(int(memory), int(n_bytes)), np.uint8).reshape(1 + _LENT, -1)
        while True:
            source, asked, area = parent.recv()
            slots = _slots(areas[area], plans, chunk)
            parent.send([_one(source, one, plans, slots, n) for n, one in enumerate(asked)])
    os._exit(0)


def _one(
    source: FrameSource, asked: _Asked, plans: Sequence[Preparation], slots: list[Any], n: int
) -> str | list[_Found]:
    """Decode one frame and run all preparations.

    Return the error if the frame is unreadable, else the place of each result.
    """
    row, as_input, places = asked
    if not places:
        return []
    try:
        image = source.read(row)
    except StrobeError as error:
        return str(error)
    except Exception as error:
        return [(type(error).__name__, str(error))] * len(places)
    results: dict[int, _Found] = {}
    unchanged_slot: int | None = None  # the slot with the unprepared frame, if a model requested it
    for place in dict.fromkeys(places):
        try:
            plan = plans[place]
            made = plan.prepare_input(image) if as_input else plan.prepare(image)
            pixels, *extras = made if isinstance(made, tuple) else (made,)
            if pixels is image and unchanged_slot is not None:
                results[place] = (unchanged_slot, pixels.shape, tuple(extras))
            elif pixels.size > slots[place].shape[1]:  # larger than a slot, so it is sent through the socket
                results[place] = (None, pixels, tuple(extras))
            else:
                slots[place][n, : pixels.size].reshape(pixels.shape)[...] = pixels
                results[place] = (place, pixels.shape, tuple(extras))
                unchanged_slot = place if pixels is image else unchanged_slot
        except Exception as error:
            results[place] = (type(error).__name__, str(error))
    return [results[place] for place in places]


# -- on both sides -----------------------------------------------------------------------------------------------


def _slots(area: NDArray[np.uint8], plans: Sequence[Preparation], chunk: int) -> list[NDArray[np.uint8]]:
    """Return an area of the shared memory as arrays (chunk, bytes), one for each preparation."""
    start, out = 0, []
    for plan in plans:
        out.append(area[start : start + chunk * plan.n_bytes].reshape(chunk, plan.n_bytes))
        start += chunk * plan.n_bytes
    return out


def _rebuilt(name: str, text: str) -> Exception:
    """Rebuild a worker's exception from its name and text, because not every exception can be pickled.

    >>> _rebuilt("ValueError", "no such size")
    ValueError('no such size')
    """
    error: Exception = type(name, (Exception,), {})(text)
    return error
