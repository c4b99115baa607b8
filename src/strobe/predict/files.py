"""Stored files read ahead by a process, whole batches at a time, for a model whose device decodes them.

Reading is little work, but every file is four turns at the interpreter's lock, and a GPU takes ten thousand files a
second: that alone keeps the threads waiting that decode and run the model.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
    """Reads files here until a process is up that does, where there may be one. Called from one thread at a time."""

    def __init__(self, source: FrameSource, *, elsewhere: bool, at_once: int) -> None:
        self._source = source
        self._pool: DecodePool | None = None
        if elsewhere and isinstance(source, SendableSource):
            self._pool = DecodePool(FileSource(source), {_NAME: Whole()}, processes=1, chunk=at_once)
        self._start = ThreadPoolExecutor(1, thread_name_prefix="read-start")
        self._started: Future[Any] | None = None

    def close(self) -> None:
        """End the process."""
        self._start.shutdown(wait=False, cancel_futures=True)
        if self._pool is not None:
            self._pool.close()

    def read(self, rows: Sequence[int]) -> list[Encoded | StrobeError | None]:
        """The content of each row's file, None where it has none, or why it cannot be read."""
        if self._pool is not None and len(rows):
            if self._started is None:
                self._started = self._start.submit(self._pool.read, rows[:1], [[_NAME]])
            if self._started.done():
                try:
                    return [_content(found) for found in self._pool.read(rows, [[_NAME]] * len(rows))]
                except StrobeError:  # no process can be had: it is read here
                    self._pool.close()
                    self._pool = None
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
