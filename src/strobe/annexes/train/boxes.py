"""Train a detector that takes images and boxes and returns a dict of losses, as torchvision's detectors do."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.train.draws import Schedule
from strobe.train.optimising import Optimisation, parts_of
from strobe.train.processes import Processes
from strobe.train.recipe import Recipe
from strobe.train.sets import TrainingSets
from strobe.train.streaming import FrameReader, read_ahead


class Truth:
    """The objects of every frame of a dataset: corners (N, 4) in pixels of the frame, classes (N,), and the frame's
    size.
    """

    def __init__(self, dataset: Dataset, sizes_hw: Ints) -> None:
        self.sizes_hw = sizes_hw
        boxes = dataset.boxes
        self._corners = np.zeros((0, 4)) if boxes is None else boxes.xyxy[~boxes.crowd.astype(bool)]
        self._label = np.zeros(0, int) if boxes is None else boxes.label[~boxes.crowd.astype(bool)]
        frame = np.zeros(0, int) if boxes is None else boxes.frame[~boxes.crowd.astype(bool)]
        order = np.argsort(frame, kind="stable")
        self._corners, self._label, frame = self._corners[order], self._label[order], frame[order]
        self._first = np.searchsorted(frame, np.arange(len(dataset.frames) + 1))

    def of(self, row: int) -> tuple[NDArray[np.float64], Ints]:
        """Return the objects of a frame, clipped to it. Objects without a remaining pixel are dropped."""
        part = slice(int(self._first[row]), int(self._first[row + 1]))
        height, width = self.sizes_hw[row]
        corners = np.clip(self._corners[part], 0, [width, height, width, height])
        seen = (corners[:, 2:] - corners[:, :2] >= 1).all(axis=1)
        return corners[seen], self._label[part][seen]


class BoxTrainer(Optimisation):
    """A detector in training. `frames` returns each frame at its own size.

    `first_label` is the number of the first class: 1 if 0 is the background.
    """

    def __init__(
        self,
        module: Any,
        recipe: Recipe,
        sets: TrainingSets,
        frames: FrameReader,
        truth: Truth,
        *,
        first_label: int,
        device: str,
        seed: int,
        processes: Processes,
    ) -> None:
        self.schedule = Schedule(sets, recipe, seed=seed, side_hw=(0, 0))
        super().__init__(module, recipe, self.schedule, device=device, seed=seed, processes=processes)
        self._sets, self._frames, self._truth = sets, frames, truth
        self._first_label = first_label

    def backward(self, number: int) -> Tensor:
        """Compute gradients, and return the loss of this process's part of the batch."""
        read_ahead(self._frames, self._sets, self.schedule, number, self.processes)
        draw = self.schedule.draw(number)
        own, batch_size = draw.part(self.processes.mine(len(draw.rows))), len(draw.rows)
        total = torch.zeros((), device=self.device)
        for part in parts_of(len(own.rows), self.recipe.accumulate):
            some = own.part(part)
            images, targets = self._sample(some.rows, some.crops)
            loss = sum(self.module(images, targets).values()) * len(images) / batch_size
            loss.backward()
            total += loss.detach()
        return total

    def _sample(self, rows: Ints, crops: Ints) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
        images, targets = [], []
        taken = self._frames.images(self._sets.pixel[rows], crops)
        for image, row, mirrored in zip(taken, rows, crops[:, 2] > 0, strict=True):
            corners, label = self._truth.of(int(self._sets.frame[row]))
            width = image.shape[1]
            if mirrored:
                corners = corners[:, [2, 1, 0, 3]] * [-1, 1, -1, 1] + [width, 0, width, 0]
            images.append((image.permute(2, 0, 1).float() / 255).contiguous())
            boxes = torch.from_numpy(corners.astype(np.float32)).to(self.device)
            labels = torch.from_numpy(label.astype(np.int64) + self._first_label).to(self.device)
            targets.append({"boxes": boxes, "labels": labels})
        return images, targets
