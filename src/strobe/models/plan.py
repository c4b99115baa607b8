"""A model's preprocessing as plain data: it is printed, stored with the predictions, and applied in one place."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from PIL import Image as PillowImage

from strobe.core.codec import decode, encode
from strobe.core.errors import expect
from strobe.core.ports import Image

_FILTERS = {
    "nearest": PillowImage.Resampling.NEAREST,
    "bilinear": PillowImage.Resampling.BILINEAR,
    "bicubic": PillowImage.Resampling.BICUBIC,
    "lanczos": PillowImage.Resampling.LANCZOS,
    "box": PillowImage.Resampling.BOX,
    "hamming": PillowImage.Resampling.HAMMING,
}

_REACH = {"nearest": 0.5, "bilinear": 1.0, "bicubic": 2.0, "lanczos": 3.0, "box": 0.5, "hamming": 1.0}
"""Each filter's radius, in pixels of the smaller image."""

Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class AsDecoded:
    """The preparation of a model that takes decoded images and does its own preprocessing."""

    bgr: bool = False
    n_bytes: int = 8 << 20
    """Room for a Full HD frame. Larger frames are sent through the socket."""

    def prepare(self, image: Image) -> Image:
        """Return the image, with its channels reversed if the model expects BGR."""
        return image[..., ::-1].copy() if self.bgr else image

    def prepare_input(self, image: Image) -> Image:
        """Return the same as `prepare`, because nothing is resized or cropped here."""
        return self.prepare(image)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """A model's preprocessing: resize, crop and normalise.

    `prepare` resizes and crops 8-bit pixels, and the model's device normalises them. A pixel x becomes
    (x / divide − mean) / std, separately for each channel in RGB order.

    Args:
        size_hw: Height and width of the model's input. The centre of the resized image is cropped to it.
        resize: With `fit="short-side"`, the length of the short side in pixels. None keeps the image's size.
        fit: "short-side" resizes by the short side. "squash" resizes to `resize_hw` and ignores the aspect ratio. "pad"
            scales the image to fit inside `resize_hw`.
        resize_hw: Height and width for "squash" and "pad". Defaults to `size_hw`.
        fill: RGB colour of pixels that the resized image does not cover.
        interpolation: Name of Pillow's resizing filter.
        divide: Number by which 8-bit values are divided before normalisation.
        mean: Mean of each channel.
        std: Standard deviation of each channel.
        channels: Order in which the model expects the channels.

    Raises:
        InvalidValue: If a field is out of range, for example an unknown filter or a zero in `std`.

    >>> plan = ImagePlan(size_hw=(224, 224), resize=256, interpolation="bilinear")
    >>> plan.resized(640, 360)
    (455, 256)
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
        """Return the plan as plain JSON, which is printed, stored with the predictions, and part of their cache key."""
        found: dict[str, Any] = encode(self)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ImagePlan":
        """Return the plan from the output of to_json, or from a hand-written subset of its fields."""
        known = set(cls.__slots__)
        unknown = sorted(set(data) - known)
        expect(not unknown, "preprocessing", f"keys among {', '.join(sorted(known))}", unknown)
        return decode(cls, data, where="preprocessing")

    def prepare(self, image: Image) -> Image:
        """Return the resized and cropped 8-bit image, (height, width, 3). Most of it runs without the interpreter lock.

        >>> import numpy as np
        >>> ImagePlan(size_hw=(4, 4), resize=4).prepare(np.zeros((8, 16, 3), np.uint8)).shape
        (4, 4, 3)
        """
        pixels = np.asarray(self._fitted(image))
        return pixels[:, :, ::-1] if self.channels == "bgr" else pixels

    def prepare_input(self, image: Image) -> Image:
        """Prepare an image that already is a model input.

        It is resized, ignoring aspect ratio, only if its size differs.

        >>> import numpy as np
        >>> plan, image = ImagePlan(size_hw=(4, 4), resize=8), np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
        >>> bool((plan.prepare_input(image) == image).all()), bool((plan.prepare(image) == image).all())
        (True, False)
        """
        return replace(self, fit="squash", resize=None, resize_hw=None).prepare(image)

    def prepare_window(self, image: Image, window: tuple[int, int, int, int]) -> Image:
        """Return a window (top, left, height, width) of the image, resized to the model's input, for training.

        >>> import numpy as np
        >>> ImagePlan(size_hw=(4, 6)).prepare_window(np.zeros((8, 16, 3), np.uint8), (2, 1, 5, 9)).shape
        (4, 6, 3)
        """
        top, left, height, width = window
        picture = PillowImage.fromarray(image[top : top + height, left : left + width])
        pixels = np.asarray(picture.resize(self.size_hw[::-1], _FILTERS[self.interpolation]))
        return pixels[:, :, ::-1] if self.channels == "bgr" else pixels

    def _fitted(self, image: Image) -> PillowImage.Image:
        height, width = self.size_hw
        have_h, have_w = image.shape[:2]
        new_w, new_h = self.resized(have_w, have_h)
        left, top = _centred(new_w, width), _centred(new_h, height)
        same_size = (new_w, new_h) == (have_w, have_h)
        if self.fit == "short-side" and not same_size and new_w >= width and new_h >= height:
            return self._resized_crop(image, (new_w, new_h), (left, top))
        picture = PillowImage.fromarray(image)
        if new_w < width or new_h < height:
            return _pad_to(picture.resize((new_w, new_h), _FILTERS[self.interpolation]), width, height, self.fill)
        if not same_size:
            picture = picture.resize((new_w, new_h), _FILTERS[self.interpolation])
        return picture if picture.size == (width, height) else picture.crop((left, top, left + width, top + height))

    def _resized_crop(self, image: Image, new: tuple[int, int], corner: tuple[int, int]) -> PillowImage.Image:
        """Resize only the region that the crop keeps. The pixels equal those of a crop of the resized image.

        The window grows until its ends fall on whole pixels of both input and output. The filter is then aligned
        exactly as it would be in the full image. The two passes, horizontal then vertical, run separately: Pillow
        chooses their order by the input size, and rounds pixels between them. Pixels that no filter reaches are removed
        before the conversion to a Pillow image, because the conversion copies all pixels.
        """
        (new_w, new_h), (left, top), (height, width) = new, corner, self.size_hw
        filter_ = _FILTERS[self.interpolation]
        x0, x1, from_x, to_x = _whole_window(image.shape[1], new_w, left, width)
        y0, y1, from_y, to_y = _whole_window(image.shape[0], new_h, top, height)
        down = self._reached(image.shape[0], new_h, from_y, to_y)
        # If two pixels are equally near, nearest-neighbour chooses by the origin, so a window could choose the other
        # pixel.
        nearest = self.interpolation == "nearest"
        across = slice(0, image.shape[1]) if nearest else self._reached(image.shape[1], new_w, from_x, to_x)
        rows = down.stop - down.start
        picture = PillowImage.fromarray(image[down, across])
        picture = picture.resize((x1 - x0, rows), filter_, box=(from_x - across.start, 0, to_x - across.start, rows))
        picture = picture.crop((left - x0, 0, left - x0 + width, rows))  # the next pass resizes each column separately
        picture = picture.resize((width, y1 - y0), filter_, box=(0, from_y - down.start, width, to_y - down.start))
        return picture.crop((0, top - y0, width, top - y0 + height))

    def _reached(self, have: int, new: int, begin: int, end: int) -> slice:
        """Return the range of input pixels that the filter reads for outputs `begin` to `end`, with a margin."""
        reach = int(_REACH[self.interpolation] * max(1.0, have / new)) + 3
        return slice(max(0, begin - reach), min(have, end + reach))

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Return the (width, height) of an image of this size after resizing, before the crop."""
        if self.fit == "short-side":
            return short_side(width, height, self.resize) if self.resize else (width, height)
        to_h, to_w = self.resize_hw or self.size_hw
        if self.fit == "squash":
            return to_w, to_h
        ratio = min(to_w / width, to_h / height)
        return max(1, round(width * ratio)), max(1, round(height * ratio))


def _whole_window(have: int, new: int, start: int, length: int) -> tuple[int, int, int, int]:
    """Return the smallest window of `new` pixels whose ends fall on whole pixels of `have`, and its range in `have`.

    >>> _whole_window(640, 455, 115, 224)
    (91, 364, 128, 512)
    """
    divisor = math.gcd(have, new)
    step, stride = new // divisor, have // divisor
    first, last = start // step, min(divisor, -(-(start + length) // step))
    return first * step, last * step, first * stride, last * stride


def short_side(width: int, height: int, target: int) -> tuple[int, int]:
    """Return the (width, height) with `target` as the short side.

    The long side is truncated, as in torchvision's Resize.

    >>> short_side(640, 360, 256)
    (455, 256)
    """
    if width <= height:
        return target, int(target * height / width)
    return int(target * width / height), target


def _centred(have: int, want: int) -> int:
    """Return where a crop begins, rounded like torchvision's CenterCrop."""
    return round((have - want) / 2.0)


def _pad_to(picture: PillowImage.Image, width: int, height: int, fill: tuple[int, int, int]) -> PillowImage.Image:
    canvas = PillowImage.new("RGB", (width, height), fill)
    have_w, have_h = picture.size
    left, top = max(0, _centred(have_w, width)), max(0, _centred(have_h, height))
    part = picture.crop((left, top, left + min(have_w, width), top + min(have_h, height)))
    canvas.paste(part, (max(0, (width - have_w) // 2), max(0, (height - have_h) // 2)))
    return canvas


def as_triple(values: Sequence[float]) -> Triple:
    """Return three floats as a tuple. A single float is repeated."""
    numbers = [float(value) for value in values]
    expect(len(numbers) in (1, 3), "preprocessing.mean/std", "one or three numbers", numbers)
    first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    return first, second, third
