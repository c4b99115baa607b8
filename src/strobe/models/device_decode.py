"""JPEG files to prepared batches on a CUDA device: nvJPEG decodes (through torchvision), torch resizes.

The pixels differ a little from the exact way's (another inverse transform, another resampler), so predictions made this
way are kept apart: the way of decoding is part of their key.
"""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from strobe.core.errors import InvalidValue, MissingExtra
from strobe.core.late import require
from strobe.models.plan import ImagePlan

__all__ = ["DeviceDecoder", "resize_on_device"]

_MODES = ("bilinear", "bicubic")
_RGB = 3  # torchvision's ImageReadMode


class DeviceDecoder:
    """Decodes and prepares batches of JPEG files."""

    def __init__(self, plan: ImagePlan, *, device: str) -> None:
        self._torch = require("torch", what="decoding on the device", extra="models")
        require("torchvision.io", what="decoding on the device", extra="models")  # registers the operation
        # The operation itself: the function around it warns that it will move to another package one day.
        self._operation: Any = getattr(self._torch.ops.image, "decode_jpegs_cuda", None)
        if self._operation is None:
            raise MissingExtra("decoding on the device", "torchvision with nvJPEG", "models")
        self._plan, self._device = plan, device
        with warnings.catch_warnings():  # torch warns once that it could write to bytes that are not to be written to
            warnings.simplefilter("ignore")
            self._torch.from_numpy(np.frombuffer(b"read", dtype=np.uint8))

    def __call__(self, files: Sequence[bytes]) -> Any:
        """The files decoded and prepared, (N, 3, H, W) 8 bits on the device, in order."""
        for place, content in enumerate(files):
            if bytes(content[:3]) != b"\xff\xd8\xff":
                raise InvalidValue(f"file {place} of the batch: expected a JPEG file to decode on the device")
        encoded = [self._torch.from_numpy(np.frombuffer(content, dtype=np.uint8)) for content in files]
        return self._prepared(self._operation(encoded, _RGB, self._torch.device(self._device)))

    def _prepared(self, images: list[Any]) -> Any:
        torch = self._torch
        by_size: dict[Any, list[int]] = defaultdict(list)
        for place, image in enumerate(images):
            by_size[image.shape].append(place)
        if len(by_size) == 1:  # frames of one video: one launch for all
            return resize_on_device(torch.stack(images), self._plan)
        out = torch.empty((len(images), 3, *self._plan.size_hw), dtype=torch.uint8, device=self._device)
        for places in by_size.values():
            batch = torch.stack([images[place] for place in places])
            out[torch.tensor(places, device=self._device)] = resize_on_device(batch, self._plan)
        return out


def resize_on_device(batch: Any, plan: ImagePlan) -> Any:
    """Resize and crop a batch (N, 3, H, W) of 8-bit pixels as the plan says, with torch's antialiased filters."""
    torch = require("torch", what="decoding on the device", extra="models")
    if plan.interpolation not in _MODES:
        raise InvalidValue(f"decoding on the device cannot do {plan.interpolation} resizing; use --decode cpu")
    height, width = plan.size_hw
    have_h, have_w = batch.shape[-2:]
    new_w, new_h = plan.resized(have_w, have_h)
    if new_w < width or new_h < height:
        raise InvalidValue("decoding on the device cannot pad frames smaller than the model's input; use --decode cpu")
    left, top = round((new_w - width) / 2.0), round((new_h - height) / 2.0)
    pixels = batch
    if (new_h, new_w) != (have_h, have_w):
        # Half precision holds 8-bit values exactly and halves the traffic; the filter sums in single precision.
        pixels = torch.nn.functional.interpolate(
            batch.to(torch.float16), size=(new_h, new_w), mode=plan.interpolation, antialias=True, align_corners=False
        )
    pixels = pixels[:, :, top : top + height, left : left + width]
    if plan.channels == "bgr":
        pixels = pixels.flip(1)
    return pixels.round().clamp(0, 255).to(torch.uint8) if pixels.is_floating_point() else pixels.contiguous()
