"""Masks of objects: PNG files of 0 and 255, their boxes, and the masks of other programs."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidFile, StrobeError

FOREGROUND = 127
"""Mask pixels above this are the object."""

_SPECK = 0.05
"""A part of an estimated mask smaller than this share of the largest part is ignored."""

Mask = NDArray[np.bool_]


def mask_bytes(mask: Mask) -> bytes:
    """Return the mask as a PNG of 0 and 255, with equal bytes for equal masks."""
    from PIL import Image as Pillow

    buffer = io.BytesIO()
    Pillow.fromarray(mask.astype(np.uint8) * np.uint8(255)).save(buffer, "png", compress_level=6)
    return buffer.getvalue()


def decoded_mask(content: bytes, path: Path, size_wh: tuple[int, int], *, own: frozenset[int] | None = None) -> Mask:
    """Return which pixels of a mask file are the object.

    These are values above 127, palette colours other than 0, or the numbers in `own` if given. The size is checked
    before unpacking.
    """
    from PIL import Image as Pillow

    try:
        with Pillow.open(io.BytesIO(content)) as opened:
            if opened.size != size_wh:
                wide, high = opened.size
                raise InvalidFile(path, f"the mask is {wide}×{high}, but the image is {size_wh[0]}×{size_wh[1]}")
            indexed = opened.mode == "P" or own is not None
            if "A" in opened.getbands() and not indexed:
                raise InvalidFile(path, "the mask has transparency", hint="store it as plain grey: 0 and 255")
            values = np.asarray(opened if indexed or opened.mode == "L" else opened.convert("L"))
    except StrobeError:
        raise
    except Exception as error:  # decoders raise arbitrary exceptions on damaged bytes
        raise InvalidFile(path, "not a readable mask (a PNG file)") from error
    if values.ndim != 2:
        raise InvalidFile(path, "the mask has several channels", hint="store it as plain grey: 0 and 255")
    if own is not None:
        return np.isin(values, list(own))
    return np.asarray(values > (0 if indexed else FOREGROUND))


def bounds_of(mask: Mask) -> tuple[int, int, int, int]:
    """Return the tight box of a non-empty mask, far corner exclusive.

    >>> bounds_of(np.array([[False, False, False], [False, True, True]]))
    (1, 1, 3, 2)
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def without_specks(mask: Mask) -> Mask:
    """Return the mask without parts much smaller than its largest part. Such parts are stray pixels of a network."""
    from scipy.ndimage import label

    parts, many = label(mask)
    if many < 2:
        return mask
    sizes = np.bincount(parts.ravel())
    sizes[0] = 0
    return np.asarray((sizes >= _SPECK * sizes.max())[parts] & mask)
