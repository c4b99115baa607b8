"""Which providers there are, as text: an adapter is imported when one of its models is named.

A model is written `provider:name`, with weights of your own `provider:name@weights.safetensors`; the bundled models
are written without a provider.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from strobe.core import late
from strobe.core.errors import MissingExtra, ModelFailed, StrobeError, UnknownName, expect, out_of_memory, printable
from strobe.core.ports import Classifier, Detector
from strobe.models.options import LoadOptions, no_settings

__all__ = ["BUNDLED", "PROVIDERS", "ModelName", "Provider", "available", "expand", "load_model", "parse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One source of models. `load` names `load(name, weights, options)`; `names` names a function that lists.

    `settings` says whether its models take a settings file.
    """

    load: str
    what: str
    extra: str
    example: str
    names: str | None = None
    settings: bool = False


PROVIDERS: dict[str, Provider] = {
    "timm": Provider(
        load="strobe.models.timm:load", names="strobe.models.timm:names", extra="models",
        what="the 1,000+ classifiers of timm", example="timm:resnet50.a1_in1k",
        settings=True,
    ),
    "torchvision": Provider(
        load="strobe.models.torchvision:load", names="strobe.models.torchvision:names", extra="models",
        what="torchvision's classifiers and detectors", example="torchvision:resnet50",
        settings=True,
    ),
    "openclip": Provider(
        load="strobe.models.openclip:load", names="strobe.models.openclip:names", extra="openclip",
        what="CLIP and its kin, zero-shot over the dataset's class names", example="openclip:ViT-L-14-336/openai",
    ),
    "hf": Provider(
        load="strobe.models.hf:load", extra="hf",
        what="image classifiers and detectors of transformers, from the hub or a folder",
        example="hf:microsoft/resnet-50",
        settings=True,
    ),
    "onnx": Provider(
        load="strobe.models.onnx:load", extra="onnx",
        what="an ONNX file, with a JSON beside it that says size, normalisation and labels", example="onnx:model.onnx",
        settings=True,
    ),
    "py": Provider(
        load="strobe.models.plugin:load", extra="models",
        what="a model of your own from one Python file", example="py:mine.py:make",
        settings=True,
    ),
    "ultralytics": Provider(
        load="strobe.models.detectors.ultralytics:load", extra="ultralytics",
        what="YOLO detectors of ultralytics", example="ultralytics:yolo11n.pt",
    ),
}  # fmt: skip
"""Every provider by the word before the colon. `preds:` is not among them: it names predictions, not a model."""

BUNDLED: dict[str, str] = {
    "efficientnet-lite0": "strobe.models.lite:load",
    "efficientnet-lite1": "strobe.models.lite:load",
    "efficientnet-lite2": "strobe.models.lite:load",
    "strobe-tiny": "strobe.models.detectors.tiny:load",
}
"""Models without a provider: nothing is downloaded for them but packages."""


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model as it is written, taken apart."""

    text: str
    provider: str
    name: str
    weights: Path | None = None


def parse(text: str) -> ModelName:
    """Take `provider:name[@weights]` apart; near matches for a provider nobody knows.

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
            return ModelName(text, "bundled", body, weights)
        hint = "a model is written provider:name, e.g. timm:resnet50; see strobe models"
        raise UnknownName("model", body, [*BUNDLED, *(entry.example for entry in PROVIDERS.values())], hint=hint)
    if provider not in PROVIDERS:
        raise UnknownName("provider", provider, [*PROVIDERS, "preds"], hint=f"known: {', '.join(PROVIDERS)}, preds")
    if not name:
        raise ModelFailed(
            f"model {printable(text)!r}: expected a name after {provider}:, e.g. {PROVIDERS[provider].example}"
        )
    return ModelName(text, provider, name, weights)


def load_model(text: str, options: LoadOptions) -> Classifier | Detector:
    """The model behind its port, ready to run; one line of StrobeError for whatever goes wrong on the way."""
    model = parse(text)
    target = BUNDLED[model.name] if model.provider == "bundled" else PROVIDERS[model.provider].load
    if model.provider == "bundled" or not PROVIDERS[model.provider].settings:
        no_settings(options, text)
    try:
        loaded: Classifier | Detector = late.load(target)(model.name, model.weights, options)
    except StrobeError:
        raise
    except ModuleNotFoundError as error:
        extra = "models" if model.provider == "bundled" else PROVIDERS[model.provider].extra
        raise MissingExtra(text, (error.name or "?").split(".")[0], extra) from error
    except (Exception, SystemExit) as error:  # a hub's own code may call for an exit too
        raise explain(model, error) from error
    return loaded


def explain(model: ModelName, error: BaseException) -> StrobeError:
    """What went wrong while loading, in one line."""
    from strobe.models.downloads import cannot_download

    trouble = cannot_download(model.text, error)
    if trouble is not None:
        return trouble
    if out_of_memory(error):
        return ModelFailed(f"{printable(model.text)}: out of memory while loading; use a smaller model or --device cpu")
    return ModelFailed(
        f"{printable(model.text)}: cannot be loaded ({type(error).__name__}: {printable(error, limit=200)})"
    )


def available(pattern: str | None = None) -> list[str]:
    """The models that can be named, from the bundled ones and every installed provider that can list.

    The pattern is a glob over the whole text: `timm:resnet*`, `*lite*`.
    """
    found = list(BUNDLED)
    wanted = pattern or "*"
    head = wanted.partition(":")[0]
    for key, provider in PROVIDERS.items():
        if provider.names is None or (":" in wanted and not fnmatchcase(key, head)):
            continue
        try:
            found += [f"{key}:{name}" for name in late.load(provider.names)()]
        except (MissingExtra, ModuleNotFoundError):
            continue  # strobe doctor says what is not installed
    return [name for name in found if fnmatchcase(name, wanted)]


def expand(texts: Iterable[str]) -> list[str]:
    """Globs spelled out, each model once, in order; a glob that fits nothing is an error.

    >>> expand(["efficientnet-lite[01]", "efficientnet-lite0"])
    ['efficientnet-lite0', 'efficientnet-lite1']
    """
    out: dict[str, None] = {}
    for text in texts:
        name, at, _ = text.partition("@")
        if at or not any(sign in name for sign in "*?[") or name.startswith(("onnx:", "py:", "preds:", "hf:")):
            out[text] = None
            continue
        found = available(name)
        if not found:
            raise UnknownName("model pattern", text, [], hint="see strobe models for what can be named")
        out.update(dict.fromkeys(found))
    return list(out)
