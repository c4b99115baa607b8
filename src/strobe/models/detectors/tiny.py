"""strobe-tiny and related networks: small detectors for the synthetic world, trained by `strobe train detector`."""

from collections.abc import Iterator
from importlib import resources
from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import Placement, PlacementPreparation
from strobe.models.detectors.torch_detector import TorchDetector, detector_spec
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.providers import Provider
from strobe.models.weights import digest_of_state, load_into, read_state

_LOW_SCORE, _NMS_IOU, _MOST = 0.02, 0.6, 100

NETWORKS = ("strobe-tiny", "strobe-net-boxes")
"""Grid networks that `strobe train detector` trains. The second network is shipped without weights."""

_SHIPPED = {"strobe-tiny": "strobe-tiny", "strobe-ground-boxes": "strobe-net-boxes"}
"""Detectors shipped with weights, and the network of each (docs/background.md)."""


class TinyDetector(TorchDetector):
    """A grid network behind the Detector port. Images are centred in a grey square."""

    own_streams = True

    def __init__(self, module: Any, spec: ModelSpec, *, device: str) -> None:
        super().__init__(module, spec, device=device)
        self.preparation = PlacementPreparation(size_hw=(module.side, module.side), one_scale=True)

    def _same_size(self, prepared: list[tuple[Image, Placement]]) -> Iterator[Detections]:

        ops = require("torchvision.ops", what="strobe-tiny", extra="models")
        pixels = self._on_device([one for one, _ in prepared])
        logits, distances = self._module(self._module.to_input(pixels))
        scores = logits.flatten(2).transpose(1, 2).sigmoid().float().cpu()
        corners = self._module.decode(distances.float()).cpu()
        for place, (_, placement) in enumerate(prepared):
            cell, label = (scores[place] >= _LOW_SCORE).nonzero(as_tuple=True)
            score, boxes = scores[place][cell, label], corners[place][cell]
            kept = ops.batched_nms(boxes, score, label, _NMS_IOU)[:_MOST]
            xyxy = placement.to_image(boxes[kept].double().numpy())
            inside = (xyxy[:, 2:] - xyxy[:, :2] > 0.5).all(axis=1)
            found = label[kept].numpy()[inside].astype(np.int32), score[kept].double().numpy()[inside]
            yield Detections(xyxy=xyxy[inside], label=found[0], score=found[1])


def load(model: ModelName, options: LoadOptions) -> TinyDetector:
    """Load a shipped detector, or its network with weights that `strobe train detector` wrote."""
    require("torch", what=model.name, extra="models")
    from strobe.models.detectors.tiny_net import label_space_of

    device, name = torch_setup(options).device, model.name
    if name not in _SHIPPED and model.weights is None:
        raise ModelFailed(f"{name}: it has no weights yet; train it (strobe train detector …) and write {name}@FILE")
    shipped = resources.files("strobe.models.detectors") / "data" / f"{name}.safetensors"
    with resources.as_file(shipped) as inside:
        path = model.weights or inside
        if not path.is_file():
            raise ModelFailed(
                f"{name}: there are no weights at {printable(path)}; make them with strobe train detector -m "
                "strobe-tiny -o OUT"
            )
        label_space, state = label_space_of(path), read_state(path, trust=options.trust)
    module = network(_SHIPPED.get(name, name), len(label_space))
    load_into(module, {key: value.float() for key, value in state.items()}, path=path, model=name)
    return detector_of(
        module,
        model,
        label_space=label_space,
        weights=digest_of_state(state),
        device=device,
        batch_size=options.batch_size or 16,
    )


def network(name: str, classes: int) -> Any:
    """Return the network of this name with random weights."""
    from strobe.models.detectors.tiny_net import NetBoxes, TinyNet

    return TinyNet(classes) if name == "strobe-tiny" else NetBoxes(classes)


def detector_of(
    module: Any, model: ModelName, *, label_space: LabelSpace, weights: str, device: str, batch_size: int = 16
) -> TinyDetector:
    """Wrap the network in the Detector port, with any weights."""
    spec = detector_spec(
        model,
        label_space=label_space,
        weights=weights,
        preprocessing={
            "size": module.side,
            "resize": "letterbox, bilinear, grey 114",
            "scale": module.scale,
            "low_score": _LOW_SCORE,
            "nms_iou": _NMS_IOU,
            "max_detections": _MOST,
        },
        batch_size=batch_size,
    )
    return TinyDetector(module, spec, device=device)


PROVIDER = Provider(
    load=load,
    what="bundled detectors for the synthetic world",
    example="strobe-tiny",
    package="torch",
    extra="models",
    bundled=("strobe-tiny", "strobe-ground-boxes", "strobe-net-boxes"),
    settings=("batch_size",),
    detector="strobe.models.detectors.trainable:grid_start",
)
