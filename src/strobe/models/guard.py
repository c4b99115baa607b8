"""Wrap a third-party model in the full port: fill in optional attributes, and keep its errors from ending the run."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, printable
from strobe.core.ports import EncodedClassifier, Image, Preparation
from strobe.core.records import ModelSpec
from strobe.models.own_imports import MODULE
from strobe.models.plan import AsDecoded
from strobe.models.plugin_files import raising


class FunctionClassifier:
    """A plain function of images, behind the Classifier port."""

    device, lanes, preparation = "cpu", 1, AsDecoded()

    def __init__(self, function: Callable[[list[Image]], Any], spec: ModelSpec) -> None:
        self.spec = spec
        self._function = function

    def prepare(self, image: Image) -> Image:
        """Return the image unchanged, because the function does its own preprocessing."""
        return image

    def prepare_input(self, image: Image) -> Image:
        """Return the image unchanged."""
        return image

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return the function's output as an array."""
        scores = self._function(list(prepared))
        if hasattr(scores, "detach"):
            scores = scores.detach().float().cpu().numpy()
        return np.asarray(scores, dtype=np.float32)


class GuardedModel:
    """A model from a user's file behind the full port. Its errors name the line in the file and do not end the run.

    This is the only place that defines the defaults for a model without `device`, `lanes` or `preparation`.
    """

    def __init__(self, model: Any, path: Path | None, spec: ModelSpec) -> None:
        self.spec = spec
        self.device, self.lanes = str(getattr(model, "device", "cpu")), int(getattr(model, "lanes", 1))
        self.preparation: Preparation | None = _sendable(getattr(model, "preparation", None))
        self._model, self._path = model, path

    def prepare(self, image: Image) -> Any:
        """Call the model's `prepare`."""
        with raising(self._path):
            return self._model.prepare(image)

    def prepare_input(self, image: Image) -> Any:
        """Call the model's `prepare_input`.

        If the model has none, raise an error, because `prepare` might resize or crop the image.
        """
        if not hasattr(self._model, "prepare_input"):
            raise ModelFailed(
                f"{printable(self.spec.name)}: these frames are model inputs, which must not be resized or cropped, "
                "but the model has no prepare_input(image); add one, see docs/models.md"
            )
        with raising(self._path):
            return self._model.prepare_input(image)

    def forward(self, prepared: Sequence[Any]) -> Any:
        """Call the model's `forward`."""
        with raising(self._path):
            return self._model.forward(prepared)


class _GuardedEncoded(GuardedModel):
    """The same wrapper for a model that decodes on its own device."""

    def prepare_encoded(self, files: Sequence[bytes]) -> Sequence[Any]:
        with raising(self._path):
            decoded: Sequence[Any] = self._model.prepare_encoded(files)
            return decoded


class _GuardedGradients(GuardedModel):
    """The same wrapper for a model that has gradients."""

    @property
    def input_hw(self) -> tuple[int, int] | None:
        height_width: tuple[int, int] | None = self._model.input_hw
        return height_width

    def input_pixels(self, image: Image) -> Image:
        with raising(self._path):
            pixels: Image = self._model.input_pixels(image)
            return pixels

    def input_scores(self, pixels: Any) -> Any:
        with raising(self._path):
            return self._model.input_scores(pixels)


class _GuardedBoth(_GuardedEncoded, _GuardedGradients):
    """The same wrapper for a model that decodes on its device and has gradients, as strobe's torch classifiers do."""


_GUARDS = {
    (False, False): GuardedModel, (True, False): _GuardedEncoded, (False, True): _GuardedGradients,
    (True, True): _GuardedBoth,
}  # fmt: skip
"""Wrappers by whether a model decodes, and whether it has gradients."""


def _sendable(preparation: Preparation | None) -> Preparation | None:
    """Return the preparation; None if another process cannot unpickle it, as for a class defined in the user's file."""
    try:
        return None if MODULE.encode() in pickle.dumps(preparation) else preparation
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def guarded(made: Any, path: Path | None, spec: ModelSpec) -> GuardedModel:
    """Return the model behind the full port with this spec. `path` is its file, if it has one."""
    return _GUARDS[isinstance(made, EncodedClassifier), _has_gradients(made)](made, path, spec)


def _has_gradients(made: Any) -> bool:
    return all(hasattr(made, part) for part in ("input_hw", "input_pixels", "input_scores"))


def is_module(thing: object) -> bool:
    """Return whether this is a torch module, without importing torch.

    >>> is_module(print)
    False
    """
    return any(
        cls.__module__.startswith("torch.nn.modules") and cls.__name__ == "Module" for cls in type(thing).__mro__
    )


def probe_image() -> Image:
    """Return a test image of smooth noise, 240 × 320."""
    from PIL import Image as Pillow

    small = np.random.default_rng(0).integers(0, 256, (15, 20, 3), dtype=np.uint8)
    return np.asarray(Pillow.fromarray(small).resize((320, 240), Pillow.Resampling.BICUBIC))
