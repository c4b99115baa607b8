"""`strobe train gan`: train a generator of images like a dataset's, with a sheet of samples during the training."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import write_bytes, write_text
from strobe.core.labels import LabelSpace
from strobe.core.png import png_bytes
from strobe.core.quoting import safe_markdown
from strobe.models.strobe_net import plan_of
from strobe.train.recipe import Recipe, Training
from strobe.workflows.train_card import CARD, CURVES, WEIGHTS, draw_curves, trained_on, versions_of
from strobe.workflows.train_job import Material, Trained, TrainingJob

if TYPE_CHECKING:
    from strobe.annexes.generators.auto_net import AutoFacts
    from strobe.annexes.generators.gan_trainer import GanTrainer
    from strobe.annexes.generators.networks import NetFacts, StepFacts
    from strobe.train.folder import Point, TrainFolder
    from strobe.train.pixels import Pixels
    from strobe.train.sets import HeldOut
    from strobe.train.split import Split
    from strobe.train.streaming import StreamedPixels


SAMPLES = "samples.png"
_PER_CLASS, _GAP = 12, 2
_MOST = 1024
"""Largest number of samples and of held-out images per evaluation. Small batch sizes use fewer."""


@dataclass(frozen=True, slots=True)
class _GanMeasure:
    """The held-out images of a generator in training, and the folder of its sample sheets."""

    held: "HeldOut"
    pixels: "Pixels | StreamedPixels"
    label: NDArray[np.int64]
    folder: Path

    @property
    def names(self) -> tuple[str, str]:
        """The names of the figures: shares that the discriminator classifies correctly."""
        return "samples_named", "held_out_named"

    def measure(self, trainer: "GanTrainer") -> tuple[float, float]:
        """Return the shares of samples and of held-out images that the discriminator classifies correctly.

        It also draws the sheet of samples.
        """
        import torch

        from strobe.annexes.generators.networks import standing_statistics
        from strobe.train.draws import Purpose, mixed

        network, count = trainer.settle(standing_statistics, batches=4), min(_MOST, 8 * trainer.schedule.batch)
        rng = torch.Generator().manual_seed(mixed(trainer.seed, Purpose.SAMPLES, 0))
        latents = torch.randn(count, trainer.latent, generator=rng).to(trainer.device)
        classes = (torch.arange(count) % trainer.n_classes).to(trainer.device)
        with torch.no_grad():
            images = torch.cat([network(latents[part], classes[part]) for part in _parts(count)])
        shown = min(count // trainer.n_classes, _PER_CLASS) * trainer.n_classes
        write_bytes(self.folder / SAMPLES, png_bytes(sample_sheet(images[:shown].cpu().numpy(), trainer.n_classes)))
        places = np.flatnonzero(self.label >= 0)[:count]
        told = torch.from_numpy(self.label[places]).to(trainer.device)
        real = trainer.seen(self.pixels, self.held.pixel[places])
        return trainer.named(images, classes), trainer.named(real, told)


def _parts(count: int, *, size: int = 256) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]


def sample_sheet(images: NDArray[np.float32], n_classes: int) -> NDArray[np.uint8]:
    """Return images (N, C, H, W) in 0 … 1, whose classes take turns, as one image with a row per class.

    Small images are shown at twice their size.
    """
    pixels = (images.clip(0, 1) * 255 + 0.5).astype(np.uint8).transpose(0, 2, 3, 1)
    pixels = np.repeat(pixels, 3 // pixels.shape[3], axis=3)
    if pixels.shape[1] < 48:
        pixels = pixels.repeat(2, axis=1).repeat(2, axis=2)
    columns, side = len(pixels) // n_classes, pixels.shape[1]
    step = side + _GAP
    sheet = np.full((n_classes * step + _GAP, columns * step + _GAP, 3), 255, dtype=np.uint8)
    for index, picture in enumerate(pixels[: columns * n_classes]):
        column, row = divmod(index, n_classes)
        top, left = _GAP + row * step, _GAP + column * step
        sheet[top : top + side, left : left + side] = picture
    return sheet


@dataclass(frozen=True, slots=True)
class NetTraining(TrainingJob):
    """One training of a generator or an autoencoder, in one process."""

    material: Material

    def run(self) -> Trained:
        """Run the training: split the data, make the networks, prepare pixels, run the steps, write the files."""
        name, at, _ = self.model.partition("@")
        if at:
            raise StrobeError(f"{printable(self.model)}: it is trained from scratch; remove @ and the weights after it")
        if self.processes.count > 1:
            raise StrobeError(f"{printable(name)}: it is too small for several processes; train it in one process")
        dataset, net = self.material.dataset, self._net(name)
        net = replace(net, side=self.options.image_size or net.side)
        split = self._split(dataset)
        facts = {
            "model": net.kind,
            "network": asdict(net),
            "recipe": self.recipe.settings(),
            "seed": self.options.seed,
            **self.data_facts(dataset, split),
            "preprocessing": plan_of(net.side).to_json(),
            "precision": self.precision,
        }
        with self.opened(facts) as (folder, was_there):
            if was_there:
                history = folder.history()
            else:
                trainer, measured = self._trainer(net, split)
                history = self.steps(folder, split.files(dataset), trainer, measured)
                self._finish(folder, history, trainer, measured, net, split)
        return self.trained(f"{self.model}@{self.weights}", 0, history, was_there=was_there)

    def _net(self, name: str) -> "NetFacts | AutoFacts":
        raise NotImplementedError

    def _split(self, dataset: Dataset) -> "Split":
        raise NotImplementedError

    def _trainer(self, net: Any, split: "Split") -> tuple[Any, Any]:
        raise NotImplementedError

    def _write(self, path: Path, trainer: Any, told: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _about(self, net: Any, use: str, figures: Sequence[float], held: str) -> list[str]:
        """Return the lines of the card on the network and its figures. `use` says how it is used."""
        raise NotImplementedError

    def _classes(self) -> list[str]:
        """Return a line of the card on the classes, if there are classes."""
        return []

    def _finish(
        self,
        folder: "TrainFolder",
        history: "Sequence[Point]",
        trainer: Any,
        measured: Any,
        net: "NetFacts | AutoFacts",
        split: "Split",
    ) -> None:
        versions, last = versions_of(self.device), history[-1]
        told = {"name": folder.name, "facts": folder.facts, "versions": versions}
        steps = trainer.steps
        stopped = "" if last.step == steps else f" (of {steps}; ended by --minutes {self.options.minutes:g})"
        held = "a part of the same dataset" if self.held_out is None else safe_markdown(self.held_out.dataset.name)
        use = f"{safe_markdown(self.recipe.about)} Use it as `{net.kind}@{printable(folder.path / WEIGHTS)}`."
        with folder.finishing(history, {"versions": versions}) as staged:
            self._write(staged.root / WEIGHTS, trainer, told)
            title = f"{self.recipe.name}: {net.kind}"
            has_curves = draw_curves(staged.root / CURVES, history, names=measured.names, title=title)
            write_text(staged.root / "recipe.toml", self.recipe.to_toml())
            lines = [
                f"# {net.kind}, trained by the recipe {safe_markdown(self.recipe.name)}",
                "",
                *self._about(net, use, last.figures, held),
                "",
                *([f"![Loss and held-out figures over the epochs]({CURVES})", ""] if has_curves else []),
                "## Training",
                f"- trained on {trained_on(self.material.dataset, len(split.training))}",
                *self._classes(),
                *_how_made(net.steps, folder, last, stopped, versions, self.recipe),
            ]
            write_text(staged.root / CARD, "\n".join(lines))


def _how_made(
    steps: "Sequence[StepFacts]",
    folder: "TrainFolder",
    last: "Point",
    stopped: str,
    versions: Mapping[str, str],
    recipe: Recipe,
) -> list[str]:
    """Return the last lines of the card of a generator or an autoencoder: its steps, the training and the recipe."""
    return [
        f"- {len(steps)} steps: {', '.join(f'{step.name} ({step.granularity})' for step in steps)}",
        f"- seed {folder.facts['seed']}, {folder.facts['precision']}, {last.step} steps{stopped} in "
        f"{last.seconds:.0f} s; this training is `{folder.name}`",
        f"- {', '.join(f'{key} {value}' for key, value in versions.items())}",
        "",
        "```toml",
        recipe.to_toml().rstrip(),
        "```",
        "",
    ]


@dataclass(frozen=True, slots=True)
class _GanTraining(NetTraining):
    """One training of a generator."""

    @property
    def _space(self) -> LabelSpace:
        return self.material.dataset.info.label_space

    def _net(self, name: str) -> "NetFacts":
        from strobe.annexes.generators.networks import facts_named

        return replace(facts_named(name), classes=len(self._space))

    def _split(self, dataset: Dataset) -> "Split":
        return self.sides(dataset, multi_label=False)

    def _trainer(self, net: "NetFacts", split: "Split") -> "tuple[GanTrainer, _GanMeasure]":
        import torch

        from strobe.annexes.generators.discriminator import Discriminator
        from strobe.annexes.generators.gan_trainer import GanTrainer
        from strobe.annexes.generators.networks import LayeredNet
        from strobe.train.sets import HeldOut, TrainingSets, targets_of

        recipe, plan, held_in = self.recipe, plan_of(net.side), self.held_out or self.material
        pixels, places = self.pixels(self.material, plan)
        sets = TrainingSets.of(self.material.dataset, split.training, places, which="labelled")
        shown, shown_places = (pixels, places) if self.held_out is None else self.pixels(held_in, plan)
        held_out = HeldOut.of(held_in.dataset, split.held_out, shown_places)
        torch.manual_seed(self.options.seed)
        trainer = GanTrainer(
            LayeredNet(net),
            Discriminator(net, width=recipe.width),
            recipe,
            sets,
            pixels,
            latent=net.latent,
            channels=net.channels,
            seed=self.options.seed,
            precision=self.precision,
            compiles=self.device.startswith("cuda") and not self.options.deterministic,
            say=self.say,
        )
        label = np.full(len(held_in.dataset.frames), -1, dtype=np.int64)
        label[held_in.dataset.sets.frame] = targets_of(held_in.dataset).label
        return trainer, _GanMeasure(held_out, shown, label[held_out.frames], self.out)

    def _write(self, path: Path, trainer: "GanTrainer", told: Mapping[str, Any]) -> None:
        from strobe.annexes.generators.networks import standing_statistics
        from strobe.annexes.generators.weights import write_network

        write_network(path, trainer.settle(standing_statistics), self._space, training=told)

    def _about(self, net: "NetFacts", use: str, figures: Sequence[float], held: str) -> list[str]:
        samples, pictures = figures
        return [
            f"A generator of {net.side}×{net.side} images by class. {use}",
            "",
            f"![Samples, one row per class]({SAMPLES})",
            "",
            f"Its discriminator assigns the requested class to {samples:.1%} of its samples, and the right class to "
            f"{pictures:.1%} of held-out images ({held}). It was trained against this generator, so the first "
            "figure is too high. Check the samples with an independent classifier.",
        ]

    def _classes(self) -> list[str]:
        names = ", ".join(safe_markdown(name) for name in self._space.names[:12])
        more = f" and {len(self._space) - 12} more" if len(self._space) > 12 else ""
        return [f"- {len(self._space)} classes: {names}{more}"]


def _summary(done: Trained) -> str:
    first, second = done.history[-1].named.values()
    return f"the discriminator classifies {first:.1%} of its samples and {second:.1%} of held-out images correctly"


train_gan = _GanTraining.train
"""Train a generator by a recipe (`TrainingJob.train`)."""

GAN = Training(run=train_gan, summary=_summary, package="strobe.annexes.generators")
