"""Frames read during a training: the same bits as stored frames, bounded memory, and nothing laid out whole."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from strobe.annexes.train.classifiers import train
from strobe.annexes.train.detectors import train_detector
from strobe.annexes.train.probe import StoredFeatures
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import DETECTION_WORLD
from strobe.train.recipe import Recipe, find
from strobe.train.split import _parts, split_by_source
from strobe.train.windows import random_window
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

NET = "timm:test_resnet"
OPTIONS = TrainOptions(image_size=32, from_scratch=True, evaluations=2, held_share=0.3, device="cpu", threads=1)
STREAMED = replace(OPTIONS, cache_gb=1e-6)
"""A scratch space of 1,000 bytes, so that no table fits."""


def same(a: Path, b: Path) -> bool:
    one, two = (load_file(str(path / "model.safetensors")) for path in (a, b))
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/frames"


def quick(name: str, *changes: str) -> Recipe:
    return find(name, changes=["epochs=2", "batch=12", *changes], model=NET)


def test_a_grid_detector_streams_too(tmp_path: Path, own_cache: Path) -> None:
    boxed = synthetic_dataset(SyntheticOptions(world=replace(DETECTION_WORLD, size=96, frames=3), videos=12, seed=5))
    whole = Material(dataset=boxed.dataset, source=boxed.source())
    grid = find("detector", changes=["steps=4", "batch=4"], model="strobe-tiny")
    for name, options in (("a", STREAMED), ("b", OPTIONS)):
        plain = replace(options, image_size=None)
        train_detector(grid, whole, "strobe-tiny", tmp_path / f"grid-{name}", plain, Silent())
    assert same(tmp_path / "grid-a", tmp_path / "grid-b")


@pytest.mark.slow
def test_a_detector_takes_each_frame_at_its_own_size(tmp_path: Path, own_cache: Path) -> None:
    made = synthetic_dataset(SyntheticOptions(world=replace(DETECTION_WORLD, size=64, frames=3), videos=12, seed=5))
    dataset, plain = made.dataset, made.source()
    tall = len(dataset.frames) - 1
    height, width = dataset.frames.height.copy(), dataset.frames.width.copy()
    height[tall], width[tall] = 640, 64

    class OneTall:
        def read(self, row: int) -> Any:
            image = plain.read(row)
            return np.concatenate([image, np.zeros((576, 64, 3), np.uint8)]) if row == tall else image

        def read_encoded(self, row: int) -> None:
            return None

    frames = replace(dataset.frames, height=height, width=width)
    material = Material(dataset=replace(dataset, frames=frames), source=OneTall())
    model = "torchvision:fasterrcnn_mobilenet_v3_large_320_fpn"
    recipe = find("detector", changes=["steps=3", "batch=2", "learning_rate=1e-3"], model=model)
    for name, options in (("a", STREAMED), ("b", OPTIONS)):
        small = replace(options, image_size=96, evaluations=1)
        done = train_detector(recipe, material, model, tmp_path / name, small, Silent())
    assert same(tmp_path / "a", tmp_path / "b")
    assert (recipe.optimiser, recipe.schedule) == ("sgd", "steps")
    loaded: Any = load_model(done.model, LoadOptions(device="cpu"))
    assert loaded.spec.label_space.ids[1:] == material.dataset.info.label_space.ids
    (table,) = own_cache.glob("*.npy")
    assert table.stat().st_size == pytest.approx((len(dataset.frames) - 1) * 64 * 64 * 3 + 640 * 64 * 3, abs=200)


def test_a_probe_stores_features_alone(material: Material, tmp_path: Path, own_cache: Path) -> None:
    recipe = quick("linear-probe")
    train(recipe, material, NET, tmp_path / "run", OPTIONS, Silent())
    (table,) = own_cache.glob("*.npy")
    features = np.load(table, mmap_mode="r")
    assert features.dtype == np.float32
    assert len(features) == len(np.unique(material.dataset.sets.frame))
    with pytest.raises(StrobeError, match=r"the features of 180 frames need 0\.0 GB, more than is left of --cache-gb"):
        train(recipe, material, NET, tmp_path / "small", STREAMED, Silent())


def test_the_spread_in_parts_is_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).normal(3, 2, (500, 7)).astype(np.float32)
    table[:, 2] = 5.0
    features, rows = StoredFeatures(table, device="cpu"), np.arange(0, 500, 3)
    mean, deviation = features.spread(rows)
    monkeypatch.setattr("strobe.annexes.train.probe._AT_ONCE", 70)
    again = features.spread(rows)
    assert torch.allclose(mean, again[0], atol=1e-5)
    assert torch.allclose(deviation, again[1], atol=1e-5)
    assert float(deviation[2]) == 1


# -- resized crops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(72, 128), (128, 72), (10, 400), (64, 64), (1, 1)])
def test_windows_are_inside_the_image_and_large_enough(height: int, width: int) -> None:
    areas, ratios = [], []
    for seed in range(300):
        top, left, high, wide = random_window(seed, height, width, 0.08)
        assert top >= 0 <= left
        assert top + high <= height
        assert left + wide <= width
        assert min(high, wide) >= 1
        areas.append(high * wide / (height * width))
        ratios.append(wide / high)
    assert random_window(7, height, width, 0.08) == random_window(7, height, width, 0.08)
    if (height, width) == (64, 64):
        assert 0.07 < min(areas) < 0.12 < 0.9 < max(areas)
        assert 0.7 < min(ratios) < 0.8 < 1.25 < max(ratios) < 1.4


def test_windows_have_the_distribution_of_torchvision() -> None:
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(0)
    image = torch.zeros(3, 72, 128)
    theirs = np.array(
        [RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(4000)], dtype=float
    )
    ours = np.array([random_window(seed, 72, 128, 0.08) for seed in range(4000)], dtype=float)
    error = np.sqrt(ours.var(axis=0) / 4000 + theirs.var(axis=0) / 4000)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4 * error).all()


# -- the split ---------------------------------------------------------------------------------------------------


def test_parts_are_those_of_a_slow_reference() -> None:
    made = synthetic_dataset(SyntheticOptions(world=replace(DETECTION_WORLD, size=32, frames=3), videos=12, seed=1))
    dataset, rng = made.dataset, np.random.default_rng(0)
    sha256 = dataset.frames.sha256.copy()
    for a, b in ((0, 20), (20, 9), (30, 31)):
        sha256[b] = sha256[a]
    group = dataset.sets.group.copy()
    group[3] = group[8]
    sets = replace(dataset.sets, group=group)
    linked = replace(dataset, frames=replace(dataset.frames, sha256=sha256), sets=sets)
    part = _parts(linked)
    keys = [
        {("g", group[place]), *(("v", linked.frames.video[row]) for row in linked.sets.frame[linked.sets.set == place]),
         *(("p", sha256[row], linked.frames.recipe[row]) for row in linked.sets.frame[linked.sets.set == place])}
        for place in range(linked.n_sets)
    ]  # fmt: skip
    expected = list(range(linked.n_sets))
    for _ in expected:
        for a in range(linked.n_sets):
            for b in range(linked.n_sets):
                if keys[a] & keys[b]:
                    expected[a] = expected[b] = min(expected[a], expected[b])
    assert len(set(part.tolist())) == len(set(expected)) < linked.n_sets
    assert all((part[a] == part[b]) == (expected[a] == expected[b]) for a in expected for b in expected)
    label = rng.integers(0, 2, linked.n_sets)
    split = split_by_source(linked, label, share=0.4, seed=0)
    assert not set(part[split.training]) & set(part[split.held_out])
