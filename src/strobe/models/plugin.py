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
import importlib.util
import inspect
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, StrobeError, UnknownName, printable
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Classifier, Detector, EncodedClassifier, Image, Preparation
from strobe.core.records import ModelSpec
from strobe.models.options import LoadOptions, ModelName, require_file
from strobe.models.plan import AsDecoded

__all__ = ["FunctionClassifier", "GuardedModel", "load"]

_MODULE = "strobe_plugin_"  # how the module of a file is named, before a digest
_LOADING = threading.RLock()  # stdout is one for all threads; a factory may load another plugin


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
        with _raising(self._path):
            return self._model.prepare(image)

    def prepare_input(self, image: Image) -> Any:
        """The model's own; a model without it cannot say that it would neither resize nor crop."""
        if not hasattr(self._model, "prepare_input"):
            raise ModelFailed(
                f"{printable(self.spec.name)}: these frames are a model's own input, to be neither resized nor "
                "cropped: give it prepare_input(image) beside prepare; see docs/models.md"
            )
        with _raising(self._path):
            return self._model.prepare_input(image)

    def forward(self, prepared: Sequence[Any]) -> Any:
        """The model's own."""
        with _raising(self._path):
            return self._model.forward(prepared)


class _GuardedEncoded(GuardedModel):
    """The same for a model that decodes on its own device."""

    def prepare_encoded(self, files: Sequence[bytes]) -> Sequence[Any]:
        with _raising(self._path):
            decoded: Sequence[Any] = self._model.prepare_encoded(files)
            return decoded


class _GuardedGradients(GuardedModel):
    """The same for a model that has gradients."""

    @property
    def input_hw(self) -> tuple[int, int] | None:
        height_width: tuple[int, int] | None = self._model.input_hw
        return height_width

    def input_pixels(self, image: Image) -> Image:
        with _raising(self._path):
            pixels: Image = self._model.input_pixels(image)
            return pixels

    def input_scores(self, pixels: Any) -> Any:
        with _raising(self._path):
            return self._model.input_scores(pixels)


class _GuardedBoth(_GuardedEncoded, _GuardedGradients):
    """And for one that does both, as every classifier of torch here."""


_GUARDS = {
    (False, False): GuardedModel, (True, False): _GuardedEncoded, (False, True): _GuardedGradients,
    (True, True): _GuardedBoth,
}  # fmt: skip
"""By whether a model decodes, and whether it has gradients."""


class _Raised(Exception):
    """An error of the file; subclasses are named after what was raised, so that it is reported under its own name."""


def _sendable(preparation: Preparation | None) -> Preparation | None:
    """The preparation, unless another process could not make sense of it: one of a class of the file's own."""
    try:
        return None if _MODULE.encode() in pickle.dumps(preparation) else preparation
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """The model the factory makes. Its name is FILE.py:FACTORY; `@weights` reaches the factory through its options."""
    file, colon, factory_name = model.name.rpartition(":")
    name, weights = printable(model.plain), model.weights
    if not colon or not file:
        raise ModelFailed(f"{name}: expected py:FILE.py:FACTORY, e.g. py:mine.py:make")
    path = require_file(Path(file), what=model.plain).resolve()
    if weights is not None:
        require_file(weights, what=model.plain)
    module = _run(path, name)
    factory = getattr(module, factory_name, None)
    if not callable(factory) or factory is _print:
        own = {key: value for key, value in vars(module).items() if callable(value) and value is not _print}
        known = [key for key in own if not key.startswith("_")]
        raise UnknownName(
            f"factory in {printable(file)}", factory_name, known, hint=f"it has {', '.join(known) or 'none'}"
        )
    hears = _hears(factory)
    options = replace(options, weights=weights)
    for what, given in (("the weights after @", weights), ("--model-settings", options.settings)):
        if given is not None and not hears:
            raise ModelFailed(f"{name}: its factory takes no options and would not hear of {what}")
    made = _call(factory, path, name, options if hears else None)
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


def _print(*values: Any, **kwargs: Any) -> None:
    """The `print` of a plugin's file: to stderr, from whatever thread it is called."""
    print(*values, **{"file": sys.stderr, **kwargs})  # noqa: T201 (not ours: the plugin's own words)


@contextmanager
def _to_stderr() -> Iterator[None]:
    """While open, all of stdout is turned away: for loading alone, when nobody else writes there."""
    with _LOADING, redirect_stdout(sys.stderr):
        yield


def _run(path: Path, name: str) -> ModuleType:
    unique = _MODULE + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise ModelFailed(f"{name}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    module.print = _print  # type: ignore[attr-defined]  # in its own namespace
    sys.modules[unique] = module
    try:
        with _to_stderr():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ModelFailed(f"{name}: {_where(error, path)}") from error
    return module


def _hears(factory: Callable[..., Any]) -> bool:
    """Whether the factory takes the options: an argument without a default, or one called options."""
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):  # a callable that does not say
        return False
    taken = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return bool(taken) and (taken[0].default is inspect.Parameter.empty or taken[0].name == "options")


def _call(factory: Callable[..., Any], path: Path, name: str, options: LoadOptions | None) -> Any:
    try:
        with _to_stderr():
            return factory() if options is None else factory(options)
    except StrobeError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelFailed(f"{name}: the factory raised {_where(error, path)}") from error


@contextmanager
def _raising(path: Path) -> Iterator[None]:
    """What is raised inside, told with the line of the file it came from."""
    try:
        yield
    except StrobeError:
        raise
    except (Exception, SystemExit) as error:
        _raise_at_line(error, path)


def _raise_at_line(error: BaseException, path: Path) -> NoReturn:
    line = _line(error, path)
    place = f" (line {line} of {path.name})" if line else ""
    raise type(type(error).__name__, (_Raised,), {})(f"{_said(error)}{place}") from error


def _where(error: BaseException, path: Path) -> str:
    """The error with the line of the plugin it came from."""
    line = _line(error, path)
    return f"{type(error).__name__}{f' in line {line}' if line else ''}: {printable(_said(error), limit=200)}"


def _said(error: BaseException) -> str:
    return f"the file asked to exit (code {error.code})" if isinstance(error, SystemExit) else str(error)


def _line(error: BaseException, path: Path) -> int | None:
    """The innermost line of the file in the error's trace."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == path:
        return error.lineno
    trace = traceback.extract_tb(error.__traceback__)
    lines = [entry.lineno for entry in trace if Path(entry.filename).resolve() == path]
    return lines[-1] if lines else None


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
