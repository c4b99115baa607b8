"""Frames for the page by opaque name.

Paths of this machine never reach a browser, and the server accepts no paths from a browser.
"""

import hmac
import re
import threading
from dataclasses import dataclass

from strobe.core.dataset import Dataset
from strobe.core.png import png_bytes
from strobe.core.ports import FrameSource

_NAME = re.compile(r"[0-9a-f]{32}")

_TURNS = 4
"""The number of rounds of a Feistel cipher over two halves of 64 bits. Four or more make the names look random.

The right half of the plain text is zero, so only one in 2⁶⁴ invented names is accepted.
"""

_MAGIC = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedImage:
    """An encoded image and its media type."""

    content: bytes
    media_type: str


class FrameImages:
    """The frames of a dataset as images."""

    def __init__(self, dataset: Dataset, source: FrameSource, *, secret: bytes) -> None:
        self._source, self._n = source, len(dataset.frames)
        # A name encodes a row, and browsers cache images by name. The key includes the frames, so other frames get
        # other names.
        self._key = hmac.digest(secret, b"media\n" + dataset.frames_digest().encode(), "sha256")
        self._decoding = threading.Lock()

    def name(self, row: int) -> str:
        """Return the opaque name of a frame: its encrypted row, so that no table of names is needed."""
        left, right = row, 0
        for turn in range(_TURNS):
            left, right = right, left ^ self._mixed(turn, right)
        return f"{left:016x}{right:016x}"

    def row(self, name: str) -> int | None:
        """Return the frame of that name, or None for a name that was never issued."""
        if not _NAME.fullmatch(name):
            return None
        left, right = int(name[:16], 16), int(name[16:], 16)
        for turn in reversed(range(_TURNS)):
            left, right = right ^ self._mixed(turn, left), left
        return left if right == 0 and left < self._n else None

    def _mixed(self, turn: int, half: int) -> int:
        return int.from_bytes(hmac.digest(self._key, bytes([turn]) + half.to_bytes(8, "big"), "sha256")[:8], "big")

    def size_wh(self, row: int) -> tuple[int, int]:
        """Return the width and height of a frame after its orientation is applied."""
        with self._decoding:
            height, width = self._source.read(row).shape[:2]
        return width, height

    def get(self, row: int) -> EncodedImage:
        """Return the image of a frame. Raise StrobeError if it cannot be read.

        Only JPEG and PNG are sent as stored. Anything else is decoded and encoded again, so that a file that is not an
        image is never sent.
        """
        encoded = self._source.read_encoded(row)
        if encoded is not None:
            for magic, media_type in _MAGIC:
                if encoded.startswith(magic):
                    return EncodedImage(content=encoded, media_type=media_type)
        # One frame at a time, because a source decodes a video from a single position.
        with self._decoding:
            pixels = self._source.read(row)
        return EncodedImage(content=png_bytes(pixels, compress_level=1), media_type="image/png")
