"""What transformers' two adapters share: image processors as plain JSON, and loading without bars."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from strobe.core.late import require
from strobe.core.ports import Image
from strobe.models.options import LoadOptions

__all__ = ["described", "no_bars", "plain", "through"]


def through(processor: Any, image: Image, *, tensors: str) -> Any:
    """One image through the processor, (3, H, W): `tensors` is np or pt."""
    pixels = image if image.flags.writeable else image.copy()  # torch warns of pixels it may not write to
    return processor(images=pixels, return_tensors=tensors, input_data_format="channels_last")["pixel_values"][0]


def described(processor: Any, keys: Sequence[str]) -> dict[str, Any]:
    """What the processor says it does, as plain JSON."""
    settings = processor.to_dict()
    return {key: plain(settings[key]) for key in keys if settings.get(key) is not None}


def plain(value: Any) -> Any:
    """The library's own kinds of dict, tuple and enum as plain JSON."""
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
    """While open, the library draws no bar of its own over the loading; that of a download stays where bars are."""
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
