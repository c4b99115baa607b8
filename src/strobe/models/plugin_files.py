"""A Python file of somebody's own, run for what its factory makes: `FILE.py:FACTORY`, for models and generators.

The file runs with your rights, like any script you start. What it raises, or an exit it calls for, becomes one line
that names the line of the file; what it prints goes to stderr, because stdout is the command's own.
"""

import hashlib
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from strobe.core.errors import ModelFailed, StrobeError, UnknownName, printable
from strobe.models.options import LoadOptions, ModelName, require_file
from strobe.models.travel import unpack

__all__ = ["MODULE", "Made", "made_by_file", "raising"]

MODULE = "strobe_plugin_"
"""How the module of a file is named, before a digest."""

_LOADING = threading.RLock()  # stdout is one for all threads; a factory may load another plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a factory made, of which file, with which options, and whether it took them."""

    made: Any
    path: Path
    options: LoadOptions
    hears: bool


class _Raised(Exception):
    """An error of the file; subclasses are named after what was raised, so that it is reported under its own name."""


def made_by_file(model: ModelName, options: LoadOptions) -> Made:
    """Run the file and call its factory; `@weights` reaches it through its options."""
    file, colon, factory_name = model.name.rpartition(":")
    name, weights = printable(model.plain), model.weights
    if not colon or not file:
        raise ModelFailed(f"{name}: expected py:FILE.py:FACTORY, e.g. py:mine.py:make")
    came = options.code.get(file)
    path = require_file(Path(file), what=model.plain).resolve() if came is None else unpack(came)
    if weights is not None:
        require_file(weights, what=model.plain)
    module = _run(path, name)
    factory = getattr(module, factory_name, None)
    if not callable(factory) or factory is _print:
        known = [key for key, value in vars(module).items() if not key.startswith("_") and _is_own(value, module)]
        raise UnknownName(
            f"factory in {printable(file)}", factory_name, known, hint=f"it has {', '.join(known) or 'none'}"
        )
    hears = _hears(factory)
    options = replace(options, weights=weights)
    for what, given in (("the weights after @", weights), ("--model-settings", options.settings)):
        if given is not None and not hears:
            raise ModelFailed(f"{name}: its factory takes no options and would not hear of {what}")
    made = _call(factory, path, name, options if hears else None)
    return Made(made=made, path=path, options=options, hears=hears)


def _is_own(value: Any, module: ModuleType) -> bool:
    """Whether this may be called and was made in the file; a class or function it only imported was not."""
    if not callable(value) or value is _print:
        return False
    return not (inspect.isclass(value) or inspect.isroutine(value)) or value.__module__ == module.__name__


def _print(*values: Any, **kwargs: Any) -> None:
    """The `print` of a plugin's file: to stderr, from whatever thread it is called."""
    print(*values, **{"file": sys.stderr, **kwargs})  # noqa: T201 (not ours: the plugin's own words)


@contextmanager
def _to_stderr() -> Iterator[None]:
    """While open, all of stdout is turned away: for loading alone, when nobody else writes there."""
    with _LOADING, redirect_stdout(sys.stderr):
        yield


def _run(path: Path, name: str) -> ModuleType:
    unique = MODULE + hashlib.sha256(str(path).encode()).hexdigest()[:12]
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
def raising(path: Path | None) -> Iterator[None]:
    """What is raised inside, told with the line of the file it came from, if it came from one."""
    try:
        yield
    except StrobeError:
        raise
    except (Exception, SystemExit) as error:
        if path is None:
            raise
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
