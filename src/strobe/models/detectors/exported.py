"""What detectors in a file and detectors behind an address share: settings, input, and boxes from the outputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors import onnx_layouts as layouts
from strobe.models.detectors.boxes import Placement, PlacementPreparation, detections
from strobe.models.detectors.spaces import detector_space
from strobe.models.exported import Tensor, written
from strobe.models.options import LoadOptions, ModelName

_CORNER = 2.0
"""If all boxes end within this many pixels of the corner, they are normalised boxes (0–1)."""


class ExportedDetector:
    """The half of a detector that prepares images, fills its input and reads its outputs. A subclass runs it.

    `sure` is True if the box units were given explicitly.
    """

    def __init__(self, spec: ModelSpec, *, image: Tensor, sure: bool) -> None:
        self.spec, self._image, facts = spec, image, dict(spec.preprocessing)
        self._facts, self._size_hw = facts, (int(facts["size"][0]), int(facts["size"][1]))
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

    def pixels_of(self, images: Sequence[Image]) -> NDArray[Any]:
        """Return the prepared images as the input."""
        facts, pixels = self._facts, np.stack(images)
        if self._image.dtype != "uint8":
            kind = np.float16 if self._image.dtype == "float16" else np.float32
            values = pixels.astype(np.float32) / facts["divide"]
            pixels = ((values - np.float32(facts["mean"])) / np.float32(facts["std"])).astype(kind)
        is_last = self._image.shape[-1] == 3
        return np.ascontiguousarray(pixels if is_last else pixels.transpose(0, 3, 1, 2))

    def boxes_in(self, arrays: layouts.Arrays, placements: Sequence[Placement]) -> list[Detections]:
        """Return the detections of each image from the outputs, highest score first."""
        facts, out = self._facts, []
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


def looks_like_detector(outputs: Sequence[Tensor]) -> bool:
    """Return whether the outputs look like a detector's."""
    shapes = [(output.name, output.shape) for output in outputs]
    return layouts.guess_layout(shapes) is not None or layouts.has_boxes(shapes)


def box_tensors(
    model: ModelName,
    settings: Mapping[str, Any],
    options: LoadOptions,
    *,
    image: Tensor,
    outputs: Sequence[Tensor],
    file: str,
) -> tuple[LabelSpace, dict[str, Any]]:
    """Return the classes and the settings of a detector, complete and checked. `file` is the place for settings."""
    name, shapes = printable(model.plain), [(output.name, output.shape) for output in outputs]
    layout = settings.get("layout") or layouts.guess_layout(shapes)
    if layout not in list(layouts.LAYOUTS):  # the setting may be any JSON value
        described = ", ".join(f"{output.name} {written(output.shape)}" for output in outputs)
        raise ModelFailed(
            f"{name}: cannot infer the layout from the outputs {printable(described)}; "
            f"if it is a detector, set the layout in {file}: "
            f'{{"task": "detection", "layout": one of {", ".join(layouts.LAYOUTS)}, "labels": "coco-80" or names}}'
        )
    if len(image.shape) != 4:
        raise ModelFailed(
            f"{name}: its input has shape {written(image.shape)}, expected four dimensions (a batch of images)"
        )
    facts = layouts.facts_of(name, layout, settings)
    facts["size"] = layouts.input_size(name, image.shape, settings, options)
    labels = _labels(settings, layout, shapes, model.plain, options)
    n_classes = layouts.n_classes(layout, shapes)
    if n_classes is not None and n_classes - facts["label_offset"] != len(labels):
        raise ModelFailed(f"{name}: its output has {n_classes} classes, but {len(labels)} labels ({labels.name})")
    return labels, facts


def _labels(
    said: Mapping[str, Any], layout: str, outputs: layouts.Shapes, name: str, options: LoadOptions
) -> LabelSpace:
    labels, n_classes = said.get("labels"), layouts.n_classes(layout, outputs)
    if labels == "dataset" and options.label_space is not None:
        return options.label_space
    if isinstance(labels, str):
        return space(labels)
    if isinstance(labels, list) and labels and all(isinstance(label, str) for label in labels):
        return detector_space(name, len(labels), names=labels)
    if labels is not None:
        raise ModelFailed(f"{printable(name)}: labels: expected a shipped space or a list of names")
    if n_classes is not None:
        return detector_space(name, n_classes, dataset=options.label_space)
    raise ModelFailed(
        f'{printable(name)}: its classes are unknown; name them in its JSON file: {{"labels": "coco-80"}} or a list of '
        "names"
    )
