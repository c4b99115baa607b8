"""Small networks for small images: untrained networks to train yourself, and trained networks shipped with strobe."""

from dataclasses import replace
from importlib import resources
from pathlib import Path

from strobe.core.errors import ModelFailed
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Classifier
from strobe.models.graphs import graph_classifier, in_torch
from strobe.models.header import expected_header, header_of
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.providers import TORCH_SETTINGS, Provider
from strobe.models.tensor_files import read_safetensors
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import classes_of_state, load_into, state_of

_SIDE = 64

WITHOUT_WEIGHTS = ("strobe-net", "strobe-net-small", "strobe-plain")
"""Networks that are shipped without weights."""

_OF_BACKGROUND = ("strobe-ground", "strobe-object")

SHIPPED = {
    f"strobe-{data}{kind}": "strobe-plain" if kind == "-judge" else "strobe-net-small"
    for data in ("world", "mnist")
    for kind in ("", "-linf", "-l2", "-judge")
} | dict.fromkeys(_OF_BACKGROUND, "strobe-net-small")
"""Classifiers shipped with weights, and the network of each.

Classifiers named world and mnist are for images of generators, which an annex ships. The other two are for the
synthetic world, with and without a background that reveals the class.
"""


def shipped_file(name: str) -> Path:
    """Return the path of a shipped classifier's weights."""
    return Path(str(resources.files("strobe.models") / "data" / f"{name}.safetensors"))


def plan_of(image_size: int | None = None) -> ImagePlan:
    """Resize the whole image to the input, ignoring aspect ratio, with pixels scaled to about −2 … 2."""
    size = image_size or _SIDE
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    return ImagePlan(size_hw=(size, size), fit="squash", interpolation="bilinear", mean=mean, std=std)


def load(model: ModelName, options: LoadOptions) -> Classifier:
    """Load the network with weights written by `strobe train`. Random weights are used only on request."""
    if model.name in SHIPPED and not in_torch(model, options):
        path = shipped_file(model.name)
        own = expected_header(path)
        return graph_classifier(
            model, options, network=SHIPPED[model.name], tensors=read_safetensors(path), weights=path,
            plan=own.plan_at(options.image_size) or plan_of(options.image_size), labels=own.label_space,
        )  # fmt: skip
    require("torch", what=model.name, extra="models")
    from strobe.models.strobe_net_layers import network

    with_file = model
    if model.name in SHIPPED and model.weights is None and options.pretrained:
        with_file = replace(model, weights=shipped_file(model.name))
    state, header = state_of(with_file, options), header_of(with_file, options)
    if state is None and options.pretrained:
        raise ModelFailed(f"{model.name}: it has no weights yet; train it (strobe train …) and write {model.name}@FILE")
    n_classes = classes_of_state(state) or len(options.label_space or _ONE)
    module = network(SHIPPED.get(model.name, model.name), n_classes)
    if state is not None:
        load_into(module, state, path=with_file.weights or "", model=model.name)
    space = header.label_space if header else space_of(model.text, n_classes, dataset=options.label_space)
    plan = header and header.plan_at(options.image_size)
    return classifier_of(module, model, plan=plan or plan_of(options.image_size), label_space=space, options=options)


_ONE = LabelSpace.of_names("one", ["thing"])


UNTRAINED = Provider(
    load=load,
    what="small untrained networks for 64-pixel images",
    example="strobe-net",
    package="torch",
    extra="models",
    bundled=WITHOUT_WEIGHTS,
    settings=TORCH_SETTINGS,
    gradients="all",
    trains=True,
)

OF_GENERATORS = replace(
    UNTRAINED,
    package="onnxruntime",
    extra="onnx",
    what="bundled classifiers for the synthetic world and MNIST: standard, robust, and a judge",
    example="strobe-world",
    bundled=tuple(name for name in SHIPPED if name not in _OF_BACKGROUND),
)

OF_BACKGROUND = replace(
    OF_GENERATORS,
    what="bundled classifiers for the synthetic world: one relies on the background, the other on the object",
    example="strobe-ground",
    bundled=_OF_BACKGROUND,
)
