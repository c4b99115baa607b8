"""strobe-tiny: the detector that comes with strobe, trained on its synthetic world by `strobe train-detector`."""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import InvalidFile, ModelFailed, printable
from strobe.core.files import replacing
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import Placement, Placing
from strobe.models.options import LoadOptions, torch_setup
from strobe.models.weights import digest_of_state, load_into, read_state

__all__ = ["TinyDetector", "load", "save"]

_LOW_SCORE, _NMS_IOU, _MOST = 0.02, 0.6, 100
_SETTINGS = "strobe"


class TinyDetector:
    """The network behind the Detector port."""

    lanes = 1

    def __init__(self, network: Any, spec: ModelSpec, *, device: str) -> None:
        self._network, self.spec, self.device = network, spec, device
        side = int(spec.preprocessing["size"])
        self.preparation = Placing(size_hw=(side, side), one_scale=True)

    def prepare(self, image: Image) -> tuple[Image, Placement]:
        """The image with its longer side at the input's size (bilinear), centred on grey, and the way back."""
        return self.preparation.prepare(image)

    def forward(self, prepared: Sequence[tuple[Image, Placement]]) -> list[Detections]:
        """What was found in each image, highest score first."""
        if not prepared:
            return []
        import torch

        from strobe.models.detectors.tiny_net import decode, to_input

        pixels = torch.from_numpy(np.stack([image for image, _ in prepared])).to(self.device)
        with torch.inference_mode():
            logits, distances = self._network(to_input(pixels))
            scores = logits.flatten(2).transpose(1, 2).sigmoid().float().cpu()
            corners = decode(distances.float()).cpu()
        return [_found(scores[n], corners[n], placement) for n, (_, placement) in enumerate(prepared)]


def _found(scores: Any, corners: Any, placement: Placement) -> Detections:
    ops = require("torchvision.ops", what="strobe-tiny", extra="models")
    cell, label = (scores >= _LOW_SCORE).nonzero(as_tuple=True)
    score, boxes = scores[cell, label], corners[cell]
    kept = ops.batched_nms(boxes, score, label, _NMS_IOU)[:_MOST]
    xyxy = placement.to_image(boxes[kept].double().numpy())
    inside = (xyxy[:, 2] - xyxy[:, 0] > 0.5) & (xyxy[:, 3] - xyxy[:, 1] > 0.5)
    return Detections(
        xyxy=xyxy[inside],
        label=label[kept].numpy()[inside].astype(np.int32),
        score=score[kept].double().numpy()[inside],
    )


def load(name: str, weights: Path | None, options: LoadOptions) -> TinyDetector:
    """The shipped detector, or the same network with weights that `strobe train-detector` wrote elsewhere."""
    require("torch", what=name, extra="models")
    from strobe.models.detectors.tiny_net import INPUT, TinyNet

    setup = torch_setup(options)
    shipped = resources.files("strobe.models.detectors") / "data" / "strobe-tiny.safetensors"
    with resources.as_file(shipped) as inside:
        path = weights or inside
        if not path.is_file():
            raise ModelFailed(f"{name}: no weights at {printable(path)}; make them with strobe train-detector -o FILE")
        settings = _settings(path)
        state = read_state(path, trust=options.trust)
    label_space = LabelSpace.from_json(settings["label_space"])
    network = TinyNet(len(label_space))
    load_into(network, {key: value.float() for key, value in state.items()}, path=path, model=name)
    network.eval().to(setup.device)
    spec = ModelSpec(
        name=name if weights is None else f"{name}@{weights}",
        provider="bundled",
        task="detection",
        label_space=label_space,
        weights=digest_of_state(state),
        kind="probabilities",
        preprocessing={
            "size": INPUT, "resize": "letterbox, bilinear, grey 114", "scale": "x / 127.5 - 1",
            "low_score": _LOW_SCORE, "nms_iou": _NMS_IOU, "max_detections": _MOST,
        },
        batch_size=options.batch_size or 16,
    )  # fmt: skip
    return TinyDetector(network, spec, device=setup.device)


def _settings(path: Path) -> dict[str, Any]:
    """What was written beside the tensors."""
    opener = require("safetensors", what="reading safetensors", extra="models").safe_open
    try:
        with opener(str(path), framework="pt") as file:
            settings: dict[str, Any] = json.loads((file.metadata() or {})[_SETTINGS])
    except Exception as error:  # safetensors raises its own Rust-side class, which differs between versions
        raise InvalidFile(path, "not weights of strobe-tiny", hint="make them with strobe train-detector") from error
    return settings


def save(path: Path, state: Mapping[str, Any], *, label_space: LabelSpace, training: Mapping[str, Any]) -> None:
    """Write weights as half-precision safetensors, with the classes and how they were trained beside them."""
    torch = require("safetensors.torch", what="writing safetensors", extra="models")
    tensors = {
        name: tensor.half().contiguous() for name, tensor in state.items() if not name.endswith("num_batches_tracked")
    }
    settings = json.dumps({"label_space": label_space.to_json(), "training": dict(training)}, sort_keys=True)
    with replacing(path) as temporary:
        torch.save_file(tensors, str(temporary), metadata={_SETTINGS: settings})
