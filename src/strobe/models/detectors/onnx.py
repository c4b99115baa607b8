"""A detector in an ONNX file, `onnx:yolov8n.onnx`, with a JSON file next to it (`yolov8n.json`) for further facts.

    {"task": "detection", "layout": "yolov8", "labels": "coco-80"}

`labels` is a shipped space, a list of names, or "dataset". All other keys default to the layout's values: `size`
[height, width], `fit` (letterbox, letterbox-top-left, stretch), `fill`, `mean`, `std` and `divide` of the pixels,
`channels` (RGB or BGR), `score_threshold`, `nms_iou`, `max_detections`, `box_order` (xyxy, yxyx), `box_units`
(normalised, pixels), `label_offset` (1 if labels count from 1). No JSON is needed if the file's outputs or metadata
identify a detector, and its classes are COCO's, the dataset's or named in its metadata.
"""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors import onnx_layouts as layouts
from strobe.models.detectors.boxes import Placement
from strobe.models.detectors.exported import ExportedDetector, box_tensors, looks_like_detector
from strobe.models.detectors.torch_detector import detector_spec
from strobe.models.exported import Tensor
from strobe.models.file_settings import settings_of
from strobe.models.onnx_files import digest_of_onnx, facts_of_run, metadata_of, open_session, tensors_of
from strobe.models.options import LoadOptions, ModelName, file_of


class OnnxDetector(ExportedDetector):
    """An ONNX session, its input shape and its layout."""

    lanes = 1  # the runtime parallelises a forward itself

    def __init__(self, session: Any, spec: ModelSpec, *, image: Tensor, device: str, sure: bool = True) -> None:
        super().__init__(spec, image=image, sure=sure)
        self._session, self.device = session, device

    def forward(self, prepared: Sequence[tuple[Image, Placement]]) -> list[Detections]:
        """Return the detections of each image, highest score first."""
        if self._image.shape[0] is None:
            return self._run(prepared)
        return [self._run([one])[0] for one in prepared]

    def _run(self, prepared: Sequence[tuple[Image, Placement]]) -> list[Detections]:
        return self.boxes_in(self._arrays([one for one, _ in prepared]), [placement for _, placement in prepared])

    def _arrays(self, images: Sequence[Image]) -> layouts.Arrays:
        names = [output.name for output in self._session.get_outputs()]
        answers = self._session.run(None, {self._image.name: self.pixels_of(images)})
        return dict(zip(names, answers, strict=True))


def is_detector(path: Path, options: LoadOptions) -> bool:
    """Return whether a file without settings is a detector, by its metadata (ultralytics exports) or its outputs."""
    if metadata_of(path).get("task") == "detect":
        return True
    return looks_like_detector(tensors_of(open_session(path, options)[0])[1])


def load(model: ModelName, options: LoadOptions) -> OnnxDetector:
    """Load the detector from an ONNX file."""
    path = file_of(model)
    settings = settings_of(path, options)
    layouts.check_keys(model, settings)
    session, device = open_session(path, options)
    (image, *_), outputs = tensors_of(session)
    labels, facts = box_tensors(
        model, {**_own_labels(path), **settings}, options, image=image, outputs=outputs,
        file=path.with_suffix(".json").name,
    )  # fmt: skip
    spec = detector_spec(
        model,
        label_space=labels,
        weights=digest_of_onnx(path),
        preprocessing={**facts, **facts_of_run(options)},
        batch_size=options.batch_size or 8,
    )
    return OnnxDetector(session, spec, image=image, device=device, sure="box_units" in settings)


def _own_labels(path: Path) -> dict[str, list[str]]:
    """Return the class names in an ultralytics export's metadata, as {0: 'person', …}; empty if there are none."""
    text = metadata_of(path).get("names", "")
    try:
        names = ast.literal_eval(text)
        return {"labels": [str(names[place]) for place in range(len(names))]}
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return {}
