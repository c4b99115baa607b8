"""The layers of strobe-net, four stages of residual blocks, and of strobe-plain, which has no shortcuts."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

WIDTHS = {"strobe-net": (32, 64, 128, 192), "strobe-net-small": (16, 32, 64, 96)}
"""Channels of the four stages. The networks have two million and half a million weights."""

PLAIN = "strobe-plain"


def network(name: str, classes: int) -> nn.Module:
    """Return the network of this name with random weights."""
    return PlainNet(classes) if name == PLAIN else StrobeNet(classes, WIDTHS[name])


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels)


class _Block(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Two convolutions around a shortcut. The first convolution may halve the sides."""

    def __init__(self, inward: int, outward: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inward, outward, 3, stride=stride, padding=1, bias=False)
        self.bn1 = _norm(outward)
        self.conv2 = nn.Conv2d(outward, outward, 3, padding=1, bias=False)
        self.bn2 = _norm(outward)
        self.shortcut = nn.Identity()
        if stride != 1 or inward != outward:
            self.shortcut = nn.Sequential(nn.Conv2d(inward, outward, 1, stride=stride, bias=False), _norm(outward))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class StrobeNet(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Map images (N, 3, H, W) to logits (N, classes).

    The stem halves the sides once, and stages two to four halve them once each.
    """

    def __init__(self, classes: int, widths: Sequence[int] = WIDTHS["strobe-net"]) -> None:
        super().__init__()
        first = widths[0]
        self.stem = nn.Sequential(nn.Conv2d(3, first, 3, stride=2, padding=1, bias=False), _norm(first), nn.ReLU())
        stages, inward = [], first
        for index, width in enumerate(widths):
            stages.append(nn.Sequential(_Block(inward, width, 2 if index else 1), _Block(width, width, 1)))
            inward = width
        self.stages = nn.Sequential(*stages)
        self.fc = nn.Linear(inward, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores."""
        return self.fc(self.stages(self.stem(images)).mean(dim=(2, 3)))


class PlainNet(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Map images (N, 3, H, W) to logits (N, classes) with pairs of convolutions, pooling between the pairs, and no
    shortcuts.

    It differs in architecture from StrobeNet, for a second opinion, and has half a million weights.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inward = 3
        for index, width in enumerate((32, 64, 96, 128)):
            if index:
                layers.append(nn.MaxPool2d(2))
            for before in (inward, width):
                layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), _norm(width), nn.LeakyReLU(0.1)]
            inward = width
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inward, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores."""
        return self.fc(self.layers(images).amax(dim=(2, 3)))
