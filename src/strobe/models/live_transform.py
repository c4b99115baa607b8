"""Check a user's image transform before use: it must return a tensor, and equal tensors for the same image."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.core.errors import ModelFailed, StrobeError, expect, printable
from strobe.core.ports import Image
from strobe.models.guard import probe_image
from strobe.models.plan import ImagePlan

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_TRIES = 6
"""How often a transform is tried on one image, to detect randomness."""


class Transform:
    """A user's transform of PIL images, used as the preparation of a torch classifier."""

    input_plan = None

    def __init__(self, function: Callable[[Any], Any], name: str) -> None:
        self._function, self._name = function, name

    def prepare(self, image: Image) -> NDArray[np.float32]:
        """Return the transformed image, (3, height, width)."""
        output = self._function(PillowImage.fromarray(image))
        if isinstance(output, Mapping) and "pixel_values" in output:  # a transformers image processor
            output = output["pixel_values"][0]
        if hasattr(output, "detach"):
            output = output.detach().cpu().numpy()
        pixels = np.asarray(output)
        if pixels.ndim == 4 and len(pixels) == 1:
            pixels = pixels[0]
        if pixels.ndim != 3 or pixels.dtype.kind not in "fiu":
            raise ModelFailed(
                f"{self._name}: transform returned {type(output).__name__} of shape {pixels.shape}, expected a tensor "
                "(3, height, width); does it end with ToTensor or ToDtype?"
            )
        return pixels.astype(np.float32, copy=False)

    def prepare_input(self, image: Image) -> NDArray[np.float32]:  # noqa: ARG002 (the port's signature)
        """Raise an error, because a transform does not declare whether it resizes or crops."""
        raise ModelFailed(
            f"{self._name}: these frames are model inputs, which must not be resized or cropped, and transform does "
            f"not declare whether it resizes or crops; pass a strobe.ImagePlan instead"
        )


def transform_of(transform: Any, name: str) -> tuple[ImagePlan | Transform, dict[str, Any]]:
    """Return the preprocessing, and facts about it that are not in the plan."""
    if isinstance(transform, ImagePlan):
        return transform, {}
    expect(callable(transform), f"{name}: transform", "a function of PIL images, or an ImagePlan", transform)
    plan = Transform(transform, name)
    _not_random(plan, name)
    return plan, {"transform": printable(_ADDRESS.sub("", repr(transform)), limit=600)}


def as_floats(plan: ImagePlan | Transform, image: Image) -> NDArray[np.float32]:
    """Return the image as a network input, (3, height, width), normalised."""
    prepared: NDArray[Any] = plan.prepare(image)
    if isinstance(plan, ImagePlan):
        prepared = ((prepared / plan.divide - np.array(plan.mean)) / np.array(plan.std)).transpose(2, 0, 1)
    return np.ascontiguousarray(prepared, dtype=np.float32)


def _not_random(plan: Transform, name: str) -> None:
    first = tried(plan.prepare, name, what="transform")
    for _ in range(_TRIES - 1):
        again = tried(plan.prepare, name, what="transform")
        if again.shape != first.shape or not np.array_equal(first, again, equal_nan=True):
            raise ModelFailed(
                f"{name}: transform returns a different tensor for the same image each time (random augmentation?); "
                "pass the evaluation transform"
            )


def tried(function: Callable[[Image], Any], name: str, *, what: str = "it") -> Any:
    """Return the function's output for a test image. Raises a one-line error if it fails."""
    try:
        return function(probe_image())
    except StrobeError:
        raise
    except Exception as error:
        how = "; do transform and model match?" if what == "it" else ""
        raise ModelFailed(
            f"{name}: {what} failed on a test image ({type(error).__name__}: {printable(error, limit=160)}){how}"
        ) from error


class BatchFunction:
    """Turns a function of a batch into a function of images, which first applies the transform to each image."""

    def __init__(self, function: Callable[[Any], Any], plan: ImagePlan | Transform) -> None:
        self._function, self._plan = function, plan

    def __call__(self, images: Sequence[Image]) -> Any:
        """Return the function's output for these images."""
        import torch

        batch = torch.from_numpy(np.stack([as_floats(self._plan, image) for image in images]))
        with torch.inference_mode():
            return self._function(batch)
