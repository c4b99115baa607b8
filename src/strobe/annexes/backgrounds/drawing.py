"""The rungs of a background ladder as pixels: crops, and images with a grey, blurred, swapped or removed background.

Masks are hard: a pixel of the object is kept or removed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.backgrounds.ladders import RUNGS
from strobe.annexes.backgrounds.masks import Mask, decoded_mask
from strobe.core.crops import FITS, GREY, Cut, fitted
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.ports import Image
from strobe.vary.rendering import SiblingFiles

VERSION = 1
"""The version of the rung renderer. It changes when the same recipe would give different pixels."""

LEAST_STRIP = 0.05
"""A box can be filled by tiling if the strip next to it is at least this share of the image's side."""

_SIGMA = 0.05
"""The blur's sigma, as a share of the image's shorter side."""

_RIM = 0.01
"""The margin removed around an object, as a share of the shorter side, because edge pixels are partly object."""

Recipe = Mapping[str, Any]


def drawn_rung(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    """Render the recipe's rung of the image. Raises StrobeError for a recipe that this version does not support."""
    if recipe.get("version") != VERSION:
        raise StrobeError(
            f"a frame's recipe is for version {printable(recipe.get('version'))} of the rungs, but this strobe has "
            f"version {VERSION}; make the ladder again with strobe vary background"
        )
    name, fit = recipe.get("rung"), recipe.get("fit")
    draw = _DRAWN.get(name) if isinstance(name, str) else None
    if draw is None or fit not in FITS:
        raise _unusable(recipe)
    return np.ascontiguousarray(fitted(draw(image, recipe, beside), fit))


def _unusable(recipe: Recipe) -> StrobeError:
    return StrobeError(f"a frame's recipe does not describe a valid rung: {printable(dict(recipe), limit=120)}")


def _cut(image: Image, recipe: Recipe, name: str = "cut") -> Cut:
    """Return the recipe's box in whole pixels inside the image."""
    value, (height, width) = recipe.get(name), image.shape[:2]
    if not isinstance(value, list) or len(value) != 4 or any(type(part) is not int for part in value):
        raise _unusable(recipe)
    x0, y0, x1, y1 = value
    if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
        raise StrobeError(
            f"a frame's recipe crops {printable(value)} from an image of {width}×{height}; make the ladder again"
        )
    return x0, y0, x1, y1


def _mask(image: Image, recipe: Recipe, beside: SiblingFiles) -> Mask:
    named = recipe.get("mask")
    if not isinstance(named, dict):
        raise _unusable(recipe)
    return beside.file(named, "mask", decoded_mask, (image.shape[1], image.shape[0]))


# -- rungs -------------------------------------------------------------------------------------------------------


def _whole(image: Image, _: Recipe, __: SiblingFiles) -> Image:
    return image


def _crop(image: Image, recipe: Recipe, _: SiblingFiles) -> Image:
    x0, y0, x1, y1 = _cut(image, recipe)
    return image[y0:y1, x0:x1]


def _grey(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    return _over(image, _mask(image, recipe, beside), np.uint8(GREY))


def _blur(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    mask = _mask(image, recipe, beside)
    return _over(image, mask, _blurred(image, mask))


def _plain(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    colour = recipe.get("colour")
    fine = isinstance(colour, list) and len(colour) == 3 and all(type(one) is int and 0 <= one < 256 for one in colour)
    if not fine:
        raise _unusable(recipe)
    return _over(image, _mask(image, recipe, beside), np.array(colour, dtype=np.uint8))


def _mixed(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    mask, named = _mask(image, recipe, beside), recipe.get("donor")
    if not isinstance(named, dict):
        raise _unusable(recipe)
    donor = beside.picture(named)
    ground = _tiled(donor, _cut(donor, named))
    return _over(image, mask, _covering(ground, (image.shape[1], image.shape[0])))


def _object(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    return _over(image, _mask(image, recipe, beside), np.uint8(0))


def _tight(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    return _crop(_grey(image, recipe, beside), recipe, beside)


def _removed(image: Image, recipe: Recipe, beside: SiblingFiles) -> Image:
    from scipy.ndimage import binary_dilation

    mask = _mask(image, recipe, beside)
    rim = max(1, round(_RIM * min(mask.shape)))
    return _filled(image, np.asarray(binary_dilation(mask, iterations=rim)))


def _ground(image: Image, recipe: Recipe, _: SiblingFiles) -> Image:
    return _tiled(image, _cut(image, recipe))


_DRAWN: Mapping[str, Callable[[Image, Recipe, SiblingFiles], Image]] = {
    "whole": _whole, "usual": _whole, "zoom": _crop, "random": _crop, "crop": _crop, "grey": _grey, "blur": _blur,
    "plain": _plain, "same": _mixed, "other": _mixed, "object": _object, "tight": _tight, "removed": _removed,
    "ground": _ground,
}  # fmt: skip
expect(set(RUNGS) <= set(_DRAWN), "rungs", "a renderer for each", None)


# -- pixels ------------------------------------------------------------------------------------------------------


def _over(image: Image, mask: Mask, ground: Any) -> Image:
    """Return the object's own pixels on a background (an image or a colour)."""
    return np.asarray(np.where(mask[..., None], image, ground), dtype=np.uint8)


def _blurred(image: Image, mask: Mask) -> Image:
    """Return the background, blurred so that the object does not bleed into it. Three box filters approximate a
    Gaussian.
    """
    from scipy.ndimage import uniform_filter

    side = max(3, round(2 * _SIGMA * min(mask.shape)))  # three box filters of n pixels have a deviation of about n / 2
    weight = (~mask).astype(np.float64)
    parts = [image[..., channel] * weight for channel in range(3)]
    for _ in range(3):
        weight = uniform_filter(weight, side, mode="nearest")
        parts = [uniform_filter(part, side, mode="nearest") for part in parts]
    mean = np.stack(parts, axis=-1) / np.maximum(weight, 1e-9)[..., None]
    return np.asarray(np.clip(mean, 0, 255).round(), dtype=np.uint8)


def _filled(image: Image, hole: Mask) -> Image:
    """Fill the hole smoothly: each pixel gets the mean of the smallest block around it that has known pixels."""
    levels: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    weight = (~hole).astype(np.float64)
    colour = image * weight[..., None]
    while not weight.all() and max(weight.shape) > 1:
        levels.append((colour, weight))
        colour, weight = _halved(colour), _halved(weight[..., None])[..., 0]
    known = colour / np.maximum(weight, 1e-12)[..., None] if weight.any() else np.full(colour.shape, float(GREY))
    for colour, weight in reversed(levels):
        high, wide = weight.shape
        above = _smoothed(known.repeat(2, axis=0).repeat(2, axis=1)[:high, :wide])
        own = colour / np.maximum(weight, 1e-12)[..., None]
        known = np.where((weight > 0)[..., None], own, above)
    return np.asarray(np.where(hole[..., None], np.clip(known, 0, 255).round(), image), dtype=np.uint8)


def _halved(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums of 2×2 blocks. Missing values at an odd edge count as zero."""
    high, wide = values.shape[:2]
    even = np.pad(values, ((0, high % 2), (0, wide % 2), (0, 0)))
    return np.asarray(even.reshape(-(-high // 2), 2, -(-wide // 2), 2, -1).sum(axis=(1, 3)))


def _smoothed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.ndimage import uniform_filter

    return np.asarray(uniform_filter(values, (3, 3, 1), mode="nearest"))


def has_ground(cut: Cut, size_wh: tuple[int, int]) -> bool:
    """Return whether enough background is left next to a box to fill it by tiling."""
    (x0, y0, x1, y1), (width, height) = cut, size_wh
    return max(x0, width - x1) >= LEAST_STRIP * width or max(y0, height - y1) >= LEAST_STRIP * height


def _tiled(image: Image, cut: Cut) -> Image:
    """Fill the box with the largest strip of background next to it. The strip is tiled and mirrored to avoid seams."""
    (x0, y0, x1, y1), (height, width) = cut, image.shape[:2]
    areas = (x0 * height, (width - x1) * height, y0 * width, (height - y1) * width)
    out, side = image.copy(), int(np.argmax(areas))
    if not areas[side]:
        out[:] = GREY  # a box as large as its image; ladder_of never creates one
    elif side < 2:
        away = np.arange(x1 - x0) if side == 0 else np.arange(x1 - x0)[::-1]
        step = _mirrored(away, x0 if side == 0 else width - x1)
        out[y0:y1, x0:x1] = image[y0:y1, x0 - 1 - step if side == 0 else x1 + step]
    else:
        away = np.arange(y1 - y0) if side == 2 else np.arange(y1 - y0)[::-1]
        step = _mirrored(away, y0 if side == 2 else height - y1)
        out[y0:y1, x0:x1] = image[y0 - 1 - step if side == 2 else y1 + step, x0:x1]
    return out


def _mirrored(away: NDArray[np.int64], period: int) -> NDArray[np.int64]:
    """Return indices into a strip of this length that run forwards and backwards in turn.

    >>> _mirrored(np.arange(7), 3).tolist()
    [0, 1, 2, 2, 1, 0, 0]
    """
    turn = away % (2 * period)
    return np.where(turn < period, turn, 2 * period - 1 - turn)


def _covering(image: Image, size_wh: tuple[int, int]) -> Image:
    """Resize the image with its aspect ratio kept, and return its centre of that size."""
    from PIL import Image as Pillow

    (width, height), (high, wide) = size_wh, image.shape[:2]
    scale = min(wide / width, high / height)
    across, down = (wide - width * scale) / 2, (high - height * scale) / 2
    box = (max(0.0, across), max(0.0, down), min(float(wide), wide - across), min(float(high), high - down))
    if (wide, high) == (width, height):
        return image
    return np.asarray(Pillow.fromarray(image).resize(size_wh, Pillow.Resampling.BICUBIC, box=box), dtype=np.uint8)
