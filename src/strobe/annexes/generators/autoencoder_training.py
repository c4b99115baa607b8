"""`strobe train autoencoder`: train an autoencoder of images like a dataset's, with a sheet of reconstructions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from strobe.annexes.generators.gan_training import NetTraining, sample_sheet
from strobe.core.dataset import Dataset
from strobe.core.files import write_bytes
from strobe.core.png import png_bytes
from strobe.models.strobe_net import plan_of
from strobe.train.recipe import Training
from strobe.workflows.train_job import Trained

if TYPE_CHECKING:
    from strobe.annexes.generators.auto_net import AutoFacts
    from strobe.annexes.generators.autoencoder_trainer import AutoencoderTrainer
    from strobe.train.pixels import Pixels
    from strobe.train.sets import HeldOut
    from strobe.train.split import Split
    from strobe.train.streaming import StreamedPixels

SHEET = "reconstructions.png"
_SHOWN, _MOST = 12, 1024
"""The number of images on the sheet, and the largest number of held-out images per evaluation."""


@dataclass(frozen=True, slots=True)
class _AutoencoderMeasure:
    """The held-out images of an autoencoder in training, and the folder of its sheet."""

    held: "HeldOut"
    pixels: "Pixels | StreamedPixels"
    folder: Path

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the figure."""
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
class _AutoencoderTraining(NetTraining):
    """One training of an autoencoder."""

    def _net(self, name: str) -> "AutoFacts":
        from strobe.annexes.generators.auto_net import auto_facts_named

        return auto_facts_named(name)

    def _split(self, dataset: Dataset) -> "Split":
        return self.sides_without_labels(dataset)

    def _trainer(self, net: "AutoFacts", split: "Split") -> "tuple[AutoencoderTrainer, _AutoencoderMeasure]":
        import torch

        from strobe.annexes.generators.auto_net import AutoNet
        from strobe.annexes.generators.autoencoder_trainer import AutoencoderTrainer
        from strobe.train.sets import HeldOut, TrainingSets

        plan, held_in = plan_of(net.side), self.held_out or self.material
        pixels, places = self.pixels(self.material, plan)
        sets = TrainingSets.of(self.material.dataset, split.training, places, which="unread")
        shown, shown_places = (pixels, places) if self.held_out is None else self.pixels(held_in, plan)
        held_out = HeldOut.of(held_in.dataset, split.held_out, shown_places, labelled=False)
        torch.manual_seed(self.options.seed)
        trainer = AutoencoderTrainer(
            AutoNet(net), self.recipe, sets, pixels, seed=self.options.seed, precision=self.precision
        )
        return trainer, _AutoencoderMeasure(held_out, shown, self.out)

    def _write(self, path: Path, trainer: "AutoencoderTrainer", told: Mapping[str, Any]) -> None:
        from strobe.annexes.generators.weights import write_autoencoder

        write_autoencoder(path, trainer.result, training=told)

    def _about(self, net: "AutoFacts", use: str, figures: Sequence[float], held: str) -> list[str]:
        size = int(np.prod(net.latent_shape))
        return [
            f"An autoencoder of {net.side}×{net.side} images with latents of {size:,} numbers. {use}",
            "",
            f"![Held-out images, and their reconstructions below]({SHEET})",
            "",
            f"Reconstructions explain {figures[0]:.1%} of the variance of held-out images ({held}).",
        ]


def _summary(done: Trained) -> str:
    return f"reconstructions explain {done.history[-1].figures[0]:.1%} of the variance of held-out images"


train_autoencoder = _AutoencoderTraining.train
"""Train an autoencoder by a recipe (`TrainingJob.train`)."""

AUTOENCODER = Training(run=train_autoencoder, summary=_summary, package="strobe.annexes.generators")
