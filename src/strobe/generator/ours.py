"""strobe-gan and strobe-gan-mnist as LayeredGenerators."""

from pathlib import Path

from strobe.core.generators import GeneratorSpec, GeneratorStep
from strobe.generator.layered import TorchGenerator
from strobe.generator.weights import read_network


def load(name: str, file: Path, *, device: str) -> TorchGenerator:
    """Load the network in the file, ready to run."""
    loaded = read_network(file)
    network, about = loaded.network, loaded.network.about
    spec = GeneratorSpec(
        name=name,
        provider="strobe-gan",
        label_space=loaded.label_space,
        weights=loaded.digest,
        latent_size=about.latent,
        image_hw=(about.side, about.side),
        settings={"kind": about.kind},
        steps=tuple(GeneratorStep(name=step.name, granularity=step.granularity) for step in about.steps),
        batch_size=32 if device == "cpu" else 256,
    )
    return TorchGenerator(
        network,
        list(network.steps),
        spec=spec,
        device=device,
        condition=lambda _, classes: network.condition(classes),
    )
