"""Decode JPEG frames without the interpreter's lock, if the result is identical to Pillow's.

Pillow copies pixels while holding the lock, so a dozen threads decode little faster than two. torchvision's decoder
does not hold the lock. Both use libjpeg-turbo and usually give the same pixels. strobe checks this on real frames
before it uses the fast decoder.
"""

import threading
from typing import Any

import numpy as np

from strobe.core.errors import StrobeError
from strobe.core.late import require
from strobe.core.ports import FrameSource, Image

_UNCHANGED = 0  # torchvision's ImageReadMode for keeping the file's number of channels

_CHECKED = 3
"""The number of frames decoded both ways before the fast decoder is trusted."""


class FastJpegSource:
    """Wraps a FrameSource: torchvision decodes plain JPEG files, and the wrapped source decodes the rest."""

    def __init__(self, inner: FrameSource, *, max_pixels: int = 100_000_000) -> None:
        self._inner, self._max_pixels = inner, max_pixels
        self._torch = require("torch", what="decoding", extra="models")
        require("torchvision.io", what="decoding", extra="models")  # registers the operation
        # Call the operation directly, because its Python wrapper warns that it will move to another package.
        self._operation = getattr(self._torch.ops.image, "decode_jpeg", None)
        self._agreed, self._differs = 0, self._operation is None
        self._guard = threading.Lock()

    def read_encoded(self, row: int) -> bytes | None:
        """Return the stored file's bytes."""
        return self._inner.read_encoded(row)

    def read(self, row: int) -> Image:
        """Return the decoded frame."""
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
        """Return the pixels of a plain JPEG.

        None for files that Pillow must read: other formats or colours, and rotated or broken files.
        """
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
    """Return width, height and components of a JPEG without EXIF or Adobe markers. None for all other files.

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
        # EXIF may rotate the image and the Adobe marker may change its colours. Pillow handles both.
        if marker == 0xFF or marker == 0xDA or (marker == 0xE1 and content[place + 4 : place + 8] == b"Exif"):
            return None
        if marker == 0xEE and content[place + 4 : place + 9] == b"Adobe":
            return None
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    return None
