"""Scores that do not fit in memory, in a temporary file that is read a few rows at a time."""

import os
import tempfile
import weakref
from typing import IO

import numpy as np
from numpy.typing import NDArray

from strobe.core.scratch import making_room

__all__ = ["ScoreFile", "scores_of"]

MOST = 2**29
"""The largest number of bytes of scores in memory. Larger arrays go into a file."""

Matrix = NDArray[np.float32]


class ScoreFile:
    """A matrix (N, C) of float32 in a temporary file.

    Values that were not written are NaN. The system removes the file on exit.
    """

    def __init__(self, n: int, width: int) -> None:
        self.shape = (n, width)
        with making_room():
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="strobe-scores-")  # noqa: SIM115  # open until this object is deleted
            weakref.finalize(self, self._file.close)
            self._file.truncate(n * width * 4)
        self._written = np.zeros(n, dtype=bool)

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, rows: NDArray[np.int64], values: Matrix) -> None:
        width = self.shape[1]
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) != 1) + 1):
            if len(part):
                block = np.ascontiguousarray(values[part[0] : part[-1] + 1], dtype=np.float32)
                self._put(memoryview(block.tobytes()), int(rows[part[0]]) * width * 4)
        self._written[rows] = True

    def _put(self, left: memoryview, at: int) -> None:
        with making_room():
            while left:  # on a full disk, only a part is written, and the next call raises
                n = os.pwrite(self._file.fileno(), left, at)
                left, at = left[n:], at + n

    def __getitem__(self, rows: NDArray[np.int64], /) -> Matrix:
        width, requested = self.shape[1], np.asarray(rows)
        distinct, place = np.unique(np.where(requested < 0, requested + len(self), requested), return_inverse=True)
        out = np.empty((len(distinct), width), dtype=np.float32)
        for part in np.split(np.arange(len(distinct)), np.flatnonzero(np.diff(distinct) > 64) + 1):
            if len(part):
                first, last = int(distinct[part[0]]), int(distinct[part[-1]])
                raw = os.pread(self._file.fileno(), (last - first + 1) * width * 4, first * width * 4)
                out[part] = np.frombuffer(raw, dtype=np.float32).reshape(-1, width)[distinct[part] - first]
        out[~self._written[distinct]] = np.nan
        return out[place.reshape(requested.shape)]


def scores_of(n: int, width: int) -> Matrix | ScoreFile:
    """Return scores (N, C), filled with NaN, in memory or, if they would need too much memory, in a file."""
    return ScoreFile(n, width) if n * width * 4 > MOST else np.full((n, width), np.nan, dtype=np.float32)
