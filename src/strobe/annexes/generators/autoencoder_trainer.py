"""Train an autoencoder: reduce the mean absolute difference between images and their reconstructions."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from strobe.core.arrays import Ints
from strobe.train.draws import Schedule
from strobe.train.optimising import Optimisation, parts_of
from strobe.train.pixels import Pixels
from strobe.train.recipe import Recipe
from strobe.train.sets import TrainingSets
from strobe.train.streaming import StreamedPixels, read_ahead

_AT_ONCE = 256
"""The number of images in a forward pass without gradients."""


class AutoencoderTrainer(Optimisation):
    """An autoencoder in training. The network maps images (N, 3, H, W) in 0 … 1 to their reconstructions."""

    def __init__(
        self,
        module: Any,
        recipe: Recipe,
        sets: TrainingSets,
        pixels: Pixels | StreamedPixels,
        *,
        seed: int = 0,
        precision: str = "float32",
    ) -> None:
        self.schedule = Schedule(sets, recipe, seed=seed, side_hw=pixels.side_hw)
        super().__init__(module, recipe, self.schedule, device=pixels.device, seed=seed, processes=None)
        self.sets, self.pixels, self._precision = sets, pixels, precision

    def backward(self, number: int) -> Tensor:
        """Compute gradients, and return the loss of the batch."""
        read_ahead(self.pixels, self.sets, self.schedule, number, self.processes)
        draw = self.schedule.draw(number)
        losses = []
        for part in parts_of(len(draw.rows), self.recipe.accumulate):
            own = draw.part(part)
            images = self._images(self.pixels, self.sets.pixel[own.rows], own.crops)
            with self._autocast():
                made = self.module(images)
            loss = (made - images).abs().mean() * (len(own.rows) / len(draw.rows))
            loss.backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
    def explained(self, pixels: Pixels | StreamedPixels, places: Ints) -> float:
        """Return the share of the images' variance that reconstructions explain: 1 is perfect, 0 is a grey image."""
        network, wrong, every = self.result.eval(), 0.0, 0.0
        for start in range(0, len(places), _AT_ONCE):
            images = self._images(pixels, places[start : start + _AT_ONCE])
            made = network(images).clamp(0, 1)
            wrong += float((made - images).square().sum())
            every += float((images - images.mean(dim=(2, 3), keepdim=True)).square().sum())
        return max(0.0, 1 - wrong / every) if every else 0.0

    def _images(self, pixels: Pixels | StreamedPixels, places: Ints, crops: Ints | None = None) -> Tensor:
        return pixels.take(places, crops).to(torch.float32, memory_format=torch.channels_last) / 255

    def _autocast(self) -> Any:
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.partition(":")[0], dtype=getattr(torch, self._precision))
