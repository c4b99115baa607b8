"""Load models by name. A provider is imported only when one of its models is named.

`strobe.models.grammar` defines the syntax of a name. Bundled models are written without a provider.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any

from strobe.core.errors import MissingExtra, ModelFailed, StrobeError, UnknownName, expect, out_of_memory, printable
from strobe.core.late import Plugin, Registry
from strobe.core.ports import Classifier, Detector
from strobe.models.grammar import is_address, is_pattern, split_text
from strobe.models.options import LoadOptions, ModelName, no_settings
from strobe.models.providers import FORMS, PROVIDERS, Provider, bundled

_FORMS = tuple(form.scheme for form in FORMS)


class NamedThings:
    """The providers of models or generators. Parses names, loads models, and prepares them for other processes."""

    def __init__(
        self,
        what: str,
        providers: Registry[Provider],
        bundle: Callable[[], Mapping[str, Provider]],
        hint: Callable[[], str],
    ) -> None:
        self._what, self._providers, self._bundle, self._hint = what, providers, bundle, hint

    def parse(self, text: str) -> ModelName:
        """Parse `provider:name[@FILE or URL]`. The error for an unknown provider suggests close matches."""
        parts = split_text(text)
        if parts.name is not None:
            raise ModelFailed(f"{printable(text)}: a name in a run ({printable(parts.name)}=) cannot be given here")
        if parts.at == "":
            raise ModelFailed(f"{self._what} {printable(text)!r}: expected a weights file after @")
        provider = parts.provider
        if not provider:
            provider = "bundled"
            if parts.model not in self._bundle():
                examples = [own_member.example for own_member in self._providers.own_members().values()]
                raise UnknownName(self._what, parts.model, [*self._bundle(), *examples], hint=self._hint())
        elif provider not in self._providers:
            known = [*self._providers, *_FORMS] if self is MODELS else list(self._providers)
            raise UnknownName("provider", provider, known, hint=f"known: {', '.join(known)}")
        elif not parts.model:
            example = self._providers[provider].example
            raise ModelFailed(
                f"{self._what} {printable(text)!r}: expected a name after {provider}:, e.g. {printable(example)}"
            )
        if parts.at is None:
            return ModelName(provider, parts.model)
        if is_address(parts.at):
            return ModelName(provider, parts.model, address=parts.at)
        return ModelName(provider, parts.model, Path(parts.at))

    def provider_of(self, model: ModelName) -> Provider:
        """Return the declaration of the model's provider."""
        return self._bundle()[model.name] if model.provider == "bundled" else self._providers[model.provider]

    def load(self, text: str, options: LoadOptions) -> Any:
        """Return the loaded model or generator. Every failure raises a StrobeError with a one-line message."""
        model = self.parse(text)
        provider = self.provider_of(model)
        if model.address is not None and not provider.address:
            raise ModelFailed(
                f"{printable(model.plain)}: it takes no address after @; download {printable(model.address)} and "
                "give the file"
            )
        if not provider.model_settings:
            no_settings(options, text)
        try:
            return provider.load(model, options)
        except StrobeError:
            raise
        except ModuleNotFoundError as error:
            raise MissingExtra(text, (error.name or "?").split(".")[0], provider.extra) from error
        except (Exception, SystemExit) as error:  # code from a hub may call sys.exit too
            raise explain(text, error) from error

    def sendable(self, text: str, options: LoadOptions) -> tuple[str, LoadOptions]:
        """Return a name and its options for use in another process: paths are absolute, code is packed."""
        model = self.parse(text)
        provider = self.provider_of(model)
        if provider.sent is not None:
            model, options = provider.sent(model, options)
        elif provider.is_file and Path(model.name).exists():  # otherwise the name is a model on a hub
            model = replace(model, name=str(Path(model.name).absolute()))
        return replace(model, weights=model.weights and model.weights.absolute()).text, options


MODELS = NamedThings(
    "model", PROVIDERS, bundled, lambda: "a model is written provider:name, e.g. timm:resnet50; see strobe models"
)
"""Everything that -m can load."""


def parse(text: str) -> ModelName:
    """Parse the name of a model that can be loaded.

    >>> parse("timm:resnet50@weights.safetensors").weights
    PosixPath('weights.safetensors')
    >>> parse("efficientnet-lite0").provider
    'bundled'
    """
    expect(bool(text.strip()), "model", "a name such as timm:resnet50", text)
    if (scheme := text.partition(":")[0]) in _FORMS and ":" in text:
        raise ModelFailed(
            f"{printable(text)}: {scheme}: works only in strobe eval and strobe predict, which read a dataset's frames"
        )
    return MODELS.parse(text)


def load_model(text: str, options: LoadOptions) -> Classifier | Detector:
    """Return the loaded model behind its port. Every failure raises a StrobeError with a one-line message."""
    name = parse(text)
    loaded: Classifier | Detector = MODELS.load(text, options)
    plugin = None if name.provider in PROVIDERS.own or name.provider == "bundled" else PROVIDERS.plugins[name.provider]
    return loaded if plugin is None else _of_plugin(loaded, plugin)


def _of_plugin(made: Any, plugin: Plugin) -> Classifier | Detector:
    """Return a model of an installed package behind the full port. The package and its version are part of its key."""
    from strobe.models.guard import GuardedModel, has_port

    if not has_port(made):
        raise plugin.failed(f"load() returned {type(made).__name__}, expected an object with spec, prepare and forward")
    return GuardedModel(
        made, None, replace(made.spec, preprocessing={**made.spec.preprocessing, "plugin": plugin.package})
    )


def sendable(text: str, options: LoadOptions) -> tuple[str, LoadOptions]:
    """Return the model for use in another process.

    Python files are packed into the options, and other paths become absolute.
    """
    name, packed = MODELS.sendable(text, options)
    return name, replace(packed, settings=options.settings and options.settings.absolute())


def explain(text: str, error: BaseException) -> StrobeError:
    """Return the error of a failed load as one line."""
    from strobe.models.downloads import cannot_download

    trouble = cannot_download(text, error)
    if trouble is not None:
        return trouble
    if out_of_memory(error):
        return ModelFailed(f"{printable(text)}: out of memory while loading; use a smaller model or <<device=cpu>>")
    return ModelFailed(f"{printable(text)}: cannot be loaded ({type(error).__name__}: {printable(error, limit=200)})")


def available(pattern: str | None = None) -> list[str]:
    """Return the model names of the bundle and of every installed provider that can list its models.

    The pattern is a glob over the whole name: `timm:resnet*`, `*lite*`.
    """
    every = list(bundled())
    globbed = pattern or "*"
    head = globbed.partition(":")[0]
    schemes = [scheme for scheme in PROVIDERS if ":" not in globbed or fnmatchcase(scheme, head)]
    for scheme in schemes:
        try:
            names = PROVIDERS[scheme].names
            every += [f"{scheme}:{name}" for name in (names() if names is not None else ())]
        except (StrobeError, ModuleNotFoundError):
            continue  # `strobe doctor` reports packages that are not installed, and broken plugins
    return [name for name in every if fnmatchcase(name, globbed)]


def expand(texts: Iterable[str]) -> list[str]:
    """Expand globs. Each model occurs once, in order. A glob without a match raises an error.

    If a provider's models are files, or if the wildcard is after @, the glob matches files.

    >>> expand(["efficientnet-lite[01]", "efficientnet-lite0"])
    ['efficientnet-lite0', 'efficientnet-lite1']
    """
    out: dict[str, None] = {}
    for text in texts:
        parts = split_text(text)
        if parts.at is not None:
            ends = files_of(parts.at, text) if not is_address(parts.at) else [parts.at]
            out.update(dict.fromkeys(replace(parts, at=end).text for end in ends))
        elif not is_pattern(parts.model + parts.provider):
            out[text] = None
        elif parts.provider and parts.provider in PROVIDERS and PROVIDERS[parts.provider].is_file:
            file, colon, factory = parts.model.rpartition(":") if PROVIDERS[parts.provider].runs_code else ("", "", "")
            names = files_of(file or parts.model, text)
            out.update(dict.fromkeys(f"{parts.provider}:{name}{colon}{factory if colon else ''}" for name in names))
        else:
            found = available(text)
            if not found:
                raise UnknownName("model pattern", text, [], hint="strobe models lists every model")
            out.update(dict.fromkeys(found))
    return list(out)


def files_of(pattern: str, text: str) -> list[str]:
    """Return the files that match a glob, sorted.

    A text without wildcards, or the name of an existing file, is returned unchanged.
    """
    if not is_pattern(pattern) or Path(pattern).exists():
        return [pattern]
    found = sorted(glob(pattern))  # noqa: PTH207 (absolute and relative patterns alike)
    if not found and set(pattern) & set("*?"):
        raise StrobeError(f"{printable(text)}: no file matches {printable(pattern)}; check the folder")
    return found or [pattern]
