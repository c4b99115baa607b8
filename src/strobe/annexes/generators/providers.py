"""Load generators by name: strobe's own, BigGAN, an autoencoder of diffusers, or one from your Python file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from strobe.annexes.generators.checks import checked_generator
from strobe.annexes.generators.spec import GeneratorSpec, LayeredGenerator
from strobe.core import late
from strobe.core.errors import ModelFailed, printable
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace
from strobe.core.late import Registry
from strobe.models.guard import made_by_file, packed, raising
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.providers import Provider
from strobe.models.registry import NamedThings
from strobe.models.weights import load_into, read_state
from strobe.workflows.search_bench import LoadedSearch, SearchBench


def load_generator(text: str, options: LoadOptions) -> LayeredGenerator:
    """Load a generator and test it on two images. Any failure raises a one-line StrobeError.

    Names: `strobe-gan`, `strobe-gan-mnist` and `strobe-ae`, optionally with your own `@weights`; `biggan:NAME` or
    `biggan:FOLDER`, with a truncation after another colon; `diffusers:FOLDER`, with a size after another colon;
    `py:FILE.py:FACTORY`, with `@weights` for the factory. An autoencoder takes its classes from `options.label_space`:
    those of the photos.
    """
    # The usual messages are about classifiers, so generators have separate messages.
    options = replace(options, device=torch_setup(options).device, settings=None, image_size=None)
    return checked_generator(_GENERATORS.load(text, options))


def sendable_generator(text: str, options: LoadOptions) -> tuple[str, LoadOptions]:
    """Return the generator for another process: Python files are packed into the options, other paths are absolute."""
    return _GENERATORS.sendable(text, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSubject:
    """A generator to search in, by name. `photos` are the classes of the photos that an autoencoder takes."""

    name: str
    photos: LabelSpace | None = None

    def loaded(self, load: LoadOptions) -> LayeredGenerator:
        return load_generator(self.name, replace(load, label_space=self.photos))

    def sent(self, load: LoadOptions) -> "tuple[GeneratorSubject, LoadOptions]":
        name, load = sendable_generator(self.name, load)
        return replace(self, name=name), load


def spec_of(bench: SearchBench) -> GeneratorSpec:
    """Return the facts about the generator of a search."""
    return replace(bench.once(_spec, None), name=cast(GeneratorSubject, bench.about).name)


def _spec(loaded: LoadedSearch, _: None) -> GeneratorSpec:
    spec: GeneratorSpec = loaded.subject.spec
    return spec


def _ours(name: ModelName, options: LoadOptions) -> Any:
    file = name.weights or late.load("strobe.annexes.generators.weights:shipped_file")(name.name)
    text = name.name + (f"@{name.weights}" if name.weights else "")
    return late.load("strobe.annexes.generators.ours:load")(text, file, device=options.device)


def _own_autoencoder(name: ModelName, options: LoadOptions) -> Any:
    file = name.weights or late.load("strobe.annexes.generators.weights:shipped_file")(name.name)
    classes = _classes_of_photos(name, options)
    text = name.name + (f"@{name.weights}" if name.weights else "")
    return late.load("strobe.annexes.generators.ours:load_autoencoder")(
        text, file, classes=classes, device=options.device
    )


def _biggan(name: ModelName, options: LoadOptions) -> Any:
    adapter: Any = late.load("strobe.annexes.generators.biggan:load")
    plain, truncation = late.load("strobe.annexes.generators.biggan:parsed")(name.name)
    config, weights = late.load("strobe.annexes.generators.biggan:files_of")(plain, offline=options.offline)
    weights = name.weights or weights

    def put(module: Any) -> None:
        load_into(module, read_state(weights, trust=options.trust), path=weights, model=name.plain)

    return adapter(name.text, config, put, truncation=truncation, device=options.device)


def _diffusers(name: ModelName, options: LoadOptions) -> Any:
    plain, size = late.load("strobe.annexes.generators.autoencoders:parsed")(name.name)
    folder, variant = late.load("strobe.annexes.generators.autoencoders:folder_of")(plain)
    if name.weights is not None:
        raise ModelFailed(f"{printable(name.plain)}: its weights are in the folder; remove @ and the file after it")
    adapter: Any = late.load("strobe.annexes.generators.autoencoders:load")
    classes = _classes_of_photos(name, options)
    return adapter(name.text, folder, variant=variant, size=size, classes=classes, device=options.device)


def _classes_of_photos(name: ModelName, options: LoadOptions) -> LabelSpace:
    """Return the classes of the photos that an autoencoder changes."""
    if options.label_space is None:
        raise ModelFailed(
            f"{printable(name.text)}: an autoencoder changes photos instead of drawing images; add <<photos=DATASET>>"
        )
    return options.label_space


def _sent_folder(name: ModelName, options: LoadOptions) -> tuple[ModelName, LoadOptions]:
    """Return the name with an absolute path, for another process."""
    plain, size = late.load("strobe.annexes.generators.autoencoders:parsed")(name.name)
    return replace(name, name=str(Path(plain).absolute()) + (f":{size}" if size else "")), options


def _py(name: ModelName, options: LoadOptions) -> Any:
    returned = made_by_file(name, options)
    spec = getattr(returned.made, "spec", None)
    if not isinstance(spec, GeneratorSpec):
        raise ModelFailed(
            f"{printable(name.plain)}: returned {type(returned.made).__name__}, expected a generator: the "
            "result of strobe.annexes.generators.layered.layered(), or an object with spec, device, condition and run"
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

OWN_AUTOENCODER = Provider(
    load=_own_autoencoder,
    what="the autoencoder that ships with strobe, for photos of the synthetic world",
    example="strobe-ae@weights.safetensors",
    package="torch",
    extra="models",
    bundled=("strobe-ae",),
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

DIFFUSERS = Provider(
    load=_diffusers,
    what="autoencoders of diffusers (AutoencoderKL, AutoencoderTiny, VQModel) from a folder, for photos",
    example="diffusers:FOLDER",
    package="diffusers",
    extra="diffusers",
    is_file=True,
    sent=_sent_folder,
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
    "generators",
    Provider,
    "generator",
    {
        "biggan": "strobe.annexes.generators.providers:BIGGAN",
        "diffusers": "strobe.annexes.generators.providers:DIFFUSERS",
        "py": "strobe.annexes.generators.providers:PY",
    },
)
"""Every provider of generators by the prefix before the colon."""


def names_of_generators() -> str:
    """Return how generators are written, for messages and help."""
    examples = [own_member.example for own_member in GENERATORS.own_members().values()]
    return ", ".join([*_bundled(), OURS.example, *examples])


def _bundled() -> dict[str, Provider]:
    """Return the provider of every generator that is written without one."""
    return {name: one for one in (OURS, OWN_AUTOENCODER) for name in one.bundled}


_GENERATORS = NamedThings("generator", GENERATORS, _bundled, lambda: f"one of {names_of_generators()}")
