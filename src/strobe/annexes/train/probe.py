"""A linear head on a network's features. The features are computed once, and the head is trained on them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from strobe.core.arrays import Ints
from strobe.core.ports import Progress
from strobe.train.pixels import Pixels
from strobe.train.streaming import StreamedPixels, parts_ahead

_AT_ONCE = 2**27
"""The most values of features in memory while their mean is computed."""


class StoredFeatures:
    """Features of frames (N, D), used instead of pixels. Nothing is cropped. They stay in their file, or on a GPU."""

    side_hw = (0, 0)
    streams = False

    def __init__(self, table: NDArray[np.float32], *, device: str) -> None:
        self.device, self._table = device, table
        is_small = device.startswith("cuda") and table.nbytes <= torch.cuda.mem_get_info(device)[0] // 2
        self._tensor = torch.from_numpy(np.array(table)).to(device) if is_small else None

    def __len__(self) -> int:
        return len(self._table)

    def expect(self, *steps: tuple[Ints, Ints | None]) -> None:
        """Do nothing, because all features are there."""

    def take(self, rows: Ints, crops: Ints | None = None) -> Tensor:  # noqa: ARG002 (as Pixels has it)
        """Return the features of these frames."""
        if self._tensor is None:
            return torch.from_numpy(self._table[rows]).to(self.device)
        return self._tensor[torch.from_numpy(rows).to(self.device)]

    def spread(self, rows: Ints) -> tuple[Tensor, Tensor]:
        """Return the mean and standard deviation of each feature over these frames.

        The deviation of a constant feature is 1.
        """
        size = max(1, _AT_ONCE // self._table.shape[1])
        if len(rows) > size:
            mean, deviation = self._spread_in_parts(rows, size)
        else:
            part = self.take(rows)
            mean, deviation = part.mean(dim=0), part.std(dim=0, unbiased=False)
        return mean, torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation))

    def _spread_in_parts(self, rows: Ints, size: int) -> tuple[Tensor, Tensor]:
        """Return mean and deviation in two passes, without all features in memory at once."""
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        mean = sum(self.take(part).double().sum(dim=0) for part in parts) / len(rows)
        squares = sum((self.take(part).double() - mean).square().sum(dim=0) for part in parts)
        return mean.float(), (squares / len(rows)).sqrt().float()


class Probe(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A linear layer over features standardised to mean 0 and deviation 1. The standardisation is part of the layer."""

    def __init__(self, mean: Tensor, deviation: Tensor, classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.linear = nn.Linear(len(mean), classes)
        nn.init.zeros_(self.linear.weight)  # all classes start equal; in a convex problem the start does not matter
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Return class scores."""
        return self.linear((features - self.mean) / self.deviation)

    def folded(self) -> tuple[Tensor, Tensor]:
        """Return the weight and bias of one equivalent plain linear layer."""
        weight = self.linear.weight / self.deviation
        return weight.detach(), (self.linear.bias - weight @ self.mean).detach()


def fill_features(
    table: NDArray[Any],
    pixels: Pixels | StreamedPixels,
    features: Callable[[Tensor], Tensor],
    *,
    batch: int,
    progress: Progress,
) -> None:
    """Fill the table with the features of every frame, (N, D), in one pass over the frames."""
    with torch.inference_mode(), progress.task("features", len(table)) as advance:
        for start, rows in parts_ahead(pixels, np.arange(len(table)), batch):
            table[start : start + len(rows)] = features(pixels.take(rows)).float().cpu().numpy()
            advance(len(rows))
