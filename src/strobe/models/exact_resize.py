"""Resize on a CUDA device, bit-identical to Pillow on the CPU.

Pillow resizes 8-bit images in integer arithmetic, horizontally and then vertically. Its weights have 22 fractional
bits, and each sum is rounded. A 64-bit float holds those sums exactly, so a matrix product gives the same sums in any
order of addition. Before the device is used for a frame size, a noise image of that size is resized on the CPU and on
the device, and the results are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strobe.core.arrays import Floats
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.models.plan import ImagePlan

BITS = 22
"""Pillow's weights are integers in units of 1 / 2**22."""

_LARGEST = 3 << 20
"""Frames with more bytes than this (1280×720 has fewer) are resized on the CPU, because many wait in memory at once."""

_SIZES = 8
"""The maximum number of frame sizes per process that use the device. Each needs setup, and videos have few sizes."""

_SLICE = 32
"""The number of frames resized at once, which keeps device memory below a gigabyte."""


def _bicubic(x: Floats) -> Floats:
    far = (((x - 5) * x + 8) * x - 4) * -0.5
    return np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, far, 0.0))


FILTERS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "bicubic": (_bicubic, 2.0),
    "bilinear": (lambda x: np.where(x < 1, 1.0 - x, 0.0), 1.0),
}
"""Each filter as a function of distance, and its radius."""


@dataclass(frozen=True, slots=True)
class SentPlan:
    """A plan for use in another process (a Preparation). With `on_device`, resizing is left to ExactResize.

    An image of the plan's size is finished. An image of any other size is a decoded frame that must still be resized.
    """

    plan: ImagePlan
    on_device: bool = False
    largest: int = _LARGEST
    _sizes: set[tuple[int, int]] = field(default_factory=set, compare=False, repr=False)

    @property
    def n_bytes(self) -> int:
        """The largest number of bytes that `prepare` returns."""
        return max(self.largest if self.on_device else 0, 3 * self.plan.size_hw[0] * self.plan.size_hw[1])

    def prepare(self, image: Image) -> Image:
        """Return the image prepared by the plan, or unchanged."""
        return image if self.on_device and self._left_to_device(image) else self.plan.prepare(image)

    def prepare_input(self, image: Image) -> Image:
        """Prepare an image that already is a model input. This is done on the CPU at once, because the device would
        crop the image.
        """
        return self.plan.prepare_input(image)

    def _left_to_device(self, image: Image) -> bool:
        have_h, have_w = image.shape[:2]
        able = image.nbytes <= self.largest and _is_resized(self.plan, have_h, have_w)
        if able and len(self._sizes) < _SIZES:
            self._sizes.add((have_h, have_w))
        return able and (have_h, have_w) in self._sizes


def _is_resized(plan: ImagePlan, have_h: int, have_w: int) -> bool:
    """Return whether matrices can express how frames of this size are resized and cropped."""
    (height, width), (new_w, new_h) = plan.size_hw, plan.resized(have_w, have_h)
    able = plan.fit == "short-side" and plan.interpolation in FILTERS and new_w >= width and new_h >= height
    return able and (have_h, have_w) not in ((height, width), (new_h, new_w))


class ExactResize:
    """Resizes frames of any sizes to one 8-bit batch (N, 3, H, W) on the device, with the same pixels as the plan."""

    def __init__(self, plan: ImagePlan, *, device: str) -> None:
        self._torch = require("torch", what="running a model", extra="models")
        self._plan, self._device = plan, device
        self._weights: dict[tuple[int, ...], tuple[tuple[Any, slice], tuple[Any, slice]]] = {}
        self._agrees: dict[tuple[int, ...], bool] = {}

    def __call__(self, frames: Sequence[Image]) -> Any:
        """Return the batch. Frames of the plan's size are finished and only copied."""
        torch = self._torch
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for place, frame in enumerate(frames):
            by_shape.setdefault(frame.shape, []).append(place)
        parts, order = [], []
        for shape, places in by_shape.items():
            for start in range(0, len(places), _SLICE):
                some = places[start : start + _SLICE]
                parts.append(self._same_size([frames[place] for place in some], shape))
                order += some
        batch = torch.cat(parts)
        return batch if len(by_shape) == 1 else batch[torch.from_numpy(np.argsort(order)).to(self._device)]

    def on_device(self, frames: Any) -> Any | None:
        """Return frames on the device, (N, height, width, 3), as a batch. None if the device cannot do it exactly."""
        shape = tuple(frames.shape[1:])
        if not _is_resized(self._plan, shape[0], shape[1]) or not self._is_exact(shape):
            return None
        (_, columns), (_, rows) = self._weights[shape]
        parts = [
            self._summed(frames[start : start + _SLICE, rows, columns].permute(0, 3, 1, 2), shape)
            for start in range(0, len(frames), _SLICE)
        ]
        return self._torch.cat(parts)

    def _same_size(self, frames: list[Image], shape: tuple[int, ...]) -> Any:
        if shape[:2] == self._plan.size_hw:
            return self._copied(frames)
        if not self._is_exact(shape):
            return self._copied([self._plan.prepare(frame) for frame in frames])
        return self._resized(frames, shape)

    def _is_exact(self, shape: tuple[int, ...]) -> bool:
        """Return whether the device gives Pillow's pixels for frames of this shape."""
        if shape not in self._agrees:
            noise = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
            found = self._resized([noise], shape)[0].permute(1, 2, 0).cpu().numpy()
            self._agrees[shape] = bool(np.array_equal(found, self._plan.prepare(noise)))
        return self._agrees[shape]

    def _copied(self, frames: list[Image]) -> Any:
        """Return the frames on the device, (N, 3, H, W)."""
        shape = (len(frames), *frames[0].shape)
        batch = self._torch.empty(shape, dtype=self._torch.uint8, pin_memory=self._device.startswith("cuda"))
        np.stack(frames, out=batch.numpy())
        return batch.to(self._device, non_blocking=True).permute(0, 3, 1, 2)

    def _resized(self, frames: list[Image], shape: tuple[int, ...]) -> Any:
        if shape not in self._weights:
            across, down = crop_weights(self._plan, shape[0], shape[1])
            self._weights[shape] = self._on_device(*across), self._on_device(*down)
        (_, columns), (_, rows) = self._weights[shape]
        return self._summed(self._copied([frame[rows, columns] for frame in frames]), shape)

    def _summed(self, batch: Any, shape: tuple[int, ...]) -> Any:
        """Return the crop (N, 3, H, W) of frames of this shape, computed only from the part that the crop needs."""
        torch = self._torch
        (across, _), (down, _) = self._weights[shape]
        pixels = batch.to(torch.float64, memory_format=torch.contiguous_format)
        pixels = _rounded(torch.matmul(pixels, across.T))
        pixels = _rounded(torch.matmul(down, pixels)).to(torch.uint8)
        return pixels.flip(1) if self._plan.channels == "bgr" else pixels

    def _on_device(self, matrix: Floats, part: slice) -> tuple[Any, slice]:
        return self._torch.from_numpy(matrix).to(self._device), part


def _rounded(sums: Any) -> Any:
    return sums.add_(1 << (BITS - 1)).mul_(2.0**-BITS).floor_().clamp_(0, 255)


def crop_weights(plan: ImagePlan, height: int, width: int) -> tuple[tuple[Floats, slice], tuple[Floats, slice]]:
    """Return the matrices that compute the crop's columns and rows, and the ranges of the frame that these matrices
    read.
    """
    crop_h, crop_w = plan.size_hw
    new_w, new_h = plan.resized(width, height)
    left, top = round((new_w - crop_w) / 2.0), round((new_h - crop_h) / 2.0)
    across = weights(width, new_w, plan.interpolation)[left : left + crop_w]
    down = weights(height, new_h, plan.interpolation)[top : top + crop_h]
    return _needed(across), _needed(down)


def _needed(matrix: Floats) -> tuple[Floats, slice]:
    used = np.flatnonzero(matrix.any(axis=0))
    first, last = int(used[0]) // 8 * 8, int(used[-1]) // 8 * 8 + 8  # a GPU multiplies multiples of eight faster
    part = slice(first, min(last, matrix.shape[1]))
    return np.ascontiguousarray(matrix[:, part]), part


def weights(have: int, new: int, interpolation: str) -> Floats:
    """Return Pillow's integer weight of each of the `have` input pixels in each of the `new` output pixels.

    The result (new, have) has type float and is computed as in Pillow's precompute_coeffs.

    >>> (weights(4, 2, "bilinear") / 2**22).round(3)
    array([[0.429, 0.429, 0.143, 0.   ],
           [0.   , 0.143, 0.429, 0.429]])
    """
    function, reach = FILTERS[interpolation]
    scale = have / new
    stretch = max(scale, 1.0)
    centre = ((np.arange(new) + 0.5) * scale)[:, None]
    first = np.maximum((centre - reach * stretch + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach * stretch + 0.5).astype(np.int64), have)
    x = first + np.arange(int((last - first).max()))
    inside = x < last
    values = np.where(inside, function(np.abs((x - centre + 0.5) * (1.0 / stretch))), 0.0)
    values /= np.cumsum(values, axis=1)[:, -1:]  # sum sequentially, like Pillow
    out = np.zeros((new, have))
    row, tap = np.nonzero(inside)
    out[row, x[row, tap]] = np.trunc(np.copysign(0.5, values) + values * (1 << BITS))[row, tap]
    return out
