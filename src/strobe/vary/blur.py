"""Blur corruptions: defocus, frosted glass, motion and zoom. Lengths are in pixels of a 224-pixel image."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.core.arrays import Ints
from strobe.vary.fields import Pixels, convolved, nominal_hw, scale_of, streak, to_bytes


def gaussian_blur(pixels: Pixels, sigma: float, rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Apply a Gaussian blur of this width."""
    return _softened(pixels, sigma * scale_of(pixels))


def defocus_blur(pixels: Pixels, radius: float, rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Spread every point to a disc of this radius."""
    return convolved(pixels, disc(radius * scale_of(pixels)))


def glass_blur(pixels: Pixels, how: tuple[float, int, int], rng: np.random.Generator) -> Pixels:
    """Blur, repeatedly replace every pixel by a near pixel, and blur again: (sigma, reach, times).

    This is ImageNet-C's version. Its code means to swap two pixels but only copies one, because both sides are views of
    one NumPy array.
    """
    sigma, reach, times = how
    scale, (height, width) = scale_of(pixels), pixels.shape[:2]
    soft = _softened(pixels, sigma * scale)
    nominal = nominal_hw(pixels)
    place = np.arange(nominal[0] * nominal[1])
    for _ in range(times):
        place = place[copied_from(rng.integers(-reach, reach, (2, *nominal)), reach)]
    down, across = np.divmod(place.reshape(nominal), nominal[1])
    if nominal != (height, width):
        # In an image of another size, a block stands for each pixel of a 224-pixel image, and displacements scale with
        # it.
        rows = (np.arange(height) * nominal[0] // height)[:, None]
        columns = (np.arange(width) * nominal[1] // width)[None, :]
        moved = scale * (down[rows, columns] - rows), scale * (across[rows, columns] - columns)
        down = np.clip(np.arange(height)[:, None] + np.rint(moved[0]).astype(np.intp), 0, height - 1)
        across = np.clip(np.arange(width)[None, :] + np.rint(moved[1]).astype(np.intp), 0, width - 1)
    return _softened(soft[down, across], sigma * scale)


def copied_from(offsets: Ints, reach: int) -> Ints:
    """Return the source pixel of each pixel after one pass of ImageNet-C's shuffle, as flat indices, (H · W,).

    `offsets` (2, H, W) are displacements down and across. The pass runs from the last pixel to the first. Each pixel
    gets the current value of the pixel at its offset. Pixels within `reach` of the border stay.
    """
    height, width = offsets.shape[1:]
    own = np.arange(height * width)
    moved = own.reshape(height, width).copy()
    inner = slice(reach + 1, max(reach + 1, height - reach + 1)), slice(reach + 1, max(reach + 1, width - reach + 1))
    moved[inner] += offsets[0][inner] * width + offsets[1][inner]
    pointer, source, live = moved.ravel(), own.copy(), own
    while live.size:  # a later pixel was replaced earlier in the pass, so follow its own pointer
        there = pointer[source[live]]
        on = there > source[live]
        source[live] = there
        live = live[on]
    return source


def glass_scatter(pixels: Pixels, how: tuple[float, int, int], rng: np.random.Generator) -> Pixels:
    """Blur, displace every pixel by a Gaussian, and blur again: (sigma, reach, times). Harder than glass_blur.

    The Gaussian has the width of a true pixel swap, which moves each pixel twice.
    """
    sigma, reach, times = how
    scale = scale_of(pixels)
    soft = _softened(pixels, sigma * scale)
    height, width = soft.shape[:2]
    # A pixel is swapped once in its own turn and again in a neighbour's turn: two moves per pass, each within the
    # reach. The sum of that many moves is nearly Gaussian, and its width scales to images of any size.
    spread = scale * np.sqrt(2 * times * reach * (reach + 1) / 3)
    moved = np.rint(spread * rng.standard_normal((2, height, width), dtype=np.float32)).astype(np.intp)
    down = np.clip(np.arange(height)[:, None] + moved[0], 0, height - 1)
    across = np.clip(np.arange(width)[None, :] + moved[1], 0, width - 1)
    return _softened(soft[down, across], sigma * scale)


def motion_blur(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Simulate camera motion: (reach, sigma), at an angle within 45° of horizontal."""
    reach, sigma = how
    scale, angle = scale_of(pixels), rng.uniform(-np.pi / 4, np.pi / 4)
    return convolved(pixels, streak(2 * reach * scale, sigma * scale, angle))


def zoom_blur(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Return the mean of the image and its zoomed versions: (last factor, step)."""
    last, step = how
    height, width = pixels.shape[:2]
    picture = PillowImage.fromarray(to_bytes(pixels))
    factors = np.arange(1, last + step / 2, step)
    total = pixels.copy()
    for factor in factors.tolist():
        left, top = width * (1 - 1 / factor) / 2, height * (1 - 1 / factor) / 2
        seen = picture.resize(
            (width, height), PillowImage.Resampling.BILINEAR, box=(left, top, width - left, height - top)
        )
        total += np.asarray(seen, dtype=np.float32) / 255
    return np.asarray(total / (len(factors) + 1), dtype=np.float32)


def disc(radius: float) -> NDArray[np.float64]:
    """Return a disc as a kernel. A pixel at the rim counts by its share inside the disc.

    >>> disc(1.0).round(2).tolist()
    [[0.09, 0.5, 0.09], [0.5, 1.0, 0.5], [0.09, 0.5, 0.09]]
    """
    reach = max(1, int(np.ceil(radius)))
    along = np.arange(-reach, reach + 1)
    return np.clip(radius + 0.5 - np.hypot(along[:, None], along[None, :]), 0, 1)


def _softened(pixels: Pixels, sigma: float) -> Pixels:
    from scipy.ndimage import gaussian_filter1d

    if sigma <= 0:
        return pixels
    down = gaussian_filter1d(pixels, sigma, axis=0, mode="nearest")
    return np.asarray(gaussian_filter1d(down, sigma, axis=1, mode="nearest"), dtype=np.float32)
