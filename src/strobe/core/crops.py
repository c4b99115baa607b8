"""Select the box of an image's object, and the pixels of a crop around this box, in the same way for every command."""

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import expect
from strobe.core.records import Box

LEAST_SIDE = 8
"""The smallest side of a crop in pixels; smaller crops show nothing and are not made."""

FITS = ("squash", "pad")
"""How a crop becomes a model's square input: stretched, or centred on a grey square."""

GREY = 128
"""The grey value of the square."""

Cut = tuple[int, int, int, int]


def object_of(boxes: Sequence[Box], labels: Collection[int]) -> Box | None:
    """Return the largest box of one of these classes, or None; ties go to the first box, and crowds are ignored.

    Several objects of a class are not merged, because a crop around them would be mostly background.
    """
    own = [box for box in boxes if box.label in labels and not box.crowd]
    return max(own, key=_area, default=None)


def _area(box: Box) -> float:
    x0, y0, x1, y1 = box.xyxy
    return (x1 - x0) * (y1 - y0)


def cut_of(xyxy: Sequence[float], size_wh: tuple[int, int], *, context: float = 1.0) -> Cut | None:
    """Return the pixels that the box touches, scaled by `context` about its centre and clipped to the image.

    The far corner is exclusive. The result is None if the box is outside the image or has no area.

    >>> cut_of((10, 20, 30, 60), (100, 80)), cut_of((10, 20, 30, 60), (100, 80), context=2.0)
    ((10, 20, 30, 60), (0, 0, 40, 80))
    >>> cut_of((100, 20, 120, 60), (100, 80)) is None
    True
    """
    x0, y0, x1, y1 = map(float, xyxy)
    if not (all(map(math.isfinite, (x0, y0, x1, y1))) and x1 > x0 and y1 > y0):
        return None
    width, height = size_wh
    if context != 1.0:
        across, down = (x1 - x0) * (context - 1) / 2, (y1 - y0) * (context - 1) / 2
        x0, y0, x1, y1 = x0 - across, y0 - down, x1 + across, y1 + down
    left, top = max(0, math.floor(x0)), max(0, math.floor(y0))
    right, bottom = min(width, math.ceil(x1)), min(height, math.ceil(y1))
    return (left, top, right, bottom) if right > left and bottom > top else None


def share_of(cut: Cut, size_wh: tuple[int, int]) -> float:
    """Return the share of the image that a crop covers.

    >>> share_of((10, 20, 30, 60), (100, 80))
    0.1
    """
    x0, y0, x1, y1 = cut
    return (x1 - x0) * (y1 - y0) / (size_wh[0] * size_wh[1])


def fitted(image: NDArray[np.uint8], fit: str) -> NDArray[np.uint8]:
    """Return the image before resizing: unchanged (`squash`), or centred on a grey square (`pad`).

    >>> fitted(np.zeros((2, 6, 3), np.uint8), "pad")[:, 0, 0].tolist()
    [128, 128, 0, 0, 128, 128]
    """
    expect(fit in FITS, "fit", " or ".join(FITS), fit)
    height, width = image.shape[:2]
    if fit == "squash" or height == width:
        return image
    side = max(height, width)
    square = np.full((side, side, *image.shape[2:]), GREY, dtype=np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = image
    return square
