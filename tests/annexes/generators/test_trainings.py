"""`strobe train gan` and `strobe train autoencoder`: they learn, resume to the same bits, and their weights load."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_stop import Stop, StopAfter
from PIL import Image
from safetensors.torch import load_file, save_file

from strobe.annexes.generators.auto_net import AutoFacts, AutoNet
from strobe.annexes.generators.autoencoder_trainer import AutoencoderTrainer
from strobe.annexes.generators.autoencoder_training import train_autoencoder
from strobe.annexes.generators.discriminator import Discriminator
from strobe.annexes.generators.gan_trainer import GanTrainer
from strobe.annexes.generators.gan_training import train_gan
from strobe.annexes.generators.networks import NETWORKS, LayeredNet, NetFacts, standing_statistics
from strobe.annexes.generators.weights import (
    digest_of,
    read_autoencoder,
    read_network,
    shipped_file,
    write_autoencoder,
    write_network,
)
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.train.pixels import Pixels
from strobe.train.recipe import Recipe, find
from strobe.train.sets import TrainingSets
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

OPTIONS = TrainOptions(image_size=8, evaluations=2, held_share=0.3, device="cpu")
SMALL = NetFacts(kind="small", classes=2, side=8, channels=1, latent=4, embedding=4, widths=(8, 8))
AUTO = AutoFacts(kind="small", side=8, latent=4, widths=(16, 8))
PETS = LabelSpace.of_names("pets", ["cat", "dog"])
KINDS: dict[str, tuple[Any, str, list[str], int]] = {
    "gan": (train_gan, "strobe-gan-mnist", ["width=4"], 8), "autoencoder": (train_autoencoder, "strobe-ae", [], 16),
}  # fmt: skip
"""The training, its model, more changes of the recipe, and the size of its images."""


def quick(kind: str, *changes: str) -> Recipe:
    _, model, more, _ = KINDS[kind]
    return find(kind, changes=["steps=4", "batch=6", *more, *changes], model=model)


def trained(kind: str, material: Material, out: Path, *, recipe: Recipe | None = None, **options: Any) -> Any:
    train, model, _, size = KINDS[kind]
    settings = replace(OPTIONS, image_size=size, **options)
    return train(recipe or quick(kind), material, model, out, settings, Silent())


@pytest.mark.parametrize("kind", KINDS)
def test_it_resumes_to_the_same_bits_and_says_what_it_is(kind: str, material: Material, tmp_path: Path) -> None:
    train, model, _, size = KINDS[kind]
    whole = trained(kind, material, tmp_path / "whole")
    broken = replace(OPTIONS, image_size=size, checkpoint_s=0, cache_gb=1e-6)
    with pytest.raises(Stop):  # its frames are read during the training, those of the whole one are stored
        train(quick(kind), material, model, tmp_path / "broken", broken, StopAfter(2))
    assert (tmp_path / "broken/checkpoint.pt").is_file()
    gone_on = trained(kind, material, tmp_path / "broken", cache_gb=1e-6)
    one, two = (load_file(str(tmp_path / name / "model.safetensors")) for name in ("whole", "broken"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    points = [[replace(point, seconds=0.0) for point in done.history] for done in (whole, gone_on)]
    assert points[0] == points[1]
    about = json.loads((tmp_path / "whole/training.json").read_text())["history"][-1]
    figures = {"gan": ("samples_named", "held_out_named"), "autoencoder": ("explained",)}[kind]
    assert whole.history[-1].figures == tuple(about[name] for name in figures)
    assert not [key for key in about if key.startswith("acc")], "no accuracy of a model"
    assert trained(kind, material, tmp_path / "whole").was_there
    sheet = {"gan": "samples.png", "autoencoder": "reconstructions.png"}[kind]
    assert np.asarray(Image.open(tmp_path / "whole" / sheet)).shape[2] == 3
    card = (tmp_path / "whole/card.md").read_text(encoding="utf-8")
    assert "2x2 (coarse), 4x4 (middle), 8x8 (fine), pixels (pixel)" in card
    if kind == "autoencoder":
        network, digest = read_autoencoder(tmp_path / "whole/model.safetensors")
        assert (network.about.side, len(digest)) == (16, 64)
        return
    loaded = read_network(tmp_path / "whole/model.safetensors")
    assert loaded.label_space == material.dataset.info.label_space
    assert (loaded.network.about.side, loaded.network.about.classes) == (8, 12)
    with pytest.raises(StrobeError, match=r"contains another training \(recipe.naming"):
        trained(kind, material, tmp_path / "whole", recipe=quick("gan", "naming=0.3"))


def test_minutes_end_it_with_what_it_has(material: Material, tmp_path: Path) -> None:
    done = trained("gan", material, tmp_path / "run", recipe=quick("gan", "steps=100000"), minutes=0.001, evaluations=1)
    assert 0 < done.history[-1].step < 1000
    assert f"{done.history[-1].step} steps (of 100000; ended by --minutes 0.001)" in done.card.read_text("utf-8")
    assert read_network(done.weights).network.about.latent == NETWORKS["strobe-gan-mnist"].latent


@pytest.mark.parametrize(
    ("kind", "model", "size", "said"),
    [
        ("gan", "strobe-net", 8, "strobe-gan"),
        ("gan", "strobe-gan@w.safetensors", 8, "trained from scratch"),
        ("gan", "strobe-gan-mnist", 10, "a multiple of 4"),
        ("autoencoder", "strobe-gan", 16, "unknown autoencoder"),
        ("autoencoder", "strobe-ae@w.safetensors", 16, "trained from scratch"),
        ("autoencoder", "strobe-ae", 20, "a multiple of 8"),
    ],
)
def test_what_cannot_be_trained_is_one_line(
    kind: str, model: str, size: int, said: str, material: Material, tmp_path: Path
) -> None:
    with pytest.raises(StrobeError, match=said):
        KINDS[kind][0](quick(kind), material, model, tmp_path / "run", replace(OPTIONS, image_size=size), Silent())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [("gan", "optimiser=sgd", "adam for a gan"), ("gan", "ema=0", "ema"), ("gan", "loss=worst", "average for a gan"),
     ("autoencoder", "loss=worst", "average for a gan or an autoencoder")],
)  # fmt: skip
def test_their_recipes_have_their_own_rules(kind: str, change: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        quick(kind, change)


def test_an_autoencoder_learns_to_reconstruct() -> None:
    torch.manual_seed(0)
    rng, rows = np.random.default_rng(0), np.arange(48)
    shade = rng.integers(0, 255, (48, 1, 1, 3)) * np.linspace(0.2, 1, 8)[None, :, None, None] * np.ones((1, 1, 8, 1))
    sets = TrainingSets(rows, rows, rows * 0, np.ones((48, 1), dtype=bool), rows, rows[:, None])
    pixels = Pixels(shade.astype(np.uint8), device="cpu")
    recipe = find("autoencoder", changes=["steps=500", "batch=16", "learning_rate=5e-3", "ema=0.9"])
    trainer = AutoencoderTrainer(AutoNet(AUTO), recipe, sets, pixels, seed=1)
    before = trainer.explained(pixels, rows)
    for number in range(trainer.steps):
        trainer.step(number)
    trainer.check()
    assert before < 0.2
    assert trainer.explained(pixels, rows) > 0.8


def blots() -> tuple[TrainingSets, Pixels]:
    """Two classes: dark images and bright ones."""
    rng, count = np.random.default_rng(0), 64
    label = np.arange(count) % 2
    shade = (40 + 170 * label)[:, None, None, None] + rng.integers(-30, 30, (count, 8, 8, 3))
    rows = np.arange(count)
    sets = TrainingSets(rows, rows, label, np.eye(2, dtype=bool)[label], rows, rows[:, None])
    return sets, Pixels(shade.astype(np.uint8), device="cpu")


def test_it_learns_what_a_class_looks_like() -> None:
    torch.manual_seed(0)
    recipe = find("gan", changes=["steps=150", "batch=16", "width=8", "learning_rate=2e-3", "ema=0.9"])
    sets, pixels = blots()
    trainer = GanTrainer(
        LayeredNet(SMALL), Discriminator(SMALL, width=8), recipe, sets, pixels, latent=4, channels=1, seed=1
    )
    for number in range(trainer.steps):
        trainer.step(number)
    trainer.check()
    network = trainer.settle(standing_statistics)
    with torch.no_grad():
        shade = [float(network(torch.randn(50, 4), torch.full((50,), label)).mean()) for label in (0, 1)]
    assert shade[0] < 0.4 < 0.6 < shade[1]


def network() -> LayeredNet:
    torch.manual_seed(3)
    found = LayeredNet(SMALL)
    for one in found.modules():
        if hasattr(one, "gain"):
            torch.nn.init.normal_(one.gain.weight, std=0.3)
    standing_statistics(found, [(torch.randn(32, 4), torch.arange(32) % 2)])
    return found


def test_an_image_follows_from_its_own_latent_and_class() -> None:
    net, latents, classes = network(), torch.randn(6, 4), torch.arange(6) % 2
    with torch.no_grad():
        together = net(latents, classes)
        alone = torch.cat([net(latents[place, None], classes[place, None]) for place in range(6)])
        other = net(latents, 1 - classes)
        stepped = latents
        for step in net.steps:
            stepped = step(stepped, net.condition(classes))
    assert torch.equal(stepped, together)
    assert torch.allclose(together, alone, atol=1e-6)
    assert (together - other).abs().amax(dim=(1, 2, 3)).min() > 1e-3
    assert together.min() >= 0
    assert together.max() <= 1
    shapes = [tuple(one.shape) for one in SMALL.steps]
    assert shapes == [(8, 4, 4), (8, 8, 8), (1, 8, 8)]


def test_weights_come_back_and_damage_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    net = network()
    write_network(path, net, PETS, training={"name": "x"})
    loaded = read_network(path)
    assert (loaded.label_space, loaded.digest) == (PETS, digest_of(net))
    latents, classes = torch.randn(3, 4), torch.tensor([0, 1, 1])
    assert torch.allclose(loaded.network(latents, classes), net(latents, classes), atol=5e-3)
    save_file({"x": torch.zeros(1)}, str(tmp_path / "other.safetensors"))
    with pytest.raises(InvalidFile, match="not a generator that strobe wrote"):
        read_network(tmp_path / "other.safetensors")
    (tmp_path / "short.safetensors").write_bytes(path.read_bytes()[:200])
    with pytest.raises(InvalidFile, match="not a safetensors file"):
        read_network(tmp_path / "short.safetensors")
    with pytest.raises(InvalidFile, match="no such file"):
        read_network(tmp_path / "none.safetensors")
    write_autoencoder(path, AutoNet(AUTO), training={})
    with pytest.raises(InvalidFile, match="not a generator that strobe wrote"):
        read_network(path)
    with pytest.raises(InvalidFile, match="not an autoencoder that strobe wrote"):
        read_autoencoder(shipped_file("strobe-gan-mnist"))
