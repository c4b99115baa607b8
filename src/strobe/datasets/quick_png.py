"""PNG frames by FFmpeg's decoder, in half of Pillow's time, for those whose pixels can be checked (ADR 20)."""

import struct
from typing import Any

import numpy as np

from strobe.core.errors import MissingExtra
from strobe.core.late import require
from strobe.core.ports import Image

__all__ = ["quick_png"]

_HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_LEAST = 1 << 16
"""Smaller files are not worth a decoder of their own."""


def quick_png(data: bytes, *, max_pixels: int) -> Image | None:
    """The pixels of a plain PNG (8 bits, RGB, not interlaced), which the caller must check; None for all others.

    Where PyAV is not installed, and for what it cannot decode, Pillow is asked as ever.
    """
    if len(data) < _LEAST or not data.startswith(_HEAD):
        return None
    width, height, *kind = struct.unpack_from(">IIBBBBB", data, len(_HEAD))
    if kind != [8, 2, 0, 0, 0] or not 0 < width * height <= max_pixels:
        return None
    try:
        av = require("av", what="reading PNG", extra="video")
    except MissingExtra:
        return None
    try:
        context: Any = av.CodecContext.create("png", "r")
        context.thread_count = 1
        frames: list[Any] = list(context.decode(av.Packet(data))) + list(context.decode(None))
    except (av.error.FFmpegError, ValueError):
        return None
    if len(frames) != 1:
        return None
    pixels: Image = np.ascontiguousarray(frames[0].to_ndarray(format="rgb24"))
    return pixels if pixels.shape == (height, width, 3) else None
