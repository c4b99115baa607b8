"""Classifiers of timm as backbones of detectors: their tensors, frozen norms, the file, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")

from made_detectors import THREE, run, timm_weights  # noqa: E402

from strobe.core.errors import InvalidFile, StrobeError  # noqa: E402
from strobe.models.detectors.trainable import StartOptions, detector_start  # noqa: E402
from strobe.models.header import read_header, write_weights  # noqa: E402
from strobe.models.options import LoadOptions  # noqa: E402
from strobe.models.registry import load_model  # noqa: E402

OPTIONS = LoadOptions(device="cpu", pretrained=False, image_size=96)
FAMILIES = ("test_resnet", "test_efficientnet", "test_convnext", "mobilenetv3_small_050")


def _classifier(name: str, path: Path) -> Any:
    """A classifier whose every tensor is different, and its file."""
    module = timm.create_model(name, num_classes=5)
    torch.manual_seed(7)
    for key, one in module.state_dict().items():
        if one.is_floating_point():
            one.copy_(torch.rand_like(one) + 0.5 if key.endswith("running_var") else torch.randn_like(one) * 0.3)
    torch.save(module.state_dict(), path)
    return module.eval()


def _start(name: str, weights: Path | None = None, **how: Any) -> Any:
    text = f"timm:{name}" + (f"@{weights}" if weights else "")
    five = LoadOptions(device="cpu", pretrained=False, image_size=96, settings=_five(weights) if weights else None)
    return detector_start(text, THREE, five, seed=0, how=StartOptions(pyramid=16, **how))


def _five(weights: Path) -> Path:
    path = weights.with_suffix(".json")
    path.write_text('{"labels": ["a", "b", "c", "d", "e"]}')
    return path


@pytest.mark.parametrize("name", FAMILIES)
def test_the_backbone_starts_with_every_tensor_of_the_classifier(name: str, tmp_path: Path) -> None:
    classifier = _classifier(name, tmp_path / "mine.pth")
    start = _start(name, tmp_path / "mine.pth", head="retinanet")
    assert (start.is_random, start.new_head, start.is_grid) == (False, True, False)
    given = {one.numpy().tobytes() for one in classifier.state_dict().values()}
    body = start.module.backbone.body.state_dict()
    assert body
    assert [key for key, one in body.items() if one.is_floating_point() and one.numpy().tobytes() not in given] == []


def test_a_tensor_that_timm_leaves_out_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """timm loads such tensors without checking that all of them are there."""
    _classifier("test_resnet", tmp_path / "mine.pth")
    create = timm.create_model

    def forgetful(*args: Any, **kwargs: Any) -> Any:
        kwargs.get("pretrained_cfg_overlay", {"state_dict": {}})["state_dict"].pop("layer1.0.conv1.weight", None)
        return create(*args, **kwargs)

    monkeypatch.setattr(timm, "create_model", forgetful)
    with pytest.raises(StrobeError, match=r"1 tensors of the backbone are not those of the classifier, first layer1\."):
        _start("test_resnet", tmp_path / "mine.pth", head="retinanet")


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext"])
def test_the_last_feature_map_is_the_classifiers(name: str, tmp_path: Path) -> None:
    classifier = _classifier(name, tmp_path / "mine.pth")
    body = _start(name, tmp_path / "mine.pth", head="retinanet").module.backbone.body.eval()
    pixels = torch.rand(1, 3, 96, 128)
    with torch.no_grad():
        torch.testing.assert_close(body(pixels)[-1], classifier.forward_features(pixels), rtol=1e-5, atol=1e-5)


def test_mean_and_std_are_those_of_the_classifier() -> None:
    for name in ("test_resnet", "test_efficientnet"):
        transform = _start(name, head="faster-rcnn").module.transform
        config = timm.data.resolve_model_data_config(timm.create_model(name))
        assert (tuple(transform.image_mean), tuple(transform.image_std)) == (config["mean"], config["std"])


@pytest.mark.parametrize("name", ["test_resnet", "test_efficientnet"])
def test_frozen_norms_keep_their_epsilon_and_activation(name: str, tmp_path: Path) -> None:
    """EfficientNets of timm put the activation into the norm; a plain frozen norm would lose it."""
    _classifier(name, tmp_path / "mine.pth")
    live, frozen = (_start(name, tmp_path / "mine.pth", head="retinanet", norms=one) for one in ("live", "frozen"))
    assert not any(isinstance(one, torch.nn.BatchNorm2d) for one in frozen.module.backbone.modules())
    pixels = torch.rand(1, 3, 96, 128)
    with torch.no_grad():
        a, b = (one.module.backbone.body.eval()(pixels)[-1] for one in (live, frozen))
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    frozen.module.train()
    with torch.no_grad():
        torch.testing.assert_close(frozen.module.backbone.body(pixels)[-1], b, rtol=1e-4, atol=1e-4)


def test_a_frozen_backbone_has_nothing_to_train_and_a_resnet_may_be_frozen_in_part() -> None:
    def trained(name: str, layers: int) -> set[str]:
        body = _start(name, head="retinanet", norms="frozen", trainable_layers=layers).module.backbone.body
        return {key.partition(".")[0] for key, one in body.named_parameters() if one.requires_grad}

    assert trained("test_efficientnet", 0) == set()
    assert trained("test_resnet", 2) == {"layer3", "layer4"}
    with pytest.raises(StrobeError, match="trainable_layers needs a ResNet backbone; use 0 or 5"):
        trained("test_efficientnet", 2)


@pytest.mark.parametrize("norms", ["live", "frozen"])
def test_the_file_gives_the_same_boxes_bit_for_bit_at_its_own_size(norms: str, tmp_path: Path, images: Any) -> None:
    start = detector_start(
        "timm:test_efficientnet", THREE, OPTIONS, seed=3, how=StartOptions(head="faster-rcnn", norms=norms)
    )
    with torch.no_grad():
        start.module.roi_heads.box_predictor.cls_score.weight.normal_()
    start.write(tmp_path / "det.safetensors", start.module, {"name": "t"})
    header = read_header(tmp_path / "det.safetensors")
    assert header is not None
    assert (header.head, header.image_size, header.plan) == ("faster-rcnn", 96, None)
    ours: Any = load_model(f"timm:test_efficientnet@{tmp_path}/det.safetensors", LoadOptions(device="cpu"))
    assert ours.spec.preprocessing["min_size"] == [96]
    expected = run(start.behind_port(start.module, "cpu"), images)
    assert sum(len(one) for one in expected) > 0
    for one, other in zip(expected, run(ours, images), strict=True):
        for column in ("xyxy", "label", "score"):
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


def test_a_trained_detector_is_trained_further(tmp_path: Path) -> None:
    path = timm_weights(tmp_path, "test_resnet", "retinanet")
    again = detector_start(f"timm:test_resnet@{path}", THREE, LoadOptions(device="cpu"), seed=9)
    before: Any = load_model(f"timm:test_resnet@{path}", LoadOptions(device="cpu"))
    assert again.weights == before.spec.weights
    assert (again.is_random, again.new_head, again.module.transform.min_size) == (False, False, (96,))


@pytest.mark.parametrize(
    ("text", "how", "message"),
    [
        ("timm:test_resnet", {}, "timm:test_resnet: a classifier; add --head retinanet or --head faster-rcnn"),
        ("timm:test_resnet", {"head": "yolo"}, "unknown head 'yolo'"),
        ("timm:test_resne", {"head": "retinanet"}, "unknown timm model 'test_resne'"),
        (
            "timm:test_vit",
            {"head": "retinanet"},
            "it has no feature map of stride 8, which the head retinanet needs; it has 16",
        ),
        (
            "timm:test_coatnet",
            {"head": "retinanet"},
            "it cannot take images of every size (RuntimeError), so it cannot be",
        ),
        (
            "timm:test_resnet",
            {"head": "retinanet", "backbone": "timm:x"},
            "with a head, the model is the backbone; use",
        ),
        ("torchvision:ssd300_vgg16", {"head": "retinanet"}, "--head retinanet is for classifiers of timm; remove it"),
        ("strobe-tiny", {"head": "retinanet"}, "--head retinanet is for classifiers of timm; remove it"),
    ],
)
def test_what_cannot_become_a_detector_is_one_line(text: str, how: dict[str, str], message: str) -> None:
    with pytest.raises(StrobeError) as raised:
        detector_start(text, THREE, OPTIONS, seed=0, how=StartOptions(**how))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_of_another_head_or_without_tensors_is_refused(tmp_path: Path) -> None:
    path = timm_weights(tmp_path, "test_resnet", "retinanet")
    with pytest.raises(StrobeError, match="its weights have the head retinanet; remove --head faster-rcnn"):
        detector_start(f"timm:test_resnet@{path}", THREE, OPTIONS, seed=0, how=StartOptions(head="faster-rcnn"))
    with pytest.raises(StrobeError, match="do not fit timm:test_efficientnet with the head retinanet"):
        load_model(f"timm:test_efficientnet@{path}", LoadOptions(device="cpu"))
    write_weights(tmp_path / "odd.safetensors", {"a": torch.zeros(1)}, label_space=THREE, training={}, head="retinanet")
    with pytest.raises(InvalidFile, match="its header names a head, but it is not a detector"):
        load_model(f"timm:test_resnet@{tmp_path}/odd.safetensors", LoadOptions(device="cpu"))
    with pytest.raises(StrobeError, match="detectors run in float32"):
        load_model(f"timm:test_resnet@{path}", LoadOptions(device="cpu", precision="bfloat16"))
