"""The discriminator for training a generator: a network that separates rendered from generated images by class.

A separate call updates the spectral norms once a step. `forward` only reads them, so it can be compiled.
"""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from strobe.annexes.generators.networks import NetFacts


class _Spectral(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A weight divided by its largest singular value, which `tune` tracks by power iteration."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.orthogonal_(weight))
        rows, columns = weight.flatten(1).shape
        self.register_buffer("left", functional.normalize(torch.randn(rows), dim=0))
        self.register_buffer("right", functional.normalize(torch.randn(columns), dim=0))

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
    def tune(self) -> None:
        """Update the singular value by one power iteration."""
        flat = self.weight.flatten(1)
        self.right.copy_(functional.normalize(flat.t() @ self.left, dim=0))
        self.left.copy_(functional.normalize(flat @ self.right, dim=0))

    def normed(self) -> Tensor:
        """Return the weight scaled to a largest singular value of one."""
        flat = self.weight.flatten(1)
        # Elementwise products and a sum stay in float32 under mixed precision. A matrix product would not.
        return self.weight / (self.left[:, None] * flat * self.right[None]).sum()


class _Conv(_Spectral):
    """A convolution with a spectral norm."""

    def __init__(self, inward: int, outward: int, size: int) -> None:
        super().__init__(torch.empty(outward, inward, size, size))
        self.bias = nn.Parameter(torch.zeros(outward))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.normed(), self.bias, padding=self.weight.shape[-1] // 2)


class _Linear(_Spectral):
    """A linear map with a spectral norm. Its rows can also serve as an embedding."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__(torch.empty(outward, inward))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.normed())


class _Halving(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A residual block of two convolutions. It halves or keeps the sides."""

    def __init__(self, inward: int, outward: int, *, first: bool = False, halves: bool = True) -> None:
        super().__init__()
        self.conv1, self.conv2 = _Conv(inward, outward, 3), _Conv(outward, outward, 3)
        self.shortcut = _Conv(inward, outward, 1)
        self._first, self._halves = first, halves

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(torch.relu(self.conv1(x if self._first else torch.relu(x))))
        if not self._halves:
            return y + self.shortcut(x)
        return functional.avg_pool2d(y, 2) + self.shortcut(functional.avg_pool2d(x, 2))


class Discriminator(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Maps images (N, C, H, W) in 0 … 1 and classes (N,) to realness within the class (N,) and class scores (N, K).

    Realness is a projection on the class. The class scores do not depend on the given class.
    """

    def __init__(self, facts: NetFacts, *, width: int) -> None:
        super().__init__()
        halvings, side = 0, facts.side
        while side % 2 == 0 and side > 4:
            halvings, side = halvings + 1, side // 2
        widths = [min(width * 2**place, width * 8) for place in range(halvings)]
        blocks = [_Halving(facts.channels, widths[0], first=True)]
        blocks += [_Halving(low, high) for low, high in itertools.pairwise(widths)]
        blocks.append(_Halving(widths[-1], widths[-1], halves=False))
        self.blocks = nn.Sequential(*blocks)
        self.real = _Linear(widths[-1], 1)
        self.embed = _Linear(widths[-1], facts.classes)
        self.name = nn.Linear(widths[-1], facts.classes)

    def tune(self) -> None:
        """Update every weight's largest singular value by one step."""
        for module in self.modules():
            if isinstance(module, _Spectral):
                module.tune()

    def forward(self, images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        """Return realness and class scores."""
        found = torch.relu(self.blocks(images * 2 - 1)).sum(dim=(2, 3))
        asked = functional.one_hot(classes, self.name.out_features).to(found.dtype)
        real = self.real(found)[:, 0] + (self.embed(found) * asked).sum(dim=1)
        return real.float(), self.name(found).float()
