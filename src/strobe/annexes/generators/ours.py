"""strobe-gan, strobe-gan-mnist and strobe-ae as LayeredGenerators."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from strobe.annexes.generators.layered import TorchAutoencoder, TorchGenerator
from strobe.annexes.generators.spec import GeneratorSpec, GeneratorStep
from strobe.annexes.generators.weights import read_autoencoder, read_network
from strobe.core.labels import LabelSpace


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


def load_autoencoder(name: str, file: Path, *, classes: LabelSpace, device: str) -> TorchAutoencoder:
    """Load the autoencoder in the file for photos of these classes, ready to run."""
    network, digest = read_autoencoder(file)
    about = network.about
    shape = (-1, *about.latent_shape)
    spec = GeneratorSpec(
        name=name,
        provider="strobe-ae",
        label_space=classes,
        weights=digest,
        latent_size=math.prod(about.latent_shape),
        image_hw=(about.side, about.side),
        settings={"kind": about.kind},
        steps=tuple(GeneratorStep(name=step.name, granularity=step.granularity) for step in about.steps),
        batch_size=32 if device == "cpu" else 256,
        encodes=True,
    )
    first, *others = network.steps
    calls = [lambda z, _: first(z.view(shape)), *(_plain(step) for step in others)]
    return TorchAutoencoder(
        network, calls, spec=spec, device=device, encode=lambda pixels: network.encode(pixels).flatten(1)
    )


def _plain(step: Any) -> Callable[[Any, Any], Any]:
    """Return a step that ignores the class."""
    return lambda activation, _: step(activation)
