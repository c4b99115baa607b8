"""What may be said of a detector in an ONNX file, and what is usual for its layout."""

from collections.abc import Mapping
from typing import Any

from strobe.core.errors import ModelFailed, expect
from strobe.models.options import LoadOptions

__all__ = ["KEYS", "facts_of", "input_size"]

_IMAGENET: dict[str, Any] = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
_COMMON: dict[str, Any] = {
    "fit": "letterbox", "divide": 255.0, "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "channels": "RGB",
    "fill": 114, "score_threshold": 0.001, "nms_iou": 0.7, "max_detections": 300, "box_order": "xyxy",
    "box_units": "pixels", "label_offset": 0,
}  # fmt: skip
_USUAL: dict[str, dict[str, Any]] = {
    "yolov5": {"nms_iou": 0.6},
    "yolov8": {},
    "end2end": {},
    "yolox": {"fit": "letterbox-top-left", "divide": 1.0, "channels": "BGR", "nms_iou": 0.65},
    "detr": {"fit": "stretch", "box_units": "normalised", **_IMAGENET},
    "rtdetr": {"fit": "stretch", "box_units": "normalised"},
    "ssd": {"fit": "stretch", "box_units": "normalised", **_IMAGENET},
}
KEYS = {*_COMMON, "task", "layout", "labels", "size"}
"""Every key a settings file may have."""

_CHOICES = {
    "fit": ("letterbox", "letterbox-top-left", "stretch"),
    "channels": ("RGB", "BGR"),
    "box_order": ("xyxy", "yxyx"),
    "box_units": ("normalised", "pixels"),
}


def facts_of(name: str, layout: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, and for the rest what is usual for the layout; checked."""
    given = {key: value for key, value in said.items() if key not in ("task", "labels")}
    facts = {**_COMMON, **_USUAL[layout], **given, "layout": layout}
    for key, known in _CHOICES.items():
        expect(facts[key] in known, f"{name}: {key}", f"one of {', '.join(known)}", facts[key])
    for key in ("divide", "score_threshold", "nms_iou", "max_detections", "fill", "label_offset"):
        expect(type(facts[key]) in (int, float), f"{name}: {key}", "a number", facts[key])
    for key in ("mean", "std"):
        three = isinstance(facts[key], list) and [type(one) in (int, float) for one in facts[key]] == [True] * 3
        expect(three, f"{name}: {key}", "three numbers", facts[key])
    return facts


def input_size(name: str, session: Any, said: Mapping[str, Any], options: LoadOptions) -> list[int]:
    """Height and width of the input: the file's own where fixed, else the settings', else --image-size."""
    shape = session.get_inputs()[0].shape
    high, wide = (shape[1], shape[2]) if shape[-1] == 3 else (shape[2], shape[3])
    if isinstance(high, int) and isinstance(wide, int):
        return [high, wide]
    size = said.get("size") or ([options.image_size] * 2 if options.image_size else None)
    if isinstance(size, int):
        size = [size, size]
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(one, int) and one > 0 for one in size)):
        raise ModelFailed(f"{name}: its input has no fixed size; give one with --image-size or in its JSON")
    return [int(one) for one in size]
