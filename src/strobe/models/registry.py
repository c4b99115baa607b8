"""Load models by name. An adapter is imported only when one of its models is named.

A model is written `provider:name`, or `provider:name@weights.safetensors` with your own weights. Bundled models are
written without a provider.
"""

from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from strobe.core import late
from strobe.core.errors import MissingExtra, ModelFailed, StrobeError, UnknownName, expect, out_of_memory, printable
from strobe.core.ports import Classifier, Detector
from strobe.models.options import LoadOptions, ModelName, no_settings, require_file
from strobe.models.providers import BUNDLED, PROVIDERS
from strobe.models.travel import pack

__all__ = ["available", "expand", "load_model", "parse", "sendable", "sent"]

_BY_SCHEME = {entry.scheme: entry for entry in PROVIDERS if not entry.bundled}
_MODELS = {scheme: entry for scheme, entry in _BY_SCHEME.items() if entry.module}


def parse(text: str) -> ModelName:
    """Parse `provider:name[@weights]`. The error for an unknown provider suggests close matches.

    >>> parse("timm:resnet50@weights.safetensors").weights
    PosixPath('weights.safetensors')
    >>> parse("efficientnet-lite0").provider
    'bundled'
    """
    expect(bool(text.strip()), "model", "a name such as timm:resnet50", text)
    body, at, path = text.partition("@")
    weights = Path(path) if at else None
    if at and not path:
        raise ModelFailed(f"model {printable(text)!r}: expected a weights file after @")
    provider, colon, name = body.partition(":")
    if not colon:
        if body in BUNDLED:
            return ModelName("bundled", body, weights)
        hint = "a model is written provider:name, e.g. timm:resnet50; see strobe models"
        raise UnknownName("model", body, [*BUNDLED, *(entry.example for entry in _MODELS.values())], hint=hint)
    if provider in _BY_SCHEME and provider not in _MODELS:
        raise ModelFailed(
            f"{printable(text)}: {provider}: is for strobe eval and predict, which have a dataset's frames"
        )
    if provider not in _MODELS:
        raise UnknownName("provider", provider, _BY_SCHEME, hint=f"known: {', '.join(_BY_SCHEME)}")
    if not name:
        raise ModelFailed(
            f"model {printable(text)!r}: expected a name after {provider}:, e.g. {_MODELS[provider].example}"
        )
    return ModelName(provider, name, weights)


def sendable(text: str, options: LoadOptions) -> tuple[str, LoadOptions]:
    """Return the model for use in another process.

    Python files are packed into the options, other paths made absolute.
    """
    model, settings = parse(text), options.settings
    named = model.provider == "ultralytics" or (model.provider in _MODELS and _MODELS[model.provider].is_file)
    there, options = sent(model, options, is_file=named)
    return there.text, replace(options, settings=settings and settings.absolute())


def sent(model: ModelName, options: LoadOptions, *, is_file: bool) -> tuple[ModelName, LoadOptions]:
    """Return a model's or generator's name for another process. `is_file` means the name may be a file or folder."""
    name, file = model.name, model.name.rpartition(":")[0]
    if model.provider == "py":
        packed = pack(require_file(Path(file), what=model.plain))
        options = replace(options, code={**options.code, file: packed})
    elif is_file and Path(name).exists():  # otherwise it names a model on a hub
        name = str(Path(name).absolute())
    return ModelName(model.provider, name, model.weights and model.weights.absolute()), options


def load_model(text: str, options: LoadOptions) -> Classifier | Detector:
    """Return the loaded model behind its port. Every failure raises a StrobeError with a one-line message."""
    model = parse(text)
    provider = BUNDLED[model.name] if model.provider == "bundled" else _MODELS[model.provider]
    if not provider.settings:
        no_settings(options, text)
    try:
        loaded: Classifier | Detector = late.load(f"{provider.module}:load")(model, options)
    except StrobeError:
        raise
    except ModuleNotFoundError as error:
        raise MissingExtra(text, (error.name or "?").split(".")[0], provider.extra) from error
    except (Exception, SystemExit) as error:  # code from a hub may call sys.exit too
        raise explain(text, error) from error
    return loaded


def explain(text: str, error: BaseException) -> StrobeError:
    """Return the loading error as one line."""
    from strobe.models.downloads import cannot_download

    trouble = cannot_download(text, error)
    if trouble is not None:
        return trouble
    if out_of_memory(error):
        return ModelFailed(f"{printable(text)}: out of memory while loading; use a smaller model or --device cpu")
    return ModelFailed(f"{printable(text)}: cannot be loaded ({type(error).__name__}: {printable(error, limit=200)})")


def available(pattern: str | None = None) -> list[str]:
    """Return the model names of the bundle and of every installed provider that can list its models.

    The pattern is a glob over the whole name: `timm:resnet*`, `*lite*`.
    """
    found = list(BUNDLED)
    wanted = pattern or "*"
    head = wanted.partition(":")[0]
    for scheme, provider in _MODELS.items():
        if not provider.lists or (":" in wanted and not fnmatchcase(scheme, head)):
            continue
        try:
            found += [f"{scheme}:{name}" for name in late.load(f"{provider.module}:names")()]
        except (MissingExtra, ModuleNotFoundError):
            continue  # `strobe doctor` reports packages that are not installed
    return [name for name in found if fnmatchcase(name, wanted)]


def expand(texts: Iterable[str]) -> list[str]:
    """Expand globs, with each model once and in order. A glob without a match raises an error.

    >>> expand(["efficientnet-lite[01]", "efficientnet-lite0"])
    ['efficientnet-lite0', 'efficientnet-lite1']
    """
    files = tuple(f"{entry.scheme}:" for entry in PROVIDERS if entry.is_file)
    out: dict[str, None] = {}
    for text in texts:
        name, at, _ = text.partition("@")
        if at or not any(sign in name for sign in "*?[") or name.startswith(files):
            out[text] = None
            continue
        found = available(name)
        if not found:
            raise UnknownName("model pattern", text, [], hint="see strobe models for what can be named")
        out.update(dict.fromkeys(found))
    return list(out)
