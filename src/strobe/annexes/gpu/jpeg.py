"""Turn JPEG files into prepared batches on a CUDA device: nvJPEG decodes them, and matrix products resize them.

The pixels differ slightly from exact decoding (a different inverse DCT, coarser weights). The decoding method is part
of the cache key, so these predictions are cached separately.
"""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.gpu.nvjpeg import engines
from strobe.core.errors import InvalidValue, MissingExtra
from strobe.core.late import require
from strobe.models.exact_resize import BITS, FILTERS, crop_weights
from strobe.models.options import ImageDecoder
from strobe.models.plan import ImagePlan

_READ_RGB = 3  # torchvision's ImageReadMode


class DeviceDecoder:
    """Decodes and prepares batches of JPEG files, for any number of threads, each in its current stream."""

    def __init__(self, plan: ImagePlan, *, device: str) -> None:
        self._torch = require("torch", what="decoding on the device", extra="models")
        require("torchvision.io", what="decoding on the device", extra="models")  # registers the operation
        # Call the operation directly, because its Python wrapper warns that it will move to another package.
        self._operation: Any = getattr(self._torch.ops.image, "decode_jpegs_cuda", None)
        if self._operation is None:
            raise MissingExtra("decoding on the device", "torchvision with nvJPEG", "models")
        self._device, self._resize, self._engines = device, DeviceResize(plan, device=device), engines(device)
        with warnings.catch_warnings():  # torch warns once about read-only bytes
            warnings.simplefilter("ignore")
            self._torch.from_numpy(np.frombuffer(b"read", dtype=np.uint8))

    def __call__(self, files: Sequence[bytes]) -> Any:
        """Return the files decoded and prepared, (N, 3, H, W) 8 bits on the device, in order. Waits for completion."""
        read = [np.frombuffer(content, dtype=np.uint8) for content in files]
        if self._engines is not None:
            with self._engines.lent() as engine:
                try:
                    return self._prepared(engine(read, self._device))
                except OSError:  # the engines cannot decode some of these files
                    pass
        return self._prepared(self._by_torchvision(read))

    def _by_torchvision(self, files: list[NDArray[np.uint8]]) -> dict[tuple[int, int], tuple[list[int], Any]]:
        torch, by_size = self._torch, defaultdict(list)
        images = self._operation([torch.from_numpy(file) for file in files], _READ_RGB, torch.device(self._device))
        for index, image in enumerate(images):
            by_size[tuple(image.shape[-2:])].append(index)
        return {size: (places, torch.stack([images[n] for n in places])) for size, places in by_size.items()}

    def _prepared(self, decoded: dict[tuple[int, int], tuple[list[int], Any]]) -> Any:
        torch = self._torch
        parts = [self._resize(batch) for _, batch in decoded.values()]
        batch = parts[0]
        if len(parts) > 1:
            order = np.argsort([place for places, _ in decoded.values() for place in places])
            batch = torch.cat(parts)[torch.from_numpy(order).to(self._device)]
        done = torch.cuda.Event(blocking=True)  # a blocking wait sleeps; the default wait keeps a core busy
        done.record()
        done.synchronize()
        return batch


class DeviceResize:
    """Resizes and crops 8-bit batches by the plan, with Pillow's weights in half precision. Only rounding differs."""

    def __init__(self, plan: ImagePlan, *, device: str) -> None:
        if plan.interpolation not in FILTERS:
            raise InvalidValue(f"decoding on the device cannot do {plan.interpolation} resizing; use <<decode=cpu>>")
        self._torch = require("torch", what="decoding on the device", extra="models")
        self._plan, self._device = plan, device
        # Half precision holds 8-bit values exactly. Sums are in single precision.
        self._dtype = self._torch.float16 if device.startswith("cuda") else self._torch.float32
        self._weights: dict[tuple[int, int], tuple[Any, slice, Any, slice]] = {}

    def __call__(self, batch: Any) -> Any:
        """Resize (N, 3, H, W), 8 bits, to the plan's size."""
        have_h, have_w = batch.shape[-2:]
        if (have_h, have_w) not in self._weights:
            self._weights[have_h, have_w] = self._weights_for(have_h, have_w)
        across, columns, down, rows = self._weights[have_h, have_w]
        pixels = batch[:, :, rows, columns].to(self._dtype)
        pixels = (down @ (pixels @ across)).round_().clamp_(0, 255).to(self._torch.uint8)
        return pixels.flip(1) if self._plan.channels == "bgr" else pixels

    def _weights_for(self, height: int, width: int) -> tuple[Any, slice, Any, slice]:
        need_h, need_w = self._plan.size_hw
        new_w, new_h = self._plan.resized(width, height)
        if new_w < need_w or new_h < need_h:
            raise InvalidValue(
                "decoding on the device cannot pad frames smaller than the model's input; use <<decode=cpu>>"
            )
        (across, columns), (down, rows) = crop_weights(self._plan, height, width)
        made = [np.ascontiguousarray(one / (1 << BITS)) for one in (across.T, down)]
        on_device = [self._torch.from_numpy(one).to(self._dtype).to(self._device) for one in made]
        if self._device.startswith("cuda"):
            self._torch.cuda.current_stream().synchronize()  # other threads use these weights in their own streams
        return on_device[0], columns, on_device[1], rows


DECODER = ImageDecoder(version="device-2", make=lambda plan, device: DeviceDecoder(plan, device=device))
