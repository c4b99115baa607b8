"""Weights in the layouts that people publish them in. Each file is written here, by modules of the same shape."""

import argparse
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from strobe.core.errors import InvalidFile, ModelFailed
from strobe.core.ports import Silent
from strobe.models.checkpoints import network_alone
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.weights import read_state

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
OTHER = ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))


class _Notes(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


class _InputNormalize(nn.Module):
    """The normalizer of MadryLab's robustness: buffers new_mean and new_std, (3, 1, 1)."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__()
        self.register_buffer("new_mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("new_std", torch.tensor(std)[:, None, None])

    def forward(self, images: Any) -> Any:
        return (images - self.new_mean) / self.new_std


class _Attacker(nn.Module):
    def __init__(self, model: nn.Module, normalize: nn.Module) -> None:
        super().__init__()
        self.normalize, self.model = normalize, model


class _AttackerModel(nn.Module):
    """robustness's wrapper: the normalizer, the network, and both a second time for the attacker."""

    def __init__(self, model: nn.Module, values: Any = IMAGENET) -> None:
        super().__init__()
        self.normalizer, self.model = _InputNormalize(*values), model
        self.attacker = _Attacker(model, _InputNormalize(*values))

    def forward(self, images: Any) -> Any:
        return self.model(self.normalizer(images))


class _ImageNormalizer(nn.Module):
    """RobustBench's normalizer: buffers mean and std, (1, 3, 1, 1)."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))


def _prefixed(prefix: str, state: Any) -> dict[str, Any]:
    return {f"{prefix}{name}": one for name, one in state.items()}


def _robustness(net: nn.Module) -> Any:
    return {"model": nn.DataParallel(_AttackerModel(net)).state_dict(), "epoch": 90, "optimizer": {"state": {}}}


def _robustbench(net: nn.Module) -> Any:
    return nn.Sequential(OrderedDict(normalize=_ImageNormalizer(*IMAGENET), model=net)).state_dict()


def _timm_training(net: nn.Module) -> Any:
    last = {name: torch.zeros_like(one) for name, one in net.state_dict().items()}
    return {"arch": "resnet18", "state_dict": last, "state_dict_ema": net.state_dict(), "metric": 0.7}


LAYOUTS: dict[str, tuple[Callable[[nn.Module], Any], tuple[str, ...]]] = {
    "state_dict": (lambda net: {"state_dict": net.state_dict(), "epoch": 3}, ("all but state_dict (not used: epoch)",)),
    "model": (lambda net: {"model": net.state_dict()}, ("all but model",)),
    "module": (lambda net: nn.DataParallel(net).state_dict(), ("prefix module. of 122",)),
    "nested": (lambda net: {"model": {"state_dict": net.state_dict()}}, ("all but model.state_dict",)),
    "lightning": (lambda net: {"state_dict": _prefixed("model.", net.state_dict())}, ("prefix model. of 122",)),
    "compiled": (lambda net: _prefixed("_orig_mod.module.", net.state_dict()), ("prefix _orig_mod.module. of 122",)),
    "robustness": (
        _robustness,
        ("all but model", "prefix module. of 248", "attacker's copy of the network (124", "normalizer.new_mean"),
    ),
    "robustbench": (_robustbench, ("the normalizer (normalize.mean, normalize.std)", "prefix model. of 122")),
    "sequential": (
        lambda net: nn.Sequential(_ImageNormalizer(*IMAGENET), net).state_dict(),
        ("the normalizer (0.mean, 0.std)", "prefix 1. of 122"),
    ),
    "ema of timm": (_timm_training, ("all but state_dict_ema (not used: arch, state_dict, metric)",)),
    "ema of DeiT": (lambda net: {"model": {}, "model_ema": net.state_dict()}, ("all but model_ema",)),
    "ema of torch": (lambda net: AveragedModel(net).state_dict(), ("the counter n_averaged", "prefix module. of 122")),
}


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(3)
    return timm.create_model("resnet18", pretrained=False).eval()


def _loaded(text: str) -> tuple[Any, list[str]]:
    notes = _Notes()
    return load_model(text, LoadOptions(device="cpu", progress=notes)), notes.lines


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_the_network_inside_it(name: str, net: nn.Module, tmp_path: Path) -> None:
    make, says = LAYOUTS[name]
    torch.save(net.state_dict(), tmp_path / "plain.pth")
    torch.save(make(net), tmp_path / "published.pth")
    plain, quiet = _loaded(f"timm:resnet18@{tmp_path}/plain.pth")
    model, lines = _loaded(f"timm:resnet18@{tmp_path}/published.pth")
    assert quiet == []
    assert model.spec.weights == plain.spec.weights
    assert model.spec.preprocessing == plain.spec.preprocessing
    assert [words for words in says if words not in lines[0]] == []
    if "normalizer" in lines[0]:
        assert lines[1].endswith("normalised once: the file's normalizer equals the model's own preprocessing")
    else:
        assert len(lines) == 1
    same, _ = _loaded(f"torchvision:resnet18/IMAGENET1K_V1@{tmp_path}/published.pth")
    assert same.spec.weights == plain.spec.weights


@pytest.mark.parametrize("provider", ["timm:resnet18", "torchvision:resnet18/IMAGENET1K_V1"])
def test_another_normalizer_inside_the_file_is_applied_and_only_once(
    provider: str, net: nn.Module, tmp_path: Path
) -> None:
    wrapper = _AttackerModel(net, OTHER).eval()
    torch.save({"model": nn.DataParallel(wrapper).state_dict()}, tmp_path / "robust.pt")
    model, lines = _loaded(f"{provider}@{tmp_path}/robust.pt")
    assert model.spec.preprocessing["mean"] == pytest.approx(OTHER[0])
    assert "with the file's mean 0.5 0.4 0.3 and std 0.2 0.25 0.3 instead of the model's own mean 0.485" in lines[-1]
    image = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    with torch.no_grad():
        theirs = wrapper(torch.from_numpy(image.astype(np.float32) / 255).permute(2, 0, 1)[None]).numpy()
    ours = model.forward([model.prepare_input(image)])
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_another_network_under_a_wrapper_is_still_refused(net: nn.Module, tmp_path: Path) -> None:
    torch.save(_robustness(net), tmp_path / "robust.pt")
    with pytest.raises(ModelFailed, match=r"weights do not fit timm:resnet50: .*layer1\.0"):
        _loaded(f"timm:resnet50@{tmp_path}/robust.pt")
    alone = {"attacker.model.fc.bias": torch.zeros(2)}
    assert list(network_alone(alone).tensors) == list(alone), "nothing else is there, so it is not a copy"
    numbers = {"mean": torch.zeros(4), "fc.bias": torch.zeros(2)}
    assert list(network_alone(numbers).tensors) == list(numbers), "four numbers are no normalizer"


def test_a_file_that_contains_itself_or_more_than_tensors(net: nn.Module, tmp_path: Path) -> None:
    endless: dict[str, Any] = {}
    endless["model"] = endless
    torch.save(endless, tmp_path / "endless.pth")
    with pytest.raises(InvalidFile, match="no tensors"):
        read_state(tmp_path / "endless.pth")
    torch.save({**_timm_training(net), "args": argparse.Namespace(lr=0.1)}, tmp_path / "args.pth")
    with pytest.raises(InvalidFile, match="--trust"):
        read_state(tmp_path / "args.pth")
    assert list(read_state(tmp_path / "args.pth", trust=True)) == list(net.state_dict())
