"""A model of your own from one Python file: `py:FILE.py:FACTORY`.

The factory takes no argument, or the LoadOptions. It returns

- a pair `(function, classes)`: the function takes a list of RGB images (height, width, 3) of 8 bits and returns scores
  (N, len(classes)); or
- an object that follows the Classifier or Detector port (`spec`, `prepare`, `forward`).

The file runs with your rights, like any script you start.
"""

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, StrobeError, UnknownName, printable
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Classifier, Detector, Image
from strobe.core.records import ModelSpec
from strobe.models.options import LoadOptions, require_file

__all__ = ["FunctionClassifier", "load"]


class FunctionClassifier:
    """A plain function over images, behind the Classifier port."""

    def __init__(self, function: Callable[[list[Image]], Any], spec: ModelSpec) -> None:
        self.spec = spec
        self._function = function

    def prepare(self, image: Image) -> Image:
        """The image as it is: the function owns its preprocessing."""
        return image

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """What the function says, as an array."""
        scores = self._function(list(prepared))
        if hasattr(scores, "detach"):
            scores = scores.detach().float().cpu().numpy()
        return np.asarray(scores, dtype=np.float32)


def load(name: str, weights: Path | None, options: LoadOptions) -> Classifier | Detector:
    """The model the factory makes. `name` is FILE.py:FACTORY; `@weights` reaches the factory through its options."""
    file, colon, factory_name = name.rpartition(":")
    if not colon or not file:
        raise ModelFailed(f"py:{printable(name)}: expected py:FILE.py:FACTORY, e.g. py:mine.py:make")
    path = require_file(Path(file), what=f"py:{name}")
    module = _run(path)
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UnknownName(
            f"factory in {printable(path)}", factory_name, known, hint=f"it has {', '.join(known) or 'none'}"
        )
    made = _call(factory, path, name, options)
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]):
        return FunctionClassifier(made[0], _spec(name, path, weights, made[1], options))
    if isinstance(made, Classifier | Detector):
        if isinstance(made.spec, ModelSpec):
            return made
        raise ModelFailed(
            f"py:{printable(name)}: its `spec` is {type(made.spec).__name__}, expected strobe's ModelSpec"
        )
    raise ModelFailed(
        f"py:{printable(name)}: returned {type(made).__name__}, expected (function, classes) or an object with spec, "
        "prepare and forward; see docs/models.md"
    )


def _run(path: Path) -> ModuleType:
    unique = "strobe_plugin_" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise ModelFailed(f"{printable(path)}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ModelFailed(f"{printable(path)}: {_where(error, path)}") from error
    return module


def _call(factory: Callable[..., Any], path: Path, name: str, options: LoadOptions) -> Any:
    try:
        takes = [
            parameter
            for parameter in inspect.signature(factory).parameters.values()
            if parameter.default is inspect.Parameter.empty and parameter.kind in (0, 1)
        ]
        return factory(options) if takes else factory()
    except StrobeError:
        raise
    except Exception as error:
        raise ModelFailed(f"py:{printable(name)}: the factory raised {_where(error, path)}") from error


def _where(error: Exception, path: Path) -> str:
    """The error with the line of the plugin it came from."""
    lines = [entry.lineno for entry in traceback.extract_tb(error.__traceback__) if Path(entry.filename) == path]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    place = f" in line {lines[-1]}" if lines else ""
    return f"{type(error).__name__}{place}: {printable(error, limit=200)}"


def _spec(name: str, path: Path, weights: Path | None, classes: Any, options: LoadOptions) -> ModelSpec:
    if isinstance(classes, LabelSpace):
        label_space = classes
    elif isinstance(classes, str):
        label_space = space(classes)
    elif isinstance(classes, Sequence) and classes and all(isinstance(label, str) for label in classes):
        label_space = LabelSpace.of_names(f"{path.stem} classes", list(classes))
    else:
        raise ModelFailed(
            f"py:{printable(name)}: its classes are {printable(repr(classes), limit=80)}, expected a list of names, a "
            "LabelSpace, or the name of a shipped one such as ilsvrc-2012"
        )
    digest = sha256_of_file(path) + (sha256_of_file(require_file(weights, what=name)) if weights else "")
    return ModelSpec(
        name=f"py:{name}",
        provider="py",
        task="classification",
        label_space=label_space,
        weights=hashlib.sha256(digest.encode()).hexdigest(),
        preprocessing={"plugin": path.name},
        batch_size=options.batch_size or 8,
    )
