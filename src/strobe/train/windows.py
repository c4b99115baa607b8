"""The window of a frame that a step draws: shifted and mirrored, or resized as torchvision's RandomResizedCrop does."""

import math

import numpy as np

from strobe.core.arrays import Ints
from strobe.core.ports import Image

SEED = 3
"""The column of crops with the seed of a random resized crop, if there is one."""

NO_SEED = -1
"""The crop seed of a frame that is prepared as for an evaluation."""

FrameDraw = tuple[int, int, int, int, int]
"""A frame of a step: its place, the seed of its random resized crop, its shifts down and right, and if it is mirrored.
"""

_RATIOS = (3 / 4, 4 / 3)
"""The range of width / height of a window."""

_ATTEMPTS = 10


def random_window(seed: int, height: int, width: int, least_area: float) -> tuple[int, int, int, int]:
    """Return the top, left, height and width of a random window that shows at least a share `least_area` of an image.

    If none of ten windows fits into the image, it is the largest central window of an allowed ratio.

    >>> random_window(0, 100, 200, 1.0)
    (0, 33, 100, 133)
    """
    rng, area = np.random.default_rng(seed), height * width
    for _ in range(_ATTEMPTS):
        target = area * rng.uniform(least_area, 1.0)
        ratio = math.exp(rng.uniform(math.log(_RATIOS[0]), math.log(_RATIOS[1])))
        new_w, new_h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < new_w <= width and 0 < new_h <= height:
            return int(rng.integers(height - new_h + 1)), int(rng.integers(width - new_w + 1)), new_h, new_w
    low, high = _RATIOS
    new_w, new_h = min(width, round(height * high)), min(height, round(width / low))
    return (height - new_h) // 2, (width - new_w) // 2, new_h, new_w


def draws_of(places: Ints, crops: Ints | None) -> list[FrameDraw]:
    """Return the draws of frames with these crops (see Pixels.take).

    >>> draws_of(np.array([7]), None), draws_of(np.array([7]), np.array([[1, -2, 1]]))
    ([(7, -1, 0, 0, 0)], [(7, -1, 1, -2, 1)])
    """
    table = np.zeros((len(places), 5), dtype=np.int64)
    table[:, 0], table[:, 1] = places, NO_SEED
    if crops is not None:
        table[:, 2:] = crops[:, :SEED]
        if crops.shape[1] > SEED:
            table[:, 1] = crops[:, SEED]
    return [(place, seed, down, right, turned) for place, seed, down, right, turned in table.tolist()]


def window(image: Image, down: int, right: int, *, mirrored: bool) -> Image:
    """Return the shifted and mirrored window of an image. Pixels beyond an edge are reflected."""
    if down or right:
        shifted = np.empty_like(image)
        _shift(image, shifted, down, right)
        image = shifted
    return image[:, ::-1] if mirrored else image


def _shift(image: Image, out: Image, down: int, right: int) -> None:
    """Write the image's shifted window into `out`. Blocks are copied, and lines beyond an edge are reflected."""
    height, width = image.shape[:2]
    top, end = max(0, -down), height - max(0, down)
    left, stop = max(0, -right), width - max(0, right)
    lines = image[top + down : end + down]
    out[top:end, left:stop] = lines[:, left + right : stop + right]
    if right < 0:
        out[top:end, :left] = lines[:, 1 : left + 1][:, ::-1]
    elif right > 0:
        out[top:end, stop:] = lines[:, width - 1 - right : width - 1][:, ::-1]
    if down < 0:
        out[:top] = out[top + 1 : 2 * top + 1][::-1]
    elif down > 0:
        out[end:] = out[end - 1 - down : end - 1][::-1]
