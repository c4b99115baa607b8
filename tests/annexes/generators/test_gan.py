"""`strobe train gan`: it learns, goes on after a kill to the same bits, shows its samples, and its weights load."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_stop import Stop, StopAfter
from PIL import Image
from safetensors.torch import load_file, save_file

from strobe.annexes.generators.discriminator import Discriminator
from strobe.annexes.generators.gan_trainer import GanTrainer
from strobe.annexes.generators.gan_training import train_gan
from strobe.annexes.generators.networks import NETWORKS, LayeredNet, NetFacts, standing_statistics
from strobe.annexes.generators.weights import digest_of, read_network, write_network
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.train.pixels import Pixels
from strobe.train.recipe import Recipe, find
from strobe.train.sets import TrainingSets
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

NET = "strobe-gan-mnist"
OPTIONS = TrainOptions(image_size=8, evaluations=2, held_share=0.3, device="cpu")
SMALL = NetFacts(kind="small", classes=2, side=8, channels=1, latent=4, embedding=4, widths=(8, 8))
PETS = LabelSpace.of_names("pets", ["cat", "dog"])


def quick(*changes: str) -> Recipe:
    return find("gan", changes=["steps=4", "batch=6", "width=4", *changes], model=NET)


def test_it_trains_resumes_to_the_same_bits_and_says_what_it_is(material: Material, tmp_path: Path) -> None:
    whole = train_gan(quick(), material, NET, tmp_path / "whole", OPTIONS, Silent())
    with pytest.raises(Stop):
        train_gan(quick(), material, NET, tmp_path / "broken", replace(OPTIONS, checkpoint_s=0), StopAfter(2))
    assert (tmp_path / "broken/checkpoint.pt").is_file()
    gone_on = train_gan(quick(), material, NET, tmp_path / "broken", OPTIONS, Silent())
    one, two = (load_file(str(tmp_path / name / "model.safetensors")) for name in ("whole", "broken"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    points = [[replace(point, seconds=0.0) for point in done.history] for done in (whole, gone_on)]
    assert points[0] == points[1]
    header = (tmp_path / "whole/curves.csv").read_text().splitlines()[0]
    assert header == "step,epoch,seconds,learning_rate,loss,samples_named,held_out_named", "no accuracy of a model"
    told = json.loads((tmp_path / "whole/training.json").read_text())["history"][-1]
    assert not [key for key in told if key.startswith("acc")]
    assert whole.history[-1].figures == (told["samples_named"], told["held_out_named"])
    assert train_gan(quick(), material, NET, tmp_path / "whole", OPTIONS, Silent()).was_there
    sheet = np.asarray(Image.open(tmp_path / "whole/samples.png"))
    assert sheet.shape[2] == 3
    assert sheet.shape[0] > 12 * 8
    card = (tmp_path / "whole/card.md").read_text(encoding="utf-8")
    assert "12 classes: fish, bird" in card
    assert "2x2 (coarse), 4x4 (middle), 8x8 (fine), pixels (pixel)" in card
    loaded = read_network(tmp_path / "whole/model.safetensors")
    assert loaded.label_space == material.dataset.info.label_space
    assert (loaded.network.about.side, loaded.network.about.classes) == (8, 12)
    with pytest.raises(StrobeError, match=r"contains another training \(recipe.naming"):
        train_gan(quick("naming=0.3"), material, NET, tmp_path / "whole", OPTIONS, Silent())


def test_epochs_that_are_asked_for_are_not_ignored(material: Material, tmp_path: Path) -> None:
    recipe = find("gan", changes=["epochs=2", "batch=60", "width=4"], model=NET)
    done = train_gan(recipe, material, NET, tmp_path / "run", OPTIONS, Silent())
    assert done.history[-1].epoch == 2
    assert done.history[-1].step < 10, "and not the recipe's 12,000"


def test_minutes_end_it_with_what_it_has(material: Material, tmp_path: Path) -> None:
    recipe, options = quick("steps=100000"), replace(OPTIONS, minutes=0.001, evaluations=1)
    done = train_gan(recipe, material, NET, tmp_path / "run", options, Silent())
    assert 0 < done.history[-1].step < 1000
    assert f"{done.history[-1].step} steps (of 100000; ended by --minutes 0.001)" in done.card.read_text("utf-8")
    assert read_network(done.weights).network.about.latent == NETWORKS[NET].latent


@pytest.mark.parametrize(
    ("model", "size", "said"),
    [
        ("strobe-net", 8, "strobe-gan"),
        ("strobe-gan@w.safetensors", 8, "trained from scratch"),
        (NET, 10, "a multiple of 4"),
    ],
)
def test_what_cannot_be_trained_is_one_line(
    model: str, size: int, said: str, material: Material, tmp_path: Path
) -> None:
    with pytest.raises((StrobeError, UnknownName), match=said):
        train_gan(quick(), material, model, tmp_path / "run", replace(OPTIONS, image_size=size), Silent())
    assert not (tmp_path / "run").exists()


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


def test_a_gan_has_its_own_rules() -> None:
    assert find("gan").settings()["naming"] == 0.1
    for change, said in (("optimiser=sgd", "adam for a gan"), ("ema=0", "ema"), ("loss=worst", "average for a gan")):
        with pytest.raises(InvalidValue, match=said):
            find("gan", changes=[change])


def test_frames_that_are_read_during_the_training_give_the_same_bits(material: Material, tmp_path: Path) -> None:
    for name, size in (("a", 1e-6), ("b", 1.0)):
        train_gan(quick(), material, NET, tmp_path / name, replace(OPTIONS, cache_gb=size), Silent())
    one, two = (load_file(str(tmp_path / name / "model.safetensors")) for name in "ab")
    assert all(torch.equal(one[name], two[name]) for name in one)
