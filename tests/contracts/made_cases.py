"""One real model of every provider, small, with local weights: nothing is downloaded."""

import importlib.util
import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from strobe.core.labels import LabelSpace

SERVERS = ExitStack()
"""The servers that cases have started. They stop at the end of the session."""

PETS = LabelSpace.of_names("pets", ["cat", "dog", "giant_panda", "red fox"])
SETTINGS = {
    "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2], "labels": list(PETS.ids), "resize": 36,
    "interpolation": "bilinear",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model as it is named, the same with weights that do not fit, and the number of its classes."""

    model: str
    misfit: str | None
    n_classes: int
    image_size: int | None = None
    settings: Path | None = None
    backend: str = "auto"


def _save(module: object, path: Path) -> Path:
    import torch
    from safetensors.torch import save_file

    state = module.state_dict()  # type: ignore[attr-defined]
    if path.suffix == ".safetensors":
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, str(path))
    else:
        torch.save(state, path)
    return path


def bundled(folder: Path) -> Case:
    from strobe.models.lite import weights_file

    other = weights_file("efficientnet-lite1")
    return Case("efficientnet-lite0", f"efficientnet-lite0@{other}", 1000)


def timm(folder: Path) -> Case:
    import timm as library
    import torch

    torch.manual_seed(0)
    good = _save(library.create_model("test_resnet", num_classes=4), folder / "timm.safetensors")
    bad = _save(library.create_model("test_vit", num_classes=4), folder / "timm_vit.safetensors")
    return Case(f"timm:test_resnet@{good}", f"timm:test_resnet@{bad}", 4)


def torchvision(folder: Path) -> Case:
    import torch
    from torchvision import models

    torch.manual_seed(0)
    good = _save(models.shufflenet_v2_x0_5(weights=None), folder / "shuffle.pth")
    bad = _save(models.shufflenet_v2_x1_0(weights=None), folder / "shuffle_wide.pth")
    return Case(f"torchvision:shufflenet_v2_x0_5@{good}", f"torchvision:shufflenet_v2_x0_5@{bad}", 1000, image_size=64)


def openclip(folder: Path) -> Case:
    import open_clip
    import torch

    for name, width in (("strobe-tiny-clip", 32), ("strobe-other-clip", 64)):
        config = {
            "embed_dim": width,
            "vision_cfg": {"image_size": 32, "layers": 2, "width": width, "patch_size": 16, "head_width": 16},
            "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": width, "heads": 2, "layers": 1},
        }
        (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    torch.manual_seed(0)
    good = _save(open_clip.create_model("strobe-tiny-clip"), folder / "clip.pt")
    bad = _save(open_clip.create_model("strobe-other-clip"), folder / "clip_other.pt")
    return Case(f"openclip:strobe-tiny-clip@{good}", f"openclip:strobe-tiny-clip@{bad}", len(PETS))


def hf(folder: Path) -> Case:
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8,
        num_labels=3, id2label={0: "cat", 1: "dog", 2: "parrot"},
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    model.save_pretrained(folder / "vit")
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder / "vit")
    bad = _save(torch.nn.Linear(3, 3), folder / "linear.safetensors")
    return Case(f"hf:{folder / 'vit'}", f"hf:{folder / 'vit'}@{bad}", 3)


def onnx(folder: Path) -> Case:
    import onnx as library
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    tensors = [
        numpy_helper.from_array(rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32), "conv"),
        numpy_helper.from_array(rng.normal(0, 1, (8, 4)).astype(np.float32), "matrix"),
    ]
    nodes = [
        helper.make_node("Conv", ["image", "conv"], ["a"], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "matrix"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 4])], tensors,
    )  # fmt: skip
    path = folder / "net.onnx"
    library.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    path.with_suffix(".json").write_text(json.dumps(SETTINGS))
    return Case(f"onnx:{path}", None, 4)


def openvino(folder: Path) -> Case:
    return replace(onnx(folder), backend="openvino")


def bundled_in_openvino(folder: Path) -> Case:
    return Case("strobe-world", None, 12, backend="openvino")


def int8(folder: Path) -> Case:
    from strobe.core.ports import Silent
    from strobe.models.options import LoadOptions
    from strobe.synthetic.sets import SyntheticOptions
    from strobe.synthetic.world import WorldOptions
    from strobe.workflows.quantise import quantise
    from strobe.workflows.synthesize import synthesize

    world = SyntheticOptions(world=WorldOptions(size=48, frames=3), videos=6)
    dataset = synthesize(folder / "world", world, progress=Silent()).dataset
    load, out = LoadOptions(label_space=PETS, device="cpu"), folder / "int8.onnx"
    quantise(onnx(folder).model, dataset, out, frames=12, seed=0, load=load, progress=Silent())
    return Case(f"onnx:{out}", None, 4)


def int8_in_openvino(folder: Path) -> Case:
    return replace(int8(folder), backend="openvino")


def pt2(folder: Path) -> Case:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.relu(self.conv(x)).mean((2, 3)))

    torch.manual_seed(0)
    batch = torch.export.Dim("n", min=1, max=512)
    program = torch.export.export(Net().eval(), (torch.zeros(2, 3, 32, 32),), dynamic_shapes=({0: batch},))
    path = folder / "net.pt2"
    torch.export.save(program, path)
    path.with_suffix(".json").write_text(json.dumps(SETTINGS))
    return Case(f"pt2:{path}", None, 4)


def plugin(folder: Path) -> Case:
    path = folder / "mine.py"
    path.write_text(
        "import numpy as np\n"
        "def make():\n"
        "    return lambda images: np.stack([i.reshape(-1, 3).mean(0) for i in images]), ['cat', 'dog', 'red fox']\n"
    )
    return Case(f"py:{path}:make", None, 3)


MAKERS: dict[str, Callable[[Path], Case]] = {
    maker.__name__: maker
    for maker in (
        bundled,
        timm,
        torchvision,
        openclip,
        hf,
        onnx,
        openvino,
        bundled_in_openvino,
        int8,
        int8_in_openvino,
        pt2,
        plugin,
    )
}

ANNEXES = Path(__file__).parents[1] / "annexes"


def of_annexes(group: str) -> dict[str, Any]:
    """Return the cases that annexes add: CLASSIFIERS or DETECTORS of their contract_cases.py."""
    cases: dict[str, Any] = {}
    for path in sorted(ANNEXES.glob("*/contract_cases.py")):
        cases |= getattr(_module(path), group)
    return cases


@cache
def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_contract_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
