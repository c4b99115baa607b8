"""Frames that are read as the steps need them: threads read the frames of the next step during the current one."""

import os
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
from torch import Tensor

from strobe.core.arrays import Ints
from strobe.core.ports import Image
from strobe.train.draws import BatchDraw, Schedule
from strobe.train.pixels import SEED, cropped, to_device
from strobe.train.processes import Processes
from strobe.train.sets import TrainingSets

AHEAD_BYTES = 512 * 2**20
"""The memory limit for frames that are read before a step requests them."""

NO_SEED = -1
"""The crop seed of a frame that is prepared as for an evaluation."""

Wanted = tuple[Ints, Ints | None]
"""Places of frames, and their crops (see Pixels.take)."""


class FrameStream:
    """Frames by place, read by threads ahead of their use. Only one thread may call it.

    `read(place, seed)` returns a frame, which takes `n_bytes(place)`. The seed is that of its random resized crop.
    """

    streams = True

    def __init__(
        self, read: Callable[[int, int], Image], n_bytes: Callable[[int], int], *, most_bytes: int = AHEAD_BYTES
    ) -> None:
        self._read, self._n_bytes, self._most_bytes = read, n_bytes, most_bytes
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1)
        # Without this, the interpreter would read all expected frames before it ends.
        weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        self._expected: dict[tuple[int, int], Future[Image]] = {}
        self._held = 0

    def expect(self, *steps: Wanted) -> None:
        """Start to read the frames of these steps, in order, while they fit into memory. All other frames are freed."""
        wanted = dict.fromkeys(key for places, crops in steps for key in _keys(places, crops))
        for key in [key for key in self._expected if key not in wanted]:
            self._expected.pop(key).cancel()
            self._held -= self._n_bytes(key[0])
        for key in wanted:
            if key not in self._expected:
                size = self._n_bytes(key[0])
                if self._held + size > self._most_bytes:
                    return
                self._expected[key] = self._pool.submit(self._read, *key)
                self._held += size

    def images(self, places: Ints, crops: Ints | None = None) -> list[Image]:
        """Return these frames. Of `crops`, only the seeds are applied."""
        keys = _keys(places, crops)
        found = {key: self._expected.get(key) or self._pool.submit(self._read, *key) for key in dict.fromkeys(keys)}
        return [found[key].result() for key in keys]


def _keys(places: Ints, crops: Ints | None) -> list[tuple[int, int]]:
    has_seeds = crops is not None and crops.shape[1] > SEED
    seeds = crops[:, SEED].tolist() if crops is not None and has_seeds else [NO_SEED] * len(places)
    return list(zip(places.tolist(), seeds, strict=True))


class StreamedPixels:
    """Prepared frames of one size, read as they are needed. It is used like Pixels."""

    streams = True

    def __init__(self, stream: FrameStream, count: int, side_hw: tuple[int, int], *, device: str) -> None:
        self.device, self.side_hw = device, side_hw
        self._stream, self._count = stream, count

    def __len__(self) -> int:
        return self._count

    def expect(self, *steps: Wanted) -> None:
        """Start to read the frames of these steps."""
        self._stream.expect(*steps)

    def take(self, rows: Ints, crops: Ints | None = None) -> Tensor:
        """Return these frames (N, 3, H, W), as Pixels.take does."""
        images = self._stream.images(rows, crops)
        pixels = np.stack(images) if crops is None else cropped(images, crops, self.side_hw)
        return to_device(pixels, self.device).permute(0, 3, 1, 2)


class Expecting(Protocol):
    """Frames that can be read ahead, or that are all there."""

    @property
    def streams(self) -> bool:
        """Whether frames are read as they are needed."""

    def expect(self, *steps: Wanted) -> None:
        """Start to read the frames of these steps."""


def read_ahead(frames: Expecting, sets: TrainingSets, schedule: Schedule, number: int, processes: Processes) -> None:
    """Start to read this process's frames of a step and of the next one."""
    if not frames.streams:
        return
    steps = []
    for step in range(number, min(number + 2, schedule.steps)):
        draw = schedule.draw(step)
        steps.append(_frames_of(draw.part(processes.mine(len(draw.rows))), sets))
    frames.expect(*steps)


def _frames_of(draw: BatchDraw, sets: TrainingSets) -> Wanted:
    if draw.member is None:
        return sets.pixel[draw.rows], draw.crops
    there = draw.member >= 0
    return sets.pixel[draw.member[there]], draw.crops[np.nonzero(there)[0]]


def parts_ahead(frames: Expecting, places: Ints, size: int) -> Iterator[tuple[int, Ints]]:
    """Yield the places in parts of this size, each with its start, and read the next part meanwhile."""
    for start in range(0, len(places), size):
        end = start + size
        if frames.streams:
            frames.expect((places[start:end], None), (places[end : end + size], None))
        yield start, places[start:end]
