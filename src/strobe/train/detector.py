"""Training a detector whose cells answer for what lies in them: targets for every cell, the loss, and the loop.

The network is handed in; what is asked of it is written down as GridNet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from strobe.core.errors import expect
from strobe.core.ports import Progress, Silent
from strobe.core.records import Box

__all__ = ["GridNet", "Samples", "TrainOptions", "targets", "train"]

BACKGROUND, IGNORED = -1, -2
_REACH = 1.5
"""Cells this near to the middle of an object, in cells, and inside it, answer for it."""


class GridNet(Protocol):
    """A torch module over a grid of cells, `stride` pixels apart."""

    stride: int

    def __call__(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, classes, S, S) and distances (N, 4, S, S)."""

    def to_input(self, pixels: Tensor) -> Tensor:
        """Images (N, H, W, 3) of 8 bits as the network wants them."""

    def decode(self, distances: Tensor) -> Tensor:
        """Distances as corners (N, S · S, 4) in pixels."""


Net = TypeVar("Net", bound=GridNet)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How to train. With one thread the same options and samples give the same weights, bit for bit, on one machine."""

    steps: int = 1400
    batch: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        expect(self.steps >= 1, "steps", ">= 1", self.steps)
        expect(2 <= self.batch <= 4096, "batch", "2 to 4096", self.batch)
        expect(0 < self.learning_rate < 1, "learning rate", "in (0, 1)", self.learning_rate)
        expect(self.seed >= 0, "seed", ">= 0", self.seed)
        expect(self.threads >= 1, "threads", ">= 1", self.threads)


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Square images (N, H, H, 3) and, for every cell, what it should say: class (N, S, S) and corners (N, S, S, 4)."""

    images: NDArray[np.uint8]
    classes: NDArray[np.int64]
    corners: NDArray[np.float32]

    @classmethod
    def of(cls, images: NDArray[np.uint8], boxes: Sequence[Sequence[Box]], *, stride: int) -> "Samples":
        """From images and their boxes in pixels; crowd boxes are neither object nor background."""
        side = images.shape[1]
        expect(images.shape[1:] == (side, side, 3) and side % stride == 0, "images", "(N, H, H, 3)", images.shape)
        expect(len(images) == len(boxes), "boxes", f"one list per image ({len(images)})", len(boxes))
        pairs = [targets(one, side=side // stride, stride=stride) for one in boxes]
        return cls(images, np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs]))

    def __len__(self) -> int:
        return len(self.images)


def targets(boxes: Sequence[Box], *, side: int, stride: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """What each of `side` × `side` cells should say: its class (−1 nothing, −2 not asked) and its object's corners.

    Where objects overlap, a cell answers for the smallest.
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


def train(make: Callable[[], Net], samples: Samples, options: TrainOptions, *, progress: Progress | None = None) -> Net:
    """The network that `make` gives, trained; its random weights are drawn from the options' seed."""
    before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        return _train(make, samples, options, progress or Silent())
    finally:
        torch.set_num_threads(before)


def _train(make: Callable[[], Net], samples: Samples, options: TrainOptions, progress: Progress) -> Net:
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    network = make()
    module: Any = network  # torch is untyped here
    module.to(memory_format=torch.channels_last)
    optimiser = torch.optim.AdamW(module.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
    warm_up = max(1, min(100, options.steps // 10))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min(1.0, (step + 1) / warm_up) * (0.51 + 0.49 * float(np.cos(np.pi * step / options.steps))),
    )
    module.train()
    order = _endless(len(samples), rng)
    with progress.task("steps", options.steps) as advance:
        for _ in range(options.steps):
            rows = np.array([next(order) for _ in range(options.batch)])
            loss = _loss(network, *_batch(network, samples, rows, rng))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 5.0)
            optimiser.step()
            schedule.step()
            advance(1)
    module.eval()
    return network


def _endless(count: int, rng: np.random.Generator) -> Any:
    """Places in shuffled order, every one once per round."""
    while True:
        yield from rng.permutation(count).tolist()


def _batch(
    network: GridNet, samples: Samples, rows: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Some samples, half of them mirrored, brightness and contrast a little changed."""
    images, classes, corners = samples.images[rows], samples.classes[rows], samples.corners[rows].copy()
    mirrored = rng.uniform(size=len(rows)) < 0.5
    images[mirrored] = images[mirrored, :, ::-1]
    classes[mirrored] = classes[mirrored, :, ::-1]
    flipped, wide = corners[mirrored, :, ::-1], images.shape[2]
    corners[mirrored] = np.stack([wide - flipped[..., 2], flipped[..., 1], wide - flipped[..., 0], flipped[..., 3]], -1)
    pixels = network.to_input(torch.from_numpy(images))
    gain = torch.from_numpy(rng.uniform(0.8, 1.2, (len(rows), 3, 1, 1)).astype(np.float32))
    lift = torch.from_numpy(rng.uniform(-0.15, 0.15, (len(rows), 1, 1, 1)).astype(np.float32))
    return (
        (pixels * gain + lift).contiguous(memory_format=torch.channels_last),
        torch.from_numpy(classes).flatten(1),
        torch.from_numpy(corners).flatten(1, 2),
    )


def _loss(network: GridNet, images: Tensor, classes: Tensor, corners: Tensor) -> Tensor:
    """Quality focal loss (a cell's score should be how well its box fits) and generalised IoU."""
    logits, distances = network(images)
    scores = logits.flatten(2).transpose(1, 2)
    boxes = network.decode(distances)
    owned = classes >= 0
    count = owned.sum().clamp(min=1)
    overlap, general = _iou(boxes[owned], corners[owned])
    wanted = torch.zeros_like(scores)
    wanted[owned] = functional.one_hot(classes[owned], scores.shape[-1]).float() * overlap.detach()[:, None]
    probability = scores.sigmoid()
    focal = (probability - wanted).abs().pow(2) * functional.binary_cross_entropy_with_logits(
        scores, wanted, reduction="none"
    )
    asked = (classes != IGNORED)[..., None]
    return (focal * asked).sum() / count + 2.0 * (1 - general).sum() / count


def _iou(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Intersection over union, and its generalised form, of boxes row by row."""
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    shared = (high - low).clamp(min=0).prod(dim=1)
    union = (a[:, 2:] - a[:, :2]).prod(dim=1) + (b[:, 2:] - b[:, :2]).prod(dim=1) - shared
    hull = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(dim=1)
    overlap = shared / union.clamp(min=1e-6)
    return overlap, overlap - (hull - union) / hull.clamp(min=1e-6)
