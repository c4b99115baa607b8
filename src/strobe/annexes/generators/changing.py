"""A generator with changeable layers: a_0 = z + s·p, a_i = step(a_{i−1}) + s·p, image = a_L clipped to [0, 1].

All functions work on torch tensors on the generator's device. A change p is flat, (N, neurons of all its layers
concatenated), in standard deviations of each neuron. Neurons that never vary stay unchanged.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.generators.spec import GRANULARITIES, GeneratorSpec, LayeredGenerator
from strobe.core.errors import ModelFailed, UnknownName, fitting, printable
from strobe.core.late import require

STILL = 1e-8
"""A neuron whose standard deviation is below this counts as constant and is not changed."""


def places_of(spec: GeneratorSpec, granularity: str) -> tuple[int, ...]:
    """Return the layers that a granularity changes together: the layers of that name, `all` layers, or one (`layer:N`).

    Layer 0 is the latent, and layer i is the output of step i. Raise UnknownName if the generator has no such layer.
    """
    known: dict[str, tuple[int, ...]] = {
        word: tuple(i for i, (_, its) in enumerate(spec.places) if its == word) for word in GRANULARITIES
    }
    known = {word: found for word, found in known.items() if found} | {"all": tuple(range(len(spec.places)))}
    known |= {f"layer:{place}": (place,) for place in range(len(spec.places))}
    if granularity not in known:
        some = ", ".join(word for word in known if not word.startswith("layer:"))
        last = len(spec.places) - 1
        raise UnknownName(
            f"granularity of {printable(spec.name)}", granularity, known, hint=f"it has {some}, layer:0 … layer:{last}"
        )
    return known[granularity]


def granularities(spec: GeneratorSpec) -> tuple[str, ...]:
    """Return the granularities of a generator, coarse to fine."""
    have = {its for _, its in spec.places}
    return tuple(word for word in GRANULARITIES if word in have)


def seed_of(*said: object) -> int:
    """Return a seed derived from the values that name a draw. It is the same on every machine."""
    return int.from_bytes(hashlib.sha256(" ".join(map(str, said)).encode()).digest()[:8], "big") >> 1


def drawn_latents(spec: GeneratorSpec, seed: int, names: Sequence[str]) -> NDArray[np.float32]:
    """Return the latents of these names, (N, latent_size). Each depends only on its own name."""
    out = np.empty((len(names), spec.latent_size), dtype=np.float32)
    for row, name in enumerate(names):
        rng = np.random.default_rng(seed_of(seed, "latent", name))
        values = rng.standard_normal(spec.latent_size)
        while spec.cut is not None and (far := np.abs(values) > spec.cut).any():
            values[far] = rng.standard_normal(int(far.sum()))
        out[row] = values * spec.spread
    return out


def scale_latents(spec: GeneratorSpec, *, images: int, seed: int) -> NDArray[np.float32]:
    """Return latents for the scale of a generator that draws its images, (images, latent_size)."""
    return drawn_latents(spec, seed, [f"scale {number}" for number in range(images)])


def scales(generator: LayeredGenerator, latents: NDArray[np.float32], *, batch: int) -> list[NDArray[np.float32]]:
    """Return each neuron's standard deviation at every layer, over the images of these latents, of all classes.

    It is 0 for a constant neuron.
    """
    torch, spec, images = require("torch", what="a generator", extra="models"), generator.spec, len(latents)
    sums: list[Any] = [0.0] * len(spec.places)
    squares: list[Any] = [0.0] * len(spec.places)
    firsts: list[Any] = [None] * len(spec.places)
    name = printable(spec.name)
    for start in range(0, images, batch):
        some = torch.from_numpy(latents[start : start + batch]).to(generator.device)
        classes = (torch.arange(start, start + len(some)) % len(spec.label_space)).to(generator.device)
        with fitting(spec.name, len(some)), torch.no_grad():
            condition, activation = generator.condition(some, classes), some
            for index, (layer, _) in enumerate(spec.places):
                activation = generator.run(index - 1, activation, condition) if index else activation
                if not bool(torch.isfinite(activation).all()):
                    raise ModelFailed(f"{name}: {printable(layer)} returned values that are not finite")
                wide = (activation.cpu() if activation.device.type == "mps" else activation).double()
                # Sums use differences from one sample. With plain squares, rounding would hide neurons that vary
                # little.
                firsts[index] = wide[:1] if firsts[index] is None else firsts[index]
                wide = wide - firsts[index]
                sums[index] = sums[index] + wide.sum(0)
                squares[index] = squares[index] + wide.square().sum(0)
    out = []
    for total, square in zip(sums, squares, strict=True):
        spread = ((square - total.square() / images) / max(1, images - 1)).clamp_min(0).sqrt()
        out.append(spread.where(spread >= STILL, torch.zeros_like(spread)).float().cpu().numpy())
    return out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Base:
    """A batch of latents and classes, with the activations at the first changeable layer before any change."""

    latents: Any
    classes: Any
    activation: Any

    def __len__(self) -> int:
        return len(self.latents)


class ChangeableGenerator:
    """A generator, and the layers that may change together."""

    def __init__(
        self, generator: LayeredGenerator, scale: Sequence[NDArray[np.float32]], places: Sequence[int]
    ) -> None:
        torch = require("torch", what="a generator", extra="models")
        self._generator, self._first, self._last = generator, places[0], len(generator.spec.steps)
        self.device, self.image_hw = generator.device, generator.spec.image_hw
        flat = {place: torch.from_numpy(scale[place].reshape(-1)).to(self.device) for place in places}
        ends = np.cumsum([len(flat[place]) for place in places]).tolist()
        begins = [0, *ends[:-1]]
        self._part = {place: slice(*pair) for place, *pair in zip(places, begins, ends, strict=True)}
        self._scale = flat
        self.moves = torch.cat([flat[place] > 0 for place in places])
        """Which neurons may change, (d,)."""

    @property
    def neurons(self) -> int:
        """The number of neurons that may change."""
        return int(self.moves.sum())

    @property
    def width(self) -> int:
        """The length of a change, including constant neurons."""
        return len(self.moves)

    def begin(self, latents: NDArray[np.float32], classes: Sequence[int]) -> Base:
        """Run the steps up to the first changeable layer once."""
        torch = require("torch", what="a generator", extra="models")
        z = torch.from_numpy(np.ascontiguousarray(latents)).to(self.device)
        y = torch.tensor(list(classes), dtype=torch.long, device=self.device)
        with torch.no_grad():
            condition, activation = self._generator.condition(z, y), z
            for step in range(self._first):
                activation = self._generator.run(step, activation, condition)
        return Base(latents=z, classes=y, activation=activation)

    def pixels(self, base: Base, rows: Any, change: Any) -> Any:
        """Return the images (n, 3, H, W) in [0, 1] of these rows under a change (n, width), differentiable in it."""
        activation = self._changed(self._first, base.activation[rows], change)
        latents = activation if self._first == 0 else base.latents[rows]
        condition = self._generator.condition(latents, base.classes[rows])
        for step in range(self._first, self._last):
            activation = self._changed(step + 1, self._generator.run(step, activation, condition), change)
        return activation.clamp(0, 1).expand(-1, 3, -1, -1)

    def trimmed(self, base: Base, rows: Any, change: Any) -> Any:
        """If only pixels change, remove the part of the change that moves pixels out of [0, 1].

        That part would count towards the magnitude without being visible.
        """
        if self._first != self._last:
            return change
        now, scale = base.activation[rows].flatten(1), self._scale[self._last].clamp_min(STILL)
        return change.maximum(-now.clamp(0, 1) / scale).minimum((1 - now.clamp(0, 1)) / scale) * self.moves

    def given(self, changes: NDArray[np.float16]) -> tuple[Any, Any]:
        """Return all rows in order and their stored changes, as arguments for `pixels`."""
        torch = require("torch", what="a generator", extra="models")
        return torch.arange(len(changes), device=self.device), torch.from_numpy(changes).to(self.device).float()

    def _changed(self, place: int, activation: Any, change: Any) -> Any:
        if place not in self._part:
            return activation
        return activation + (self._scale[place] * change[:, self._part[place]]).view(activation.shape)

    def direction(self, names: Sequence[str], *said: object) -> Any:
        """Return random directions of length 1, (n, width), each seeded by its own name on the CPU."""
        torch = require("torch", what="a generator", extra="models")
        drawn = [
            torch.randn(self.width, generator=torch.Generator().manual_seed(seed_of(*said, name))) for name in names
        ]
        found = torch.stack(drawn).to(self.device) * self.moves
        return found / found.norm(dim=1, keepdim=True).clamp_min(1e-30)

    def rms(self, magnitude: float) -> float:
        """Return the magnitude per neuron (root mean square)."""
        return magnitude / math.sqrt(max(1, self.neurons))


def eight_bits(pixels: Any) -> NDArray[np.uint8]:
    """Convert images (N, 3, H, W) in [0, 1] to their stored form, (N, H, W, 3)."""
    found: NDArray[np.uint8] = (pixels.detach() * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    return np.ascontiguousarray(found)
