"""Somebody else's model behind the whole port: what it does not say is filled in, and its errors end no run."""

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

__all__ = ["FunctionClassifier", "GuardedModel", "guarded"]


class FunctionClassifier:
    """A plain function over images, behind the Classifier port."""

    device, lanes, preparation = "cpu", 1, AsDecoded()

    def __init__(self, function: Callable[[list[Image]], Any], spec: ModelSpec) -> None:
        self.spec = spec
        self._function = function

    def prepare(self, image: Image) -> Image:
        """The image as it is: the function owns its preprocessing."""
        return image

    def prepare_input(self, image: Image) -> Image:
        """The image as it is."""
        return image

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """What the function says, as an array."""
        scores = self._function(list(prepared))
        if hasattr(scores, "detach"):
            scores = scores.detach().float().cpu().numpy()
        return np.asarray(scores, dtype=np.float32)


class GuardedModel:
    """A model from somebody's file behind the whole port: its errors carry the line of the file and end no run.

    Here, and nowhere else, stands what is taken of a model that says neither device, lanes nor preparation.
    """

    def __init__(self, model: Any, path: Path | None, spec: ModelSpec) -> None:
        self.spec = spec
        self.device, self.lanes = str(getattr(model, "device", "cpu")), int(getattr(model, "lanes", 1))
        self.preparation: Preparation | None = _sendable(getattr(model, "preparation", None))
        self._model, self._path = model, path

    def prepare(self, image: Image) -> Any:
        """The model's own."""
        with raising(self._path):
            return self._model.prepare(image)

    def prepare_input(self, image: Image) -> Any:
        """The model's own; a model without it cannot say that it would neither resize nor crop."""
        if not hasattr(self._model, "prepare_input"):
            raise ModelFailed(
                f"{printable(self.spec.name)}: these frames are a model's own input, to be neither resized nor "
                "cropped: give it prepare_input(image) beside prepare; see docs/models.md"
            )
        with raising(self._path):
            return self._model.prepare_input(image)

    def forward(self, prepared: Sequence[Any]) -> Any:
        """The model's own."""
        with raising(self._path):
            return self._model.forward(prepared)


class _GuardedEncoded(GuardedModel):
    """The same for a model that decodes on its own device."""

    def prepare_encoded(self, files: Sequence[bytes]) -> Sequence[Any]:
        with raising(self._path):
            decoded: Sequence[Any] = self._model.prepare_encoded(files)
            return decoded


class _GuardedGradients(GuardedModel):
    """The same for a model that has gradients."""

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
    """And for one that does both, as every classifier of torch here."""


_GUARDS = {
    (False, False): GuardedModel, (True, False): _GuardedEncoded, (False, True): _GuardedGradients,
    (True, True): _GuardedBoth,
}  # fmt: skip
"""By whether a model decodes, and whether it has gradients."""


def _sendable(preparation: Preparation | None) -> Preparation | None:
    """The preparation, unless another process could not make sense of it: one of a class of the file's own."""
    try:
        return None if MODULE.encode() in pickle.dumps(preparation) else preparation
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def guarded(made: Any, path: Path | None, spec: ModelSpec) -> GuardedModel:
    """The model behind the whole port, under this spec; `path` is the file it comes from, if it does."""
    return _GUARDS[isinstance(made, EncodedClassifier), _has_gradients(made)](made, path, spec)


def _has_gradients(made: Any) -> bool:
    return all(hasattr(made, part) for part in ("input_hw", "input_pixels", "input_scores"))
