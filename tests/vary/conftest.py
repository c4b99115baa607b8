"""Pictures to corrupt, made here: a sky, a ground, things on it, something of every size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw


def make_picture(seed: int, side: int = 224) -> Any:
    """A picture (side, side, 3), the same for the same seed."""
    rng = np.random.default_rng(seed)
    layers = [Image.fromarray(rng.integers(0, 256, (n, n, 3), dtype=np.uint8)).resize((224, 224)) for n in (4, 28, 112)]
    mixed = sum(
        np.asarray(layer, dtype=np.float64) * share for layer, share in zip(layers, (0.6, 0.25, 0.15), strict=True)
    )
    canvas = Image.fromarray(np.asarray(mixed, dtype=np.uint8))
    pen = ImageDraw.Draw(canvas)
    for _ in range(6):
        x, y, wide, high = (int(value) for value in rng.integers(10, 120, 4))
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        (pen.ellipse if rng.random() < 0.5 else pen.rectangle)((x, y, x + wide, y + high), fill=colour)
    return np.asarray(canvas if side == 224 else canvas.resize((side, side), Image.Resampling.BOX))


@pytest.fixture(scope="session")
def picture() -> Callable[..., Any]:
    """Make a picture by its seed and side."""
    return make_picture
