"""A model from somebody's file behind the whole port, and what it raises told with the line of the file."""

import pickle
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from strobe.core.errors import StrobeError, printable
from strobe.core.ports import EncodedClassifier, Image, Preparation
from strobe.core.records import ModelSpec

__all__ = ["MODULE", "GuardedModel", "guarded", "where"]

MODULE = "strobe_plugin_"
"""How the module of a file is named, before a digest."""


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


class _Raised(Exception):
    """An error of the file; subclasses are named after what was raised, so that it is reported under its own name."""


def guarded(model: Any, path: Path, spec: ModelSpec) -> GuardedModel:
    """The model with its guard."""
    return (_GuardedEncoded if isinstance(model, EncodedClassifier) else GuardedModel)(model, path, spec)


def _sendable(preparation: Preparation | None) -> Preparation | None:
    """The preparation, unless another process could not make sense of it: one of a class of the file's own."""
    try:
        return None if MODULE.encode() in pickle.dumps(preparation) else preparation
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


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


def where(error: BaseException, path: Path) -> str:
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
