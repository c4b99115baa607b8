"""Which box of a picture is its object, and which whole pixels a crop around it takes: the same for every verb."""

import math
from collections.abc import Collection, Sequence

from strobe.core.records import Box

__all__ = ["LEAST_SIDE", "cut_of", "object_of", "share_of"]

LEAST_SIDE = 8
"""A crop with a side of fewer pixels shows nothing: none is made."""

Cut = tuple[int, int, int, int]


def object_of(boxes: Sequence[Box], labels: Collection[int]) -> Box | None:
    """The largest box of one of these classes, the first of equals; crowds are none. None where there is no such box.

    Several objects of a class stay several: a crop around all of them would be mostly ground.
    """
    own = [box for box in boxes if box.label in labels and not box.crowd]
    return max(own, key=_area, default=None)


def _area(box: Box) -> float:
    x0, y0, x1, y1 = box.xyxy
    return (x1 - x0) * (y1 - y0)


def cut_of(xyxy: Sequence[float], size_wh: tuple[int, int], *, context: float = 1.0) -> Cut | None:
    """The whole pixels that the box touches, its sides grown `context` times about its centre and cut at the picture.

    The far corner is exclusive. None where the box lies outside the picture or has no area.

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
    """The share of the picture that a cut takes.

    >>> share_of((10, 20, 30, 60), (100, 80))
    0.1
    """
    x0, y0, x1, y1 = cut
    return (x1 - x0) * (y1 - y0) / (size_wh[0] * size_wh[1])
