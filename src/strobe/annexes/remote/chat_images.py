"""Encode an image for a chat model: resized, as JPEG or PNG, in a data URL. The same pixels give the same bytes."""

import base64
import io
from dataclasses import dataclass
from typing import Any, NamedTuple

from PIL import Image as Pillow

from strobe.core.ports import Image


class SentImage(NamedTuple):
    """An image as it is sent: a data URL, the size of what is sent, and the size of the frame."""

    url: str
    sent_wh: tuple[int, int]
    own_wh: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageEncoding:
    """How an image is encoded. `longest` limits its longer side; smaller images are not enlarged.

    >>> import numpy as np
    >>> ImageEncoding(longest=32).encode(np.zeros((40, 80, 3), np.uint8)).sent_wh
    (32, 16)
    """

    encoding: str = "jpeg"
    quality: int = 95
    longest: int | None = None

    def facts(self) -> dict[str, Any]:
        """Return what the key of the answers needs."""
        return {"image_size": self.longest, "resize": "longest side, bicubic" if self.longest else None}

    def encode(self, image: Image) -> SentImage:
        """Return the image as it is sent."""
        picture = Pillow.fromarray(image)
        own_wh = (picture.width, picture.height)
        if self.longest is not None and max(own_wh) > self.longest:
            scale = self.longest / max(own_wh)
            size = (max(1, round(own_wh[0] * scale)), max(1, round(own_wh[1] * scale)))
            picture = picture.resize(size, Pillow.Resampling.BICUBIC)
        file = io.BytesIO()
        if self.encoding == "png":
            picture.save(file, "PNG")
        else:
            picture.save(file, "JPEG", quality=self.quality, subsampling=0)  # colours in full resolution
        text = base64.b64encode(file.getvalue()).decode("ascii")
        return SentImage(f"data:image/{self.encoding};base64,{text}", (picture.width, picture.height), own_wh)
