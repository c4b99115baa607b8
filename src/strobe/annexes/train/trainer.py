"""Train a classifier: compute a step's loss as the recipe says, and the network's answers during training."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strobe.annexes.train.losses import divergence, per_image, symmetric_kl, worst_of, worst_weight
from strobe.annexes.train.probe import StoredFeatures
from strobe.core.arrays import Ints
from strobe.core.errors import StrobeError
from strobe.core.ports import Image
from strobe.train.draws import BatchDraw, Purpose, Schedule, generator, mixed
from strobe.train.optimising import Optimisation, parts_of
from strobe.train.pixels import Pixels
from strobe.train.processes import Processes
from strobe.train.recipe import Recipe
from strobe.train.sets import HeldOut, TrainingSets
from strobe.train.streaming import StreamedPixels, parts_ahead, read_ahead

Frames = Pixels | StreamedPixels | StoredFeatures
"""The input of a network: prepared frames, stored or streamed, or their features."""

_SCORED_AT_ONCE = {"cuda": 4096, "cpu": 256}
"""The number of images in a forward pass without gradients."""


@dataclass(frozen=True, slots=True)
class Normal:
    """How 8-bit pixels become the network's input: (x / divide − mean) / std."""

    divide: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def on(self, device: str) -> Callable[[Tensor], Tensor]:
        """Return the function that normalises images (N, 3, H, W) on a device."""
        mean, std = (torch.tensor(values, dtype=torch.float64).view(1, 3, 1, 1) for values in (self.mean, self.std))
        slope, lift = ((1 / (self.divide * std)).float().to(device), (-mean / std).float().to(device))

        def normalised(images: Tensor) -> Tensor:
            # Algebraically equal to the formula of the class, but in one pass over the pixels.
            return torch.addcmul(lift, images.to(torch.float32, memory_format=torch.channels_last), slope)

        return normalised


Corrupt = Callable[[Image, int, np.random.Generator], Image]
"""Takes an image, a severity of 1 to 5 and a random generator, and returns the corrupted image."""
Attack = Callable[[Callable[[Tensor], Tensor], Tensor, Tensor, float, int, torch.Generator], Tensor]
"""An attack. Takes a scoring function, pixels in [0, 1] (N, 3, H, W), labels, eps, steps and a random generator.

Returns pixels with a larger loss.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions from other packages: a corruption, an attack."""

    corrupt: Corrupt | None = None
    attack: Attack | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LabelledAnchors:
    """Images with labels that join a training without labels: the anchors of these sets."""

    sets: TrainingSets
    pixels: Pixels | StreamedPixels


def quick_precision(device: str, precision: str) -> str:
    """Return the dtype for scoring a set's members: the fastest one that still identifies the worst member.

    A CPU with bfloat16 instructions scores nearly twice as fast in bfloat16. Only the choice of the worst member
    depends on this dtype.
    """
    if device != "cpu":
        return precision
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux
        return precision
    return "bfloat16" if "avx512_bf16" in flags or "amx_bf16" in flags else precision


class Trainer(Optimisation):
    """A classifier in training.

    `precision` is the dtype of training, `scoring` the dtype for comparing members of a set (None: the same). Without
    `normal`, `pixels` are passed to the network unchanged. This is for a network that is only a head and takes
    features.

    For the loss `agreement`, the network as it is given is the start model: its mean answers over the sets, `target`
    (S, C), are computed here and do not change. `anchors` add a cross-entropy of labelled images to that loss.
    """

    def __init__(
        self,
        module: Any,
        recipe: Recipe,
        sets: TrainingSets,
        pixels: Frames,
        normal: Normal | None,
        *,
        seed: int = 0,
        precision: str = "float32",
        scoring: str | None = None,
        processes: Processes | None = None,
        hooks: Hooks | None = None,
        anchors: LabelledAnchors | None = None,
    ) -> None:
        self.schedule = Schedule(sets, recipe, seed=seed, side_hw=pixels.side_hw)
        module.requires_grad_(True)
        super().__init__(module, recipe, self.schedule, device=pixels.device, seed=seed, processes=processes)
        if self.schedule.batch < self.processes.count:
            raise StrobeError(
                f"a batch of {self.schedule.batch} cannot be split between {self.processes.count} processes"
            )
        self.sets, self.pixels, self.hooks = sets, pixels, hooks or Hooks()
        self._precision, self._scoring = precision, scoring or precision
        self._label = torch.from_numpy(sets.label).to(self.device)
        self._every = torch.from_numpy(sets.every).to(self.device) if recipe.multi_label else None
        self._normal = None if normal is None else normal.on(self.device)
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1)
        self._anchors, self._owner = anchors, sets.owner
        self.target: Tensor | None = None if recipe.reads_labels else self._mean_answers()

    # -- a step --------------------------------------------------------------------------------------------------

    def backward(self, number: int) -> Tensor:
        """Compute gradients, and return the loss of this process's part of the batch."""
        read_ahead(self.pixels, self.sets, self.schedule, number, self.processes)
        draw = self.schedule.draw(number)
        own, batch_size = draw.part(self.processes.mine(len(draw.rows))), len(draw.rows)
        losses = []
        if self.recipe.takes_sets:
            self._largest.append(torch.zeros((), device=self.device))
        for part in parts_of(len(own.rows), self.recipe.accumulate):
            loss = self._loss_of(own.part(part), number).sum() / batch_size
            loss.backward()
            losses.append(loss.detach())
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def _loss_of(self, draw: BatchDraw, number: int) -> Tensor:
        """Return the loss of each item in a part of the batch."""
        recipe = self.recipe
        if draw.member is None or draw.partner is None:
            images = self._images(draw.rows, draw.crops)
            if self.hooks.attack is not None:
                images = self._attacked(images, draw.rows, number)
            elif self.hooks.corrupt is not None:
                images = self._corrupted(images, draw.place, number)
            return self._per_image(self._scores(self._input(images)), draw.rows)
        worst, largest = self._worst(draw.member, draw.crops)
        self._largest[-1] += largest.sum() / self.schedule.batch
        if recipe.loss == "worst":
            return self._per_image(self._scores(self._input(self._images(worst, draw.crops))), worst)
        other = draw.rows if recipe.loss == "mixed" else draw.partner
        both, crops = np.concatenate([worst, other]), np.concatenate([draw.crops, draw.crops])
        images, label = self._images(both, crops), None
        if self._anchors is not None:
            more, label = self._anchor_images(draw, number)
            images = torch.cat([images, more])
        scores = self._scores(self._input(images))
        first, second = scores[: len(worst)], scores[len(worst) : len(both)]
        bad = self._per_image(first, worst)
        if recipe.loss == "consistency":
            return bad + recipe.worst_weight * symmetric_kl(first, second)
        weight = worst_weight(recipe, done=number / self.steps)
        loss = weight * bad + (1 - weight) * self._per_image(second, other)
        return loss if label is None else loss + per_image(scores[len(both) :], label, None)

    def _anchor_images(self, draw: BatchDraw, number: int) -> tuple[Tensor, Tensor]:
        """Return a random labelled anchor for every item of a part of the batch, and their labels."""
        if self._anchors is None:
            raise StrobeError("no labelled anchors were given")
        sets = self._anchors.sets
        drawn = generator(self.seed, Purpose.ANCHOR, number).integers(0, len(sets), self.schedule.batch)
        rows = sets.anchor[drawn[draw.place]]
        images = self._anchors.pixels.take(sets.pixel[rows], draw.crops)
        return images, torch.from_numpy(sets.label[rows]).to(self.device)

    def _mean_answers(self) -> Tensor:
        """Return the mean of the network's answers (softmax) over each set, (S, C), in eval mode and float32."""
        owner, total = torch.from_numpy(self._owner).to(self.device), None
        mine = self.processes.mine(len(self._owner))
        at_once = _SCORED_AT_ONCE.get(self.device.partition(":")[0], 256)
        self.module.eval()
        with torch.no_grad():
            for start, places in parts_ahead(self.pixels, self.sets.pixel[mine], at_once):
                shares = self._logits(self._input(self.pixels.take(places))).float().softmax(dim=1)
                if total is None:
                    total = torch.zeros(len(self.sets), shares.shape[1], device=self.device)
                first = mine.start + start
                total.index_add_(0, owner[first : first + len(places)], shares)
        if total is None:
            raise StrobeError(f"there are fewer frames than the {self.processes.count} processes")
        self.processes.add_up([total])
        return total / torch.from_numpy(self.sets.lengths).to(self.device)[:, None]

    def _worst(self, member: Ints, crops: Ints) -> tuple[Ints, Tensor]:
        """Return the row of the member (B, M) with the largest loss in each set, and that loss, in eval mode."""
        there = member >= 0
        rows, of_set = member[there], np.nonzero(there)[0]
        losses = []
        self.module.eval()
        with torch.no_grad():
            at_once = _SCORED_AT_ONCE.get(self.device.partition(":")[0], 256)
            for start in range(0, len(rows), at_once):
                part = slice(start, start + at_once)
                with self._autocast(self._scoring):
                    scores = self._logits(self._input(self._images(rows[part], crops[of_set[part]])))
                losses.append(self._per_image(scores, rows[part], smoothing=0.0))
            place, largest = worst_of(torch.cat(losses), torch.from_numpy(there).to(self.device))
        self.module.train()
        return np.asarray(member[np.arange(len(member)), place.cpu().numpy()]), largest

    def _images(self, rows: Ints, crops: Ints) -> Tensor:
        return self.pixels.take(self.sets.pixel[rows], crops)

    def _input(self, images: Tensor) -> Tensor:
        return images if self._normal is None else self._normal(images)

    def _scores(self, pixels: Tensor) -> Tensor:
        with self._autocast(self._precision):
            return self._logits(pixels)

    def _logits(self, pixels: Tensor) -> Tensor:
        scores = self.module(pixels)
        found: Tensor = getattr(scores, "logits", scores)
        return found

    def _per_image(self, scores: Tensor, rows: Ints, *, smoothing: float | None = None) -> Tensor:
        if self.target is not None:
            return divergence(scores, self.target[torch.from_numpy(self._owner[rows]).to(self.device)])
        place = torch.from_numpy(rows).to(self.device, non_blocking=True)
        every = None if self._every is None else self._every[place]
        used = self.recipe.label_smoothing if smoothing is None else smoothing
        return per_image(scores, self._label[place], every, smoothing=used)

    def _corrupted(self, images: Tensor, place: Ints, number: int) -> Tensor:
        """Return the images with a share of them corrupted, using all cores."""
        recipe, corrupt = self.recipe, self.hooks.corrupt
        if corrupt is None:
            return images
        pixels = np.array(images.permute(0, 2, 3, 1).cpu().numpy())  # a copy, because the images must not be changed

        def one(which: int) -> None:
            rng = generator(self.seed, Purpose.CORRUPTION, number, int(place[which]))
            severity = int(rng.choice(np.array(recipe.severities)))
            if rng.uniform() < recipe.corrupted:
                pixels[which] = corrupt(pixels[which], severity, rng)

        list(self._pool.map(one, range(len(pixels))))
        return torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2)

    def _attacked(self, images: Tensor, rows: Ints, number: int) -> Tensor:
        if self.hooks.attack is None:
            return images
        rng = torch.Generator(device=self.device)
        rng.manual_seed(mixed(self.seed, Purpose.ATTACK, number, self.processes.rank))
        self.module.eval()
        label = self._label[torch.from_numpy(rows).to(self.device)]
        attacked = self.hooks.attack(
            lambda pixels: self._scores(self._input(pixels * 255)),
            images.float() / 255,
            label,
            self.recipe.eps,
            self.recipe.attack_steps,
            rng,
        )
        self.module.train()
        self.module.zero_grad(set_to_none=True)
        return attacked.detach() * 255

    def _autocast(self, precision: str) -> Any:
        if precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.partition(":")[0], dtype=getattr(torch, precision))

    # -- results -----------------------------------------------------------------------------------------------

    def answers(self, pixels: Frames, places: Ints) -> NDArray[np.int64]:
        """Return the class that the network in use gives each prepared frame. Each process answers its part."""
        classes = torch.zeros(len(places), device=self.device)
        mine, module = self.processes.mine(len(places)), self.result
        own = places[mine]
        at_once = _SCORED_AT_ONCE.get(self.device.partition(":")[0], 256)
        module.eval()
        with torch.inference_mode(), self._autocast(self._precision):
            for start, part in parts_ahead(pixels, own, at_once):
                scores = module(self._input(pixels.take(part)))
                best = getattr(scores, "logits", scores).argmax(dim=1)
                classes[mine.start + start : mine.start + start + len(part)] = best.float()
        self.processes.add_up([classes])
        return np.asarray(classes.cpu().numpy().astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierMeasure:
    """The sets a classifier is evaluated on, and their prepared frames."""

    held: HeldOut
    pixels: Frames

    @property
    def names(self) -> tuple[str, ...]:
        """The display names of the figures."""
        return "acc_orig", "acc_pmk"

    def predicted(self, trainer: Trainer) -> NDArray[np.int64]:
        """Return the class of each frame of the sets."""
        return trainer.answers(self.pixels, self.held.pixel)

    def measure(self, trainer: Trainer) -> tuple[float, ...]:
        """Return the figures under `names`."""
        return self.held.accuracy(self.predicted(trainer))


class FlickerMeasure(ClassifierMeasure):
    """The flicker on all held-out sets, and the accuracies on those that have labels."""

    @property
    def names(self) -> tuple[str, ...]:
        """The display names of the figures."""
        return ("flicker",) if self.held.named is None else ("acc_orig", "acc_pmk", "flicker")

    def measure(self, trainer: Trainer) -> tuple[float, ...]:
        """Return the figures under `names`."""
        predicted, named = self.predicted(trainer), self.held.named
        flicker = self.held.flicker(predicted)
        return (flicker,) if named is None else (*named.accuracy(predicted), flicker)
