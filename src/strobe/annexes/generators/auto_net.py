"""The network of strobe's own small autoencoder: an encoder, and a decoder whose steps can be run one at a time."""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from strobe.annexes.generators.networks import StepFacts, granularity_of
from strobe.core.errors import UnknownName, expect


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoFacts:
    """The parameters an autoencoder is built from. Images are RGB, `side` pixels square.

    `latent` is the number of channels of the latent. `widths` are the channels of the decoder's steps. Each step after
    the first doubles the sides, and so do the pixels.
    """

    kind: str
    side: int
    latent: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        for name, low, high in (("side", 8, 1024), ("latent", 1, 4096)):
            expect(low <= getattr(self, name) <= high, name, f"{low} to {high}", getattr(self, name))
        whole = len(self.widths) >= 2 and all(width >= 8 and width % 8 == 0 for width in self.widths)
        expect(whole, "widths", "two or more multiples of 8", self.widths)
        expect(self.side % 2 ** len(self.widths) == 0, "side", f"a multiple of {2 ** len(self.widths)}", self.side)

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a latent."""
        side = self.side >> len(self.widths)
        return self.latent, side, side

    @property
    def steps(self) -> tuple[StepFacts, ...]:
        """Return the decoder's steps in order. The first takes the latent, the last makes the image."""
        sides = [self.latent_shape[1] * 2**place for place in range(len(self.widths))]
        facts = [
            StepFacts(name=f"{side}x{side}", granularity=granularity_of(index, len(sides)), shape=(width, side, side))
            for index, (width, side) in enumerate(zip(self.widths, sides, strict=True))
        ]
        return (*facts, StepFacts(name="pixels", granularity="pixel", shape=(3, self.side, self.side)))


AUTOENCODERS: dict[str, AutoFacts] = {
    "strobe-ae": AutoFacts(kind="strobe-ae", side=64, latent=12, widths=(64, 48, 32)),
}
"""The autoencoders shipped with strobe, for the synthetic world."""


def auto_facts_named(name: str) -> AutoFacts:
    """Return the parameters of the autoencoder of this name."""
    if name not in AUTOENCODERS:
        raise UnknownName("autoencoder", name, AUTOENCODERS, hint=f"known: {', '.join(AUTOENCODERS)}")
    return AUTOENCODERS[name]


class _AutoBlock(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Two convolutions with norms, added to the input if the widths agree."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(inward, outward, 3, padding=1), nn.Conv2d(outward, outward, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(8, outward), nn.GroupNorm(8, outward)

    def forward(self, x: Tensor) -> Tensor:
        first = functional.silu(self.norm1(self.conv1(x)))
        return first + functional.silu(self.norm2(self.conv2(first)))


class _Grow(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Doubles the sides, then runs a block."""

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.block = _AutoBlock(inward, outward)

    def forward(self, x: Tensor) -> Tensor:
        return self.block(functional.interpolate(x, scale_factor=2, mode="nearest"))


class _Image(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Maps feature maps to an image with values around 0 … 1, with twice their sides."""

    def __init__(self, inward: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inward, 12, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return functional.pixel_shuffle(self.conv(x), 2) * 0.25 + 0.5


class AutoNet(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """An autoencoder of images (N, 3, H, W) in 0 … 1. An image depends only on its own latent."""

    def __init__(self, facts: AutoFacts) -> None:
        super().__init__()
        self.about = facts
        widths = facts.widths
        low = list(reversed(widths))
        shrinking = [nn.Conv2d(12, low[0], 3, padding=1), nn.SiLU()]
        for inward, outward in itertools.pairwise(low):
            shrinking += [nn.Conv2d(inward, outward, 3, stride=2, padding=1), nn.GroupNorm(8, outward), nn.SiLU()]
        self.encoder = nn.Sequential(*shrinking, _AutoBlock(low[-1], low[-1]), nn.Conv2d(low[-1], facts.latent, 1))
        growing = [_Grow(inward, outward) for inward, outward in itertools.pairwise(widths)]
        self.steps = nn.ModuleList([_AutoBlock(facts.latent, widths[0]), *growing, _Image(widths[-1])])

    def encode(self, pixels: Tensor) -> Tensor:
        """Return the latents (N, C, h, w)."""
        return self.encoder(functional.pixel_unshuffle(pixels * 2 - 1, 2))

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the reconstructions, not clipped to 0 … 1."""
        x = self.encode(pixels)
        for step in self.steps:
            x = step(x)
        return x.float() if x.dtype != torch.float32 else x
