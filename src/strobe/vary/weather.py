"""Weather: snow, frost, fog, a brighter day. Layers are drawn for a picture of 224 pixels and fitted to this one."""

import numpy as np

from strobe.vary.fields import Pixels, cloud, convolved, nominal_hw, resized, streak

__all__ = ["brightness", "fog", "frost", "snow"]

_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_ICE = np.array([0.87, 1.02, 1.11], dtype=np.float32)
"""Frost is a little blue."""


def brightness(pixels: Pixels, more: float, rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (nothing is drawn)
    """The largest of a pixel's three values grows by so much; hue and saturation stay."""
    value = pixels.max(axis=2, keepdims=True)
    new = np.minimum(value + np.float32(more), 1)
    return np.asarray(np.where(value > 0, pixels * (new / np.maximum(value, 1e-6)), new), dtype=np.float32)


def fog(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """A bank of fog over the picture, which stays within its own range: (thickness, decay of its details)."""
    thickness, decay = how
    top = float(pixels.max())
    bank = _fitted(cloud(nominal_hw(pixels), 1 + 2 * float(np.log2(decay)), rng), pixels)
    # A black picture has no range to stay in.
    return (pixels + np.float32(thickness) * bank[..., None]) * np.float32(top / (top + thickness))


def frost(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Ice on a pane before the picture: (what is left of the picture, how much ice)."""
    left, ice = how
    return np.float32(left) * pixels + np.float32(ice) * _fitted(_pane(nominal_hw(pixels), rng), pixels)


def snow(pixels: Pixels, how: tuple[float, ...], rng: np.random.Generator) -> Pixels:
    """Falling snow in a paler picture: (mean, deviation, size and threshold of flakes; reach, sigma of their fall;
    what is left of the picture's colours)."""
    mean, deviation, size, least, reach, sigma, left = how
    height, width = nominal_hw(pixels)
    coarse = rng.normal(mean, deviation, (max(2, round(height / size)), max(2, round(width / size))))
    flakes = resized(coarse.astype(np.float32), (height, width))
    flakes = np.clip(np.where(flakes < least, 0, flakes), 0, 1).astype(np.float32)
    angle = rng.uniform(-3 * np.pi / 4, -np.pi / 4)
    flakes = convolved(flakes, streak(2 * reach, sigma, angle))
    layer = _fitted(flakes + flakes[::-1, ::-1], pixels)[..., None]
    pale = np.maximum(pixels, (pixels @ _GREY)[..., None] * 1.5 + 0.5)
    return np.asarray(left * pixels + (1 - left) * pale + layer, dtype=np.float32)


def _fitted(layer: Pixels, pixels: Pixels) -> Pixels:
    return resized(layer, (pixels.shape[0], pixels.shape[1]))


def _pane(size_hw: tuple[int, int], rng: np.random.Generator) -> Pixels:
    """A frosted pane, (height, width, 3): needles in a few directions on a milky ground."""
    ground = cloud(size_hw, 2.2, rng)
    needles = np.zeros(size_hw, dtype=np.float32)
    first = rng.uniform(0, np.pi)
    for turn in range(6):  # crystals branch by sixty degrees
        seeds = (rng.random(size_hw, dtype=np.float32) > 0.985).astype(np.float32)
        angle = first + turn * np.pi / 3 + rng.normal(0, 0.15)
        length = rng.uniform(14, 40)
        drawn = convolved(seeds, streak(length, length / 1.5, angle))
        needles = np.maximum(needles, drawn / max(float(drawn.max()), 1e-6))
    level = rng.uniform(0.3, 0.7)
    pane = level + 0.35 * (ground - 0.5) + 0.45 * needles * (0.4 + 0.6 * ground)
    return np.asarray(np.clip(pane[..., None] * _ICE, 0, 1), dtype=np.float32)
