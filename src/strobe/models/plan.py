"""What happens to an image before a model sees it, as data: printed, stored, and carried out in one place."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from PIL import Image as PillowImage

from strobe.core.codec import decode, encode
from strobe.core.errors import expect
from strobe.core.ports import Image

__all__ = ["AsDecoded", "ImagePlan"]

_FILTERS = {
    "nearest": PillowImage.Resampling.NEAREST,
    "bilinear": PillowImage.Resampling.BILINEAR,
    "bicubic": PillowImage.Resampling.BICUBIC,
    "lanczos": PillowImage.Resampling.LANCZOS,
    "box": PillowImage.Resampling.BOX,
    "hamming": PillowImage.Resampling.HAMMING,
}

_REACH = {"nearest": 0.5, "bilinear": 1.0, "bicubic": 2.0, "lanczos": 3.0, "box": 0.5, "hamming": 1.0}
"""How far from a pixel's centre each filter looks, in pixels of the smaller image."""

Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class AsDecoded:
    """The preparation of a model that takes images as they are and does the rest itself."""

    bgr: bool = False
    n_bytes: int = 8 << 20
    """Room for a frame of Full HD; larger ones go another way."""

    def prepare(self, image: Image) -> Image:
        """The image, its channels turned round where the model wants blue first."""
        return image[..., ::-1].copy() if self.bgr else image

    def prepare_input(self, image: Image) -> Image:
        """The same: nothing is resized or cropped here."""
        return self.prepare(image)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """Resize, crop, normalise. `prepare` does the first two on 8-bit pixels, the model's device does the third.

    `fit="short-side"`: the short side becomes `resize` pixels (None: as it is). `fit="squash"`: the image becomes
    `resize_hw`, its shape be what it may. `fit="pad"`: it is made to fit inside `resize_hw`. Then the centre of
    `size_hw` is cut out; what is missing is filled with the colour `fill`. `resize_hw` is `size_hw` where not given.
    A pixel becomes (x / divide − mean) / std, per channel in RGB order.
    """

    size_hw: tuple[int, int]
    resize: int | None = None
    fit: Literal["short-side", "squash", "pad"] = "short-side"
    resize_hw: tuple[int, int] | None = None
    fill: tuple[int, int, int] = (0, 0, 0)
    interpolation: str = "bicubic"
    divide: float = 255.0
    mean: Triple = (0.485, 0.456, 0.406)
    std: Triple = (0.229, 0.224, 0.225)
    channels: Literal["rgb", "bgr"] = "rgb"

    def __post_init__(self) -> None:
        expect(min(self.size_hw) >= 1, "preprocessing.size_hw", ">= 1", self.size_hw)
        expect(
            self.interpolation in _FILTERS,
            "preprocessing.interpolation",
            f"one of {', '.join(_FILTERS)}",
            self.interpolation,
        )
        expect(self.fit in ("short-side", "squash", "pad"), "preprocessing.fit", "short-side, squash or pad", self.fit)
        expect(len(self.mean) == 3 and len(self.std) == 3, "preprocessing.mean/std", "three numbers each", self.mean)
        expect(all(value != 0 for value in self.std), "preprocessing.std", "no zero", self.std)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: what is printed, stored beside the predictions, and part of their key."""
        found: dict[str, Any] = encode(self)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ImagePlan":
        """The plan that to_json wrote, or a hand-written part of one."""
        known = set(cls.__slots__)
        unknown = sorted(set(data) - known)
        expect(not unknown, "preprocessing", f"keys among {', '.join(sorted(known))}", unknown)
        return decode(cls, data, where="preprocessing")

    def prepare(self, image: Image) -> Image:
        """The resized and cropped image, 8 bits, (height, width, 3). Runs without the interpreter lock for the most.

        >>> import numpy as np
        >>> ImagePlan(size_hw=(4, 4), resize=4).prepare(np.zeros((8, 16, 3), np.uint8)).shape
        (4, 4, 3)
        """
        pixels = np.asarray(self._fitted(image))
        return pixels[:, :, ::-1] if self.channels == "bgr" else pixels

    def prepare_input(self, image: Image) -> Image:
        """An image that is a model's own input: squashed to this one's size, as it is where it has that size.

        >>> import numpy as np
        >>> plan, image = ImagePlan(size_hw=(4, 4), resize=8), np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
        >>> bool((plan.prepare_input(image) == image).all()), bool((plan.prepare(image) == image).all())
        (True, False)
        """
        return replace(self, fit="squash", resize=None, resize_hw=None).prepare(image)

    def _fitted(self, image: Image) -> PillowImage.Image:
        height, width = self.size_hw
        have_h, have_w = image.shape[:2]
        new_w, new_h = self.resized(have_w, have_h)
        left, top = _centred(new_w, width), _centred(new_h, height)
        whole = (new_w, new_h) == (have_w, have_h)
        if self.fit == "short-side" and not whole and new_w >= width and new_h >= height:
            return self._resized_crop(image, (new_w, new_h), (left, top))
        picture = PillowImage.fromarray(image)
        if new_w < width or new_h < height:
            return _pad_to(picture.resize((new_w, new_h), _FILTERS[self.interpolation]), width, height, self.fill)
        if not whole:
            picture = picture.resize((new_w, new_h), _FILTERS[self.interpolation])
        return picture if picture.size == (width, height) else picture.crop((left, top, left + width, top + height))

    def _resized_crop(self, image: Image, new: tuple[int, int], corner: tuple[int, int]) -> PillowImage.Image:
        """Resize only what the crop keeps, and a little more: bit for bit the crop of the resized image.

        The window grows to places where input and output coordinates meet in whole numbers, so that the filter sits
        exactly where it would in the whole image. First across, then down, each on its own: Pillow chooses the order
        by the size of its input, and between the two passes pixels are rounded. What no filter reaches is left out
        before the rest becomes an image, which copies it.
        """
        (new_w, new_h), (left, top), (height, width) = new, corner, self.size_hw
        filter_ = _FILTERS[self.interpolation]
        x0, x1, from_x, to_x = _whole_window(image.shape[1], new_w, left, width)
        y0, y1, from_y, to_y = _whole_window(image.shape[0], new_h, top, height)
        down = self._reached(image.shape[0], new_h, from_y, to_y)
        # Of two pixels equally near, which one is the nearest hangs on where counting begins.
        nearest = self.interpolation == "nearest"
        across = slice(0, image.shape[1]) if nearest else self._reached(image.shape[1], new_w, from_x, to_x)
        rows = down.stop - down.start
        picture = PillowImage.fromarray(image[down, across])
        picture = picture.resize((x1 - x0, rows), filter_, box=(from_x - across.start, 0, to_x - across.start, rows))
        picture = picture.crop((left - x0, 0, left - x0 + width, rows))  # columns do not look at each other
        picture = picture.resize((width, y1 - y0), filter_, box=(0, from_y - down.start, width, to_y - down.start))
        return picture.crop((0, top - y0, width, top - y0 + height))

    def _reached(self, have: int, new: int, begin: int, end: int) -> slice:
        """The pixels of a side that the filter looks at for those from `begin` to `end`, and a few more."""
        reach = int(_REACH[self.interpolation] * max(1.0, have / new)) + 3
        return slice(max(0, begin - reach), min(have, end + reach))

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """The (width, height) an image of this size has after resizing, before the crop."""
        if self.fit == "short-side":
            return short_side(width, height, self.resize) if self.resize else (width, height)
        to_h, to_w = self.resize_hw or self.size_hw
        if self.fit == "squash":
            return to_w, to_h
        ratio = min(to_w / width, to_h / height)
        return max(1, round(width * ratio)), max(1, round(height * ratio))


def _whole_window(have: int, new: int, start: int, length: int) -> tuple[int, int, int, int]:
    """The smallest stretch of `new` pixels around the wanted one whose ends fall on whole pixels of `have`, and those.

    >>> _whole_window(640, 455, 115, 224)
    (91, 364, 128, 512)
    """
    divisor = math.gcd(have, new)
    step, stride = new // divisor, have // divisor
    first, last = start // step, min(divisor, -(-(start + length) // step))
    return first * step, last * step, first * stride, last * stride


def short_side(width: int, height: int, target: int) -> tuple[int, int]:
    """The (width, height) whose short side is `target`, the long one truncated, as torchvision's Resize has it.

    >>> short_side(640, 360, 256)
    (455, 256)
    """
    if width <= height:
        return target, int(target * height / width)
    return int(target * width / height), target


def _centred(have: int, want: int) -> int:
    """Where a crop begins, rounded as torchvision's CenterCrop rounds it."""
    return round((have - want) / 2.0)


def _pad_to(picture: PillowImage.Image, width: int, height: int, fill: tuple[int, int, int]) -> PillowImage.Image:
    canvas = PillowImage.new("RGB", (width, height), fill)
    have_w, have_h = picture.size
    left, top = max(0, _centred(have_w, width)), max(0, _centred(have_h, height))
    part = picture.crop((left, top, left + min(have_w, width), top + min(have_h, height)))
    canvas.paste(part, (max(0, (width - have_w) // 2), max(0, (height - have_h) // 2)))
    return canvas


def as_triple(values: Sequence[float]) -> Triple:
    """Three floats as a tuple; a single one is repeated."""
    numbers = [float(value) for value in values]
    expect(len(numbers) in (1, 3), "preprocessing.mean/std", "one or three numbers", numbers)
    first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    return first, second, third
