"""Images for contracts of models."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def pictures() -> list[np.ndarray]:
    """Images of many shapes: wide, tall, square, tiny, and smaller than any model's input."""
    rng = np.random.default_rng(1)
    shapes = [(36, 64), (64, 36), (50, 50), (7, 9), (3, 200), (200, 3), (90, 160), (1, 1)]
    out = []
    for place in range(64):
        height, width = shapes[place % len(shapes)]
        base = rng.integers(0, 256, (1, 1, 3))
        out.append(np.clip(base + rng.integers(-60, 60, (height, width, 3)), 0, 255).astype(np.uint8))
    return out
