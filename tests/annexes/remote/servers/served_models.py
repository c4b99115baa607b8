"""Small real models as ONNX files with their settings: strobe's bundled classifier and detector, exported by torch."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any


def write_models(folder: Path) -> list[Path]:
    """Write world.onnx (the classifier strobe-world), tiny.onnx (the detector strobe-tiny) and their settings."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_world(folder / "world.onnx"), _tiny(folder / "tiny.onnx")]


def write_repository(folder: Path, models: list[Path]) -> None:
    """Write what MLServer reads: a folder per model, with the tensors of its ONNX file."""
    import onnxruntime

    datatypes = {"tensor(float)": "FP32", "tensor(uint8)": "UINT8"}
    for model in models:
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        tensors = {
            which: [
                {
                    "name": one.name,
                    "datatype": datatypes[one.type],
                    "shape": [size if isinstance(size, int) else -1 for size in one.shape],
                }
                for one in some
            ]
            for which, some in (("inputs", session.get_inputs()), ("outputs", session.get_outputs()))
        }
        settings = {
            "name": model.stem,
            "platform": "onnxruntime_onnx",
            "implementation": "strobe_runtime.OnnxModel",
            "parameters": {"uri": str(model.resolve()), "version": "1"},
            **tensors,
        }
        place = folder / model.stem
        place.mkdir(parents=True, exist_ok=True)
        (place / "model-settings.json").write_text(json.dumps(settings, indent=1))
    (folder / "settings.json").write_text(json.dumps({"debug": False, "parallel_workers": 0}))


def _world(path: Path) -> Path:
    from strobe.models.options import LoadOptions
    from strobe.models.registry import load_model

    model: Any = load_model("strobe-world", LoadOptions(device="cpu", backend="torch"))
    _export(model._module, (1, 3, 64, 64), path, outputs=["scores"])
    plan = model.spec.preprocessing
    keys = ("mean", "std", "fit", "interpolation", "divide")
    settings = {key: plan[key] for key in keys} | {"labels": list(model.spec.label_space.ids)}
    path.with_suffix(".json").write_text(json.dumps(settings))
    return path


def _tiny(path: Path) -> Path:
    import torch

    from strobe.models.options import LoadOptions
    from strobe.models.registry import load_model

    model: Any = load_model("strobe-tiny", LoadOptions(device="cpu", backend="torch"))

    class AsYolo(torch.nn.Module):
        """The grid network with its boxes decoded, in the layout yolov8."""

        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, images: Any) -> Any:
            logits, distances = self.inner(images)
            corners = self.inner.decode(distances)
            box = torch.cat([(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], dim=-1)
            return torch.cat([box.transpose(1, 2), logits.flatten(2).sigmoid()], dim=1)

    _export(AsYolo(model._module).eval(), (1, 3, 128, 128), path, outputs=["output0"])
    settings = {
        "task": "detection", "layout": "yolov8", "labels": list(model.spec.label_space.names), "divide": 127.5,
        "mean": [1.0, 1.0, 1.0], "std": [1.0, 1.0, 1.0], "score_threshold": 0.02, "nms_iou": 0.6,
        "max_detections": 100, "box_units": "pixels",
    }  # fmt: skip
    path.with_suffix(".json").write_text(json.dumps(settings))
    return path


def _export(module: Any, shape: tuple[int, ...], path: Path, *, outputs: list[str]) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), (torch.zeros(shape),), str(path), input_names=["images"], output_names=outputs,
            dynamic_axes={"images": {0: "n"}, outputs[0]: {0: "n"}}, dynamo=False,
        )  # fmt: skip


if __name__ == "__main__":  # scripts/servers.py
    target = Path(sys.argv[1])
    write_repository(target, write_models(target / "files"))
