"""Box geometry for detectors in plain numpy: mapping to the input and back, and non-maximum suppression."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats, are_pixels
from strobe.core.errors import expect
from strobe.core.ports import Image
from strobe.core.records import Detections

Fit = Literal["letterbox", "letterbox-top-left", "stretch"]
"""How an image is fitted to the input: centred on grey, in the top left corner on grey (YOLOX), or stretched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The position of an image inside the input: scaled by `scale_xy`, then shifted by `pad_xy`."""

    scale_xy: tuple[float, float]
    pad_xy: tuple[int, int]
    size_wh: tuple[int, int]

    def to_image(self, xyxy: Floats) -> Floats:
        """Convert boxes in input pixels (N, 4) to boxes in image pixels, clipped to the image.

        >>> Placement(scale_xy=(0.5, 0.5), pad_xy=(0, 8), size_wh=(64, 32)).to_image(np.array([[4.0, 10, 40, 40]]))
        array([[ 8.,  4., 64., 32.]])
        """
        moved = (xyxy - np.array([*self.pad_xy, *self.pad_xy])) / np.array([*self.scale_xy, *self.scale_xy])
        return np.asarray(np.clip(moved, 0.0, np.array([*self.size_wh, *self.size_wh], dtype=np.float64)))

    def to_input(self, xyxy: Floats) -> Floats:
        """Convert boxes in image pixels to boxes in input pixels."""
        return np.asarray(xyxy * np.array([*self.scale_xy] * 2) + np.array([*self.pad_xy] * 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPreparation:
    """Prepares images with `place`: every image gets the input's size and a placement.

    With `one_scale`, boxes are mapped back by the intended scale, not by the scales after rounding to whole pixels.
    """

    size_hw: tuple[int, int]
    fit: Fit = "letterbox"
    fill: int = 114
    bgr: bool = False
    one_scale: bool = False

    @property
    def n_bytes(self) -> int:
        """The number of bytes of an image of the input's size."""
        return 3 * self.size_hw[0] * self.size_hw[1]

    def prepare(self, image: Image) -> tuple[Image, Placement]:
        """Return the placed image, and its placement for mapping boxes back."""
        pixels, placement = place(image, self.size_hw, fit=self.fit, fill=self.fill)
        if self.one_scale:
            scale = min(self.size_hw[0] / image.shape[0], self.size_hw[1] / image.shape[1])
            placement = replace(placement, scale_xy=(scale, scale))
        return np.ascontiguousarray(pixels[..., ::-1]) if self.bgr else pixels, placement

    def prepare_input(self, image: Image) -> tuple[Image, Placement]:
        """Return an image of the input's size unchanged. Any other image is resized to fit, without cropping."""
        return self.prepare(image)


def place(
    image: Image, size_hw: tuple[int, int], *, fit: Fit = "letterbox", fill: int = 114
) -> tuple[Image, Placement]:
    """Return the image at the input's size (bilinear), and its placement.

    The placement has the actual scales. Rounding to whole pixels can make the horizontal and vertical scales differ
    slightly, and boxes are mapped back with the scale of each axis.
    """
    height, width = image.shape[:2]
    expect(height > 0 and width > 0, "image", "at least one pixel", image.shape)
    high, wide = size_hw
    if fit == "stretch":
        new_wh = (wide, high)
    else:
        ratio = min(high / height, wide / width)
        whole = round if fit == "letterbox" else int
        new_wh = (max(1, whole(width * ratio)), max(1, whole(height * ratio)))
    if new_wh != (width, height):
        from PIL import Image as Pillow

        image = np.asarray(Pillow.fromarray(image).resize(new_wh, Pillow.Resampling.BILINEAR))
    spare = (wide - new_wh[0], high - new_wh[1])
    pad = (spare[0] // 2, spare[1] // 2) if fit == "letterbox" else (0, 0)
    if any(spare):
        canvas = np.full((high, wide, 3), fill, dtype=np.uint8)
        canvas[pad[1] : pad[1] + new_wh[1], pad[0] : pad[0] + new_wh[0]] = image
        image = canvas
    scale = (new_wh[0] / width, new_wh[1] / height)
    return image, Placement(scale_xy=scale, pad_xy=pad, size_wh=(width, height))


def cxcywh_to_xyxy(boxes: NDArray[Any]) -> Floats:
    """Convert centre and size (N, 4) to corners.

    >>> cxcywh_to_xyxy(np.array([[10.0, 10.0, 4.0, 6.0]])).tolist()
    [[8.0, 7.0, 12.0, 13.0]]
    """
    boxes = np.asarray(boxes, dtype=np.float64)
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


def nms(xyxy: Floats, score: Floats, *, iou: float) -> NDArray[np.int64]:
    """Return the boxes to keep, best first. A kept box overlaps no better kept box by more than `iou`.

    Boxes with equal scores keep their order.
    """
    order = np.argsort(-score, kind="stable")
    boxes = xyxy[order]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    alive = np.ones(len(order), dtype=bool)
    keep = []
    for place_ in range(len(order)):
        if not alive[place_]:
            continue
        keep.append(int(order[place_]))
        rest = boxes[place_ + 1 :]
        corner = np.maximum(boxes[place_, :2], rest[:, :2])
        size = np.clip(np.minimum(boxes[place_, 2:], rest[:, 2:]) - corner, 0.0, None)
        both = size[:, 0] * size[:, 1]
        whole = area[place_] + area[place_ + 1 :] - both
        alive[place_ + 1 :] &= ~(both > iou * whole)
    return np.array(keep, dtype=np.int64)


def class_nms(xyxy: Floats, score: Floats, label: NDArray[Any], *, iou: float, most: int) -> NDArray[np.int64]:
    """Run non-maximum suppression within each class on the best 3,000 boxes. Returns at most `most` boxes, best
    first.
    """
    best = np.argsort(-score, kind="stable")[:3000]
    # Offsetting each class prevents overlaps between classes, so one pass handles all of them.
    span = float(np.abs(xyxy).max(initial=0.0)) * 2 + 1
    shifted = xyxy[best] + (label[best] * span)[:, None]
    return np.asarray(best[nms(shifted, score[best], iou=iou)][:most])


def detections(xyxy: Floats, label: NDArray[Any], score: Floats, *, placement: Placement | None = None) -> Detections:
    """Return the detections, best first, without empty boxes. With a placement, boxes are first mapped to the image."""
    boxes = np.asarray(xyxy, dtype=np.float64).reshape(-1, 4)
    score = np.asarray(score, dtype=np.float64)
    if placement is not None:
        boxes = placement.to_image(boxes)
    there = np.flatnonzero(
        (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1]) & are_pixels(boxes).all(axis=1) & np.isfinite(score)
    )
    order = there[np.argsort(-score[there], kind="stable")]
    return Detections(xyxy=boxes[order], label=np.asarray(label)[order].astype(np.int32), score=score[order])
