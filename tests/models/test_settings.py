"""What a settings file may say of which model, and that everything it says is in the key."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from onnx import TensorProto, helper, numpy_helper, save
from safetensors.torch import save_file
from torchvision import models

from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace, space
from strobe.models.onnx_files import external_files
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

NAMES = ["lion", "wolf", "bear", "crane", "hare", "mole", "newt"]
VID = space("imagenet-vid")


def _options(folder: Path, settings: Any, **more: Any) -> LoadOptions:
    (folder / "s.json").write_text(json.dumps(settings))
    return LoadOptions(device="cpu", label_space=VID, settings=folder / "s.json", **more)


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Models with seven classes and no names for them."""
    folder = tmp_path_factory.mktemp("finetuned")
    torch.manual_seed(0)
    save_file(timm.create_model("test_resnet", num_classes=7).state_dict(), str(folder / "t7.safetensors"))
    torch.save(models.shufflenet_v2_x0_5(weights=None, num_classes=7).state_dict(), folder / "s7.pth")
    return {
        "timm": f"timm:test_resnet@{folder / 't7.safetensors'}",
        "torchvision": f"torchvision:shufflenet_v2_x0_5@{folder / 's7.pth'}",
    }


@pytest.mark.parametrize("provider", ["timm", "torchvision"])
def test_the_classes_of_finetuned_weights(provider: str, finetuned: dict[str, str], tmp_path: Path) -> None:
    name = finetuned[provider]
    with pytest.raises(StrobeError, match=r"7 outputs have no class names.*labels.*--model-settings.*py:"):
        load_model(name, LoadOptions(device="cpu", label_space=VID))
    assert load_model(name, _options(tmp_path, {"labels": NAMES})).spec.label_space.names == tuple(NAMES)
    ids = list(space("ilsvrc-2012").ids[:7])
    assert load_model(name, _options(tmp_path, {"labels": ids})).spec.label_space.ids == tuple(ids)
    seven = LabelSpace.of_names("seven", NAMES)
    options = LoadOptions(device="cpu", label_space=seven, settings=_options(tmp_path, {"labels": "dataset"}).settings)
    assert load_model(name, options).spec.label_space == seven
    for settings, says in (
        ({"labels": NAMES[:6]}, "7 outputs, but .* names 6"),
        ({"labels": [*NAMES[:6], "lion"]}, "'lion' appears twice"),
        ({"labels": 7}, "labels: expected"),
        ({"labels": NAMES, "mean": [0, 0, 0]}, "unknown setting .*'mean'"),
        ({"label": NAMES}, "expected .*labels"),
        ([1], "expected .*labels"),
    ):
        with pytest.raises(StrobeError, match=says):
            load_model(name, _options(tmp_path, settings))


@pytest.mark.parametrize(
    "name", ["efficientnet-lite0", "openclip:RN50/cc12m", "torchvision:ssdlite320_mobilenet_v3_large"]
)
def test_settings_nobody_would_read_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="needs no --model-settings"):
        load_model(name, _options(tmp_path, {"labels": NAMES}, pretrained=False))


def _onnx(path: Path, matrix: Any, *, location: str | None, in_node: bool = False) -> None:
    """Mean colour times a matrix, with a second output; the matrix in a file of its own where a location is given."""
    tensor = numpy_helper.from_array(np.asarray(matrix, dtype=np.float32), "matrix")
    if location is not None:
        (path.parent / location).write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location
    nodes = [
        helper.make_node("GlobalAveragePool", ["image"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "matrix"], ["scores"]),
        helper.make_node("Neg", ["scores"], ["other"]),
    ]
    if in_node:
        nodes.insert(0, helper.make_node("Constant", [], ["matrix"], value=tensor))
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("scores", "other")],
        [] if in_node else [tensor],
    )  # fmt: skip
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    settings = {"mean": [0, 0, 0], "std": [1, 1, 1], "labels": ["cat", "dog"], "interpolation": "bilinear"}
    path.with_suffix(".json").write_text(json.dumps(settings))


def test_the_output_of_an_onnx_file_is_in_the_key(tmp_path: Path) -> None:
    _onnx(tmp_path / "net.onnx", np.ones((3, 2)), location=None)
    name = f"onnx:{tmp_path / 'net.onnx'}"
    plain = {"mean": [0, 0, 0], "std": [1, 1, 1], "labels": ["cat", "dog"], "interpolation": "bilinear"}
    first, same, other = (
        load_model(name, _options(tmp_path, {**plain, **more})).spec
        for more in ({}, {"output": "scores"}, {"output": "other"})
    )
    assert first == same
    assert other.preprocessing != first.preprocessing


@pytest.mark.parametrize("in_node", [False, True])
@pytest.mark.parametrize("location", ["net.onnx.data", "weights.bin", "big file"])
def test_data_outside_an_onnx_file_is_in_the_digest(location: str, in_node: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    (tmp_path / "net.onnx.data").write_bytes(b"somebody else's")
    digests = set()
    for value in (1.0, 2.0):
        _onnx(path, np.full((3, 2), value), location=location, in_node=in_node)
        assert external_files(path) == [tmp_path / location]
        if not in_node:  # onnxruntime reads such data of initialisers alone
            digests.add(load_model(f"onnx:{path}", LoadOptions(device="cpu")).spec.weights)
    assert len(digests) == (0 if in_node else 2)


def test_a_file_that_is_no_protobuf_has_no_data_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 7, 100, 1000):
        (tmp_path / "noise").write_bytes(rng.bytes(size))
        assert external_files(tmp_path / "noise") == []


def test_a_file_that_resizes_says_how(tmp_path: Path) -> None:
    """Read as bicubic unasked, 8 of 40 answers of an exported torchvision ResNet-18 were others."""
    _onnx(tmp_path / "net.onnx", np.ones((3, 2)), location=None)
    name, plain = f"onnx:{tmp_path / 'net.onnx'}", {"mean": [0, 0, 0], "std": [1, 1, 1], "labels": ["cat", "dog"]}
    for unsaid in ({}, {"resize": 9}, {"fit": "pad"}):
        with pytest.raises(
            StrobeError, match=r'add "interpolation": "bilinear" .*torchvision.* or "bicubic" .*timm'
        ) as e:
            load_model(name, _options(tmp_path, {**plain, **unsaid}))
        assert "\n" not in str(e.value)
    cropped = load_model(name, _options(tmp_path, {**plain, "fit": "short-side"}))
    assert cropped.spec.preprocessing["resize"] is None, "what is only cropped is never resized"
    said = load_model(name, _options(tmp_path, {**plain, "resize": 9, "interpolation": "bilinear"}))
    assert said.spec.preprocessing["interpolation"] == "bilinear"
