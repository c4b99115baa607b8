"""Resizing whole batches on a device, for frames that were decoded there (kept apart from exact predictions)."""

from typing import Any

from strobe.core.errors import InvalidValue
from strobe.core.late import require
from strobe.models.plan import ImagePlan

__all__ = ["resize_on_device"]

_MODES = ("bilinear", "bicubic")


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
