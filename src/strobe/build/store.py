"""Frames as files: lossless by default, so that storage does not perturb them, and fast to read (ADR 10)."""

import hashlib
import io
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from strobe.build.options import Store
from strobe.core.errors import expect
from strobe.core.late import require
from strobe.core.packed import PACKED_SUFFIX, packed
from strobe.core.ports import Image

STORES: tuple[str, ...] = get_args(Store)

JPEG_QUALITY = 95


class FrameEncoder:
    """Encodes frames for storage. Not thread-safe.

    PNG files are written by FFmpeg's encoder, which stores the same pixels as Pillow's encoder in half the time (see
    docs/video.md). `suffix` is the suffix of the files, and `key_suffix` is the suffix of the frames' keys. A packed
    frame has the same key as a PNG.
    """

    def __init__(self, store: Store = "zstd") -> None:
        expect(store in STORES, "<<store>>", f"one of {', '.join(STORES)}", store)
        self.store = store
        self.suffix = {"zstd": PACKED_SUFFIX, "png": ".png", "webp": ".webp", "jpeg": ".jpg"}[store]
        self.key_suffix = ".png" if store == "zstd" else self.suffix

    def encode(self, image: Image, sha256: str = "") -> bytes:
        """Return the file's bytes, which are equal for equal pixels.

        `sha256` is the digest of the pixels, if already known.
        """
        if self.store == "zstd":
            return packed(image, sha256 or pixel_digest(image))
        if self.store == "png":
            return _png(image)
        from PIL import Image as Pillow

        buffer = io.BytesIO()
        picture = Pillow.fromarray(image)
        if self.store == "webp":
            picture.save(buffer, "WEBP", lossless=True, method=0, quality=0)
        else:
            picture.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
        return buffer.getvalue()

    def stored(self, image: Image, data: bytes) -> Image:
        """Return the pixels that a reader of the file will see: the image itself unless the format is lossy."""
        if self.store != "jpeg":
            return image
        from PIL import Image as Pillow

        with Pillow.open(io.BytesIO(data)) as picture:
            return np.asarray(picture.convert("RGB"))


def pixel_digest(image: Image) -> str:
    """Return the sha256 of the pixels, row by row."""
    return hashlib.sha256(image.data if image.flags.c_contiguous else image.tobytes()).hexdigest()


def _png(image: Image) -> bytes:
    av = require("av", what="storing frames of video", extra="video")
    # An open encoder accepts no new settings, and a new encoder costs a tenth of a millisecond.
    context: Any = av.CodecContext.create("png", "w")
    context.height, context.width = image.shape[:2]
    context.pix_fmt = "rgb24"
    context.time_base = Fraction(1, 25)
    context.thread_count = 1
    context.options = {"pred": "up", "compression_level": "1"}
    packets = context.encode(av.VideoFrame.from_ndarray(image, format="rgb24"))
    return b"".join(bytes(packet) for packet in (*packets, *context.encode(None)))
