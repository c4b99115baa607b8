"""A detector in an ONNX file: `onnx:yolov8n.onnx`, with a JSON beside it (`yolov8n.json`) for what the file cannot say.

    {"task": "detection", "layout": "yolov8", "labels": "coco-80"}

`labels` is a shipped space, a list of names, or "dataset". Everything else has the usual value of its layout: `size`
[height, width], `fit` (letterbox, letterbox-top-left, stretch), `fill`, `mean`, `std` and `divide` of the pixels,
`channels` (RGB or BGR), `score_threshold`, `nms_iou`, `max_detections`, `box_order` (xyxy, yxyx), `box_units`
(normalised, pixels), `label_offset` (1 where labels count from 1). A file whose outputs or metadata say that it is a
detector, and whose classes are COCO's, the dataset's or named in its metadata, needs no JSON.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import InvalidFile, ModelFailed, UnknownName, expect, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import Placement, Placing, detections
from strobe.models.detectors.onnx_layouts import LAYOUTS, decode, guess_layout, suppress
from strobe.models.detectors.spaces import detector_space
from strobe.models.onnx import open_session
from strobe.models.onnx_files import digest_of_onnx
from strobe.models.options import LoadOptions, require_file

__all__ = ["OnnxDetector", "is_detector", "load", "settings_of"]

_IMAGENET: dict[str, Any] = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
_COMMON: dict[str, Any] = {
    "fit": "letterbox", "divide": 255.0, "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "channels": "RGB",
    "fill": 114, "score_threshold": 0.001, "nms_iou": 0.7, "max_detections": 300, "box_order": "xyxy",
    "box_units": "normalised", "label_offset": 0,
}  # fmt: skip
_USUAL: dict[str, dict[str, Any]] = {
    "yolov5": {"nms_iou": 0.6},
    "yolov8": {},
    "end2end": {},
    "yolox": {"fit": "letterbox-top-left", "divide": 1.0, "channels": "BGR", "nms_iou": 0.65},
    "detr": {"fit": "stretch", **_IMAGENET},
    "rtdetr": {"fit": "stretch"},
    "ssd": {"fit": "stretch", **_IMAGENET},
}
_KEYS = {*_COMMON, "task", "layout", "labels", "size"}


class OnnxDetector:
    """An ONNX session, its input's form and its layout."""

    lanes = 1  # the runtime spreads a forward over the cores itself

    def __init__(self, session: Any, spec: ModelSpec, *, device: str) -> None:
        self._session, self.spec, self.device = session, spec, device
        self._input = session.get_inputs()[0]
        self._facts = dict(spec.preprocessing)
        self._size_hw = (int(self._facts["size"][0]), int(self._facts["size"][1]))
        self._several = not isinstance(self._input.shape[0], int)
        self.preparation = Placing(
            size_hw=self._size_hw,
            fit=self._facts["fit"],
            fill=self._facts["fill"],
            bgr=self._facts["channels"] == "BGR",
        )

    def prepare(self, image: Image) -> tuple[Image, Placement]:
        """The image at the input's size, and the way back for boxes."""
        return self.preparation.prepare(image)

    def _input_of(self, images: Sequence[Image]) -> Any:
        """Prepared images in the input's form."""
        facts, pixels = self._facts, np.stack(images)
        if self._input.type != "tensor(uint8)":
            kind = np.float16 if self._input.type == "tensor(float16)" else np.float32
            values = pixels.astype(np.float32) / facts["divide"]
            pixels = ((values - np.float32(facts["mean"])) / np.float32(facts["std"])).astype(kind)
        is_last = self._input.shape[-1] == 3
        return np.ascontiguousarray(pixels if is_last else pixels.transpose(0, 3, 1, 2))

    def forward(self, prepared: Sequence[tuple[Image, Placement]]) -> list[Detections]:
        """What was found in each image, highest score first."""
        if self._several:
            return self._run([one for one, _ in prepared], [placement for _, placement in prepared])
        return [self._run([one], [placement])[0] for one, placement in prepared]

    def _run(self, pixels: Sequence[Image], placements: Sequence[Placement]) -> list[Detections]:
        names = [output.name for output in self._session.get_outputs()]
        arrays = dict(zip(names, self._session.run(None, {self._input.name: self._input_of(pixels)}), strict=True))
        facts, out = self._facts, []
        for image, placement in enumerate(placements):
            found = decode(
                facts["layout"], arrays, image, size_hw=self._size_hw, box_order=facts["box_order"],
                box_units=facts["box_units"], least=facts["score_threshold"],
            )  # fmt: skip
            found = suppress(found, facts["layout"], iou=facts["nms_iou"], most=facts["max_detections"])
            label = found.label - facts["label_offset"]
            known = (label >= 0) & (label < len(self.spec.label_space))
            out.append(detections(found.xyxy[known], label[known], found.score[known], placement=placement))
        return out


def settings_of(path: Path, options: LoadOptions) -> dict[str, Any]:
    """The JSON beside the file (or the one named with --model-settings); empty where there is none."""
    beside = options.settings or path.with_suffix(".json")
    if options.settings is None and not beside.is_file():
        return {}
    data = read_json(beside)
    if not isinstance(data, dict):
        raise InvalidFile(beside, "expected an object of settings")
    return data


def is_detector(path: Path, options: LoadOptions) -> bool:
    """Whether a file without settings is a detector by its own word (ultralytics' exports say) or by its outputs."""
    session, _ = open_session(path, options)
    if session.get_modelmeta().custom_metadata_map.get("task") == "detect":
        return True
    return guess_layout([(output.name, output.shape) for output in session.get_outputs()]) is not None


def load(name: str, weights: Path | None, options: LoadOptions) -> OnnxDetector:
    """The detector of an ONNX file."""
    if weights is not None:
        raise ModelFailed(
            f"onnx:{printable(name)}: an ONNX file holds its own weights; leave @{printable(weights)} out"
        )
    path = require_file(Path(name), what=f"onnx:{name}")
    said = settings_of(path, options)
    unknown = next((key for key in said if key not in _KEYS), None)
    if unknown is not None:
        raise UnknownName(f"setting of onnx:{printable(name)}", unknown, _KEYS)
    session, device = open_session(path, options)
    outputs = [(output.name, output.shape) for output in session.get_outputs()]
    layout = said.get("layout") or guess_layout(outputs)
    if layout not in LAYOUTS:
        described = ", ".join(f"{output} {shape}" for output, shape in outputs)
        raise ModelFailed(
            f"onnx:{printable(name)}: outputs {printable(described)} do not tell the layout; "
            f'name it in {path.with_suffix(".json").name}: {{"layout": one of {", ".join(LAYOUTS)}}}'
        )
    facts = {
        **_COMMON,
        **_USUAL[layout],
        **{key: value for key, value in said.items() if key not in ("task", "labels")},
    }
    facts["layout"] = layout
    _check(facts, f"onnx:{printable(name)}")
    facts["size"] = _size(said, session, options, name)
    if "labels" not in said:
        said = {**said, **_own_labels(session)}
    label_space = _labels(said, layout, outputs, f"onnx:{name}", options)
    spec = ModelSpec(
        name=f"onnx:{name}",
        provider="onnx",
        task="detection",
        label_space=label_space,
        weights=digest_of_onnx(path),
        kind="probabilities",
        preprocessing=facts,
        batch_size=options.batch_size or 8,
    )
    return OnnxDetector(session, spec, device=device)


def _check(facts: Mapping[str, Any], name: str) -> None:
    choices = {
        "fit": ("letterbox", "letterbox-top-left", "stretch"), "channels": ("RGB", "BGR"),
        "box_order": ("xyxy", "yxyx"), "box_units": ("normalised", "pixels"),
    }  # fmt: skip
    for key, known in choices.items():
        expect(facts[key] in known, f"{name}: {key}", f"one of {', '.join(known)}", facts[key])
    for key in ("divide", "score_threshold", "nms_iou", "max_detections", "fill", "label_offset"):
        expect(type(facts[key]) in (int, float), f"{name}: {key}", "a number", facts[key])
    for key in ("mean", "std"):
        whole = isinstance(facts[key], list) and len(facts[key]) == 3
        expect(
            whole and all(type(one) in (int, float) for one in facts[key]),
            f"{name}: {key}",
            "three numbers",
            facts[key],
        )


def _own_labels(session: Any) -> dict[str, list[str]]:
    """The class names an ultralytics export carries in its metadata, as {0: 'person', …}; nothing otherwise."""
    text = session.get_modelmeta().custom_metadata_map.get("names", "")
    try:
        names = ast.literal_eval(text)
        return {"labels": [str(names[place]) for place in range(len(names))]}
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return {}


def _size(said: Mapping[str, Any], session: Any, options: LoadOptions, name: str) -> list[int]:
    """Height and width of the input: the file's own where fixed, else the settings', else --image-size."""
    shape = session.get_inputs()[0].shape
    high, wide = (shape[1], shape[2]) if shape[-1] == 3 else (shape[2], shape[3])
    if isinstance(high, int) and isinstance(wide, int):
        return [high, wide]
    size = said.get("size") or ([options.image_size] * 2 if options.image_size else None)
    if isinstance(size, int):
        size = [size, size]
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(one, int) and one > 0 for one in size)):
        raise ModelFailed(
            f"onnx:{printable(name)}: its input has no fixed size; give one with --image-size or in its JSON"
        )
    return [int(one) for one in size]


def _labels(
    said: Mapping[str, Any], layout: str, outputs: Sequence[tuple[str, Any]], name: str, options: LoadOptions
) -> LabelSpace:
    labels = said.get("labels")
    if labels == "dataset" and options.label_space is not None:
        return options.label_space
    if isinstance(labels, str):
        return space(labels)
    if isinstance(labels, list) and labels and all(isinstance(one, str) for one in labels):
        return detector_space(name, len(labels), names=labels)
    if labels is not None:
        raise ModelFailed(f"{printable(name)}: labels: expected a shipped space or a list of names")
    shape = outputs[0][1]
    extra = {"yolov5": (2, 5), "yolox": (2, 5), "yolov8": (1, 4)}.get(layout)
    if extra is not None and isinstance(shape[extra[0]], int):
        return detector_space(name, shape[extra[0]] - extra[1], dataset=options.label_space)
    raise ModelFailed(
        f'{printable(name)}: which classes? name them in its JSON: {{"labels": "coco-80"}} or a list of names'
    )
