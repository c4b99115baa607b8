"""Stored files read by processes, whole batches at a time, for a model whose device decodes them.

Reading is little work, but every file is four turns at the interpreter's lock, and a GPU takes ten thousand files a
second: that alone keeps the threads waiting that decode and run the model.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import StrobeError
from strobe.core.ports import FrameSource, SendableSource
from strobe.predict.decode_pool import DecodePool

__all__ = ["FileReader", "FileSource", "Whole"]

Encoded = bytes | NDArray[np.uint8]
"""A file's content: bytes, or an array over memory that a process wrote it to."""

_NAME = "file"


@dataclass(frozen=True, slots=True)
class Whole:
    """The preparation of files: none."""

    n_bytes: int = 1 << 19
    """Larger ones come through the socket."""

    def prepare(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The content as it is."""
        return image

    def prepare_input(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The same."""
        return image


@dataclass(frozen=True, slots=True)
class FileSource:
    """A source whose frames are not decoded: the bytes of their files, (N,); none where a frame is no file."""

    inner: Any

    def only(self, rows: Sequence[int]) -> "FileSource":
        """A source of these rows alone."""
        return FileSource(self.inner.only(rows))

    def read(self, row: int) -> NDArray[np.uint8]:
        """The file's bytes."""
        return np.frombuffer(self.inner.read_encoded(row) or b"", dtype=np.uint8)

    def read_encoded(self, row: int) -> bytes | None:
        """The same."""
        content: bytes | None = self.inner.read_encoded(row)
        return content


class FileReader:
    """Reads files here until processes are up that do, where there may be some; one for each thread that asks."""

    def __init__(self, source: FrameSource, *, processes: int, at_once: int) -> None:
        self._source, self._processes = source, processes
        self._pool: DecodePool | None = None
        if processes and isinstance(source, SendableSource):
            self._pool = DecodePool(FileSource(source), {_NAME: Whole()}, processes=processes, chunk=at_once)
        self._starting = ThreadPoolExecutor(max(1, processes), thread_name_prefix="read-start")
        self._started: list[Future[Any]] = []
        self._guard, self._turn = threading.Lock(), threading.Lock()

    def close(self) -> None:
        """End the processes."""
        self._starting.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.close()

    def read(self, rows: Sequence[int]) -> list[Encoded | StrobeError | None]:
        """The content of each row's file, None where it has none, or why it cannot be read."""
        pool = self._pool
        if pool is not None and len(rows):
            with self._guard:
                if not self._started:  # as many first readings at once as there are processes: each takes one
                    first = [self._starting.submit(pool.read, rows[:1], [[_NAME]]) for _ in range(self._processes)]
                    self._started = first
            if all(one.done() for one in self._started):
                try:
                    return [_content(found) for found in pool.read(rows, [[_NAME]] * len(rows))]
                except StrobeError:  # no process can be had: files are read here
                    self._pool = None
                    pool.close()
                except CancelledError:  # it was closed: by who gave up the processes, or with all the work
                    if self._pool is pool:
                        raise
        with self._turn:  # one thread that reads is faster than several that take turns at every file
            return [self._here(row) for row in rows]

    def _here(self, row: int) -> Encoded | StrobeError | None:
        try:
            return self._source.read_encoded(row)
        except StrobeError as error:
            return error


def _content(found: StrobeError | list[Any]) -> Encoded | StrobeError | None:
    """What the process found of a file; what it did not expect is left to who decodes it."""
    if isinstance(found, StrobeError):
        return found
    content = found[0]
    return content if isinstance(content, np.ndarray) and content.size else None
