"""Training on photos in class folders, as ILSVRC has them: every recipe for single images, with resized crops."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_stop import Stop, StopAfter
from PIL import Image
from safetensors.torch import load_file

from strobe.annexes.train.classifiers import train
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.models.plan import ImagePlan
from strobe.train.draws import Schedule
from strobe.train.recipe import Recipe, find
from strobe.train.sets import TrainingSets
from strobe.workflows.import_dataset import import_dataset
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

NET = "timm:test_resnet"
OPTIONS = TrainOptions(image_size=32, from_scratch=True, evaluations=1, held_share=0.25, device="cpu", threads=1)
COLOURS = {"n01440764": (200, 40, 40), "n01443537": (40, 200, 40), "n01484850": (40, 40, 200)}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Photos of three WordNet ids, each of its own size: a colour with noise."""
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name, colour in COLOURS.items():
        (root / "train" / name).mkdir(parents=True)
        for number in range(12):
            height, width = rng.integers(40, 90, 2)
            pixels = rng.normal(colour, 40, (height, width, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / "train" / name / f"{name}_{number}.JPEG", quality=90)
    import_dataset("photos", root / "train", root / "data", options={"label_space": "ilsvrc-2012"})
    return Material.of(root / "data")


def quick(name: str, *changes: str) -> Recipe:
    return find(name, changes=["epochs=3", "batch=9", "learning_rate=0.01", *changes], model=NET)


@pytest.mark.parametrize("name", ["photos", "linf"])
def test_recipes_for_single_images_train_on_photos(name: str, photos: Material, tmp_path: Path) -> None:
    recipe = quick(name, "crop_area=0.2")
    done = train(recipe, photos, NET, tmp_path / "whole", OPTIONS, Silent())
    assert done.k == 0
    assert done.history[-1].acc_orig == done.history[-1].acc_pmk
    with pytest.raises(Stop):
        train(recipe, photos, NET, tmp_path / "broken", replace(OPTIONS, checkpoint_s=0, cache_gb=1e-6), StopAfter(2))
    train(recipe, photos, NET, tmp_path / "broken", replace(OPTIONS, cache_gb=1e-6), Silent())
    one, two = (load_file(str(tmp_path / side / "model.safetensors")) for side in ("whole", "broken"))
    assert all(bool((one[key] == two[key]).all()) for key in one)


def test_a_training_on_photos_learns(photos: Material, tmp_path: Path) -> None:
    recipe = quick("photos", "epochs=25", "learning_rate=0.05")
    done = train(recipe, photos, NET, tmp_path / "run", OPTIONS, Silent())
    assert done.history[-1].acc_orig > 0.8
    assert done.history[-1].loss < 1


def test_losses_over_sets_need_more_than_photos(photos: Material, tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="every set has only one frame, so pmk cannot choose the worst"):
        train(quick("pmk"), photos, NET, tmp_path / "run", OPTIONS, Silent())


def test_a_resized_crop_is_its_window() -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    plan = ImagePlan(size_hw=(16, 16), interpolation="bilinear")
    expected = Image.fromarray(image).crop((7, 5, 7 + 31, 5 + 20)).resize((16, 16), Image.Resampling.BILINEAR)
    assert (plan.prepare_window(image, (5, 7, 20, 31)) == np.asarray(expected)).all()
    reverse = replace(plan, channels="bgr")
    assert (reverse.prepare_window(image, (5, 7, 20, 31)) == np.asarray(expected)[..., ::-1]).all()


def test_seeds_of_crops_follow_from_the_step() -> None:
    rows = np.arange(12)
    sets = TrainingSets(
        frame=rows, pixel=rows, label=rows % 2, every=np.zeros((0, 2), dtype=bool), anchor=rows[::2],
        member=rows.reshape(6, 2),
    )  # fmt: skip
    plain, resized = (
        Schedule(sets, quick("stills", f"crop_area={area}", "batch=4"), seed=0, side_hw=(32, 32)) for area in (0, 0.1)
    )
    assert plain.draw(1).crops.shape == (4, 3)
    crops = resized.draw(1).crops
    assert crops.shape == (4, 4)
    assert (crops[:, :2] == 0).all()
    assert len(set(crops[:, 3].tolist())) == 4
    assert (crops == resized.draw(1).crops).all()
    assert (crops[:, 2] == plain.draw(1).crops[:, 2]).all(), "mirrored as without resized crops"
    with pytest.raises(StrobeError, match="crop_area: expected 0 unless all of a classifier is trained"):
        quick("linear-probe", "crop_area=0.1")
