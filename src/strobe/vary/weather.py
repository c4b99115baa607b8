"""Weather corruptions: snow, frost, fog and brightness.

Layers are drawn for a 224-pixel image and scaled to the actual size.
"""

import numpy as np

from strobe.vary.fields import Pixels, cloud, convolved, nominal_hw, plasma, resized, streak

_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
_ICE = np.array([-0.13, 0.02, 0.11], dtype=np.float32)
"""The colour offset of blue ice from grey."""


def brightness(pixels: Pixels, more: float, rng: np.random.Generator) -> Pixels:  # noqa: ARG001 (no randomness)
    """Increase the largest of a pixel's three values by this much. Hue and saturation stay."""
    value = pixels.max(axis=2, keepdims=True)
    new = np.minimum(value + np.float32(more), 1)
    return np.asarray(np.where(value > 0, pixels * (new / np.maximum(value, 1e-6)), new), dtype=np.float32)


def fog(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Add ImageNet-C's fog to the image within its own value range: (thickness, decay of its details)."""
    return _behind(pixels, plasma(nominal_hw(pixels), how[1], rng), how[0])


def fog_bank(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Add fog with a smooth spectrum. The settings are the same as for fog, but the result is harder for models."""
    return _behind(pixels, cloud(nominal_hw(pixels), 1.58 + 0.8 * float(np.log2(how[1])), rng), how[0])


def _behind(pixels: Pixels, layer: Pixels, thickness: float) -> Pixels:
    """Return the image behind a layer of fog, within its own value range."""
    top, bank = float(pixels.max()), _fitted(layer, pixels)
    # A black image has no value range.
    return (pixels + np.float32(thickness) * bank[..., None]) * np.float32(top / (top + thickness))


def frost(pixels: Pixels, how: tuple[float, float, Pixels], rng: np.random.Generator) -> Pixels:
    """Blend a crop of an ice photograph over the image: (weight of the image, weight of the ice, the photograph).

    This is ImageNet-C's version. A photograph smaller than the crop is enlarged first.
    """
    left, ice, pane = how
    height, width = nominal_hw(pixels)
    larger = max(1.0, (height + 1) / pane.shape[0], (width + 1) / pane.shape[1])
    if larger > 1:
        pane = resized(pane, (int(np.ceil(larger * pane.shape[0])), int(np.ceil(larger * pane.shape[1]))))
    top, side = int(rng.integers(pane.shape[0] - height)), int(rng.integers(pane.shape[1] - width))
    part = pane[top : top + height, side : side + width]
    return np.float32(left) * pixels + np.float32(ice) * _fitted(part, pixels)


def frost_feathers(pixels: Pixels, how: tuple[float, float], rng: np.random.Generator) -> Pixels:
    """Blend rendered ice over the image: (weight of the image, weight of the ice). Harder than frost."""
    left, ice = how
    return np.float32(left) * pixels + np.float32(ice) * _fitted(_pane(nominal_hw(pixels), rng), pixels)


def snow(pixels: Pixels, how: tuple[float, ...], rng: np.random.Generator) -> Pixels:
    """Add falling snow to a paler image.

    The settings are (mean, deviation, size and threshold of flakes; reach, sigma of their motion; weight of the image's
    colours).
    """
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
    """Return a frosted pane, (height, width, 3): ice feathers that grew until they met, on a milky background."""
    height, width = size_hw
    ground = cloud(size_hw, 2.0, rng)
    ice, nearest = 0.9 * ground, np.full(size_hw, 1.0, dtype=np.float32)
    for _ in range(max(12, height * width // 350)):
        length, angle = rng.uniform(18, 48), rng.uniform(0, 2 * np.pi)
        y, x = rng.uniform(0, 1, 2) * (height, width)
        top, left = max(0, int(y - length)), max(0, int(x - length))
        there = slice(top, min(height, int(y + length))), slice(left, min(width, int(x + length)))
        rows, columns = np.ogrid[there]
        down, across = np.float32(rows - y), np.float32(columns - x)
        along = across * np.float32(np.cos(angle)) + down * np.float32(np.sin(angle))
        off_spine = np.abs(down * np.float32(np.cos(angle)) - across * np.float32(np.sin(angle)))
        far = np.hypot(along / length, off_spine / (length * rng.uniform(0.2, 0.34)))
        won = far < nearest[there]
        # Barbs lean forward from a bright spine and thin out towards the rim.
        phase = (off_spine * 0.87 + along * 0.5) * rng.uniform(1.3, 2.1) + 3 * ground[there]
        barbs = (0.5 + 0.5 * np.sin(phase)) ** 2 * (1 - 0.7 * far) + 0.8 * np.exp(-(off_spine**2) / 0.8)
        shade = rng.uniform(0.25, 0.55)
        ice[there] = np.where(won, shade + 0.55 * barbs * rng.uniform(0.5, 1) - 0.25 * far, ice[there])
        nearest[there] = np.where(won, far, nearest[there])
    contrast, level = rng.uniform(0.25, 0.6), rng.uniform(0.47, 0.78)
    tint = 1 + rng.uniform(0.2, 1.5) * _ICE
    pane = (level + contrast * (ice - 0.5) * (0.5 + ground) + 0.2 * (ground - 0.5))[..., None] * tint
    return np.asarray(np.clip(pane, 0, 1), dtype=np.float32)
