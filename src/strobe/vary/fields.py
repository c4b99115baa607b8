"""Helpers for corruptions: the image's scale, blurring with any kernel, clouds, flakes and streaks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

Pixels = NDArray[np.float32]
"""Values in 0–1: an image (height, width, 3) or a plane (height, width)."""

_SIDE = 224
"""The short side, in pixels, of images that the published severities apply to."""

LARGEST_PLASMA = 2048
"""The side of the largest field of `plasma`. A larger image repeats the field."""


def scale_of(pixels: Pixels) -> float:
    """Return how many pixels of this image correspond to one pixel of an image with a short side of 224.

    A very narrow image is measured by a quarter of its long side, as if its aspect ratio were four to one.

    >>> scale_of(np.zeros((448, 600, 3), np.float32)), scale_of(np.zeros((1, 896, 3), np.float32))
    (2.0, 1.0)
    """
    return float(max(min(pixels.shape[:2]) / _SIDE, max(pixels.shape[:2]) / (4 * _SIDE)))


def nominal_hw(pixels: Pixels) -> tuple[int, int]:
    """Return the height and width of this image scaled to a short side of 224.

    >>> nominal_hw(np.zeros((64, 96, 3), np.float32))
    (224, 336)
    """
    scale = scale_of(pixels)
    return max(1, round(pixels.shape[0] / scale)), max(1, round(pixels.shape[1] / scale))


def to_bytes(pixels: Pixels) -> NDArray[np.uint8]:
    """Convert 0–1 to 8 bits, rounded."""
    return np.asarray(np.clip(pixels, 0, 1) * 255 + 0.5, dtype=np.uint8)


def resized(plane: Pixels, size_hw: tuple[int, int], *, way: str = "bilinear") -> Pixels:
    """Resize an image or plane with one of Pillow's filters."""
    if plane.shape[:2] == size_hw:
        return plane
    filter_ = PillowImage.Resampling[way.upper()]
    planes = plane[..., None] if plane.ndim == 2 else plane
    resized_planes = [
        np.asarray(PillowImage.fromarray(planes[..., place]).resize(size_hw[::-1], filter_))
        for place in range(planes.shape[2])
    ]
    return resized_planes[0] if plane.ndim == 2 else np.stack(resized_planes, axis=2)


def convolved(pixels: Pixels, kernel: NDArray[np.float64]) -> Pixels:
    """Blur the image or plane with a kernel of odd sides. Borders are mirrored.

    >>> convolved(np.ones((4, 5), np.float32), np.ones((3, 3))).round(6).max()
    np.float32(1.0)
    """
    from scipy import fft

    kernel = kernel / kernel.sum()
    up, side = kernel.shape[0] // 2, kernel.shape[1] // 2
    around: Any = [(up, up), (side, side)] + [(0, 0)] * (pixels.ndim - 2)
    wide = np.pad(pixels, around, mode="symmetric")
    size = [fft.next_fast_len(n, real=True) for n in wide.shape[:2]]
    # Blur in the frequency domain: the cost does not grow with the kernel, which grows with the image.
    spectrum = fft.rfft2(kernel.astype(np.float32), s=size)
    spectrum = spectrum if pixels.ndim == 2 else spectrum[..., None]
    blurred = fft.irfft2(fft.rfft2(wide, s=size, axes=(0, 1)) * spectrum, s=size, axes=(0, 1))
    height, width = pixels.shape[:2]
    return np.asarray(blurred[2 * up : 2 * up + height, 2 * side : 2 * side + width], dtype=np.float32)


def streak(length: float, sigma: float, angle: float) -> NDArray[np.float64]:
    """Return a motion blur kernel.

    It extends `length` pixels from its centre towards `angle` (radians), with Gaussian decay.
    """
    reach = max(1, int(np.ceil(length)))
    along = np.arange(0, length + 1e-9, 0.25)
    weight = np.exp(-(along**2) / (2 * sigma**2))
    x, y = reach + along * np.cos(angle), reach + along * np.sin(angle)
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    right, low = x - left, y - top
    kernel = np.zeros((2 * reach + 2, 2 * reach + 2))
    for row, column, part in (
        (top, left, (1 - low) * (1 - right)),
        (top, left + 1, (1 - low) * right),
        (top + 1, left, low * (1 - right)),
        (top + 1, left + 1, low * right),
    ):
        np.add.at(kernel, (row, column), weight * part)
    return kernel[: 2 * reach + 1, : 2 * reach + 1]


def plasma(size_hw: tuple[int, int], decay: float, rng: np.random.Generator) -> Pixels:
    """Return a fractal field in 0–1 by the diamond-square algorithm, as ImageNet-C draws its fog.

    Each halving of the grid weakens the random part by `decay`. The field is a square whose side is a power of two. It
    repeats beyond `LARGEST_PLASMA` pixels. The result is its upper left corner.
    """
    side = min(LARGEST_PLASMA, 1 << (max(*size_hw, 2) - 1).bit_length())
    field, step, wibble = np.zeros((side, side), dtype=np.float32), side, 100.0

    def filled(total: Pixels) -> Pixels:
        return total / 4 + np.float32(wibble) * rng.uniform(-wibble, wibble, total.shape).astype(np.float32)

    while step >= 2:
        half = step // 2
        corner = field[::step, ::step]
        total = corner + np.roll(corner, -1, axis=0)
        middle = filled(total + np.roll(total, -1, axis=1))
        field[half::step, half::step] = middle
        field[::step, half::step] = filled(middle + np.roll(middle, 1, axis=0) + corner + np.roll(corner, -1, axis=1))
        field[half::step, ::step] = filled(middle + np.roll(middle, 1, axis=1) + corner + np.roll(corner, -1, axis=0))
        step, wibble = half, wibble / decay
    field -= field.min()
    field /= max(float(field.max()), 1e-12)
    rows, columns = (np.arange(n) % side for n in size_hw)
    return np.asarray(field[np.ix_(rows, columns)])


def cloud(size_hw: tuple[int, int], roughness: float, rng: np.random.Generator) -> Pixels:
    """Return a fractal field in 0–1. Shorter waves are weaker, depending on `roughness` (3: soft, 2: ragged)."""
    height, width = (max(2, round(n * 8 / 7)) for n in size_hw)  # the extremes of the field may be outside the image
    across, down = np.fft.rfftfreq(width), np.fft.fftfreq(height)
    length = np.hypot(across[None, :], down[:, None])
    length[0, 0] = 1
    white = rng.standard_normal((2, *length.shape), dtype=np.float32)
    spectrum = (white[0] + 1j * white[1]) * (length**-roughness).astype(np.float32)
    spectrum[0, 0] = 0
    field = np.fft.irfft2(spectrum, s=(height, width))
    low, high = float(field.min()), float(field.max())
    return np.asarray((field - low) / max(high - low, 1e-12), dtype=np.float32)[: size_hw[0], : size_hw[1]]
