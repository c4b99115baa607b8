"""The card of a training names answers that ignore the frame, in addition to the figures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from strobe.annexes.train.classifiers import train
from strobe.annexes.train.detectors import train_detector
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import DETECTION_WORLD
from strobe.train.recipe import find
from strobe.workflows.options import TrainOptions
from strobe.workflows.synthesize import synthesize
from strobe.workflows.train_job import Material


def test_a_classifier_that_learned_nothing_is_not_praised(material: Material, tmp_path: Path, heard: Any) -> None:
    """It answers one class on every frame, so its drop is 0."""
    recipe = find("stills", changes=["epochs=1", "batch=12", "learning_rate=1e-9"], model="timm:test_resnet")
    options = TrainOptions(image_size=32, from_scratch=True, evaluations=1, held_share=0.3, device="cpu")
    done = train(recipe, material, "timm:test_resnet", tmp_path / "run", options, heard)
    (note,) = [line for line in done.card.read_text("utf-8").splitlines() if line.startswith("**Note**")]
    assert "on every frame, although the sets have" in note or "that of the constant answer" in note
    assert any(line.startswith("on held-out clips, it") for line in heard.lines)


def test_a_detector_that_learned_nothing_is_not_praised(tmp_path: Path, heard: Any) -> None:
    world = SyntheticOptions(world=replace(DETECTION_WORLD, size=64, frames=3), videos=10, seed=5)
    synthesize(tmp_path / "world", world)
    recipe = find("detector", changes=["steps=1", "batch=4", "learning_rate=1e-9"], model="strobe-tiny")
    options = TrainOptions(threads=1, evaluations=1, device="cpu", held_share=0.5, from_scratch=True)
    done = train_detector(recipe, Material.of(tmp_path / "world"), "strobe-tiny", tmp_path / "run", options, heard)
    (note,) = [line for line in done.card.read_text("utf-8").splitlines() if line.startswith("**Note**")]
    assert "it gives no box of the classes here on any frame" in note or "boxes it gave for other videos" in note
    assert any(line.startswith("on held-out clips, it") for line in heard.lines)
