"""Frames for the page, by opaque name only: no path of this machine ever reaches a browser, or comes from one."""

import hashlib
import hmac
import threading
from dataclasses import dataclass

from strobe.core.dataset import Dataset
from strobe.core.png import png_bytes
from strobe.core.ports import FrameSource

__all__ = ["Picture", "Pictures"]

_MAGIC = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An encoded image and its media type."""

    content: bytes
    media_type: str


class Pictures:
    """The frames of a dataset as pictures."""

    def __init__(self, dataset: Dataset, source: FrameSource, *, secret: bytes) -> None:
        self._source = source
        self._secret = secret
        self._decoding = threading.Lock()
        ids = dataset.frame_ids()
        self._row = {self.name(frame): row for row, frame in enumerate(ids)}

    def name(self, frame_id: str) -> str:
        """The opaque name of a frame."""
        return hmac.new(self._secret, b"media\n" + frame_id.encode(), hashlib.sha256).hexdigest()[:32]

    def knows(self, name: str) -> bool:
        """Whether a frame has that name."""
        return name in self._row

    def size_wh(self, row: int) -> tuple[int, int]:
        """Width and height of a frame, upright."""
        with self._decoding:
            height, width = self._source.read(row).shape[:2]
        return width, height

    def get(self, name: str) -> Picture | None:
        """The picture of that name, None for an unknown name. Raises StrobeError where the frame cannot be read.

        Only JPEG and PNG leave as they are stored; anything else is decoded and encoded anew, so that a file that is
        no image can never be sent.
        """
        row = self._row.get(name)
        if row is None:
            return None
        encoded = self._source.read_encoded(row)
        if encoded is not None:
            for magic, media_type in _MAGIC:
                if encoded.startswith(magic):
                    return Picture(content=encoded, media_type=media_type)
        # One at a time: a source that decodes a video keeps its place in it.
        with self._decoding:
            pixels = self._source.read(row)
        return Picture(content=png_bytes(pixels, compress_level=1), media_type="image/png")
