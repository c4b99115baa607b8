"""What is shipped for the study of generators: small enough, and good enough to mean something."""

from functools import cache

import pytest
import torch

from strobe.annexes.generators.auto_net import AUTOENCODERS
from strobe.annexes.generators.networks import NETWORKS
from strobe.annexes.generators.weights import read_autoencoder, read_network, shipped_file
from strobe.core.labels import space
from strobe.models import strobe_net
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.torch_classifier import TorchClassifier
from strobe.synthetic.classes import LABEL_SPACE
from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import WorldOptions

CPU = LoadOptions(device="cpu", backend="torch")


def classifier(name: str) -> TorchClassifier:
    found = load_model(name, CPU)
    assert isinstance(found, TorchClassifier)
    return found


@cache
def samples(name: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images as they would be stored, and the classes asked for."""
    network = read_network(shipped_file(name)).network
    latents = torch.randn(count, network.about.latent, generator=torch.Generator().manual_seed(11))
    classes = torch.arange(count) % network.about.classes
    with torch.no_grad():
        images = torch.cat([network(latents[part], classes[part]) for part in torch.arange(count).split(64)])
    return (images.expand(-1, 3, -1, -1) * 255).round() / 255, classes


@pytest.mark.parametrize(("name", "most", "classes"), [("strobe-gan", 8e6, 12), ("strobe-gan-mnist", 2e6, 10)])
def test_a_generator_is_small_and_says_what_it_is(name: str, most: float, classes: int) -> None:
    assert shipped_file(name).stat().st_size <= most
    loaded = read_network(shipped_file(name))
    assert loaded.network.about == NETWORKS[name]
    assert loaded.label_space == (LABEL_SPACE if classes == 12 else space("mnist"))


def test_the_autoencoder_is_small_and_says_what_it_is() -> None:
    network, _ = read_autoencoder(shipped_file("strobe-ae"))
    assert network.about == AUTOENCODERS["strobe-ae"]
    assert shipped_file("strobe-ae").stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("generator", "judge", "count"),
    [("strobe-gan", "strobe-world-judge", 96), ("strobe-gan-mnist", "strobe-mnist-judge", 200)],
)
def test_an_independent_judge_names_the_class_asked_for(generator: str, judge: str, count: int) -> None:
    images, classes = samples(generator, count)
    model = classifier(judge)
    with torch.no_grad():
        right = torch.cat([model.input_scores(part).argmax(dim=1) for part in images.split(64)]) == classes
    assert float(right.float().mean()) >= 0.95
    spread = images.flatten(1).std(dim=0).mean()  # not one image for every latent
    assert float(spread) > 0.1


@pytest.mark.parametrize(
    "name", sorted(name for name in strobe_net.SHIPPED if name.split("-")[1] in ("world", "mnist"))
)
def test_a_classifier_is_small_and_knows_its_data(name: str) -> None:
    assert strobe_net.shipped_file(name).stat().st_size <= 1.2e6
    model = classifier(name)
    is_world = "world" in name
    assert model.spec.name == name
    assert model.spec.label_space == (LABEL_SPACE if is_world else space("mnist"))
    assert model.input_hw == ((64, 64) if is_world else (28, 28))
    images, truth = _renders() if is_world else (part[:60] for part in samples("strobe-gan-mnist", 200))
    with torch.no_grad():
        right = model.input_scores(images).argmax(dim=1) == truth
    assert float(right.float().mean()) >= 0.9


@cache
def _renders() -> tuple[torch.Tensor, torch.Tensor]:
    world = WorldOptions(
        size=64, frames=1, distractors=0, occluders=0, object_scale=(0.6, 0.85), motion=0.5, blur=0, noise=0
    )
    made = synthetic_dataset(SyntheticOptions(world=world, videos=48, seed=99))
    pixels = torch.from_numpy(made.source().all().copy()).permute(0, 3, 1, 2).float() / 255
    return pixels, torch.from_numpy(made.dataset.labels.label.astype("int64"))
