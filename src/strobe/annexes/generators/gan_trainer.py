"""Train a generator and a discriminator, which separates real from generated images, in turn.

The networks are passed in. LatentNet and Critic define their interfaces.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from strobe.core.arrays import Ints
from strobe.core.ports import Progress
from strobe.train.draws import Purpose, Schedule, mixed
from strobe.train.optimising import Optimisation
from strobe.train.pixels import Pixels
from strobe.train.recipe import Recipe
from strobe.train.sets import TrainingSets
from strobe.train.streaming import StreamedPixels, read_ahead

_STANDING = 32
"""The number of batches for measuring the norms of averaged weights at the end."""


class LatentNet(Protocol):
    """A torch module from latents (N, L) and classes (N,) to images (N, C, H, W) in 0 … 1."""

    def __call__(self, latents: Tensor, classes: Tensor) -> Tensor:
        """Return the images."""


class GanTrainer(Optimisation):
    """A generator and its discriminator in training, with hinge loss, alternating steps and averaged weights.

    The discriminator `critic` is a torch module from images and classes to realness (N,) and class scores (N, K). Its
    method `tune` updates the state that `forward` only reads, once before every step.

    Before the averaged generator is used, `settle` must recompute its norm statistics. With `compiles`, both networks
    are compiled on the first step. If that fails, they run uncompiled and a note is printed.
    """

    def __init__(
        self,
        generator: Any,
        critic: Any,
        recipe: Recipe,
        sets: TrainingSets,
        pixels: Pixels | StreamedPixels,
        *,
        latent: int,
        channels: int,
        seed: int = 0,
        precision: str = "float32",
        compiles: bool = False,
        say: Progress | None = None,
    ) -> None:
        self.schedule = Schedule(sets, recipe, seed=seed, side_hw=pixels.side_hw)
        super().__init__(generator, recipe, self.schedule, device=pixels.device, seed=seed, processes=None)
        self.critic = critic.to(self.device, memory_format=torch.channels_last).train()
        self.critic_optimiser = self._adam(list(self.critic.parameters()))
        self.sets, self.pixels = sets, pixels
        self.latent, self.channels = latent, channels
        self._precision = precision
        self._label = torch.from_numpy(sets.label).to(self.device)
        self._generate, self._criticise = self.module, self.critic
        self._compiles, self._say = compiles, say

    def make_optimiser(self) -> Any:
        """Return Adam without momentum, as is usual for adversarial training."""
        return self._adam(self._parameters)

    def _adam(self, parameters: list[Any]) -> Any:
        recipe, fused = self.recipe, self.device.startswith("cuda")
        return torch.optim.Adam(parameters, lr=recipe.learning_rate, betas=(recipe.momentum, 0.99), fused=fused)

    # -- a step --------------------------------------------------------------------------------------------------

    def step(self, number: int) -> Tensor:
        """Run the discriminator's step, then the generator's step on the same generated images.

        Returns the discriminator's loss.
        """
        if self._compiles:
            self._compile(number)
        self.module.train()
        rate = self.rate(number)
        for optimiser in (self.optimiser, self.critic_optimiser):
            for group in optimiser.param_groups:
                group["lr"] = rate
        self.critic.tune()
        loss, generated = self._losses(number)
        loss.backward()
        self.critic_optimiser.step()
        self.critic_optimiser.zero_grad(set_to_none=True)
        self._fool(*generated).backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self._follow(number)
        self._pending.append((number, loss.detach()))
        return loss.detach()

    def _losses(self, number: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the discriminator's loss, and the generated images."""
        read_ahead(self.pixels, self.sets, self.schedule, number, self.processes)
        draw = self.schedule.draw(number)
        real = self._images(self.sets.pixel[draw.rows], draw.crops)
        label = self._label[torch.from_numpy(draw.rows).to(self.device)]
        latents, classes = self._latents(len(draw.rows), Purpose.LATENT, number)
        with self._autocast():
            fake = self._generate(latents, classes)
            scores, named = self._criticise(torch.cat([real, fake.detach()]), torch.cat([label, classes]))
        count = len(real)
        loss = torch.relu(1 - scores[:count]).mean() + torch.relu(1 + scores[count:]).mean()
        if self.recipe.naming:
            loss = loss + functional.cross_entropy(named[:count], label)
        return loss, (fake, classes)

    def _fool(self, fake: Tensor, classes: Tensor) -> Tensor:
        """Return the generator's loss on its images."""
        self.critic.requires_grad_(False)
        with self._autocast():
            scores, named = self._criticise(fake, classes)
        self.critic.requires_grad_(True)
        loss = -scores.mean()
        if self.recipe.naming:
            loss = loss + self.recipe.naming * functional.cross_entropy(named, classes)
        return loss

    def _images(self, places: Ints, crops: Ints | None = None) -> Tensor:
        found = self.pixels.take(places, crops)[:, : self.channels]
        return found.to(torch.float32, memory_format=torch.channels_last) / 255

    def _latents(self, count: int, purpose: Purpose, number: int) -> tuple[Tensor, Tensor]:
        """Return a step's latents and classes, on the device."""
        rng = torch.Generator(device=self.device)
        rng.manual_seed(mixed(self.seed, purpose, number))
        latents = torch.randn(count, self.latent, generator=rng, device=self.device)
        classes = torch.randint(self.n_classes, (count,), generator=rng, device=self.device)
        return latents, classes

    @property
    def n_classes(self) -> int:
        """The number of classes to sample from."""
        return int(self.sets.every.shape[1])

    def _autocast(self) -> Any:
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.partition(":")[0], dtype=getattr(torch, self._precision))

    def _compile(self, number: int) -> None:
        """Compile both networks and test them on the step's inputs, without training."""
        self._compiles = False
        try:
            self._generate = torch.compile(self.module, dynamic=False)
            self._criticise = torch.compile(self.critic, dynamic=False)
            self.module.train()
            told, made = self._losses(number)
            told.backward()
            self._fool(*made).backward()
        except Exception as error:  # a missing or failing compiler raises arbitrary exceptions
            self._generate, self._criticise = self.module, self.critic
            if self._say is not None:
                self._say.note(f"not compiled ({type(error).__name__}); training is slower, with the same results")
        self.critic.requires_grad_(True)
        for optimiser in (self.optimiser, self.critic_optimiser):
            optimiser.zero_grad(set_to_none=True)

    # -- results -----------------------------------------------------------------------------------------------

    def settle(self, standing: Any, *, batches: int = _STANDING) -> Any:
        """Return the network with averaged weights. `standing(network, draws)` measures its norm statistics."""
        network, size = self.result, self.schedule.batch
        draws = [self._latents(size, Purpose.STANDING, place) for place in range(batches)]
        standing(network, draws)
        return network

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
    def named(self, images: Tensor, classes: Tensor) -> float:
        """Return the share of images that the discriminator assigns to the requested class."""
        right, size = 0, 2 * self.schedule.batch
        for start in range(0, len(images), size):
            part = slice(start, start + size)
            _, scores = self.critic(images[part], classes[part])
            right += int((scores.argmax(dim=1) == classes[part]).sum())
        return right / max(1, len(images))

    def seen(self, pixels: Pixels | StreamedPixels, places: Ints) -> Tensor:
        """Return prepared frames as the discriminator's input."""
        found = pixels.take(np.asarray(places))[:, : self.channels]
        return found.to(torch.float32, memory_format=torch.channels_last) / 255

    def state(self) -> dict[str, Any]:
        """Return everything the next step depends on."""
        more = {"critic": self.critic.state_dict(), "critic_optimiser": self.critic_optimiser.state_dict()}
        return {**super().state(), **more}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from a state."""
        super().load_state(state)
        self.critic.load_state_dict(state["critic"])
        self.critic_optimiser.load_state_dict(state["critic_optimiser"])
