"""The window of a random resized crop, drawn as torchvision's RandomResizedCrop does."""

import math

import numpy as np

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
