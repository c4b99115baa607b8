"""The PNG encoder for images made by strobe.

Video frames have an encoder of their own (build.store), which is as fast as the decoder.
"""

import io

import numpy as np
from numpy.typing import NDArray

from strobe.core.late import load


def png_bytes(pixels: NDArray[np.uint8], *, compress_level: int = 3) -> bytes:
    """Return the image as a PNG, lightly compressed, because storing an image must not take longer than making it."""
    buffer = io.BytesIO()
    load("PIL.Image:fromarray")(pixels).save(buffer, format="png", compress_level=compress_level)
    return buffer.getvalue()
