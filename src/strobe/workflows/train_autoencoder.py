"""`strobe train autoencoder`: train an autoencoder of images like a dataset's, with a sheet of reconstructions."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from strobe.core.errors import StrobeError, printable
from strobe.core.files import write_bytes, write_text
from strobe.core.png import png_bytes
from strobe.core.ports import Progress
from strobe.core.quoting import safe_markdown
from strobe.models.strobe_net import plan_of
from strobe.train.recipe import Recipe
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_card import CARD, CURVES, WEIGHTS, draw_curves, how_made, trained_on, versions_of
from strobe.workflows.train_gan import sample_sheet
from strobe.workflows.train_job import Material, Trained, TrainingJob, in_training

if TYPE_CHECKING:
    from strobe.generator.auto_net import AutoFacts
    from strobe.train.autoencoder import AutoencoderTrainer
    from strobe.train.folder import Point, TrainFolder
    from strobe.train.pixels import Pixels
    from strobe.train.sets import HeldOut
    from strobe.train.split import Split
    from strobe.train.streaming import StreamedPixels

SHEET = "reconstructions.png"
_SHOWN, _MOST = 12, 1024
"""The number of images on the sheet, and the largest number of held-out images per evaluation."""


def train_autoencoder(
    recipe: Recipe,
    material: Material,
    model: str,
    out: Path,
    options: TrainOptions,
    progress: Progress,
    *,
    held_out: Material | None = None,
) -> Trained:
    """Train an autoencoder by a recipe. Calling it again resumes, or returns the finished training."""
    with in_training(options, progress) as (say, processes, device):
        if processes.count > 1:
            raise StrobeError(f"{printable(model)}: it is too small for several processes; train it in one process")
        return _AutoencoderTraining(recipe, material, held_out, model, out, options, say, processes, device).run()


@dataclass(frozen=True, slots=True)
class _AutoencoderMeasure:
    """The held-out images of an autoencoder in training, and the folder of its sheet."""

    held: "HeldOut"
    pixels: "Pixels | StreamedPixels"
    folder: Path

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the figure."""
        return ("variance explained",)

    @property
    def keys(self) -> tuple[str, ...]:
        """The name of the figure as the key of a record."""
        return ("explained",)

    def measure(self, trainer: "AutoencoderTrainer") -> tuple[float, ...]:
        """Return the share of the variance of held-out images that reconstructions explain, and draw the sheet."""
        import torch

        places = self.held.pixel[:_MOST]
        images = self.pixels.take(places[:_SHOWN]).to(torch.float32) / 255
        with torch.no_grad():
            made = trainer.result.eval()(images.contiguous(memory_format=torch.channels_last))
        both = torch.stack([images, made.clamp(0, 1)], dim=1).flatten(0, 1).contiguous().cpu().numpy()
        write_bytes(self.folder / SHEET, png_bytes(sample_sheet(both, 2)))
        return (trainer.explained(self.pixels, places),)


@dataclass(frozen=True, slots=True)
class _AutoencoderTraining(TrainingJob):
    """One training of an autoencoder."""

    material: Material

    def run(self) -> Trained:
        """Run the training: split the data, make the network, prepare pixels, run the steps, write the files."""
        dataset, net = self.material.dataset, self._net()
        split = self.sides_without_labels(dataset)
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

    def _net(self) -> "AutoFacts":
        from strobe.generator.auto_net import auto_facts_named

        name, at, _ = self.model.partition("@")
        if at:
            raise StrobeError(
                f"{printable(self.model)}: an autoencoder is trained from scratch; remove @ and the weights after it"
            )
        net = auto_facts_named(name)
        return replace(net, side=self.options.image_size or net.side)

    def _trainer(self, net: "AutoFacts", split: "Split") -> "tuple[AutoencoderTrainer, _AutoencoderMeasure]":
        import torch

        from strobe.generator.auto_net import AutoNet
        from strobe.train.autoencoder import AutoencoderTrainer
        from strobe.train.sets import HeldOut, TrainingSets

        plan, held_in = plan_of(net.side), self.held_out or self.material
        pixels, places = self.pixels(self.material, plan)
        sets = TrainingSets.of(self.material.dataset, split.training, places, which="unread")
        shown, shown_places = (pixels, places) if self.held_out is None else self.pixels(held_in, plan)
        held = HeldOut.of(held_in.dataset, split.held_out, shown_places, labelled=False)
        torch.manual_seed(self.options.seed)
        trainer = AutoencoderTrainer(
            AutoNet(net), self.recipe, sets, pixels, seed=self.options.seed, precision=self.precision
        )
        return trainer, _AutoencoderMeasure(held, shown, self.out)

    def _finish(
        self,
        folder: "TrainFolder",
        history: "Sequence[Point]",
        trainer: "AutoencoderTrainer",
        measured: _AutoencoderMeasure,
        net: "AutoFacts",
        split: "Split",
    ) -> None:
        from strobe.generator.weights import write_autoencoder

        versions = versions_of(self.device)
        facts = {"name": folder.name, "facts": folder.facts, "versions": versions}
        with folder.finishing(history, {"versions": versions}) as staged:
            write_autoencoder(staged.root / WEIGHTS, trainer.result, training=facts)
            title = f"{self.recipe.name}: {net.kind}"
            has_curves = draw_curves(staged.root / CURVES, history, names=measured.names, title=title)
            write_text(staged.root / "recipe.toml", self.recipe.to_toml())
            card = self._card(folder, history, net, split, versions, trainer.steps, has_curves=has_curves)
            write_text(staged.root / CARD, card)

    def _card(
        self,
        folder: "TrainFolder",
        history: "Sequence[Point]",
        net: "AutoFacts",
        split: "Split",
        versions: dict[str, str],
        steps: int,
        *,
        has_curves: bool,
    ) -> str:
        last, size = history[-1], int(np.prod(net.latent_shape))
        stopped = "" if last.step == steps else f" (of {steps}; ended by --minutes {self.options.minutes:g})"
        held = "a part of the same dataset" if self.held_out is None else safe_markdown(self.held_out.dataset.name)
        lines = [
            f"# {net.kind}, trained by the recipe {safe_markdown(self.recipe.name)}",
            "",
            f"An autoencoder of {net.side}×{net.side} images with latents of {size:,} numbers. "
            f"{safe_markdown(self.recipe.about)} Use it as `{net.kind}@{printable(folder.path / WEIGHTS)}`.",
            "",
            f"![Held-out images, and their reconstructions below]({SHEET})",
            "",
            f"Reconstructions explain {last.figures[0]:.1%} of the variance of held-out images ({held}).",
            "",
            *([f"![Loss and variance explained over the epochs]({CURVES})", ""] if has_curves else []),
            "## Training",
            f"- trained on {trained_on(self.material.dataset, len(split.training))}",
            *how_made(net.steps, folder, last, stopped, versions, self.recipe),
        ]
        return "\n".join(lines)
