"""torchvision's detectors on the same weights file: ours and torchvision's own give the same boxes, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
models = pytest.importorskip("torchvision.models")

from torchvision.models import detection  # noqa: E402
from torchvision.ops import FrozenBatchNorm2d  # noqa: E402

from strobe.core.errors import ModelFailed  # noqa: E402
from strobe.core.labels import LabelSpace  # noqa: E402
from strobe.models.detectors.boxes import detections  # noqa: E402
from strobe.models.detectors.building import OWN, build, eps_of_frozen, freeze_norms  # noqa: E402
from strobe.models.detectors.trainable import StartOptions, detector_start  # noqa: E402
from strobe.models.options import LoadOptions  # noqa: E402
from strobe.models.registry import load_model  # noqa: E402

SIZE = 96
PUBLISHED = [
    (name, tag.name)
    for name in models.list_models(module=detection)
    if not name.startswith(("maskrcnn", "keypoint"))  # the same boxes as Faster R-CNN, and much slower
    for tag in models.get_model_weights(name)
]
THREE = LabelSpace.of_names("three", ["cat", "dog", "bird"])


def _lively(module: Any) -> None:
    """Give random weights that tell frozen from live norms, and an epsilon from another, and that find boxes."""
    torch.manual_seed(4)
    for name, one in module.state_dict().items():
        if name.endswith("running_var"):
            one.copy_(torch.rand_like(one) + 0.5)
        elif name.endswith("running_mean"):
            one.copy_(torch.randn_like(one) * 0.01)
        elif ("cls_score" in name or "cls_logits" in name or "module_list" in name) and one.dim() > 1:
            one.copy_(torch.randn_like(one))
        elif "cls_logits" in name:
            one.zero_()


def _open(module: Any) -> None:
    """Let every box through, because untrained scores are low."""
    getattr(module, "roi_heads", module).score_thresh = 0.0
    if hasattr(module, "rpn"):
        module.rpn.score_thresh = 0.0


def _theirs(name: str, tag: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """torchvision's own builder for the published weights, which are random here."""
    chosen = models.get_model_weights(name)[tag]
    made = models.get_model(name, weights=None, weights_backbone=None, num_classes=len(chosen.meta["categories"]))
    state = {key: one for key, one in made.state_dict().items() if not key.endswith("num_batches_tracked")}
    with monkeypatch.context() as patched:
        patched.setattr(models.WeightsEnum, "get_state_dict", lambda *_, **__: state)
        patched.setattr(torch.nn.BatchNorm2d, "_version", 1)  # the published files have no counters either
        module = models.get_model(name, weights=chosen).eval()
    _lively(module)
    return module


@pytest.mark.parametrize(("name", "tag"), PUBLISHED)
def test_boxes_equal_torchvisions_own(name: str, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = _theirs(name, tag, monkeypatch)
    torch.save(theirs.state_dict(), tmp_path / "weights.pth")
    fixed = name.startswith("ssd")
    options = LoadOptions(device="cpu", image_size=None if fixed else SIZE)
    ours: Any = load_model(f"torchvision:{name}/{tag}@{tmp_path}/weights.pth", options)
    if not fixed:
        transform = theirs.transform
        transform.max_size = round(transform.max_size * SIZE / transform.min_size[-1])
        transform.min_size = (SIZE,)
    image = np.random.default_rng(2).integers(0, 256, (80, 120, 3), np.uint8)
    for one in (theirs, ours.module):
        _open(one)
    pixels = [torch.from_numpy(image).permute(2, 0, 1).float() / 255]
    with torch.inference_mode():
        (found,), (mine,) = theirs(pixels), ours.module(pixels)
    assert len(found["scores"]) > 0
    for key in ("boxes", "scores", "labels"):
        assert mine[key].numpy().tobytes() == found[key].numpy().tobytes(), key
    boxes, labels, scores = (found[key].numpy() for key in ("boxes", "labels", "scores"))
    (given,), expected = ours.forward([ours.prepare(image)]), detections(boxes, labels, scores)
    assert np.array_equal(given.xyxy, expected.xyxy)
    assert np.array_equal(given.score, expected.score)
    assert eps_of_frozen(ours.module) == eps_of_frozen(theirs)
    assert type(ours.module.backbone).__name__ == type(theirs.backbone).__name__


def test_weights_with_live_norms_keep_them(tmp_path: Path) -> None:
    made = models.get_model("fasterrcnn_resnet50_fpn", weights=None, weights_backbone=None, num_classes=4)
    torch.save(made.state_dict(), tmp_path / "own.pth")
    options = LoadOptions(device="cpu", image_size=SIZE, label_space=THREE)
    loaded: Any = load_model(f"torchvision:fasterrcnn_resnet50_fpn@{tmp_path}/own.pth", options)
    assert eps_of_frozen(loaded.module) is None
    assert "norms" not in loaded.spec.preprocessing, "stored answers keep their key"


@pytest.mark.parametrize("provider", ["torchvision:resnet50", "timm:resnet50"])
def test_a_classifier_gives_its_backbone_with_frozen_norms_and_layers(provider: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    classifier = models.get_model("resnet50", weights=None, num_classes=1000)
    torch.save({"state_dict": classifier.state_dict()}, tmp_path / "mine.pth")
    how = StartOptions(backbone=f"{provider}@{tmp_path}/mine.pth", norms="frozen", trainable_layers=3)
    options = LoadOptions(device="cpu")
    start = detector_start("torchvision:fasterrcnn_resnet50_fpn", THREE, options, seed=0, how=how)
    body = start.module.backbone.body
    assert torch.equal(body.layer3[0].conv1.weight, classifier.layer3[0].conv1.weight)
    assert isinstance(body.bn1, FrozenBatchNorm2d)
    assert {name.split(".")[0] for name, one in body.named_parameters() if one.requires_grad} == {
        "layer2", "layer3", "layer4",
    }  # fmt: skip
    assert not start.is_random
    start.write(tmp_path / "model.safetensors", start.module, {"recipe": "x"})
    loaded: Any = load_model(f"{start.name}@{tmp_path}/model.safetensors", options)
    assert loaded.spec.preprocessing["norms"] == "frozen, eps 1e-05", "in the file's header, not COCO's 0"
    with pytest.raises(ModelFailed, match=r"does not fit the backbone .*: \d+ of \d+ tensors are missing"):
        detector_start("torchvision:fasterrcnn_resnet101_fpn", THREE, options, seed=0, how=how)
    with pytest.raises(ModelFailed, match="cannot replace its backbone"):
        detector_start("torchvision:ssd300_vgg16", THREE, options, seed=0, how=how)


@pytest.mark.parametrize("name", OWN)
def test_the_papers_other_detectors_train_and_find_boxes(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = build(name, 4)
    for key, one in module.state_dict().items():
        if key.endswith("bn3.weight"):
            one.zero_()  # 33 blocks with random weights would overflow
    freeze_norms(module, 1e-5)
    module.transform.min_size, module.transform.max_size = (64,), 128
    images = [torch.rand(3, 64, 80)]
    truth = [{"boxes": torch.tensor([[8.0, 8.0, 40.0, 50.0]]), "labels": torch.tensor([2])}]
    losses = module.train()(images, truth)
    assert all(bool(one.isfinite()) for one in losses.values())
    sum(losses.values()).backward()
    head = module.roi_heads.box_roi_pool.score.weight if name.startswith("rfcn") else module.backbone.fpn.inner_blocks
    grad = head.grad if name.startswith("rfcn") else next(iter(head.parameters())).grad
    assert float(grad.abs().sum()) > 0
    torch.save(module.state_dict(), tmp_path / "w.pth")
    options = LoadOptions(device="cpu", image_size=64, label_space=THREE)
    loaded: Any = load_model(f"torchvision:{name}@{tmp_path}/w.pth", options)
    _open(loaded.module)
    image = (images[0].permute(1, 2, 0).numpy() * 255).astype(np.uint8)
    (found,) = loaded.forward([loaded.prepare(image)])
    assert len(found.score) > 0
    assert set(found.label.tolist()) <= {1, 2, 3}
    with pytest.raises(ModelFailed, match="no published weights"):
        load_model(f"torchvision:{name}", options)


def test_rfcn_pools_each_position_from_its_own_map() -> None:
    module = build("rfcn_resnet50", 3).roi_heads.box_roi_pool
    with torch.no_grad():
        module.score.weight.zero_()
        module.score.bias.copy_(torch.arange(49 * 3).float())
    pooled = module({"0": torch.zeros(1, 1024, 8, 8)}, [torch.tensor([[0.0, 0.0, 112.0, 112.0]])], [(128, 128)])
    means = torch.arange(49 * 3).float().reshape(3, 49).mean(1)
    assert torch.allclose(pooled[0, :3], means), "class c takes maps 49c to 49c + 48, one for each position"
