"""Noise corruptions: sensor grain, shot noise and dead pixels, sampled at the grain size of a 224-pixel image.

In a larger image the grain is larger. Otherwise a model that shrinks the image would not see it. In a smaller image the
noise is weaker, as in the benchmark's own versions for 64 and 32 pixels.
"""

from collections.abc import Callable

import numpy as np

from strobe.vary.fields import Pixels, nominal_hw, resized, scale_of


def gaussian_noise(pixels: Pixels, deviation: float, rng: np.random.Generator) -> Pixels:
    """Add Gaussian noise of this standard deviation to every value."""
    weak = np.float32(deviation * min(1.0, scale_of(pixels)) ** 0.5)
    return _with_grain(pixels, lambda small: small + weak * rng.standard_normal(small.shape, dtype=np.float32))


def shot_noise(pixels: Pixels, photons: float, rng: np.random.Generator) -> Pixels:
    """Add shot noise, with this many photons on average for a white value."""
    count = photons / min(1.0, scale_of(pixels))
    return _with_grain(pixels, lambda small: (rng.poisson(np.maximum(small, 0) * count) / count).astype(np.float32))


def impulse_noise(pixels: Pixels, share: float, rng: np.random.Generator) -> Pixels:
    """Make this share of all values black or white, half each."""
    size_hw = nominal_hw(pixels) if scale_of(pixels) > 1 else (pixels.shape[0], pixels.shape[1])
    drawn = rng.random((*size_hw, 3), dtype=np.float32)
    drawn = resized(drawn, (pixels.shape[0], pixels.shape[1]), way="nearest")
    half = share * min(1.0, scale_of(pixels)) ** 0.5 / 2
    out: Pixels = np.where(drawn < half, 0, np.where(drawn < 2 * half, 1, pixels)).astype(np.float32)
    return out


def _with_grain(pixels: Pixels, noisy: Callable[[Pixels], Pixels]) -> Pixels:
    """Return the image with the noise it would have at 224 pixels, enlarged for larger images."""
    if scale_of(pixels) <= 1:
        return noisy(pixels)
    small = resized(pixels, nominal_hw(pixels), way="box")
    return pixels + resized(noisy(small) - small, (pixels.shape[0], pixels.shape[1]), way="nearest")
