"""Shared code of the two transformers adapters: image processors as plain JSON, and loading without progress bars."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.core.late import require
from strobe.core.ports import Image
from strobe.models.options import LoadOptions
from strobe.models.plan import ImagePlan, as_triple


class ProcessorPreparation:
    """An image processor as a classifier's preparation."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def prepare(self, image: Image) -> NDArray[np.float32]:
        """Return the processor's output for the image, (3, height, width)."""
        return np.ascontiguousarray(through(self._processor, image, tensors="np"), dtype=np.float32)

    def prepare_input(self, image: Image) -> NDArray[np.float32]:
        """Resize a model input to the processor's size, ignoring aspect ratio, and normalise it."""
        size_hw = self._size_hw
        if size_hw not in (None, image.shape[:2]):
            squashed = ImagePlan(size_hw=size_hw, fit="squash", interpolation=self._interpolation)
            image = squashed.prepare(image)
        pixels = through(self._processor, image, tensors="np", sized=False)
        return np.ascontiguousarray(pixels, dtype=np.float32)

    @property
    def input_plan(self) -> ImagePlan | None:
        """Return a plan for pixels that already have the processor's size.

        None if that size is not fixed, or if the processor does more than normalise.
        """
        processor, size_hw = self._processor, self._size_hw
        shifted, mean, std = (getattr(processor, name, None) for name in ("do_normalize", "image_mean", "image_std"))
        if size_hw is None or (shifted and (mean is None or std is None)):
            return None
        return ImagePlan(
            size_hw=size_hw,
            fit="squash",
            divide=1 / processor.rescale_factor if getattr(processor, "do_rescale", False) else 1.0,
            mean=as_triple(plain(mean)) if shifted else (0.0, 0.0, 0.0),
            std=as_triple(plain(std)) if shifted else (1.0, 1.0, 1.0),
        )

    @cached_property
    def _size_hw(self) -> tuple[int, int] | None:
        """Return the processor's output size. None if it depends on the input."""
        blank = [np.zeros((*size, 3), dtype=np.uint8) for size in ((96, 96), (96, 160))]
        found = {self.prepare(image).shape[1:] for image in blank}
        return found.pop() if len(found) == 1 else None

    @property
    def _interpolation(self) -> str:
        """Return the name of the filter the processor resizes with."""
        number = getattr(self._processor, "resample", None)
        return PillowImage.Resampling(2 if number is None else int(number)).name.lower()


def through(processor: Any, image: Image, *, tensors: str, sized: bool = True) -> Any:
    """Run one image through the processor, (3, H, W). `tensors` is np or pt.

    With `sized=False`, it neither resizes nor crops.
    """
    pixels = image if image.flags.writeable else image.copy()  # torch warns about read-only pixels
    how = {} if sized else {"do_resize": False, "do_center_crop": False}
    said = processor(images=pixels, return_tensors=tensors, input_data_format="channels_last", **how)
    return said["pixel_values"][0]


def described(processor: Any, keys: Sequence[str]) -> dict[str, Any]:
    """Return the processor's settings as plain JSON."""
    settings = processor.to_dict()
    return {key: plain(settings[key]) for key in keys if settings.get(key) is not None}


def plain(value: Any) -> Any:
    """Convert the library's dict, tuple and enum types to plain JSON."""
    if isinstance(value, str | int | float | bool | None):
        return getattr(value, "value", value)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    try:
        return {str(key): plain(one) for key, one in dict(value).items() if one is not None}
    except (TypeError, ValueError):
        return getattr(value, "value", str(value))


@contextmanager
def no_bars(library: Any, options: LoadOptions) -> Iterator[None]:
    """While the context is open, hide the library's loading bar. Download bars stay if progress bars are enabled."""
    bars = library.utils.logging
    were = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    if were and options.progress is not None:
        require("huggingface_hub.utils", what="hf models", extra="hf").enable_progress_bars()
    try:
        yield
    finally:
        if were:
            bars.enable_progress_bar()
