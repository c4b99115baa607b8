"""`strobe train autoencoder`: it learns, goes on after a kill to the same bits, and its weights load."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_stop import Stop, StopAfter
from PIL import Image
from safetensors.torch import load_file

from strobe.annexes.generators.auto_net import AUTOENCODERS, AutoFacts, AutoNet
from strobe.annexes.generators.autoencoder_trainer import AutoencoderTrainer
from strobe.annexes.generators.autoencoder_training import train_autoencoder
from strobe.annexes.generators.weights import read_autoencoder, read_network, shipped_file, write_autoencoder
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName
from strobe.core.ports import Silent
from strobe.train.pixels import Pixels
from strobe.train.recipe import Recipe, find
from strobe.train.sets import TrainingSets
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

NET = "strobe-ae"
OPTIONS = TrainOptions(image_size=16, evaluations=2, held_share=0.3, device="cpu")
SMALL = AutoFacts(kind="small", side=8, latent=4, widths=(16, 8))


def quick(*changes: str) -> Recipe:
    return find("autoencoder", changes=["steps=4", "batch=6", *changes], model=NET)


def test_it_trains_resumes_to_the_same_bits_and_says_what_it_is(material: Material, tmp_path: Path) -> None:
    whole = train_autoencoder(quick(), material, NET, tmp_path / "whole", OPTIONS, Silent())
    with pytest.raises(Stop):
        train_autoencoder(quick(), material, NET, tmp_path / "broken", replace(OPTIONS, checkpoint_s=0), StopAfter(2))
    assert (tmp_path / "broken/checkpoint.pt").is_file()
    train_autoencoder(quick(), material, NET, tmp_path / "broken", OPTIONS, Silent())
    one, two = (load_file(str(tmp_path / name / "model.safetensors")) for name in ("whole", "broken"))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    told = json.loads((tmp_path / "whole/training.json").read_text())["history"][-1]
    assert whole.history[-1].figures == (told["explained"],)
    assert not [key for key in told if key.startswith("acc")]
    assert train_autoencoder(quick(), material, NET, tmp_path / "whole", OPTIONS, Silent()).was_there
    assert np.asarray(Image.open(tmp_path / "whole/reconstructions.png")).shape[2] == 3
    card = (tmp_path / "whole/card.md").read_text(encoding="utf-8")
    assert "2x2 (coarse), 4x4 (middle), 8x8 (fine), pixels (pixel)" in card
    network, digest = read_autoencoder(tmp_path / "whole/model.safetensors")
    assert (network.about.side, len(digest)) == (16, 64)


def test_it_learns_to_reconstruct() -> None:
    torch.manual_seed(0)
    rng, rows = np.random.default_rng(0), np.arange(48)
    shade = rng.integers(0, 255, (48, 1, 1, 3)) * np.linspace(0.2, 1, 8)[None, :, None, None] * np.ones((1, 1, 8, 1))
    sets = TrainingSets(rows, rows, rows * 0, np.ones((48, 1), dtype=bool), rows, rows[:, None])
    pixels = Pixels(shade.astype(np.uint8), device="cpu")
    recipe = find("autoencoder", changes=["steps=500", "batch=16", "learning_rate=5e-3", "ema=0.9"])
    trainer = AutoencoderTrainer(AutoNet(SMALL), recipe, sets, pixels, seed=1)
    before = trainer.explained(pixels, rows)
    for number in range(trainer.steps):
        trainer.step(number)
    trainer.check()
    assert before < 0.2
    assert trainer.explained(pixels, rows) > 0.8


@pytest.mark.parametrize(
    ("model", "size", "said"),
    [
        ("strobe-gan", 16, "unknown autoencoder"),
        ("strobe-ae@w.safetensors", 16, "trained from scratch"),
        (NET, 20, "a multiple of 8"),
    ],
)
def test_what_cannot_be_trained_is_one_line(
    model: str, size: int, said: str, material: Material, tmp_path: Path
) -> None:
    with pytest.raises((StrobeError, UnknownName), match=said):
        train_autoencoder(quick(), material, model, tmp_path / "run", replace(OPTIONS, image_size=size), Silent())
    assert not (tmp_path / "run").exists()


def test_a_recipe_over_sets_is_refused() -> None:
    with pytest.raises(InvalidValue, match="average for a gan or an autoencoder"):
        quick("loss=worst")


def test_another_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "small.safetensors"
    write_autoencoder(file, AutoNet(SMALL), training={})
    with pytest.raises(InvalidFile, match="not a generator that strobe wrote"):
        read_network(file)
    with pytest.raises(InvalidFile, match="not an autoencoder that strobe wrote"):
        read_autoencoder(shipped_file("strobe-gan-mnist"))


def test_the_shipped_weights_are_those_of_the_network() -> None:
    file = shipped_file(NET)
    network, _ = read_autoencoder(file)
    assert network.about == AUTOENCODERS[NET]
    assert file.stat().st_size < 1_000_000
