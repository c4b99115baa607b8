"""Load generators by name: strobe's own, BigGAN, or one from your Python file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from strobe.core import late
from strobe.core.errors import ModelFailed, printable
from strobe.core.files import sha256_of_file
from strobe.core.generators import GeneratorSpec
from strobe.core.late import Registry
from strobe.core.ports import LayeredGenerator
from strobe.generator.checks import checked_generator
from strobe.models.guard import made_by_file, packed, raising
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.providers import Provider
from strobe.models.registry import NamedThings
from strobe.models.weights import load_into, read_state


def load_generator(text: str, options: LoadOptions) -> LayeredGenerator:
    """Load a generator and test it on two images. Any failure raises a one-line StrobeError.

    Names: `strobe-gan` and `strobe-gan-mnist`, optionally with your own `@weights`; `biggan:NAME` or `biggan:FOLDER`,
    with a truncation after another colon; `py:FILE.py:FACTORY`, with `@weights` for the factory.
    """
    # The usual messages are about classifiers, so generators have separate messages.
    options = replace(options, device=torch_setup(options).device, settings=None, image_size=None)
    return checked_generator(_GENERATORS.load(text, options))


def sendable_generator(text: str, options: LoadOptions) -> tuple[str, LoadOptions]:
    """Return the generator for another process: Python files are packed into the options, other paths are absolute."""
    return _GENERATORS.sendable(text, options)


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
    returned = made_by_file(name, options)
    spec = getattr(returned.made, "spec", None)
    if not isinstance(spec, GeneratorSpec):
        raise ModelFailed(
            f"{printable(name.plain)}: returned {type(returned.made).__name__}, expected a generator: the "
            "result of strobe.generator.layered.layered(), or an object with spec, device, condition and run"
        )
    said = {"plugin": returned.path.name, "plugin_sha256": sha256_of_file(returned.path)}
    files = returned.files_digest()
    said |= {"plugin_files": files} if files else {}
    spec = replace(spec, name=name.text, provider="py", settings={**spec.settings, **said})
    return _Guarded(returned.made, returned.path, spec)


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


OURS = Provider(
    load=_ours,
    what="generators that ship with strobe, for the synthetic world and for MNIST",
    example="strobe-gan@weights.safetensors",
    package="torch",
    extra="models",
    bundled=("strobe-gan", "strobe-gan-mnist"),
)

BIGGAN = Provider(
    load=_biggan,
    what="BigGAN-deep of pytorch-pretrained-biggan, by name or from a folder",
    example="biggan:biggan-deep-128",
    package="pytorch_pretrained_biggan",
    extra="models",
    is_file=True,
    downloads=True,
)

PY = Provider(
    load=_py,
    what="your own generator from a Python file",
    example="py:mine.py:make",
    extra="models",
    is_file=True,
    runs_code=True,
    sent=packed,
)

GENERATORS = Registry(
    "strobe.generators",
    Provider,
    "generator",
    {"biggan": "strobe.workflows.generators:BIGGAN", "py": "strobe.workflows.generators:PY"},
)
"""Every provider of generators by the prefix before the colon."""


def names_of_generators() -> str:
    """Return how generators are written, for messages and help."""
    examples = [one.example for one in GENERATORS.working().values()]
    return ", ".join([*OURS.bundled, OURS.example, *examples])


_GENERATORS = NamedThings(
    "generator", GENERATORS, lambda: dict.fromkeys(OURS.bundled, OURS), lambda: f"one of {names_of_generators()}"
)
