"""JPEG frames decoded outside the interpreter's lock, where that gives Pillow's very pixels.

Pillow's decoding takes turns with every other thread (its pixels are copied out under the lock), so a dozen threads
decode little faster than two. torchvision's decoder runs free. Both use libjpeg-turbo and mostly give the same pixels;
whether they do here is checked on real frames before the fast way is taken.
"""

import threading
from typing import Any

import numpy as np

from strobe.core.errors import StrobeError
from strobe.core.late import require
from strobe.core.ports import FrameSource, Image

__all__ = ["FastJpegSource", "jpeg_facts"]

_UNCHANGED = 0  # torchvision's ImageReadMode: as many channels as the file has

_CHECKED = 3
"""So many frames are decoded both ways before the fast way is trusted."""


class FastJpegSource:
    """A FrameSource over another: plain JPEG files by torchvision, everything else as the other has it."""

    def __init__(self, inner: FrameSource, *, max_pixels: int = 100_000_000) -> None:
        self._inner, self._max_pixels = inner, max_pixels
        self._torch = require("torch", what="decoding", extra="models")
        require("torchvision.io", what="decoding", extra="models")  # registers the operation
        # The operation itself: the function around it warns that it will move to another package one day.
        self._operation = getattr(self._torch.ops.image, "decode_jpeg", None)
        self._agreed, self._differs = 0, self._operation is None
        self._guard = threading.Lock()

    def read_encoded(self, row: int) -> bytes | None:
        """The stored file's bytes."""
        return self._inner.read_encoded(row)

    def read(self, row: int) -> Image:
        """The decoded frame."""
        fast = None if self._differs else self._decode(row)
        if fast is None:
            return self._inner.read(row)
        if self._agreed < _CHECKED:
            exact = self._inner.read(row)
            with self._guard:
                self._differs = self._differs or not np.array_equal(fast, exact)
                self._agreed += 1
            return exact
        return fast

    def _decode(self, row: int) -> Image | None:
        """The pixels of a plain JPEG; None for what Pillow should look at: other formats, colours, turned or broken."""
        try:
            content = self._inner.read_encoded(row)
        except StrobeError:
            return None
        facts = jpeg_facts(content) if content else None
        if content is None or facts is None or facts[2] != 3 or facts[0] * facts[1] > self._max_pixels:
            return None
        encoded = self._torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())
        try:
            pixels: Any = self._operation(encoded, _UNCHANGED, False)  # type: ignore[misc]  # never None here
        except RuntimeError:
            return None
        if tuple(pixels.shape) != (3, facts[1], facts[0]):
            return None
        return np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())


def jpeg_facts(content: bytes) -> tuple[int, int, int] | None:
    """Width, height and components of a baseline or progressive JPEG without EXIF or Adobe marks; None for others.

    >>> jpeg_facts(b"not a jpeg") is None
    True
    """
    if content[:2] != b"\xff\xd8":
        return None
    place = 2
    while place + 9 < len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker in (0xC0, 0xC1, 0xC2):
            height = int.from_bytes(content[place + 5 : place + 7])
            width = int.from_bytes(content[place + 7 : place + 9])
            return (width, height, content[place + 9]) if width and height else None
        # EXIF may turn the image, Adobe's mark may change its colours: Pillow knows what to do with both.
        if marker == 0xFF or marker == 0xDA or (marker == 0xE1 and content[place + 4 : place + 8] == b"Exif"):
            return None
        if marker == 0xEE and content[place + 4 : place + 9] == b"Adobe":
            return None
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    return None
