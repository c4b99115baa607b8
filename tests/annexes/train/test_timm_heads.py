"""A classifier of timm trained as a detector from the command line: what changes, what resumes, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.annexes.train.detectors import train_detector
from strobe.cli.main import main
from strobe.core.ports import Silent
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.weights import read_state
from strobe.train.recipe import find
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

LENGTH = ["steps=2", "batch=4", "pyramid=16"]


def _trained(material: Material, model: str, out: Path, *changes: str, steps: int = 2, scratch: bool = False) -> Any:
    recipe = find("detector", changes=[*LENGTH, f"steps={steps}", "head=retinanet", *changes], model=model)
    options = TrainOptions(device="cpu", evaluations=1, threads=1, image_size=64, from_scratch=scratch)
    return train_detector(recipe, material, model, out, options, Silent())


def _command(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["train", *(str(word) for word in words)])
    return int(ended.value.code or 0)


def test_a_frozen_backbone_keeps_the_classifiers_tensors_and_the_rest_learns(
    material: Material, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    module = timm.create_model("test_efficientnet", num_classes=len(material.dataset.info.label_space))
    torch.save(module.state_dict(), tmp_path / "mine.pth")
    given = {one.numpy().tobytes() for one in module.state_dict().values()}
    text = f"timm:test_efficientnet@{tmp_path}/mine.pth"
    frozen = _trained(material, text, tmp_path / "frozen", "norms=frozen", "trainable_layers=0")
    live = _trained(material, text, tmp_path / "live")

    def kept(weights: Path, part: str) -> list[bool]:
        state = {key: one for key, one in read_state(weights).items() if key.startswith(part) and one.dim() > 1}
        assert state
        return [one.numpy().tobytes() in given for one in state.values()]

    assert all(kept(frozen.weights, "backbone.body"))
    assert not any(kept(live.weights, "backbone.body"))
    one, two = (read_state(done.weights)["backbone.fpn.inner_blocks.0.0.weight"] for done in (frozen, live))
    assert one.shape == (16, two.shape[1], 1, 1)
    assert not torch.equal(one, two)
    assert frozen.model == f"timm:test_efficientnet@{tmp_path}/frozen/model.safetensors"
    assert find(str(tmp_path / "frozen/recipe.toml")).head == "retinanet"
    again = _trained(material, text, tmp_path / "live")
    assert (again.was_there, live.was_there) == (True, False)


def test_a_stopped_training_resumes_to_the_same_weights(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strobe.annexes.train.boxes import BoxTrainer

    plain = _trained(material, "timm:test_resnet", tmp_path / "whole", scratch=True, steps=4)
    backward = BoxTrainer.backward

    def stopping(self: BoxTrainer, number: int) -> Any:
        if number == 2:
            raise KeyboardInterrupt
        return backward(self, number)

    recipe = find("detector", changes=[*LENGTH, "steps=4", "head=retinanet"], model="timm:test_resnet")
    options = TrainOptions(device="cpu", evaluations=1, threads=1, image_size=64, from_scratch=True, checkpoint_s=0.001)
    with monkeypatch.context() as patch:
        patch.setattr(BoxTrainer, "backward", stopping)
        with pytest.raises(KeyboardInterrupt):
            train_detector(recipe, material, "timm:test_resnet", tmp_path / "part", options, Silent())
    assert (tmp_path / "part/checkpoint.pt").is_file()
    resumed = _trained(material, "timm:test_resnet", tmp_path / "part", scratch=True, steps=4)
    one, two = read_state(plain.weights), read_state(resumed.weights)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_a_faster_rcnn_finds_the_same_alone_and_in_a_batch(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding in a batch reordered proposals of almost equal scores, which changed scores by up to .006."""
    recipe = find("detector", changes=[*LENGTH, "head=faster-rcnn"], model="timm:test_resnet")
    options = TrainOptions(device="cpu", evaluations=1, threads=1, image_size=64, from_scratch=True)
    done = train_detector(recipe, material, "timm:test_resnet", tmp_path / "out", options, Silent())
    loaded: Any = load_model(done.model, LoadOptions(device="cpu"))
    monkeypatch.setattr(loaded.module.roi_heads, "score_thresh", 0.0)
    module, sizes = type(loaded.module).forward, []

    def counted(self: Any, images: Any, *more: Any) -> Any:
        sizes.append(len(images))
        return module(self, images, *more)

    monkeypatch.setattr(type(loaded.module), "forward", counted)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 40, 60, 3), dtype=np.uint8)
    prepared = [loaded.prepare(image) for image in pixels]
    for one, together in zip(prepared, loaded.forward(prepared), strict=True):
        (alone,) = loaded.forward([one])
        np.testing.assert_array_equal(alone.score, together.score)
        np.testing.assert_array_equal(alone.xyxy, together.xyxy)
    assert set(sizes) == {1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("finetune {} -m timm:test_resnet --head retinanet", "head: expected unset, unless a detector is trained"),
        ("finetune {} -m timm:test_resnet --set pyramid=64", "pyramid: expected unset, unless a detector is trained"),
        ("detector {} -m timm:test_resnet --head yolo", "'yolo' is not one of 'retinanet', 'faster-rcnn'"),
        ("detector {} -m timm:test_resnet --set head=yolo", "head: expected retinanet or faster-rcnn, got 'yolo'"),
        ("detector {} -m timm:test_resnet", "a classifier; add --head retinanet or --head faster-rcnn"),
        ("detector {} -m strobe-tiny --head retinanet", "--head retinanet is for classifiers of timm; remove it"),
        ("detector-ilsvrc {} -m timm:test_resnet --head retinanet", "use the recipe detector, or add --set backbone="),
        ("detector {} -m timm:test_vit --head retinanet --from-scratch", "it has no feature map of stride 8"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(
    words: str, message: str, world_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _command(*words.format(world_folder).split(), "-o", tmp_path / "out", "-q", "--device", "cpu") == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
