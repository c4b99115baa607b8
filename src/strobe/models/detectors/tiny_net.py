"""Small one-stage, anchor-free detectors: the networks of strobe-tiny and strobe-net-boxes, and their files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from strobe.core.labels import LabelSpace
from strobe.models.header import write_weights
from strobe.models.strobe_net_layers import WIDTHS, StrobeNet

INPUT = 128
"""Side of strobe-tiny's square input in pixels."""
STRIDE = 8
"""Pixels per cell of the output grid."""


def _conv(inward: int, outward: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inward, outward, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outward),
        nn.ReLU(inplace=True),
    )


class _TinyBlock(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Two convolutions around a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _conv(channels, channels)
        self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.second(self.first(x)))


class TinyNet(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Map images (N, 3, 128, 128) in [−1, 1] to logits (N, classes, 16, 16) and distances (N, 4, 16, 16).

    Distances are measured in cells, from a cell's centre to the left, top, right and bottom of its object. They are
    always positive.
    """

    stride, side, scale = STRIDE, INPUT, "x / 127.5 - 1"

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 16, stride=2), _conv(16, 32, stride=2), _TinyBlock(32))
        self.near = nn.Sequential(_conv(32, 64, stride=2), _TinyBlock(64), _TinyBlock(64))
        # A branch at half the resolution, because classification needs more context than localisation.
        self.wide = nn.Sequential(_conv(64, 96, stride=2), _conv(96, 96), nn.Conv2d(96, 64, 1))
        self.joint = _conv(64, 64)
        self.logits = nn.Conv2d(64, classes, 3, padding=1)
        self.distances = nn.Conv2d(64, 4, 3, padding=1)
        _begin_empty(self.logits, self.distances)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and distances for every cell."""
        near = self.near(self.stem(images))
        wide = nn.functional.interpolate(self.wide(near), scale_factor=2.0, mode="nearest")
        features = self.joint(torch.relu(near + wide))
        return self.logits(features), nn.functional.softplus(self.distances(features))

    @staticmethod
    def decode(distances: Tensor) -> Tensor:
        """Convert distances (N, 4, S, S) to corners (N, S · S, 4) in pixels of the input."""
        flat = distances.flatten(2).transpose(1, 2) * STRIDE
        centres = cell_centres(distances.shape[-1], distances.device)
        return torch.cat([centres - flat[..., :2], centres + flat[..., 2:]], dim=-1)

    @staticmethod
    def to_input(pixels: Tensor) -> Tensor:
        """Convert images (N, H, W, 3) uint8 to network input: (N, 3, H, W) in [−1, 1], channels last in memory."""
        scaled = pixels.float() / 127.5 - 1
        return scaled.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


class NetBoxes(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """strobe-net-small with a grid head instead of its own head, so that classifier and detector share a backbone.

    Maps images (N, 3, 64, 64) in [−2, 2], as in the classifier, to logits (N, classes, 8, 8) and distances.
    """

    stride, side, scale = STRIDE, 64, "x / 63.75 - 2"

    def __init__(self, classes: int) -> None:
        super().__init__()
        widths = WIDTHS["strobe-net-small"]
        backbone, near = StrobeNet(classes, widths), widths[2]
        self.stem, self.stages = backbone.stem, backbone.stages
        self.wide = nn.Conv2d(widths[3], near, 1)
        self.joint = _conv(near, near)
        self.logits = nn.Conv2d(near, classes, 3, padding=1)
        self.distances = nn.Conv2d(near, 4, 3, padding=1)
        _begin_empty(self.logits, self.distances)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and distances for every cell."""
        near = self.stages[:3](self.stem(images))
        wide = nn.functional.interpolate(self.wide(self.stages[3](near)), scale_factor=2.0, mode="nearest")
        features = self.joint(torch.relu(near + wide))
        return self.logits(features), nn.functional.softplus(self.distances(features))

    decode = staticmethod(TinyNet.decode)

    @staticmethod
    def to_input(pixels: Tensor) -> Tensor:
        """Convert images (N, H, W, 3) uint8 to network input: (N, 3, H, W) in [−2, 2], channels last in memory."""
        return 2 * TinyNet.to_input(pixels)


def _begin_empty(logits: nn.Conv2d, distances: nn.Conv2d) -> None:
    """Initialise the bias to "empty".

    Almost every cell is empty, and empty cells would otherwise dominate the first training steps.
    """
    nn.init.constant_(logits.bias, -4.0)
    nn.init.constant_(distances.bias, 1.0)


def cell_centres(side: int, device: Any = None) -> Tensor:
    """Return the centres of the cells in pixels, (side · side, 2), row by row."""
    steps = (torch.arange(side, device=device, dtype=torch.float32) + 0.5) * STRIDE
    y, x = torch.meshgrid(steps, steps, indexing="ij")
    return torch.stack([x.reshape(-1), y.reshape(-1)], dim=1)


def save(path: Path, state: Mapping[str, Any], *, label_space: LabelSpace, training: Mapping[str, Any]) -> None:
    """Write weights as half-precision safetensors, with the classes and training facts in the header."""
    tensors = {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    write_weights(path, tensors, label_space=label_space, training=training, half=True)
