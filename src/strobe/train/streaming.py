"""Frames that are read as the steps need them: the frames of the next steps are read during the current one."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from strobe.core.arrays import Ints
from strobe.train.draws import BatchDraw, Schedule
from strobe.train.processes import Processes
from strobe.train.sets import TrainingSets

AHEAD = 4
"""The number of steps whose frames are read during the current one, if memory suffices."""

Wanted = tuple[Ints, Ints | None]
"""Places of frames, and their crops (see Pixels.take)."""


class Expecting(Protocol):
    """Frames that can be read ahead, or that are all there."""

    @property
    def streams(self) -> bool:
        """Whether frames are read as they are needed."""

    def expect(self, *steps: Wanted) -> None:
        """Start to read the frames of these steps, in order, while they fit into memory. All other frames are freed."""


class FrameReader(Expecting, Protocol):
    """Frames of any size that can be read ahead, or that are all there."""

    def images(self, places: Ints, crops: Ints | None = None) -> list[Tensor]:
        """Return these frames (height, width, 3), cropped, on the device of the training."""


class StreamedPixels:
    """Prepared frames of one size, read as they are needed. It is used like Pixels."""

    streams = True

    def __init__(self, reader: FrameReader, count: int, side_hw: tuple[int, int], *, device: str) -> None:
        self.device, self.side_hw = device, side_hw
        self._reader, self._count = reader, count

    def __len__(self) -> int:
        return self._count

    def expect(self, *steps: Wanted) -> None:
        """Start to read the frames of these steps."""
        self._reader.expect(*steps)

    def take(self, rows: Ints, crops: Ints | None = None) -> Tensor:
        """Return these frames (N, 3, H, W), as Pixels.take does."""
        return torch.stack(self._reader.images(rows, crops)).permute(0, 3, 1, 2)


def read_ahead(frames: Expecting, sets: TrainingSets, schedule: Schedule, number: int, processes: Processes) -> None:
    """Start to read this process's frames of a step and of the next ones."""
    if not frames.streams:
        return
    steps = []
    for step in range(number, min(number + AHEAD + 1, schedule.steps)):
        draw = schedule.draw(step)
        steps.append(_frames_of(draw.part(processes.mine(len(draw.rows))), sets))
    frames.expect(*steps)


def _frames_of(draw: BatchDraw, sets: TrainingSets) -> Wanted:
    if draw.member is None:
        return sets.pixel[draw.rows], draw.crops
    there = draw.member >= 0
    return sets.pixel[draw.member[there]], draw.crops[np.nonzero(there)[0]]


def parts_ahead(frames: Expecting, places: Ints, size: int) -> Iterator[tuple[int, Ints]]:
    """Yield the places in parts of this size, each with its start, and read the next parts meanwhile."""
    for start in range(0, len(places), size):
        if frames.streams:
            last = start + (AHEAD + 1) * size
            frames.expect(*((places[first : first + size], None) for first in range(start, last, size)))
        yield start, places[start : start + size]
