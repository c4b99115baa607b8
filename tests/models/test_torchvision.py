"""torchvision's models are built as torchvision builds them for the weights that are asked for."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torchvision import models
from torchvision.models.regnet import BlockParams

from strobe.core.errors import ModelFailed, StrobeError
from strobe.models import torchvision as adapter
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

CPU = LoadOptions(device="cpu")
EVERY = {
    (name, weights.meta["min_size"]): (name, weights.name)
    for name in models.list_models(module=models)
    for weights in models.get_model_weights(name)
    if weights.meta["categories"]
}
"""Every builder, with a tag for each size its weights are made for."""


@pytest.fixture(autouse=True)
def real_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    """RegNets reckon their widths with tensors, which a device without memory cannot."""
    reckon = BlockParams.from_init_params.__func__

    def on_cpu(cls: type[BlockParams], *args: Any, **kwargs: Any) -> Any:
        with torch.device("cpu"):
            return reckon(cls, *args, **kwargs)

    monkeypatch.setattr(BlockParams, "from_init_params", classmethod(on_cpu))


def _facts(module: torch.nn.Module) -> dict[str, Any]:
    """Every plain value a module and its parts hold, and the shapes of its weights."""
    plain = (bool, int, float, str, tuple)
    facts: dict[str, Any] = {"shapes": {name: tuple(one.shape) for name, one in module.state_dict().items()}}
    for name, part in module.named_modules():
        values = {key: one for key, one in vars(part).items() if isinstance(one, plain) and key != "training"}
        facts[name] = (type(part).__name__, values)
    return facts


@pytest.mark.parametrize(("name", "tag"), EVERY.values())
def test_own_weights_meet_the_network_the_published_ones_would(
    name: str, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = models.get_model_weights(name)[tag]
    with torch.device("meta"), monkeypatch.context() as patched:
        patched.setattr(models.WeightsEnum, "get_state_dict", lambda *_, **__: OrderedDict())
        patched.setattr(torch.nn.Module, "load_state_dict", lambda *_, **__: None)
        theirs = models.get_model(name, weights=chosen)
    state = theirs.state_dict()
    n_classes = adapter.classes_of_state(state)
    assert n_classes == len(chosen.meta["categories"]), "the number of classes is read off the weights"
    with torch.device("meta"):
        kwargs = adapter._built(name, chosen, state)
        ours = models.get_model(name, weights=None, num_classes=n_classes, **kwargs)
    assert _facts(ours) == _facts(theirs)


@pytest.fixture(scope="module")
def densenet() -> dict[str, torch.Tensor]:
    """A DenseNet's tensors under the names they are published with."""
    torch.manual_seed(0)
    state = models.densenet121(weights=None).state_dict()
    state = {key: one for key, one in state.items() if not key.endswith("num_batches_tracked")}
    old = {key.replace("norm1.", "norm.1.").replace("norm2.", "norm.2."): one for key, one in state.items()}
    return {key.replace("conv1.", "conv.1.").replace("conv2.", "conv.2."): one for key, one in old.items()}


def test_a_published_file_loads_as_a_file_too(densenet: dict[str, torch.Tensor], tmp_path: Path) -> None:
    torch.save(OrderedDict(densenet), tmp_path / "densenet121.pth")
    assert load_model(f"torchvision:densenet121@{tmp_path / 'densenet121.pth'}", CPU).spec.weights
    save_file(models.mnasnet0_5(weights=None).state_dict(), str(tmp_path / "mnasnet.safetensors"))
    assert load_model(f"torchvision:mnasnet0_5@{tmp_path / 'mnasnet.safetensors'}", CPU).spec.weights


def test_weights_without_a_classifier_are_refused() -> None:
    with pytest.raises(ModelFailed, match="no classification head"):
        load_model("torchvision:vgg16/IMAGENET1K_FEATURES", CPU)


class _Bomb:
    def __init__(self, flag: str) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple[object, ...]:
        return open, (self.flag, "w")


def test_published_weights_run_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    place = tmp_path / "hub/checkpoints" / models.ResNet18_Weights.DEFAULT.url.rsplit("/", 1)[-1]
    place.parent.mkdir(parents=True)
    torch.save({"conv1.weight": _Bomb(str(tmp_path / "flag"))}, place)
    with pytest.raises(StrobeError) as caught:
        load_model("torchvision:resnet18", CPU)
    assert not (tmp_path / "flag").exists()
    assert "\n" not in str(caught.value)
    assert "would run code" in str(caught.value)


def test_own_weights_are_told_whose_preprocessing_they_get(tmp_path: Path, heard: Any) -> None:
    """Weights in a file do not say how their images were resized; the newest preset was taken without a word."""
    torch.manual_seed(0)
    save_file(models.regnet_y_400mf(weights=None).state_dict(), str(tmp_path / "w.safetensors"))
    options = LoadOptions(device="cpu", progress=heard)
    newest = load_model(f"torchvision:regnet_y_400mf@{tmp_path / 'w.safetensors'}", options)
    assert newest.spec.preprocessing["resize"] == 232
    (said,) = heard.lines
    assert "prepared as for IMAGENET1K_V2 (resize 232, crop 224, bilinear)" in said
    assert "write torchvision:regnet_y_400mf/IMAGENET1K_V1@" in said
    chosen = load_model(f"torchvision:regnet_y_400mf/IMAGENET1K_V1@{tmp_path / 'w.safetensors'}", options)
    assert chosen.spec.preprocessing["resize"] == 256
    assert len(heard.lines) == 1, "who chooses is told nothing"
