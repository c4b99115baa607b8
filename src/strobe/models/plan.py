"""What happens to an image before a model sees it, as data: printed, stored, and carried out in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from PIL import Image as PillowImage

from strobe.core.errors import expect
from strobe.core.ports import Image

__all__ = ["ImagePlan"]

_FILTERS = {
    "nearest": PillowImage.Resampling.NEAREST,
    "bilinear": PillowImage.Resampling.BILINEAR,
    "bicubic": PillowImage.Resampling.BICUBIC,
    "lanczos": PillowImage.Resampling.LANCZOS,
    "box": PillowImage.Resampling.BOX,
    "hamming": PillowImage.Resampling.HAMMING,
}

Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """Resize, crop, normalise. `prepare` does the first two on 8-bit pixels, the model's device does the third.

    `resize` is the short side in pixels (`fit="short-side"`, then a centre crop of `size_hw`), or None to go to
    `size_hw` at once (`fit="squash"`), or to fit inside it with black borders (`fit="pad"`).
    A pixel becomes (x / divide − mean) / std, per channel in RGB order.
    """

    size_hw: tuple[int, int]
    resize: int | None = None
    fit: Literal["short-side", "squash", "pad"] = "short-side"
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
        return {
            "size_hw": list(self.size_hw),
            "resize": self.resize,
            "fit": self.fit,
            "interpolation": self.interpolation,
            "divide": self.divide,
            "mean": list(self.mean),
            "std": list(self.std),
            "channels": self.channels,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ImagePlan":
        """The plan that to_json wrote, or a hand-written part of one."""
        known = {"size_hw", "resize", "fit", "interpolation", "divide", "mean", "std", "channels"}
        unknown = sorted(set(data) - known)
        expect(not unknown, "preprocessing", f"keys among {', '.join(sorted(known))}", unknown)
        expect("size_hw" in data, "preprocessing", "size_hw", sorted(data))
        kept = dict(data)
        for name in ("size_hw", "mean", "std"):
            if name in kept:
                kept[name] = tuple(kept[name])
        return cls(**kept)

    def prepare(self, image: Image) -> Image:
        """The resized and cropped image, 8 bits, (height, width, 3). Runs without the interpreter lock for the most.

        >>> import numpy as np
        >>> ImagePlan(size_hw=(4, 4), resize=4).prepare(np.zeros((8, 16, 3), np.uint8)).shape
        (4, 4, 3)
        """
        height, width = self.size_hw
        filter_ = _FILTERS[self.interpolation]
        picture = PillowImage.fromarray(image)
        if self.fit == "squash":
            done = picture if picture.size == (width, height) else picture.resize((width, height), filter_)
        elif self.fit == "pad":
            done = self._padded(picture)
        else:
            done = self._cropped(picture)
        pixels = np.asarray(done)
        return pixels[:, :, ::-1] if self.channels == "bgr" else pixels

    def _cropped(self, picture: PillowImage.Image) -> PillowImage.Image:
        height, width = self.size_hw
        have_w, have_h = picture.size
        new_w, new_h = short_side(have_w, have_h, self.resize) if self.resize else (have_w, have_h)
        # torchvision's CenterCrop rounds the offset so, and pads with black where the image is too small.
        left, top = round((new_w - width) / 2.0), round((new_h - height) / 2.0)
        if new_w < width or new_h < height:
            return _pad_to(picture.resize((new_w, new_h), _FILTERS[self.interpolation]), width, height)
        if (new_w, new_h) == (have_w, have_h):
            return picture.crop((left, top, left + width, top + height))
        # Resize only what the crop keeps: the same filter at the same places, at half the work for wide frames.
        box = (
            left * have_w / new_w,
            top * have_h / new_h,
            (left + width) * have_w / new_w,
            (top + height) * have_h / new_h,
        )
        return picture.resize((width, height), _FILTERS[self.interpolation], box=box)

    def _padded(self, picture: PillowImage.Image) -> PillowImage.Image:
        height, width = self.size_hw
        have_w, have_h = picture.size
        ratio = min(width / have_w, height / have_h)
        new = max(1, round(have_w * ratio)), max(1, round(have_h * ratio))
        return _pad_to(picture.resize(new, _FILTERS[self.interpolation]), width, height)


def short_side(width: int, height: int, target: int) -> tuple[int, int]:
    """The (width, height) whose short side is `target`, the long one truncated, as torchvision's Resize has it.

    >>> short_side(640, 360, 256)
    (455, 256)
    """
    if width <= height:
        return target, int(target * height / width)
    return int(target * width / height), target


def _pad_to(picture: PillowImage.Image, width: int, height: int) -> PillowImage.Image:
    canvas = PillowImage.new("RGB", (width, height))
    have_w, have_h = picture.size
    cut_left, cut_top = max(0, round((have_w - width) / 2.0)), max(0, round((have_h - height) / 2.0))
    part = picture.crop((cut_left, cut_top, cut_left + min(have_w, width), cut_top + min(have_h, height)))
    canvas.paste(part, (max(0, (width - have_w) // 2), max(0, (height - have_h) // 2)))
    return canvas


def as_triple(values: Sequence[float]) -> Triple:
    """Three floats as a tuple; a single one is repeated."""
    numbers = [float(value) for value in values]
    expect(len(numbers) in (1, 3), "preprocessing.mean/std", "one or three numbers", numbers)
    first, second, third = numbers * 3 if len(numbers) == 1 else numbers
    return first, second, third
