"""The PNG encoder of images made by strobe. Frames of video have their own, as fast as the decoder (build.store)."""

import io

import numpy as np
from numpy.typing import NDArray

from strobe.core.late import load

__all__ = ["png_bytes"]


def png_bytes(pixels: NDArray[np.uint8], *, compress_level: int = 3) -> bytes:
    """Return the image as a PNG, lightly compressed, because storing must not take longer than making it."""
    buffer = io.BytesIO()
    load("PIL.Image:fromarray")(pixels).save(buffer, format="png", compress_level=compress_level)
    return buffer.getvalue()
