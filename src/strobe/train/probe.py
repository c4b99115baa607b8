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


class StoredFeatures:
    """Features of prepared frames (N, D), used instead of pixels. Nothing is cropped."""

    side_hw = (0, 0)

    def __init__(self, table: NDArray[np.float32], *, device: str) -> None:
        self.device = device
        self._tensor = torch.from_numpy(np.array(table)).to(device)

    def __len__(self) -> int:
        return len(self._tensor)

    def take(self, rows: Ints, crops: Ints | None = None) -> Tensor:  # noqa: ARG002 (as Pixels has it)
        """Return the features of these frames."""
        return self._tensor[torch.from_numpy(rows).to(self.device)]

    def spread(self, rows: Ints) -> tuple[Tensor, Tensor]:
        """Return the mean and standard deviation of each feature over these frames.

        The deviation of a constant feature is 1.
        """
        part = self.take(rows)
        deviation = part.std(dim=0, unbiased=False)
        return part.mean(dim=0), torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation))


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
    table: NDArray[Any], pixels: Pixels, features: Callable[[Tensor], Tensor], *, batch: int, progress: Progress
) -> None:
    """Fill the table with the features of every prepared frame, (N, D)."""
    with torch.inference_mode(), progress.task("features", len(table)) as advance:
        for start in range(0, len(table), batch):
            rows = np.arange(start, min(len(table), start + batch))
            table[rows] = features(pixels.take(rows)).float().cpu().numpy()
            advance(len(rows))
