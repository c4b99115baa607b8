"""Resize tensors to a model's input as Pillow does, with gradients, for searches in images of another size."""

from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed
from strobe.core.late import require
from strobe.models.exact_resize import BITS, FILTERS, weights
from strobe.models.plan import ImagePlan


class SoftResize:
    """Resizes RGB pixels (N, 3, height, width) in [0, 1] to a plan's input, ignoring the aspect ratio.

    The values are those of `ImagePlan.prepare_input` for the same pixels in 8 bits. The gradient ignores the rounding:
    it is the gradient of the resizing filter, which is linear.
    """

    def __init__(self, plan: ImagePlan, from_hw: tuple[int, int], *, device: str) -> None:
        if plan.interpolation not in FILTERS:
            raise ModelFailed(
                f"its input has the filter {plan.interpolation}, which has no gradients here (known: "
                f"{', '.join(FILTERS)}); use a model whose input has the size of the generator's images"
            )
        torch = require("torch", what="a search", extra="models")
        (height, width), (new_h, new_w) = from_hw, plan.size_hw
        # Integers with 22 fractional bits, as in Pillow. A 64-bit float holds their sums exactly.
        wide = torch.float32 if device.startswith("mps") else torch.float64
        down, across = weights(height, new_h, plan.interpolation), weights(width, new_w, plan.interpolation)
        self._exact = torch.from_numpy(down).to(device, wide), torch.from_numpy(across).to(device, wide)
        self._soft = tuple((one * 2.0**-BITS).to(torch.float32) for one in self._exact)
        self._columns_first = True
        # Pillow chooses the order of its two passes by the size of the image, and rounds between them.
        noise = np.random.default_rng(0).integers(0, 256, (*from_hw, 3), dtype=np.uint8)
        shown = plan.prepare_input(noise)
        expected = torch.from_numpy(np.array(shown[:, :, ::-1] if plan.channels == "bgr" else shown))
        pixels = torch.from_numpy(noise).to(device).permute(2, 0, 1)[None] / 255
        self._columns_first = bool((self._rounded(pixels)[0].permute(1, 2, 0).cpu() == expected).all())

    def __call__(self, pixels: Any) -> Any:
        """Return the resized pixels in [0, 1]."""
        torch = require("torch", what="a search", extra="models")
        with torch.no_grad():
            exact = self._rounded(pixels) / 255
        soft = self.linear(pixels).clamp(0, 1)
        return exact + (soft - soft.detach())

    def linear(self, pixels: Any) -> Any:
        """Return the output of the filter before rounding and clipping. This function is linear."""
        down, across = (one.to(pixels.dtype) for one in self._soft)
        return down @ pixels @ across.T

    def _rounded(self, pixels: Any) -> Any:
        """Return the resized pixels as integers of 0 to 255, float32."""
        torch = require("torch", what="a search", extra="models")
        down, across = self._exact
        levels = (pixels.detach() * 255).round().to(down.dtype)
        if self._columns_first:
            levels = _whole(down @ _whole(levels @ across.T))
        else:
            levels = _whole(_whole(down @ levels) @ across.T)
        return levels.to(torch.float32)


def _whole(sums: Any) -> Any:
    """Return sums of integer weights as 8-bit levels, rounded like Pillow."""
    return ((sums + (1 << (BITS - 1))) * 2.0**-BITS).floor().clamp(0, 255)
