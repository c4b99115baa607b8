"""A model of your own from one Python file: `py:FILE.py:FACTORY`.

The factory takes no argument, or the LoadOptions (with the file after @ as `weights`). It returns

- a pair `(function, classes)`: the function takes a list of RGB images (height, width, 3) of 8 bits and returns scores
  (N, len(classes)); or
- an object with `spec`, `prepare` and `forward` as the Classifier or Detector port has them. `device`, `lanes` and
  `preparation` may be there too: without them it is taken to run on the CPU, once at a time, and to prepare by itself;
  and `prepare_input`, without which it answers no frames that are a model's own input. With `input_hw`, `input_pixels`
  and `input_scores` as the Differentiable port has them it can be attacked.

The file runs with your rights, like any script you start. What it raises, or an exit it calls for, becomes this model's
failure, with the line of the file; what it prints goes to stderr, because stdout is the command's own.
"""

import hashlib
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, printable
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Classifier, Detector, EncodedClassifier, Image, Preparation
from strobe.core.records import ModelSpec
from strobe.models.options import LoadOptions, ModelName, require_file
from strobe.models.plan import AsDecoded
from strobe.models.plugin_files import MODULE, made_by_file, raising

__all__ = ["FunctionClassifier", "GuardedModel", "load"]


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

    def __init__(self, model: Any, path: Path, spec: ModelSpec) -> None:
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


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """The model the factory makes. Its name is FILE.py:FACTORY; `@weights` reaches the factory through its options."""
    name, told = printable(model.plain), made_by_file(model, options)
    made, path, options, hears = told.made, told.path, told.options, told.hears
    is_function = isinstance(made, tuple) and len(made) == 2 and callable(made[0])
    if is_function:
        made = FunctionClassifier(made[0], _spec(model, path, made[1], options))
    elif not all(hasattr(made, part) for part in ("spec", "prepare", "forward")):
        raise ModelFailed(
            f"{name}: returned {type(made).__name__}, expected (function, classes) or an object with "
            "spec, prepare and forward; see docs/models.md"
        )
    elif not isinstance(made.spec, ModelSpec):
        raise ModelFailed(f"{name}: its `spec` is {type(made.spec).__name__}, expected strobe's ModelSpec")
    guard = _GUARDS[isinstance(made, EncodedClassifier), _has_gradients(made)]
    return guard(made, path, _keyed(made.spec, path, options, hears=hears, is_function=is_function))


def _has_gradients(made: Any) -> bool:
    return all(hasattr(made, part) for part in ("input_hw", "input_pixels", "input_scores"))


def _keyed(spec: ModelSpec, path: Path, options: LoadOptions, *, hears: bool, is_function: bool) -> ModelSpec:
    """The spec with everything that can change the answers: the file itself, and the options its factory was given."""
    # An object says itself what its weights are; what it makes of them stands in the file.
    facts: dict[str, Any] = {} if is_function else {"plugin": path.name, "plugin_sha256": sha256_of_file(path)}
    if hears:
        given = {
            "image_size": options.image_size,
            "precision": None if options.precision == "auto" else options.precision,
            "pretrained": None if options.pretrained else False,
            "settings": sha256_of_file(require_file(options.settings, what=spec.name)) if options.settings else None,
            "weights": sha256_of_file(options.weights) if options.weights else None,
        }
        said = {key: value for key, value in given.items() if value is not None}
        facts |= {"options": said} if said else {}
    return replace(spec, preprocessing={**spec.preprocessing, **facts})


def _spec(model: ModelName, path: Path, classes: Any, options: LoadOptions) -> ModelSpec:
    if isinstance(classes, LabelSpace):
        label_space = classes
    elif isinstance(classes, str):
        label_space = space(classes)
    elif isinstance(classes, Sequence) and classes and all(isinstance(label, str) for label in classes):
        label_space = LabelSpace.of_names(f"{path.stem} classes", list(classes))
    else:
        raise ModelFailed(
            f"{printable(model.plain)}: its classes are {printable(repr(classes), limit=80)}, expected a list of "
            "names, a LabelSpace, or the name of a shipped one such as ilsvrc-2012"
        )
    digest = sha256_of_file(path) + (sha256_of_file(options.weights) if options.weights else "")
    return ModelSpec(
        name=model.text,
        provider="py",
        task="classification",
        label_space=label_space,
        weights=hashlib.sha256(digest.encode()).hexdigest(),
        preprocessing={"plugin": path.name},
        batch_size=options.batch_size or 8,
    )
