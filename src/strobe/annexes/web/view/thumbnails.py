"""Small images by opaque name, in a bounded cache."""

import io
import threading
from collections import OrderedDict

from strobe.annexes.web.review.pictures import EncodedImage, FrameImages
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import FrameSource
from strobe.store.opening import LateSource, frame_source

SIDE, QUALITY = 192, 74
MOST_BYTES = 48 * 2**20
"""The largest total size of the small images kept in memory; about 6,000 of them."""


class Thumbnails:
    """The frames of one dataset as small images, and unchanged."""

    def __init__(self, dataset: Dataset, *, secret: bytes, most_bytes: int = MOST_BYTES) -> None:
        self.missing = ""
        """Why the dataset has no images; empty if it has them."""
        try:
            self._source: FrameSource = frame_source(dataset)
        except StrobeError as error:
            self._source, self.missing = LateSource(dataset), str(error)
        self.images = FrameImages(dataset, self._source, secret=secret)
        self._most, self._size = most_bytes, 0
        self._held: OrderedDict[int, EncodedImage] = OrderedDict()
        self._lock = threading.Lock()

    def name(self, row: int) -> str:
        """Return the opaque name of a frame."""
        return self.images.name(row)

    def small(self, row: int) -> EncodedImage:
        """Return a frame with at most SIDE pixels on its longest side. Raise StrobeError if it cannot be read."""
        with self._lock:
            found = self._held.get(row)
            if found is not None:
                self._held.move_to_end(row)
                return found
        from PIL import Image

        shown = Image.fromarray(self._source.read(row))
        shown.thumbnail((SIDE, SIDE), Image.Resampling.BICUBIC, reducing_gap=2.0)
        out = io.BytesIO()
        shown.save(out, "JPEG", quality=QUALITY)
        made = EncodedImage(content=out.getvalue(), media_type="image/jpeg")
        with self._lock:
            if row not in self._held:
                self._held[row] = made
                self._size += len(made.content)
            while self._size > self._most and len(self._held) > 1:
                self._size -= len(self._held.popitem(last=False)[1].content)
        return made
