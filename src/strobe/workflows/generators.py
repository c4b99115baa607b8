"""Load generators by name: strobe's own, BigGAN, or one from your Python file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from strobe.core import late
from strobe.core.errors import MissingExtra, ModelFailed, StrobeError, UnknownName, printable
from strobe.core.files import sha256_of_file
from strobe.core.generators import GeneratorSpec
from strobe.core.ports import LayeredGenerator
from strobe.generator.checks import checked_generator
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.plugin_files import made_by_file, raising
from strobe.models.registry import explain, sent
from strobe.models.weights import load_into, read_state

__all__ = ["OURS", "load_generator", "sendable_generator"]

OURS = ("strobe-gan", "strobe-gan-mnist")
"""Generators that ship with strobe: of the synthetic world, and of MNIST."""

_EXAMPLES = (*OURS, "strobe-gan@weights.safetensors", "biggan:biggan-deep-128", "py:mine.py:make")


def load_generator(text: str, options: LoadOptions) -> LayeredGenerator:
    """Load a generator and try it on two images. Any failure raises a one-line StrobeError.

    Names: `strobe-gan` and `strobe-gan-mnist`, optionally with your own `@weights`; `biggan:NAME` or `biggan:FOLDER`,
    with a truncation after another colon; `py:FILE.py:FACTORY`, with `@weights` for the factory.
    """
    name = _parse(text)
    # Messages on classifiers do not apply to it.
    options = replace(options, device=torch_setup(options).device, settings=None, image_size=None)
    load = {"ours": _ours, "biggan": _biggan, "py": _py}[name.provider]
    try:
        return checked_generator(load(name, options))
    except StrobeError:
        raise
    except ModuleNotFoundError as error:
        raise MissingExtra(text, (error.name or "?").split(".")[0], "models") from error
    except (Exception, SystemExit) as error:
        raise explain(text, error) from error


def sendable_generator(text: str, options: LoadOptions) -> tuple[str, LoadOptions]:
    """Return the generator for another process: a Python file is packed into the options, others get full paths."""
    name = _parse(text)
    there, options = sent(name, options, is_file=name.provider == "biggan")
    return there.text.removeprefix("ours:"), options


def _parse(text: str) -> ModelName:
    body, at, path = text.partition("@")
    if at and not path:
        raise ModelFailed(f"generator {printable(text)!r}: expected a weights file after @")
    weights, (provider, colon, rest) = Path(path) if at else None, body.partition(":")
    if not colon and body in OURS:
        return ModelName("ours", body, weights)
    if colon and rest and provider in ("biggan", "py"):
        return ModelName(provider, rest, weights)
    raise UnknownName("generator", text, _EXAMPLES, hint=f"one of {', '.join(_EXAMPLES)}")


def _ours(name: ModelName, options: LoadOptions) -> Any:
    file = name.weights or late.load("strobe.generator.weights:shipped_file")(name.name)
    text = name.name + (f"@{name.weights}" if name.weights else "")
    return late.load("strobe.generator.ours:load")(text, file, device=options.device)


def _biggan(name: ModelName, options: LoadOptions) -> Any:
    adapter: Any = late.load("strobe.generator.biggan:load")
    plain, truncation = late.load("strobe.generator.biggan:parsed")(name.name)
    config, weights = late.load("strobe.generator.biggan:files_of")(plain, offline=options.offline)
    weights = name.weights or weights

    def put(module: Any) -> None:
        load_into(module, read_state(weights, trust=options.trust), path=weights, model=name.plain)

    return adapter(name.text, config, put, truncation=truncation, device=options.device)


def _py(name: ModelName, options: LoadOptions) -> Any:
    told = made_by_file(name, options)
    spec = getattr(told.made, "spec", None)
    if not isinstance(spec, GeneratorSpec):
        raise ModelFailed(
            f"{printable(name.plain)}: returned {type(told.made).__name__}, expected a generator: what "
            "strobe.generator.layered.layered() makes, or an object with spec, device, condition and run"
        )
    said = {"plugin": told.path.name, "plugin_sha256": sha256_of_file(told.path)}
    files = told.files_digest()
    said |= {"plugin_files": files} if files else {}
    spec = replace(spec, name=name.text, provider="py", settings={**spec.settings, **said})
    return _Guarded(told.made, told.path, spec)


class _Guarded:
    """A generator from a user's file. Its errors name the line of that file."""

    def __init__(self, generator: Any, path: Path, spec: GeneratorSpec) -> None:
        self.spec, self.device = spec, str(getattr(generator, "device", "cpu"))
        self._generator, self._path = generator, path

    def condition(self, latents: Any, classes: Any) -> Any:
        with raising(self._path):
            return self._generator.condition(latents, classes)

    def run(self, step: int, activation: Any, condition: Any) -> Any:
        with raising(self._path):
            return self._generator.run(step, activation, condition)
