"""The providers of models: how a provider declares itself, and two lists of text.

A new provider needs its module, one line here and a contract test. Packages add providers with an entry point of the
group `strobe.providers` (docs/plugins.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from strobe.core.errors import expect
from strobe.core.late import Registry
from strobe.models.options import LoadOptions, ModelName

TORCH_SETTINGS = ("precision", "backend", "compile", "decode", "image_size", "batch_size")
"""The settings that a row of a model list may have for a classifier that runs in torch."""

FILE_SETTINGS = ("decode", "image_size", "batch_size")
"""The settings that a row of a model list may have for a network that was exported to a file."""

ONNX_SETTINGS = ("precision", "backend", *FILE_SETTINGS)
"""The settings that a row of a model list may have for an ONNX file."""

SETTINGS = (*TORCH_SETTINGS, "prompt", "limits", "model_settings")
"""Every setting that a row of a model list may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider of models or generators. `load` returns a model or generator by its parsed name.

    `what` and `example` are shown by `strobe models`. `package` is the import name of the package it needs, `pip` its
    name on PyPI if that differs, `also` further packages with their purpose, `extra` strobe's extra that installs them.

    `names` lists its models. `bundled` are models written without a provider. `settings` are the keys of a model list
    that it accepts. `model_settings`: it reads the file of `--model-settings`, which a list may name too.
    `is_file`: the name may be a file or a folder. `address`: the part after @ may be an address. `runs_code`: loading a
    model runs a file's code. `downloads`: weights may come from the network. `gradients`: its classifiers have
    gradients. `standard`: its models were trained on ILSVRC-2012 alone, so they count for the trend.

    `trains`: the weights can be trained and written to a file. `backbone` returns the name, the features and the
    tensors with a head, for a network whose head strobe cannot find. `detector` names the function that starts the
    training of a detector. `sent` returns the name and options for another process, if absolute paths are not enough.
    """

    load: Callable[[ModelName, LoadOptions], Any]
    what: str
    example: str
    package: str = "numpy"
    pip: str = ""
    also: tuple[tuple[str, str], ...] = ()
    extra: str = ""
    names: Callable[[], list[str]] | None = None
    bundled: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    model_settings: bool = False
    is_file: bool = False
    address: bool = False
    runs_code: bool = False
    downloads: bool = False
    gradients: Literal["", "most", "all"] = ""
    standard: bool = False
    trains: bool = False
    backbone: Callable[[ModelName, Any], tuple[str, Callable[..., Any], Callable[..., Any]]] | None = None
    detector: str = ""
    sent: Callable[[ModelName, LoadOptions], tuple[ModelName, LoadOptions]] | None = None

    def __post_init__(self) -> None:
        expect(callable(self.load), "Provider.load", "a function (model, options)", self.load)
        expect(bool(self.what and self.example), "Provider", "what and example", (self.what, self.example))
        unknown = [name for name in self.settings if name not in SETTINGS]
        expect(not unknown, "Provider.settings", f"among {', '.join(SETTINGS)}", unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of model string without a provider: its meaning and an example, as `strobe models` prints them."""

    scheme: str
    example: str
    what: str


FORMS = (
    Form(
        scheme="boxes",
        example="boxes:strobe-tiny",
        what="a detector as a classifier, from its stored boxes; also boxes-sum:, boxes-noisyor:",
    ),
    Form(
        scheme="crop",
        example="crop:truth:strobe-world",
        what="a classifier on each frame cropped to a true or a detected box; options such as context=1.5",
    ),
    Form(
        scheme="preds",
        example="preds:scores.json",
        what="your own predictions, as JSON, JSONL, CSV or Parquet",
    ),
)
"""The forms that need a dataset's frames or name a file of predictions, in display order."""


PROVIDERS = Registry(
    "providers",
    Provider,
    "provider",
    {
        "timm": "strobe.models.timm:PROVIDER",
        "torchvision": "strobe.models.torchvision:PROVIDER",
        "openclip": "strobe.models.openclip:PROVIDER",
        "hf": "strobe.models.hf:PROVIDER",
        "onnx": "strobe.models.onnx:PROVIDER",
        "pt2": "strobe.models.pt2:PROVIDER",
        "py": "strobe.models.plugin:PROVIDER",
        "ultralytics": "strobe.models.detectors.ultralytics:PROVIDER",
    },
    reserved=("bundled", "live", "truth", *(form.scheme for form in FORMS)),
)
"""Every provider by the prefix before the colon, in display order."""

_BUNDLE = Registry(
    "bundled",
    Provider,
    "bundled model",
    {
        "lite": "strobe.models.lite:PROVIDER",
        "tiny": "strobe.models.detectors.tiny:PROVIDER",
        "untrained": "strobe.models.strobe_net:UNTRAINED",
        "generators": "strobe.models.strobe_net:OF_GENERATORS",
        "background": "strobe.models.strobe_net:OF_BACKGROUND",
    },
    closed=True,
)
"""Models without a provider prefix. They need only Python packages, no further downloads."""


@cache
def bundled() -> dict[str, Provider]:
    """Return the provider of each bundled model by the model's name, in display order."""
    return {name: provider for provider in _BUNDLE.working().values() for name in provider.bundled}


def declared() -> list[tuple[str, Provider]]:
    """Return every importable provider by its prefix, or by "bundled" if it has no prefix."""
    return [*(("bundled", one) for one in _BUNDLE.working().values()), *PROVIDERS.working().items()]
