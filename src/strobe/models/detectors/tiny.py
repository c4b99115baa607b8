"""strobe-tiny and related networks: small detectors for the synthetic world, trained by `strobe train detector`."""

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from strobe.core.arrays import Floats
from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.cores import cpu_lanes
from strobe.models.detectors.boxes import Placement, PlacementPreparation, class_nms
from strobe.models.detectors.torch_detector import TorchDetector, detector_spec
from strobe.models.graphs import graph_digest, graph_session, in_torch
from strobe.models.header import expected_header
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.providers import Provider
from strobe.models.runtimes import runtime_facts
from strobe.models.tensor_files import read_safetensors
from strobe.models.weights import digest_of_state, load_into, read_state

_LOW_SCORE, _NMS_IOU, _MOST = 0.02, 0.6, 100
_STRIDE = 8
"""Pixels per cell of the output grid, as in `tiny_net`."""


class _Input(NamedTuple):
    """The input of a grid network: the side in pixels, and the factor after scaling to −1 … 1. As in `tiny_net`."""

    side: int
    factor: int
    scale: str


_INPUTS = {"strobe-tiny": _Input(128, 1, "x / 127.5 - 1"), "strobe-net-boxes": _Input(64, 2, "x / 63.75 - 2")}

NETWORKS = ("strobe-tiny", "strobe-net-boxes")
"""Grid networks that `strobe train detector` trains. The second network is shipped without weights."""

_SHIPPED = {"strobe-tiny": "strobe-tiny", "strobe-ground-boxes": "strobe-net-boxes"}
"""Detectors shipped with weights, and the network of each."""


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
        for index, (_, placement) in enumerate(prepared):
            cell, label = (scores[index] >= _LOW_SCORE).nonzero(as_tuple=True)
            score, boxes = scores[index][cell, label], corners[index][cell]
            kept = ops.batched_nms(boxes, score, label, _NMS_IOU)[:_MOST]
            xyxy = placement.to_image(boxes[kept].double().numpy())
            inside = (xyxy[:, 2:] - xyxy[:, :2] > 0.5).all(axis=1)
            found = label[kept].numpy()[inside].astype(np.int32), score[kept].double().numpy()[inside]
            yield Detections(xyxy=xyxy[inside], label=found[0], score=found[1])


class GraphDetector:
    """A shipped grid network in ONNX Runtime behind the Detector port. It answers as TinyDetector does."""

    device = "cpu"

    def __init__(self, session: Any, spec: ModelSpec, grid: "_Input") -> None:
        self.spec, self._session, self._input, self.lanes = spec, session, grid, cpu_lanes()
        self.preparation = PlacementPreparation(size_hw=(grid.side, grid.side), one_scale=True)
        steps = (np.arange(grid.side // _STRIDE, dtype=np.float32) + 0.5) * _STRIDE
        self._centres = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)

    def prepare(self, image: Image) -> tuple[Image, Placement]:
        """Return the image centred in a grey square, and its placement for mapping boxes back."""
        return self.preparation.prepare(image)

    def prepare_input(self, image: Image) -> tuple[Image, Placement]:
        """Return the result of `prepare`. It never crops, and does not resize an image of the input's size."""
        return self.prepare(image)

    def forward(self, prepared: Sequence[tuple[Image, Placement]]) -> list[Detections]:
        """Return the detections of each image, highest score first."""
        if not prepared:
            return []
        images = np.stack([one for one, _ in prepared]).transpose(0, 3, 1, 2).astype(np.float32, order="C")
        images = (images / np.float32(127.5) - 1) * np.float32(self._input.factor)
        logits, distances = self._session.run(["logits", "distances"], {"pixels": images})
        scores = 0.5 + 0.5 * np.tanh(0.5 * logits.reshape(*logits.shape[:2], -1).transpose(0, 2, 1))  # cannot overflow
        ltrb = distances.reshape(len(prepared), 4, -1).transpose(0, 2, 1) * np.float32(_STRIDE)
        corners = np.concatenate([self._centres - ltrb[..., :2], self._centres + ltrb[..., 2:]], axis=-1)
        return [
            self._kept(score, xyxy, placement)
            for score, xyxy, (_, placement) in zip(scores, corners, prepared, strict=True)
        ]

    def _kept(self, scores: Floats, corners: Floats, placement: Placement) -> Detections:
        cell, label = np.nonzero(scores >= _LOW_SCORE)
        score, boxes = scores[cell, label].astype(np.float64), corners[cell].astype(np.float64)
        best = class_nms(boxes, score, label, iou=_NMS_IOU, most=_MOST)
        xyxy = placement.to_image(boxes[best])
        inside = (xyxy[:, 2:] - xyxy[:, :2] > 0.5).all(axis=1)
        return Detections(xyxy=xyxy[inside], label=label[best][inside].astype(np.int32), score=score[best][inside])


def load(model: ModelName, options: LoadOptions) -> TinyDetector | GraphDetector:
    """Load a shipped detector, or its network with weights that `strobe train detector` wrote."""
    if model.name in _SHIPPED and not in_torch(model, options):
        return _load_graph(model, options)
    require("torch", what=model.name, extra="models")
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
        label_space, state = expected_header(path).label_space, read_state(path, trust=options.trust)
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


def _load_graph(model: ModelName, options: LoadOptions) -> GraphDetector:
    name, path = _SHIPPED[model.name], Path(__file__).parent / "data" / f"{model.name}.safetensors"
    session = graph_session(name, read_safetensors(path), what=model.text, options=options)
    spec = detector_spec(
        model,
        label_space=expected_header(path).label_space,
        weights=graph_digest(name, path),
        preprocessing={**_facts(_INPUTS[name].side, _INPUTS[name].scale), **runtime_facts(options.backend)},
        batch_size=options.batch_size or 16,
    )
    return GraphDetector(session, spec, _INPUTS[name])


def _facts(side: int, scale: str) -> dict[str, Any]:
    return {
        "size": side,
        "resize": "letterbox, bilinear, grey 114",
        "scale": scale,
        "low_score": _LOW_SCORE,
        "nms_iou": _NMS_IOU,
        "max_detections": _MOST,
    }


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
        preprocessing=_facts(module.side, module.scale),
        batch_size=batch_size,
    )
    return TinyDetector(module, spec, device=device)


PROVIDER = Provider(
    load=load,
    what="bundled detectors for the synthetic world",
    example="strobe-tiny",
    package="onnxruntime",
    extra="onnx",
    bundled=("strobe-tiny", "strobe-ground-boxes", "strobe-net-boxes"),
    settings=("batch_size",),
    detector="strobe.models.detectors.trainable:grid_start",
)
