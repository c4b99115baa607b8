"""Every model provider in one list. The registry loads from it, `strobe models` and `strobe doctor` print it.

A new provider needs an adapter, one entry here and one case in `tests/contracts/`.
"""

from dataclasses import dataclass

__all__ = ["BUNDLED", "PROVIDERS", "Provider"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A model provider: the prefix before the colon, and the module whose `load(model, options)` loads a model.

    `package` is the required package's import name, and `pip` its name on PyPI if that differs. `lists`: the module has
    `names()`. `settings`: its models accept a settings file. `is_file`: the name after the colon is a file or folder,
    so * in it is not a glob. `bundled` are models written without a prefix.
    """

    scheme: str
    module: str
    package: str
    extra: str
    what: str
    example: str
    pip: str = ""
    lists: bool = False
    settings: bool = False
    is_file: bool = False
    bundled: tuple[str, ...] = ()


_LITE = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")

PROVIDERS: tuple[Provider, ...] = (
    Provider(
        scheme="bundled", module="strobe.models.lite", package="efficientnet_lite_pytorch", extra="lite",
        what="bundled classifiers of ILSVRC-2012", example=_LITE[0], bundled=_LITE,
    ),
    Provider(
        scheme="bundled", module="strobe.models.detectors.tiny", package="torch", extra="models",
        what="bundled detectors of the synthetic world", example="strobe-tiny",
        bundled=("strobe-tiny", "strobe-ground-boxes", "strobe-net-boxes"),
    ),
    Provider(
        scheme="bundled", module="strobe.models.strobe_net", package="torch", extra="models",
        what="small networks for 64 pixels, to train oneself", example="strobe-net",
        bundled=("strobe-net", "strobe-net-small", "strobe-plain"),
    ),
    Provider(
        scheme="bundled", module="strobe.models.strobe_net", package="torch", extra="models",
        what="bundled classifiers of the synthetic world and of MNIST: standard, robust, a judge",
        example="strobe-world",
        bundled=tuple(f"strobe-{data}{kind}" for data in ("world", "mnist") for kind in ("", "-linf", "-l2", "-judge")),
    ),
    Provider(
        scheme="bundled", module="strobe.models.strobe_net", package="torch", extra="models",
        what="bundled classifiers of the synthetic world: one looks at the ground, one at the object",
        example="strobe-ground", bundled=("strobe-ground", "strobe-object"),
    ),
    Provider(
        scheme="timm", module="strobe.models.timm", package="timm", extra="models", lists=True, settings=True,
        what="the 1,000+ classifiers of timm", example="timm:resnet50.a1_in1k",
    ),
    Provider(
        scheme="torchvision", module="strobe.models.torchvision", package="torchvision", extra="models", lists=True,
        settings=True, what="torchvision's classifiers and detectors", example="torchvision:resnet50",
    ),
    Provider(
        scheme="openclip", module="strobe.models.openclip", package="open_clip", pip="open_clip_torch",
        extra="openclip", lists=True, example="openclip:ViT-L-14-336/openai",
        what="CLIP and its kin, zero-shot over the dataset's class names",
    ),
    Provider(
        scheme="hf", module="strobe.models.hf", package="transformers", extra="hf", settings=True, is_file=True,
        what="image classifiers and detectors of transformers, from the hub or a folder",
        example="hf:microsoft/resnet-50",
    ),
    Provider(
        scheme="onnx", module="strobe.models.onnx", package="onnxruntime", extra="onnx", settings=True, is_file=True,
        what="an ONNX file, with a JSON beside it that says size, normalisation and labels", example="onnx:model.onnx",
    ),
    Provider(
        scheme="pt2", module="strobe.models.pt2", package="torch", extra="models", settings=True, is_file=True,
        what="a program of torch.export, with the same JSON beside it as an ONNX file", example="pt2:model.pt2",
    ),
    Provider(
        scheme="py", module="strobe.models.plugin", package="numpy", extra="models", settings=True, is_file=True,
        what="a model of your own from one Python file", example="py:mine.py:make",
    ),
    Provider(
        scheme="ultralytics", module="strobe.models.detectors.ultralytics", package="ultralytics", extra="ultralytics",
        what="YOLO detectors of ultralytics", example="ultralytics:yolo11n.pt",
    ),
    Provider(
        scheme="boxes", module="", package="numpy", extra="", example="boxes:strobe-tiny",
        what="a detector as a classifier, from its stored boxes; boxes-sum:, boxes-noisyor:",
    ),
    Provider(
        scheme="crop", module="", package="numpy", extra="", example="crop:truth:strobe-world",
        what="a classifier that sees each frame cut to a box, a true one or a detector's; context=1.5 and more",
    ),
    Provider(
        scheme="preds", module="", package="numpy", extra="", is_file=True,
        what="predictions you bring: JSON, JSONL, CSV or Parquet", example="preds:scores.json",
    ),
)  # fmt: skip
"""In display order. `preds:` names predictions, and `boxes:` and `crop:` combine two models, so they have no module."""

BUNDLED: dict[str, Provider] = {name: entry for entry in PROVIDERS for name in entry.bundled}
"""Models without a provider prefix. They need only Python packages, no further downloads."""
