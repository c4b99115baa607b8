"""A detector in an ONNX file, `onnx:yolov8n.onnx`, with a JSON file next to it (`yolov8n.json`) for further facts.

    {"task": "detection", "layout": "yolov8", "labels": "coco-80"}

`labels` is a shipped space, a list of names, or "dataset". All other keys default to the layout's values: `size`
[height, width], `fit` (letterbox, letterbox-top-left, stretch), `fill`, `mean`, `std` and `divide` of the pixels,
`channels` (RGB or BGR), `score_threshold`, `nms_iou`, `max_detections`, `box_order` (xyxy, yxyx), `box_units`
(normalised, pixels), `label_offset` (1 if labels count from 1). No JSON is needed if the file's outputs or metadata
identify a detector, and its classes are COCO's, the dataset's or named in its metadata.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed, UnknownName, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors import onnx_layouts as layouts
from strobe.models.detectors.boxes import Placement, PlacementPreparation, detections
from strobe.models.detectors.spaces import detector_space
from strobe.models.detectors.torch_detector import detector_spec
from strobe.models.file_settings import settings_of
from strobe.models.onnx_files import digest_of_onnx, open_session
from strobe.models.options import LoadOptions, ModelName, file_of

_CORNER = 2.0
"""If all boxes end within this many pixels of the corner, they are normalised boxes (0–1)."""


class OnnxDetector:
    """An ONNX session, its input shape and its layout. `sure` is True if the box units were given explicitly."""

    lanes = 1  # the runtime parallelises a forward itself

    def __init__(self, session: Any, spec: ModelSpec, *, device: str, sure: bool = True) -> None:
        self._session, self.spec, self.device = session, spec, device
        self._input, facts = session.get_inputs()[0], dict(spec.preprocessing)
        self._facts, self._size_hw = facts, (int(facts["size"][0]), int(facts["size"][1]))
        self._several = not isinstance(self._input.shape[0], int)
        self._sure, self._cornered = sure or facts["box_units"] == "normalised", 0
        self.preparation = PlacementPreparation(
            size_hw=self._size_hw, fit=facts["fit"], fill=facts["fill"], bgr=facts["channels"] == "BGR"
        )

    def prepare(self, image: Image) -> tuple[Image, Placement]:
        """Return the image at the input's size, and its placement for mapping boxes back."""
        return self.preparation.prepare(image)

    def prepare_input(self, image: Image) -> tuple[Image, Placement]:
        """Return the result of `prepare`. It never crops, and does not resize an image of the input's size."""
        return self.prepare(image)

    def forward(self, prepared: Sequence[tuple[Image, Placement]]) -> list[Detections]:
        """Return the detections of each image, highest score first."""
        if self._several:
            return self._run([one for one, _ in prepared], [placement for _, placement in prepared])
        return [self._run([one], [placement])[0] for one, placement in prepared]

    def _input_of(self, images: Sequence[Image]) -> Any:
        """Return the prepared images in the input's layout."""
        facts, pixels = self._facts, np.stack(images)
        if self._input.type != "tensor(uint8)":
            kind = np.float16 if self._input.type == "tensor(float16)" else np.float32
            values = pixels.astype(np.float32) / facts["divide"]
            pixels = ((values - np.float32(facts["mean"])) / np.float32(facts["std"])).astype(kind)
        is_last = self._input.shape[-1] == 3
        return np.ascontiguousarray(pixels if is_last else pixels.transpose(0, 3, 1, 2))

    def _run(self, pixels: Sequence[Image], placements: Sequence[Placement]) -> list[Detections]:
        names = [output.name for output in self._session.get_outputs()]
        answers = self._session.run(None, {self._input.name: self._input_of(pixels)})
        arrays, facts, out = dict(zip(names, answers, strict=True)), self._facts, []
        for image, placement in enumerate(placements):
            candidates = layouts.decode(
                facts["layout"],
                arrays,
                image,
                size_hw=self._size_hw,
                box_order=facts["box_order"],
                box_units=facts["box_units"],
                least=facts["score_threshold"],
            )
            self._check_units(candidates)
            candidates = layouts.suppress(
                candidates, facts["layout"], iou=facts["nms_iou"], most=facts["max_detections"]
            )
            label = candidates.label - facts["label_offset"]
            known = (label >= 0) & (label < len(self.spec.label_space))
            out.append(detections(candidates.xyxy[known], label[known], candidates.score[known], placement=placement))
        return out

    def _check_units(self, found: layouts.Candidates) -> None:
        """Raise ModelFailed if all boxes of several images are in the corner, like normalised boxes read as pixels."""
        if self._sure or not len(found.xyxy):
            return
        self._sure = not found.xyxy.max() <= _CORNER  # also True if the maximum is NaN
        self._cornered += not self._sure
        if self._cornered > 1:
            raise ModelFailed(
                f"{printable(self.spec.name)}: all its boxes are within {_CORNER:.0f} pixels of the input's corner, so "
                'they may be normalised; set "box_units" to "normalised" or "pixels" in its JSON file'
            )


def is_detector(path: Path, options: LoadOptions) -> bool:
    """Return whether a file without settings is a detector, by its metadata (ultralytics exports) or its outputs."""
    session, _ = open_session(path, options)
    if session.get_modelmeta().custom_metadata_map.get("task") == "detect":
        return True
    outputs = [(output.name, output.shape) for output in session.get_outputs()]
    return layouts.guess_layout(outputs) is not None or layouts.has_boxes(outputs)


def load(model: ModelName, options: LoadOptions) -> OnnxDetector:
    """Load the detector from an ONNX file."""
    path, name = file_of(model), printable(model.plain)
    settings = settings_of(path, options)
    unknown = next((key for key in settings if key not in layouts.KEYS), None)
    if unknown is not None:
        raise UnknownName(f"setting of {name}", unknown, layouts.KEYS)
    session, device = open_session(path, options)
    outputs = [(output.name, output.shape) for output in session.get_outputs()]
    layout = settings.get("layout") or layouts.guess_layout(outputs)
    if layout not in list(layouts.LAYOUTS):  # the setting may be any JSON value
        described = ", ".join(f"{output} {shape}" for output, shape in outputs)
        raise ModelFailed(
            f"{name}: cannot infer the layout from the outputs {printable(described)}; "
            f"if it is a detector, set the layout in {path.with_suffix('.json').name}: "
            f'{{"task": "detection", "layout": one of {", ".join(layouts.LAYOUTS)}, "labels": "coco-80" or names}}'
        )
    facts = layouts.facts_of(name, layout, settings) | {"size": layouts.input_size(name, session, settings, options)}
    spec = detector_spec(
        model,
        label_space=_labels({**_own_labels(session), **settings}, layout, outputs, model.plain, options),
        weights=digest_of_onnx(path),
        preprocessing=facts,
        batch_size=options.batch_size or 8,
    )
    return OnnxDetector(session, spec, device=device, sure="box_units" in settings)


def _own_labels(session: Any) -> dict[str, list[str]]:
    """Return the class names in an ultralytics export's metadata, as {0: 'person', …}; empty if there are none."""
    text = session.get_modelmeta().custom_metadata_map.get("names", "")
    try:
        names = ast.literal_eval(text)
        return {"labels": [str(names[place]) for place in range(len(names))]}
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return {}


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
        f'{printable(name)}: its classes are unknown; name them in its JSON file: {{"labels": "coco-80"}} or a list of '
        "names"
    )
