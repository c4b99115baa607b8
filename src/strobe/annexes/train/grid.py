"""Train a grid detector, whose cells predict the objects at their position.

This module has the cell targets, the loss and the step. The network is passed in. GridNet defines its interface.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from strobe.core.errors import expect
from strobe.core.records import Box
from strobe.train.optimising import Optimisation
from strobe.train.recipe import Recipe
from strobe.train.streaming import AHEAD, StreamedPixels

BACKGROUND, IGNORED = -1, -2
_REACH = 1.5
"""A cell is assigned to an object if the cell is inside the object's box and within this many cells of its centre."""


class GridNet(Protocol):
    """A torch module over a grid of cells, `stride` pixels apart."""

    stride: int

    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (N, classes, S, S) and distances (N, 4, S, S)."""

    def to_input(self, pixels: Tensor) -> Tensor:
        """Convert 8-bit images (N, H, W, 3) to the network's input."""

    def decode(self, distances: Tensor) -> Tensor:
        """Convert distances to corners (N, S · S, 4) in pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Square images (N, H, H, 3) and the cell targets: class (N, S, S) and corners (N, S, S, 4)."""

    images: NDArray[np.uint8]
    classes: NDArray[np.int64]
    corners: NDArray[np.float32]

    @classmethod
    def of(cls, images: NDArray[np.uint8], boxes: Sequence[Sequence[Box]], *, stride: int) -> "Samples":
        """Build from images and their boxes in pixels. Crowd boxes are neither object nor background."""
        side = images.shape[1]
        expect(images.shape[1:] == (side, side, 3) and side % stride == 0, "images", "(N, H, H, 3)", images.shape)
        expect(len(images) == len(boxes), "boxes", f"one list per image ({len(images)})", len(boxes))
        pairs = [targets(box, side=side // stride, stride=stride) for box in boxes]
        return cls(images, np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs]))

    def __len__(self) -> int:
        return len(self.images)

    def expect(self, *steps: NDArray[np.int64]) -> None:
        """Do nothing, because all samples are there."""

    def of_rows(self, rows: NDArray[np.int64]) -> "Samples":
        """Return a copy of these samples."""
        return Samples(self.images[rows], self.classes[rows], self.corners[rows])


class StreamedSamples:
    """Samples whose images are read as they are needed, and whose targets are computed then."""

    def __init__(self, frames: StreamedPixels, boxes: Callable[[int], Sequence[Box]], *, stride: int) -> None:
        self._frames, self._boxes, self._stride = frames, boxes, stride

    def __len__(self) -> int:
        return len(self._frames)

    def expect(self, *steps: NDArray[np.int64]) -> None:
        """Start to read the samples of these steps."""
        self._frames.expect(*((rows, None) for rows in steps))

    def of_rows(self, rows: NDArray[np.int64]) -> Samples:
        """Return these samples."""
        images = self._frames.take(rows).permute(0, 2, 3, 1).cpu().numpy()
        return Samples.of(images, [self._boxes(row) for row in rows.tolist()], stride=self._stride)


def targets(boxes: Sequence[Box], *, side: int, stride: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the targets of `side` × `side` cells: class (−1 nothing, −2 ignored) and the object's corners.

    Where objects overlap, a cell is assigned to the smallest.
    """
    steps, reach = (np.arange(side) + 0.5) * stride, _REACH * stride
    x, y = np.meshgrid(steps, steps)
    classes = np.full((side, side), BACKGROUND, dtype=np.int64)
    corners = np.zeros((side, side, 4), dtype=np.float32)

    def area(box: Box) -> float:
        return (box.xyxy[2] - box.xyxy[0]) * (box.xyxy[3] - box.xyxy[1])

    for box in sorted(boxes, key=lambda one: (not one.crowd, -area(one))):
        x0, y0, x1, y1 = box.xyxy
        inside = (x > x0) & (x < x1) & (y > y0) & (y < y1)
        if box.crowd:
            classes[inside] = IGNORED
            continue
        near = inside & (np.abs(x - (x0 + x1) / 2) <= reach) & (np.abs(y - (y0 + y1) / 2) <= reach)
        classes[near] = box.label
        corners[near] = box.xyxy
    return classes, corners


class GridTrainer(Optimisation):
    """A grid network in training.

    The seed determines all random draws and their order, and a resumed training repeats them.

    With one thread, the same recipe, seed and samples give bit-identical weights on one machine.
    """

    def __init__(
        self, module: GridNet, recipe: Recipe, samples: Samples | StreamedSamples, *, seed: int, device: str
    ) -> None:
        self.samples, self._batch_size = samples, min(recipe.batch, len(samples))
        self._steps_per_epoch = max(1, len(samples) // self._batch_size)
        length = _Length(recipe.steps or recipe.epochs * self._steps_per_epoch, self._steps_per_epoch)
        super().__init__(module, recipe, length, device=device, seed=seed, processes=None)
        self._draws, self._next = self._endless(), 0
        self._recent: tuple[_GridDraw, ...] = ()

    def make_optimiser(self) -> Any:
        """Return an optimiser that decays every parameter. The shipped weights were trained with it."""
        recipe = self.recipe
        return torch.optim.AdamW(self.module.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)

    def rate(self, number: int) -> float:
        """Return the learning rate of a step: a short warm-up, then half a cosine down to a fiftieth."""
        warm_up = max(1, min(100, self.steps // 10))
        falling = 0.51 + 0.49 * float(np.cos(np.pi * number / self.steps))
        return self.recipe.learning_rate * (min(1.0, (number + 1) / warm_up) * falling)

    def backward(self, number: int) -> Tensor:
        """Compute gradients, and return the loss of the step."""
        while self._next <= number + AHEAD:  # a resumed training repeats the same draws
            self._recent = (*self._recent[-AHEAD:], next(self._draws))
            self._next += 1
        draw = self._recent[0]
        self.samples.expect(*(one.rows for one in self._recent))
        batch = _batch(self.module, self.samples.of_rows(draw.rows), draw)
        loss = _loss(self.module, *(one.to(self.device) for one in batch))
        loss.backward()
        return loss.detach()

    def _endless(self) -> "Iterator[_GridDraw]":
        """Yield each step's samples and their augmentation. The order is shuffled, and each sample occurs once per
        epoch.
        """
        rng, size = np.random.default_rng(self.seed), self._batch_size
        order: list[int] = []
        while True:
            rows: list[int] = []
            while len(rows) < size:
                order = order or rng.permutation(len(self.samples)).tolist()[::-1]
                rows.append(order.pop())
            mirrored = rng.uniform(size=size) < 0.5
            gain, lift = rng.uniform(0.8, 1.2, (size, 3, 1, 1)), rng.uniform(-0.15, 0.15, (size, 1, 1, 1))
            yield _GridDraw(np.array(rows), mirrored, gain, lift)


@dataclass(frozen=True, slots=True)
class _Length:
    steps: int
    steps_per_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class _GridDraw:
    """The samples of a step, and their random mirroring, contrast and brightness."""

    rows: NDArray[np.int64]
    mirrored: NDArray[np.bool_]
    gain: NDArray[Any]
    lift: NDArray[Any]


def _batch(network: GridNet, samples: Samples, draw: _GridDraw) -> tuple[Tensor, Tensor, Tensor]:
    """Return a batch of samples, with random mirroring, brightness and contrast."""
    images, classes, corners, mirrored = samples.images, samples.classes, samples.corners, draw.mirrored
    images[mirrored] = images[mirrored, :, ::-1]
    classes[mirrored] = classes[mirrored, :, ::-1]
    flipped, wide = corners[mirrored, :, ::-1], images.shape[2]
    corners[mirrored] = np.stack([wide - flipped[..., 2], flipped[..., 1], wide - flipped[..., 0], flipped[..., 3]], -1)
    pixels = network.to_input(torch.from_numpy(images))
    gain, lift = (torch.from_numpy(values.astype(np.float32)) for values in (draw.gain, draw.lift))
    return (
        (pixels * gain + lift).contiguous(memory_format=torch.channels_last),
        torch.from_numpy(classes).flatten(1),
        torch.from_numpy(corners).flatten(1, 2),
    )


def _loss(network: GridNet, images: Tensor, classes: Tensor, corners: Tensor) -> Tensor:
    """Return the quality focal loss (a cell's score should equal its box's IoU) plus the generalised IoU loss."""
    logits, distances = network(images)
    scores = logits.flatten(2).transpose(1, 2)
    boxes = network.decode(distances)
    owned = classes >= 0
    count = owned.sum().clamp(min=1)
    overlap, general = _iou(boxes[owned], corners[owned])
    target = torch.zeros_like(scores)
    target[owned] = functional.one_hot(classes[owned], scores.shape[-1]).float() * overlap.detach()[:, None]
    probability = scores.sigmoid()
    focal = (probability - target).abs().pow(2) * functional.binary_cross_entropy_with_logits(
        scores, target, reduction="none"
    )
    asked = (classes != IGNORED)[..., None]
    return (focal * asked).sum() / count + 2.0 * (1 - general).sum() / count


def _iou(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the intersection over union of boxes, row by row, and its generalised form."""
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    shared = (high - low).clamp(min=0).prod(dim=1)
    union = (a[:, 2:] - a[:, :2]).prod(dim=1) + (b[:, 2:] - b[:, :2]).prod(dim=1) - shared
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(dim=1)
    overlap = shared / union.clamp(min=1e-6)
    return overlap, overlap - (hull - union) / hull.clamp(min=1e-6)
