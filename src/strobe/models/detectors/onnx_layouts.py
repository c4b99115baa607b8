"""Layouts of exported detectors: the usual settings of each, and its decoder from arrays to boxes.

| layout | outputs | boxes | input |
|---|---|---|---|
| `yolov5` | (B, N, 5 + C): box, objectness, classes | centre and size, input pixels | letterbox, RGB / 255 |
| `yolov8` (and 9, 11, 12) | (B, 4 + C, N): box, classes | centre and size, input pixels | letterbox, RGB / 255 |
| `end2end` (YOLOv10, 26, with NMS) | (B, N, 6): box, score, class | corners, input pixels | letterbox, RGB / 255 |
| `yolox` | (B, N, 5 + C), grid cells not yet decoded | offset and log size, strides 8, 16, 32 | top left, BGR 0–255 |
| `detr` | logits (B, Q, C + 1) and boxes (B, Q, 4) | centre and size, 0–1 | stretched, ImageNet mean and std |
| `rtdetr` | logits (B, Q, C) and boxes (B, Q, 4) | centre and size, 0–1 | stretched, RGB / 255 |
| `ssd` (any model with built-in NMS) | boxes, labels, scores | corners, 0–1 | stretched |

If a file's boxes are not in the unit of its layout, set `box_units` (TensorFlow exports of YOLOv5 use 0–1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, UnknownName, expect, printable
from strobe.models.detectors.boxes import class_nms, cxcywh_to_xyxy
from strobe.models.options import LoadOptions, ModelName

_IMAGENET: dict[str, Any] = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
_COMMON: dict[str, Any] = {
    "fit": "letterbox", "divide": 255.0, "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "channels": "RGB",
    "fill": 114, "score_threshold": 0.001, "nms_iou": 0.7, "max_detections": 300, "box_order": "xyxy",
    "box_units": "pixels", "label_offset": 0,
}  # fmt: skip
LAYOUTS: dict[str, dict[str, Any]] = {
    "yolov5": {"nms_iou": 0.6},
    "yolov8": {},
    "end2end": {},
    "yolox": {"fit": "letterbox-top-left", "divide": 1.0, "channels": "BGR", "nms_iou": 0.65},
    "detr": {"fit": "stretch", "box_units": "normalised", **_IMAGENET},
    "rtdetr": {"fit": "stretch", "box_units": "normalised"},
    "ssd": {"fit": "stretch", "box_units": "normalised", **_IMAGENET},
}
"""Every layout that can be declared, and its defaults."""

KEYS = {*_COMMON, "task", "layout", "labels", "size"}
"""Every key that a settings file may have."""

_CHOICES = {
    "fit": ("letterbox", "letterbox-top-left", "stretch"),
    "channels": ("RGB", "BGR"),
    "box_order": ("xyxy", "yxyx"),
    "box_units": ("normalised", "pixels"),
}

Arrays = Mapping[str, NDArray[Any]]
Shapes = Sequence[tuple[str, Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Boxes of one image in input pixels, before suppression: xyxy (N, 4), label (N,), score (N,)."""

    xyxy: NDArray[np.float64]
    label: NDArray[np.int64]
    score: NDArray[np.float64]


def guess_layout(outputs: Shapes) -> str | None:
    """Return the layout inferred from the names and shapes of the outputs. None if they are ambiguous.

    YOLOX looks like YOLOv5 and must be declared, unless the file's output name identifies it.

    >>> guess_layout([("output0", [1, 84, 8400])])
    'yolov8'
    """
    shapes = {name: [size if isinstance(size, int) else None for size in shape] for name, shape in outputs}
    names = {name.lower() for name in shapes}
    if len(outputs) >= 3 and any("box" in name for name in names) and any("score" in name for name in names):
        return "ssd"
    if "logits" in names and any("box" in name for name in names):
        return "detr"
    if len(outputs) != 1:
        return None
    shape = next(iter(shapes.values()))
    if len(shape) != 3:
        return None
    if shape[2] == 6:
        return "end2end"
    rows, columns = shape[1], shape[2]
    if rows is not None and (columns is None or rows < columns):
        return "yolov8"
    if columns is not None and (rows is None or rows > columns):
        return "yolov5"
    return None


def has_boxes(outputs: Shapes) -> bool:
    """Return whether outputs of unknown layout look like a detector's.

    They do if some are boxes by name or shape, or if none is a score vector.

    >>> has_boxes([("dets", ["n", 5]), ("labels", ["n"])]), has_boxes([("logits", ["batch", 1000])])
    (True, False)
    """
    named = any(word in name.lower() for name, _ in outputs for word in ("box", "det"))
    fours = any(len(shape) > 1 and shape[-1] == 4 for _, shape in outputs)
    return named or fours or all(len(shape) == 3 for _, shape in outputs)


def decode(
    layout: str, outputs: Arrays, image: int, *, size_hw: tuple[int, int], box_order: str, box_units: str, least: float
) -> Candidates:
    """Return one image's boxes with a score of at least `least`, in input pixels."""
    found = _decoded(layout, outputs, image, size_hw, box_order, least)
    if box_units == "pixels":
        return found
    return replace(found, xyxy=found.xyxy * np.array([size_hw[1], size_hw[0]] * 2))


def _decoded(
    layout: str, outputs: Arrays, image: int, size_hw: tuple[int, int], box_order: str, least: float
) -> Candidates:
    """Return one image's boxes in the file's own units."""
    arrays = list(outputs.values())
    if layout in ("yolov5", "yolov8", "yolox", "end2end"):
        rows = np.asarray(arrays[0][image], dtype=np.float64)
        if layout == "yolov8":
            rows = rows.T
        if layout == "end2end":
            return _some(rows[:, :4], rows[:, 5].astype(np.int64), rows[:, 4], least)
        if layout == "yolox":
            rows = _yolox_grid(rows, size_hw)
        first = 4 if layout == "yolov8" else 5
        scores = rows[:, first:] if layout == "yolov8" else rows[:, first:] * rows[:, 4:5]
        cell, label = np.nonzero(scores >= least)
        return Candidates(cxcywh_to_xyxy(rows[cell, :4]), label, scores[cell, label])
    if layout in ("detr", "rtdetr"):
        return _queries(layout, outputs, image, least)
    return _built_in_nms(outputs, image, box_order, least)


def suppress(found: Candidates, layout: str, *, iou: float, most: int) -> Candidates:
    """Apply class-wise non-maximum suppression if the layout has none built in. Returns the best `most` boxes."""
    if layout in ("yolov5", "yolov8", "yolox"):
        keep = class_nms(found.xyxy, found.score, found.label, iou=iou, most=most)
    else:
        keep = np.argsort(-found.score, kind="stable")[:most]
    return Candidates(found.xyxy[keep], found.label[keep], found.score[keep])


def _some(xyxy: NDArray[Any], label: NDArray[np.int64], score: NDArray[Any], least: float) -> Candidates:
    keep = score >= least
    return Candidates(np.asarray(xyxy[keep], dtype=np.float64), label[keep], np.asarray(score[keep], dtype=np.float64))


def _yolox_grid(rows: NDArray[np.float64], size_hw: tuple[int, int]) -> NDArray[np.float64]:
    """Decode YOLOX grid cells: centre = (offset + cell) · stride, size = exp(log size) · stride."""
    cells, strides = [], []
    for stride in (8, 16, 32):
        high, wide = size_hw[0] // stride, size_hw[1] // stride
        y, x = np.mgrid[:high, :wide]
        cells.append(np.stack([x.ravel(), y.ravel()], axis=1))
        strides.append(np.full((high * wide, 1), stride))
    cell, stride_of = np.concatenate(cells), np.concatenate(strides)
    if len(cell) != len(rows):
        raise ModelFailed(
            f"yolox: {len(rows)} cells for an input of {size_hw}, expected {len(cell)}; is the size right?"
        )
    out = rows.copy()
    out[:, :2] = (rows[:, :2] + cell) * stride_of
    out[:, 2:4] = np.exp(rows[:, 2:4]) * stride_of
    return out


def _named(outputs: Arrays, *words: str) -> NDArray[Any] | None:
    return next((array for name, array in outputs.items() if any(word in name.lower() for word in words)), None)


def _queries(layout: str, outputs: Arrays, image: int, least: float) -> Candidates:
    logits, boxes = _named(outputs, "logit", "score", "class"), _named(outputs, "box")
    if logits is None or boxes is None:
        raise ModelFailed(f"{layout}: expected outputs named like logits and pred_boxes, got {', '.join(outputs)}")
    values = np.asarray(logits[image], dtype=np.float64)
    if layout == "detr":
        values = np.exp(values - values.max(axis=1, keepdims=True))
        values = (values / values.sum(axis=1, keepdims=True))[:, :-1]  # the last class is "no object"
        label = values.argmax(axis=1)
        query, score = np.arange(len(values)), values.max(axis=1)
    else:
        values = 1 / (1 + np.exp(-values))
        query, label = np.nonzero(values >= least)
        score = values[query, label]
    return _some(cxcywh_to_xyxy(boxes[image])[query], label, score, least)


def _built_in_nms(outputs: Arrays, image: int, box_order: str, least: float) -> Candidates:
    boxes, score = _named(outputs, "box"), _named(outputs, "score")
    label = _named(outputs, "label", "class")
    if boxes is None or score is None or label is None:
        raise ModelFailed(f"ssd: expected outputs named like boxes, labels and scores, got {', '.join(outputs)}")
    if boxes.ndim == 3:
        boxes, score, label = boxes[image], score[image], label[image]
    xyxy = np.asarray(boxes, dtype=np.float64)
    if box_order == "yxyx":
        xyxy = xyxy[:, [1, 0, 3, 2]]
    count = _named(outputs, "num")
    n = int(np.asarray(count).ravel()[image]) if count is not None else len(xyxy)
    return _some(xyxy[:n], np.asarray(label[:n]).astype(np.int64), np.asarray(score[:n], dtype=np.float64), least)


def facts_of(name: str, layout: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given settings with the layout's defaults for the rest, checked."""
    given = {key: value for key, value in said.items() if key not in ("task", "labels")}
    facts = {**_COMMON, **LAYOUTS[layout], **given, "layout": layout}
    for key, known in _CHOICES.items():
        expect(facts[key] in known, f"{name}: {key}", f"one of {', '.join(known)}", facts[key])
    for key in ("divide", "score_threshold", "nms_iou", "max_detections", "fill", "label_offset"):
        expect(type(facts[key]) in (int, float), f"{name}: {key}", "a number", facts[key])
    for key in ("mean", "std"):
        three = isinstance(facts[key], list) and [type(one) in (int, float) for one in facts[key]] == [True] * 3
        expect(three, f"{name}: {key}", "three numbers", facts[key])
    return facts


def check_keys(model: ModelName, settings: Mapping[str, Any]) -> None:
    """Raise UnknownName if a setting is none of a detector's."""
    unknown = next((key for key in settings if key not in KEYS), None)
    if unknown is not None:
        raise UnknownName(f"setting of {printable(model.plain)}", unknown, KEYS)


def n_classes(layout: str, outputs: Shapes) -> int | None:
    """Return the number of classes in the outputs of a YOLO layout. None if the shapes do not tell it.

    >>> n_classes("yolov8", [("output0", [1, 84, 8400])]), n_classes("ssd", [("boxes", [1, 100, 4])])
    (80, None)
    """
    place, before = {"yolov5": (2, 5), "yolox": (2, 5), "yolov8": (1, 4)}.get(layout, (0, 0))
    shape = outputs[0][1]
    return shape[place] - before if before and len(shape) > place and isinstance(shape[place], int) else None


def input_size(name: str, shape: Sequence[Any], said: Mapping[str, Any], options: LoadOptions) -> list[int]:
    """Return the input's height and width: from the file if fixed, else from the settings, else from --image-size."""
    high, wide = (shape[1], shape[2]) if shape[-1] == 3 else (shape[2], shape[3])
    if isinstance(high, int) and isinstance(wide, int):
        return [high, wide]
    size = said.get("size") or ([options.image_size] * 2 if options.image_size else None)
    if isinstance(size, int):
        size = [size, size]
    if not (isinstance(size, list) and len(size) == 2 and all(isinstance(one, int) and one > 0 for one in size)):
        raise ModelFailed(f"{name}: its input has no fixed size; set it with <<image_size>> or in its JSON file")
    return [int(one) for one in size]
