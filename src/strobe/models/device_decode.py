"""JPEG files to prepared batches on a CUDA device (nvJPEG through torchvision).

The pixels differ a little from the CPU's (another inverse transform, another resampler), so predictions made this way
are kept apart: the way of decoding is part of their key.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from strobe.core.errors import InvalidValue
from strobe.core.late import require
from strobe.models.plan import ImagePlan

__all__ = ["decode_batch", "resize_on_device"]


def decode_batch(files: Sequence[bytes], plan: ImagePlan, *, device: str) -> Any:
    """The files decoded and prepared, (N, 3, H, W) 8 bits on the device, in order."""
    torch = require("torch", what="decoding on the device", extra="models")
    io = require("torchvision.io", what="decoding on the device", extra="models")
    for place, content in enumerate(files):
        if content[:3] != b"\xff\xd8\xff":
            raise InvalidValue(f"file {place} of the batch: expected a JPEG file to decode on the device")
    encoded = [torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy()) for content in files]
    images = io.decode_jpeg(encoded, mode=io.ImageReadMode.RGB, device=device)
    by_size: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, image in enumerate(images):
        by_size[image.shape[1], image.shape[2]].append(place)
    if len(by_size) == 1:  # frames of one video: one launch for all
        return resize_on_device(torch.stack(images), plan)
    out = torch.empty((len(images), 3, *plan.size_hw), dtype=torch.uint8, device=device)
    for places in by_size.values():
        out[torch.tensor(places, device=device)] = resize_on_device(torch.stack([images[i] for i in places]), plan)
    return out


def resize_on_device(batch: Any, plan: ImagePlan) -> Any:
    """Resize and crop a batch (N, 3, H, W) of 8-bit pixels as the plan says, with torch's antialiased filters."""
    torch = require("torch", what="decoding on the device", extra="models")
    if plan.interpolation not in ("bilinear", "bicubic"):
        raise InvalidValue(f"decoding on the device cannot do {plan.interpolation} resizing; use --decode cpu")
    height, width = plan.size_hw
    have_h, have_w = batch.shape[-2:]
    new_w, new_h = plan.resized(have_w, have_h)
    if new_w < width or new_h < height:
        raise InvalidValue("decoding on the device cannot pad frames smaller than the model's input; use --decode cpu")
    left, top = round((new_w - width) / 2.0), round((new_h - height) / 2.0)
    pixels = batch
    if (new_h, new_w) != (have_h, have_w):
        pixels = torch.nn.functional.interpolate(
            batch.to(torch.float32), size=(new_h, new_w), mode=plan.interpolation, antialias=True, align_corners=False
        )
    pixels = pixels[:, :, top : top + height, left : left + width]
    if plan.channels == "bgr":
        pixels = pixels.flip(1)
    return pixels.round().clamp(0, 255).to(torch.uint8) if pixels.is_floating_point() else pixels.contiguous()
