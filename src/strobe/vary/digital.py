"""Digital corruptions: contrast, saturation, elastic distortion, pixelation, JPEG."""

import io

import numpy as np
from PIL import Image as PillowImage

from strobe.vary.fields import Pixels, nominal_hw, resized, scale_of, to_bytes

_WAVE = 2.24
"""The smoothness of the waves of `elastic`: the width of a Gaussian, in pixels of a 224-pixel image."""


def contrast(pixels: Pixels, left: float, rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Move every channel towards its mean, keeping this share of the contrast."""
    mean = pixels.mean(axis=(0, 1), keepdims=True, dtype=np.float64).astype(np.float32)
    return np.asarray((pixels - mean) * np.float32(left) + mean, dtype=np.float32)


def saturate(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Change saturation by a factor and an offset. Grey stays grey."""
    factor, more = how
    value = pixels.max(axis=2, keepdims=True)
    spread = value - pixels.min(axis=2, keepdims=True)
    before = spread / np.maximum(value, 1e-6)
    after = np.clip(before * factor + more, 0, 1)
    return np.where(spread > 0, value - (value - pixels) * (after / np.maximum(before, 1e-6)), pixels)


def elastic(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Distort in small waves, by a few pixels at most, so that content stays in place.

    This follows imagecorruptions. The benchmark's own version also shears the image by up to 49 of its 224 pixels, more
    at mild severities than at severe ones.
    """
    from scipy.ndimage import gaussian_filter, map_coordinates

    size_hw, scale = nominal_hw(pixels), scale_of(pixels)
    waves = [
        strength * gaussian_filter(rng.uniform(-1, 1, size_hw).astype(np.float32), _WAVE, mode="reflect", truncate=3)
        for _ in range(2)
    ]
    down, across = (scale * resized(field, (pixels.shape[0], pixels.shape[1])) for field in waves)
    height, width = pixels.shape[:2]
    place = [np.arange(height)[:, None] + down, np.arange(width)[None, :] + across]
    bent = [map_coordinates(pixels[..., channel], place, order=1, mode="reflect") for channel in range(3)]
    return np.stack(bent, axis=2)


def pixelate(pixels: Pixels, share: float, rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Reduce the resolution to this share of a 224-pixel image, and show each remaining pixel as a block."""
    scale = scale_of(pixels)
    # A small image is already coarse, so the growth of a block beyond one pixel is multiplied by the scale.
    block = scale / share if scale >= 1 else 1 + (1 / share - 1) * scale
    height, width = pixels.shape[:2]
    few = max(1, int(height / block)), max(1, int(width / block))
    return resized(resized(pixels, few, way="box"), (height, width), way="box")


def jpeg(pixels: Pixels, quality: int, rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Encode as JPEG at this quality and decode again."""
    scale = scale_of(pixels)
    if scale <= 1:
        return _through_jpeg(pixels, _finer(quality, scale))
    # For a large image, the effect at 224 pixels is computed and enlarged, so that the blocks grow with the image.
    small = resized(pixels, nominal_hw(pixels), way="box")
    return pixels + resized(_through_jpeg(small, quality) - small, (pixels.shape[0], pixels.shape[1]), way="nearest")


def _through_jpeg(pixels: Pixels, quality: int) -> Pixels:
    file = io.BytesIO()
    PillowImage.fromarray(to_bytes(pixels)).save(file, "JPEG", quality=quality)
    with PillowImage.open(file) as read:
        return np.asarray(read, dtype=np.float32) / np.float32(255)


def _finer(quality: int, scale: float) -> int:
    """Return the quality whose quantisation steps equal those of `quality` times the scale.

    The scale is needed because a block covers a larger part of a small image.

    >>> [_finer(quality, 64 / 224) for quality in (25, 18, 15, 10, 7)]
    [71, 60, 52, 35, 24]
    """
    steps = (5000 / quality if quality < 50 else 200 - 2 * quality) * scale
    return int(np.clip(round(5000 / steps if steps > 100 else (200 - steps) / 2), 1, 95))
