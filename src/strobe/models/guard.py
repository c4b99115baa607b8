"""Run a user's Python file and wrap a third-party model in the full port, so that its errors do not end the run.

`made_by_file` calls the factory of `FILE.py:FACTORY`, for models and generators. The file runs with your rights, like
any script you start. Modules in its folder belong to it (`strobe.models.own_files`). strobe records the modules and
files that it reads while loading, because they are part of its cache key. Its exceptions and its calls to exit become a
one-line error that names the line in the file. Its output goes to stderr, because stdout belongs to the command.

`GuardedModel` fills in the optional attributes of a model.
"""

import hashlib
import inspect
import io
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, StrobeError, UnknownName, printable
from strobe.core.files import sha256_of_file
from strobe.core.ports import Image, Preparation
from strobe.core.records import ModelSpec
from strobe.core.remote import RequestLimits
from strobe.models.options import LoadOptions, ModelName, require_file
from strobe.models.own_files import MODULE, OPENED_BY_LIBRARIES, OwnImports, Watch, named_beside, watching
from strobe.models.plan import AsDecoded
from strobe.models.travel import pack, unpack

_LOADING = threading.RLock()  # stdout is shared by all threads, and a factory may load another plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginObject:
    """An object made by a factory, with its file, its options, and whether the factory took the options."""

    made: Any
    path: Path
    options: LoadOptions
    hears: bool
    own: OwnImports
    watch: Watch = field(repr=False)

    def tried(self, forward: Callable[[], object]) -> None:
        """Run a first forward to detect files opened only then. Its output and exceptions are ignored."""
        quiet = io.StringIO()
        with (
            _LOADING,
            watching(self.watch),
            redirect_stdout(quiet),
            redirect_stderr(quiet),
            suppress(Exception, SystemExit),
        ):
            forward()

    def files_digest(self) -> str | None:
        """Return the digest of every input except the file itself: modules and files it read, and weights it names.

        Returns None if there are none. The weights after @ and the settings enter the key elsewhere. Prints a note if
        the plugin read a file from the working directory while its own folder holds a file of that name.
        """
        home = self.path.parent
        known = {str(one.resolve()) for one in (self.path, self.options.weights, self.options.settings) if one}
        named = [file for file in named_beside(self.path) if file.suffix in OPENED_BY_LIBRARIES]
        files = {*self.own.files(), *self.watch.files(home), *named}
        lines = []
        for file in sorted(files):
            if str(file) not in known:
                name = file.relative_to(home).as_posix() if file.is_relative_to(home) else file.name
                lines.append(f"{name}\0{sha256_of_file(file)}")
        if self.options.progress is not None:
            for file in self.watch.strayed(home):
                self.options.progress.note(
                    f"{printable(self.path)}: it read {printable(file)} from the working directory, not the file of "
                    "that name in its own folder; use Path(__file__).parent, or give the file after @"
                )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else None


class _Raised(Exception):
    """An error raised by the file. Subclasses take the name of the original exception, so reports show that name."""


def made_by_file(model: ModelName, options: LoadOptions) -> PluginObject:
    """Run the file and call its factory. The factory receives `@weights` in the options."""
    file, colon, factory_name = model.name.rpartition(":")
    name, weights = printable(model.plain), model.weights
    if not colon or not file:
        raise ModelFailed(f"{name}: expected py:FILE.py:FACTORY, e.g. py:mine.py:make")
    came = options.code.get(file)
    path = require_file(Path(file), what=model.plain).resolve() if came is None else unpack(came)
    if weights is not None:
        require_file(weights, what=model.plain)
    own = OwnImports(path, {"print": _print})
    with _LOADING, own.on_path(), watching() as watch:
        module = _run(own, name)
        factory = _factory(module, file, factory_name)
        hears = _hears(factory)
        options = replace(options, weights=weights)
        for what, given in (("the weights after @", weights), ("<<model_settings>>", options.settings)):
            if given is not None and not hears:
                raise ModelFailed(f"{name}: its factory takes no options, so it cannot receive {what}")
        made = _call(factory, path, name, options if hears else None)
    return PluginObject(made=made, path=path, options=options, hears=hears, own=own, watch=watch)


def packed(model: ModelName, options: LoadOptions) -> tuple[ModelName, LoadOptions]:
    """Return the model for another process, with its file and the files it needs in the options."""
    file = model.name.rpartition(":")[0]
    parcel = pack(require_file(Path(file), what=model.plain))
    return model, replace(options, code={**options.code, file: parcel})


def _factory(module: ModuleType, file: str, factory_name: str) -> Callable[..., Any]:
    factory: Callable[..., Any] | None = getattr(module, factory_name, None)
    if factory is None or not callable(factory):
        known = [key for key, value in vars(module).items() if not key.startswith("_") and _is_own(value, module)]
        raise UnknownName(
            f"factory in {printable(file)}", factory_name, known, hint=f"it has {', '.join(known) or 'none'}"
        )
    return factory


def _is_own(value: Any, module: ModuleType) -> bool:
    """Return whether the object is callable and defined in the file, not imported by it."""
    if not callable(value):
        return False
    return not (inspect.isclass(value) or inspect.isroutine(value)) or value.__module__ == module.__name__


def _print(*values: Any, **kwargs: Any) -> None:
    """The `print` of a plugin's file. It writes to stderr from any thread."""
    print(*values, **{"file": sys.stderr, **kwargs})  # noqa: T201 (the plugin's own output)


@contextmanager
def _to_stderr() -> Iterator[None]:
    """While open, redirect stdout to stderr. Used only during loading, when nothing else writes to stdout."""
    with _LOADING, redirect_stdout(sys.stderr):
        yield


def _run(own: OwnImports, name: str) -> ModuleType:
    if own.path.suffix != ".py":
        raise ModelFailed(f"{name}: not a Python file")
    try:
        with _to_stderr():
            return own.run()
    except (Exception, SystemExit) as error:
        raise ModelFailed(f"{name}: {_where(error, own.path)}") from error


def _hears(factory: Callable[..., Any]) -> bool:
    """Return whether the factory takes the options: it has an argument without a default, or an argument named
    options.
    """
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):  # a callable without a signature
        return False
    taken = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
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
    """Re-raise exceptions. If an exception came from the file, the message names the line."""
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
    """Return the error with the plugin line it came from."""
    line = _line(error, path)
    return f"{type(error).__name__}{f' in line {line}' if line else ''}: {printable(_said(error), limit=200)}"


def _said(error: BaseException) -> str:
    return f"the file called exit (code {error.code})" if isinstance(error, SystemExit) else str(error)


def _line(error: BaseException, path: Path) -> int | None:
    """Return the innermost line of the file in the error's traceback."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == path:
        return error.lineno
    trace = traceback.extract_tb(error.__traceback__)
    lines = [entry.lineno for entry in trace if Path(entry.filename).resolve() == path]
    return lines[-1] if lines else None


class FunctionModel:
    """What a classifier and a detector made from a plain function share: the function does its own preprocessing."""

    device, lanes, preparation = "cpu", 1, AsDecoded()

    def prepare(self, image: Image) -> Image:
        """Return the image unchanged, because the function does its own preprocessing."""
        return image

    def prepare_input(self, image: Image) -> Image:
        """Return the image unchanged."""
        return image


class FunctionClassifier(FunctionModel):
    """A plain function of images, behind the Classifier port. `undecided` states why the kind is not known."""

    undecided = ""

    def __init__(self, function: Callable[[list[Image]], Any], spec: ModelSpec) -> None:
        self.spec = spec
        self._function = function

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return the function's output as an array."""
        scores = self._function(list(prepared))
        if hasattr(scores, "detach"):
            scores = scores.detach().float().cpu().numpy()
        rows = np.asarray(scores, dtype=np.float32)
        if self.undecided and rows.shape[1:] == (len(self.spec.label_space),) and np.isfinite(rows).all():
            raise ModelFailed(self.undecided)
        return rows


class GuardedModel:
    """A model from a user's file behind the full port. Its errors name the line in the file and do not end the run.

    It has the optional methods that the model has. This is the only place that defines the defaults for a model without
    `device`, `lanes` or `preparation`.
    """

    prepare: Callable[[Image], Any]
    forward: Callable[[Sequence[Any]], Any]
    limits: RequestLimits
    input_hw: tuple[int, int] | None

    def __init__(self, model: Any, path: Path | None, spec: ModelSpec) -> None:
        self.spec = spec
        self.device, self.lanes = str(getattr(model, "device", "cpu")), int(getattr(model, "lanes", 1))
        self.preparation: Preparation | None = _sendable(getattr(model, "preparation", None))
        self._model, self._path = model, path
        names = ["prepare", "forward", "prepare_encoded"]
        if is_remote(model):
            names, self.limits = ["prepare", "ask"], model.limits
        elif all(hasattr(model, part) for part in ("input_hw", "input_pixels", "input_scores")):
            names += ["input_pixels", "input_scores"]
            self.input_hw = model.input_hw
        vars(self).update({name: partial(self._call, name) for name in names if hasattr(model, name)})

    def _call(self, name: str, *given: Any, **named: Any) -> Any:
        with raising(self._path):
            return getattr(self._model, name)(*given, **named)

    def prepare_input(self, image: Image) -> Any:
        """Call the model's `prepare_input`.

        If the model has none, raise an error, because `prepare` might resize or crop the image.
        """
        if not hasattr(self._model, "prepare_input"):
            raise ModelFailed(
                f"{printable(self.spec.name)}: these frames are model inputs, which must not be resized or cropped, "
                "but the model has no prepare_input(image); add one, see docs/models.md"
            )
        return self._call("prepare_input", image)


def _sendable(preparation: Preparation | None) -> Preparation | None:
    """Return the preparation; None if another process cannot unpickle it, as for a class defined in the user's file."""
    try:
        return None if MODULE.encode() in pickle.dumps(preparation) else preparation
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def is_remote(made: Any) -> bool:
    """Return whether this is a model behind an address: it is asked, and has no forward."""
    return isinstance(getattr(made, "limits", None), RequestLimits) and hasattr(made, "ask")


def has_port(made: Any) -> bool:
    """Return whether this is a model: an object with `spec`, `prepare`, and `forward` or `ask`."""
    is_model = isinstance(getattr(made, "spec", None), ModelSpec) and hasattr(made, "prepare")
    return is_model and (hasattr(made, "forward") or is_remote(made))


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


def probe_images() -> list[Image]:
    """Return test images that differ: the first, its negative, darker, and with other colours."""
    image = probe_image()
    return [image, 255 - image, image // 4, np.roll(image, 1, axis=2)]
