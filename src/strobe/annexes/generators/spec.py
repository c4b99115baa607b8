"""What an image generator is to a search: its description, and what it does with batches of tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from strobe.core.errors import expect
from strobe.core.labels import LabelSpace

Granularity = Literal["latent", "coarse", "middle", "fine", "pixel"]

GRANULARITIES: tuple[Granularity, ...] = ("latent", "coarse", "middle", "fine", "pixel")
"""Granularities, from features of the whole image to features of a single pixel."""

LATENT = "latent"
"""The name of position 0: the latent itself, before any step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorStep:
    """One step of the generator, and the granularity of the features that change with its output."""

    name: str
    granularity: Granularity

    def __post_init__(self) -> None:
        expect(bool(self.name), "GeneratorStep.name", "not empty", self.name)
        known = GRANULARITIES[1:]
        expect(self.granularity in known, "GeneratorStep.granularity", " or ".join(known), self.granularity)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSpec:
    """A generator's description of itself: everything that can change its images.

    `weights` is the digest of its weights. `settings` is plain JSON and holds settings such as the truncation. Latents
    are drawn from N(0, `spread`²), truncated at ± `cut` standard deviations if given. `steps` lead from the latent to
    the image; only the last one returns pixels. An autoencoder `encodes` photos: nothing is drawn, and the classes are
    those of the photos.
    """

    name: str
    provider: str
    label_space: LabelSpace
    weights: str
    latent_size: int
    image_hw: tuple[int, int]
    steps: tuple[GeneratorStep, ...]
    spread: float = 1.0
    cut: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 32
    encodes: bool = False

    def __post_init__(self) -> None:
        expect(bool(self.name), "GeneratorSpec.name", "not empty", self.name)
        expect(self.latent_size >= 1, "GeneratorSpec.latent_size", ">= 1", self.latent_size)
        expect(
            len(self.image_hw) == 2 and min(self.image_hw) >= 1, "GeneratorSpec.image_hw", ">= 1 each", self.image_hw
        )
        names = [LATENT, *(step.name for step in self.steps)]
        expect(len(set(names)) == len(names), "GeneratorSpec.steps", f"distinct names other than {LATENT}", names)
        pixels = [step.granularity == "pixel" for step in self.steps]
        expect(
            pixels == [*[False] * (len(pixels) - 1), True],
            "GeneratorSpec.steps",
            "granularity pixel for the last step only",
            names,
        )
        expect(math.isfinite(self.spread) and self.spread > 0, "GeneratorSpec.spread", "above 0", self.spread)
        expect(self.cut is None or self.cut > 0, "GeneratorSpec.cut", "above 0", self.cut)
        expect(self.batch_size >= 1, "GeneratorSpec.batch_size", ">= 1", self.batch_size)

    @property
    def places(self) -> tuple[tuple[str, Granularity], ...]:
        """The places where activations can be changed: the latent, then each step's output.

        Each has a name and a granularity.
        """
        return ((LATENT, "latent"), *((step.name, step.granularity) for step in self.steps))


@runtime_checkable
class LayeredGenerator(Protocol):
    """A generator of images whose activations can be changed between its steps.

    It works on batches of torch tensors. Items of a batch are independent, and the same input gives the same bits.
    """

    @property
    def spec(self) -> GeneratorSpec:
        """The generator's description: everything that can change its images."""

    @property
    def device(self) -> str:
        """Where it runs: cpu, cuda, cuda:1, mps."""

    def condition(self, latents: Any, classes: Any) -> Any:
        """Return the condition, an input of every step, from latents (N, latent_size) and classes (N,).

        The latents are those that the first step takes, changed or unchanged. If later steps also use the latents, a
        change affects these steps too.
        """

    def run(self, step: int, activation: Any, condition: Any) -> Any:
        """Apply the step with this index to an activation (N, …); the first step takes the latents themselves.

        The last step returns pixels, (N, 3, H, W) RGB or (N, 1, H, W) grey; the image is their values clipped to [0,
        1]. Gradients flow from the output to the activation and to the latents in the condition.
        """


@runtime_checkable
class Autoencoder(LayeredGenerator, Protocol):
    """A generator whose latents are encoded photos. Its spec says that it `encodes`."""

    def encode(self, pixels: Any) -> Any:
        """Return the latents (N, latent_size) of RGB pixels (N, 3, H, W) in [0, 1], with the size of its images."""
