"""The generator's network: a class-conditional residual network as an ordered list of steps, from a latent to pixels.

A step depends only on the previous activation and the class. An activation between two steps can therefore be changed,
and the remaining steps run from there.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from strobe.core.errors import UnknownName, expect

Granularity = Literal["latent", "coarse", "middle", "fine", "pixel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """The static facts about a step: its name, and the granularity and shape of its features."""

    name: str
    granularity: Granularity
    shape: tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetFacts:
    """The parameters a network is built from. Images are `side` pixels square, with `channels` 3 or 1 (grey).

    `widths` are the channels of the first step and of every step that doubles the sides. `embedding` is the length of a
    class embedding.
    """

    kind: str
    classes: int
    side: int
    channels: int
    latent: int
    embedding: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        for name, low, high in (
            ("classes", 1, 100_000),
            ("side", 8, 1024),
            ("latent", 1, 4096),
            ("embedding", 1, 4096),
        ):
            expect(low <= getattr(self, name) <= high, name, f"{low} to {high}", getattr(self, name))
        expect(self.channels in (1, 3), "channels", "1 or 3", self.channels)
        expect(len(self.widths) >= 2 and min(self.widths) >= 1, "widths", "two or more, all ≥ 1", self.widths)
        whole = self.side % 2 ** (len(self.widths) - 1) == 0
        expect(whole, "side", f"a multiple of {2 ** (len(self.widths) - 1)}", self.side)

    @property
    def first_side(self) -> int:
        """The side length of the first step's output."""
        return self.side >> (len(self.widths) - 1)

    @property
    def steps(self) -> tuple[StepFacts, ...]:
        """Return the steps in order. The first takes the latent, the last makes the image."""
        sides = [self.first_side * 2**place for place in range(len(self.widths))]
        facts = [
            StepFacts(name=f"{side}x{side}", granularity=granularity_of(index, len(sides)), shape=(width, side, side))
            for index, (width, side) in enumerate(zip(self.widths, sides, strict=True))
        ]
        last = (self.channels, self.side, self.side)
        return (*facts, StepFacts(name="pixels", granularity="pixel", shape=last))


def granularity_of(place: int, count: int) -> Granularity:
    """Return the granularity of a step. The steps before the last are divided into thirds: coarse, middle and fine.

    >>> [granularity_of(place, 5) for place in range(5)], [granularity_of(place, 3) for place in range(3)]
    (['coarse', 'coarse', 'middle', 'middle', 'fine'], ['coarse', 'middle', 'fine'])
    """
    names: tuple[Granularity, ...] = ("coarse", "middle", "fine")
    return names[3 * place // count]


NETWORKS: dict[str, NetFacts] = {
    "strobe-gan": NetFacts(
        kind="strobe-gan", classes=12, side=64, channels=3, latent=120, embedding=64, widths=(320, 320, 160, 80, 40)
    ),
    "strobe-gan-mnist": NetFacts(
        kind="strobe-gan-mnist", classes=10, side=28, channels=1, latent=64, embedding=32, widths=(128, 128, 64)
    ),
}
"""The networks shipped with strobe, for the synthetic world and MNIST."""


def facts_named(name: str) -> NetFacts:
    """Return the parameters of the network of this name."""
    if name not in NETWORKS:
        raise UnknownName("generator", name, NETWORKS, hint=f"known: {', '.join(NETWORKS)}")
    return NETWORKS[name]


class _ClassNorm(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Batch norm whose gain and shift depend on the class."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.gain = nn.Linear(embedding, channels, bias=False)
        self.shift = nn.Linear(embedding, channels, bias=False)
        nn.init.zeros_(self.gain.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        gain, shift = self.gain(condition)[:, :, None, None], self.shift(condition)[:, :, None, None]
        return torch.addcmul(shift, self.norm(x), 1 + gain)


class _First(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Maps the latent to the first, smallest feature maps."""

    def __init__(self, facts: NetFacts) -> None:
        super().__init__()
        self.shape = (facts.widths[0], facts.first_side, facts.first_side)
        self.linear = nn.Linear(facts.latent, facts.widths[0] * facts.first_side**2)

    def forward(self, latent: Tensor, condition: Tensor) -> Tensor:  # noqa: ARG002 (every step takes both)
        return self.linear(latent).view(-1, *self.shape)


class _Doubling(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A residual block of two convolutions. It doubles the sides."""

    def __init__(self, inward: int, outward: int, embedding: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = _ClassNorm(inward, embedding), _ClassNorm(outward, embedding)
        self.conv1 = nn.Conv2d(inward, outward, 3, padding=1)
        self.conv2 = nn.Conv2d(outward, outward, 3, padding=1)
        self.shortcut = nn.Conv2d(inward, outward, 1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        y = self.conv1(_doubled(torch.relu(self.norm1(x, condition))))
        y = self.conv2(torch.relu(self.norm2(y, condition)))
        return y + _doubled(self.shortcut(x))


def _doubled(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2, mode="nearest")


class _Pixels(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Maps feature maps to an image with values in 0 … 1."""

    def __init__(self, inward: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inward)
        self.conv = nn.Conv2d(inward, channels, 3, padding=1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:  # noqa: ARG002 (every step takes both)
        # In float32, because a rounding error of half a level would be visible in smooth backgrounds.
        return torch.tanh(self.conv(torch.relu(self.norm(x))).float()) * 0.5 + 0.5


class LayeredNet(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Maps latents (N, L) and classes (N,) to images (N, C, H, W) in 0 … 1. Its `steps` can be run one at a time.

    In evaluation mode an image depends only on its own latent and class.
    """

    def __init__(self, facts: NetFacts) -> None:
        super().__init__()
        self.about = facts
        widths, embedding = facts.widths, facts.embedding
        self.embed = nn.Embedding(facts.classes, embedding)
        doubling = [_Doubling(low, high, embedding) for low, high in itertools.pairwise(widths)]
        self.steps = nn.ModuleList([_First(facts), *doubling, _Pixels(widths[-1], facts.channels)])
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.orthogonal_(module.weight)

    def condition(self, classes: Tensor) -> Tensor:
        """Return the classes' embeddings for every step, (N, E)."""
        return self.embed(classes)

    def forward(self, latents: Tensor, classes: Tensor) -> Tensor:
        """Run all steps."""
        x, condition = latents, self.condition(classes)
        for step in self.steps:
            x = step(x, condition)
        return x


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
def standing_statistics(network: LayeredNet, draws: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Recompute the batch norm statistics for averaged weights, from these latents and classes, and keep them."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    before = [norm.momentum for norm in norms]
    for one in norms:
        one.reset_running_stats()
        one.momentum = None  # every batch has equal weight
    network.train()
    for latents, classes in draws:
        network(latents, classes)
    for one, momentum in zip(norms, before, strict=True):
        one.momentum = momentum
    network.eval()
