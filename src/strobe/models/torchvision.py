"""torchvision's models: `torchvision:resnet50`, `torchvision:resnet50/IMAGENET1K_V1`, `torchvision:vgg16@file.pth`."""

import os
import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from strobe.core import late
from strobe.core.errors import CannotDownload, ModelFailed, UnknownName
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, no_settings
from strobe.models.plan import ImagePlan, as_triple
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import classes_of_state, load_into, read_state, would_run_code

__all__ = ["load", "names"]

_OLD_DENSENET = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\.(?:weight|bias|running_mean|running_var))$")


def names() -> list[str]:
    """Classifiers and detectors with weights."""
    models = require("torchvision.models", what="torchvision models", extra="models")
    detection = require("torchvision.models.detection", what="torchvision models", extra="models")
    return [*models.list_models(module=models), *models.list_models(module=detection)]


def load(name: str, weights: Path | None, options: LoadOptions) -> Classifier | Detector:
    """A torchvision model with the preprocessing of its weights. A tag after / chooses among published weights."""
    models = require("torchvision.models", what=f"torchvision:{name}", extra="models")
    architecture, _, tag = name.partition("/")
    known = names()
    if architecture not in known:
        raise UnknownName("torchvision model", architecture, known, hint="see strobe models 'torchvision:*'")
    if architecture not in models.list_models(module=models):
        no_settings(options, f"torchvision:{name}")
        detector: Detector = late.load("strobe.models.detectors.torchvision:load")(name, weights, options)
        return detector
    published = models.get_model_weights(architecture)
    if tag and tag not in published.__members__:
        raise UnknownName(f"weights of torchvision:{architecture}", tag, published.__members__)
    chosen = published[tag] if tag else published.DEFAULT
    if not chosen.meta["categories"]:
        raise ModelFailed(f"torchvision:{name}: these weights have no classifier; choose another tag")
    text = f"torchvision:{name}" + (f"@{weights}" if weights else "")
    if weights is None and options.pretrained:
        module, n_classes = _published(architecture, chosen, text, options), len(chosen.meta["categories"])
    else:
        state = _of_today(read_state(weights, trust=options.trust)) if weights else {}
        n_classes = classes_of_state(state) or len(chosen.meta["categories"])
        module = _like_published(architecture, chosen, state, n_classes=n_classes)
        if weights:
            load_into(module, state, path=weights, model=f"torchvision:{architecture}")
    return classifier_of(
        module,
        name=text,
        provider="torchvision",
        plan=plan_of(chosen, image_size=options.image_size),
        label_space=space_of(text, n_classes, given=options.settings, dataset=options.label_space),
        options=options,
        facts={"transform_input": True} if getattr(module, "transform_input", False) else None,
    )


def _published(architecture: str, chosen: Any, name: str, options: LoadOptions) -> Any:
    """The model as its own builder makes it with these weights: only the builder knows all that belongs to them."""
    models = require("torchvision.models", what=name, extra="models")
    hub = require("torch.hub", what=name, extra="models")
    here = Path(hub.get_dir()) / "checkpoints" / chosen.url.rsplit("/", 1)[-1]
    if options.offline and not here.is_file():
        raise CannotDownload(
            f"{name}: its weights are not in {here.parent} and --offline forbids fetching {chosen.url}"
        )
    try:
        with nullcontext() if options.trust else _weights_only():
            return models.get_model(architecture, weights=chosen, progress=False)
    except pickle.UnpicklingError as error:
        raise would_run_code(here) from error


@contextmanager
def _weights_only() -> Iterator[None]:
    """While open, torch reads weights and nothing that could run: torchvision's own loader does not ask for that."""
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _like_published(architecture: str, chosen: Any, state: Mapping[str, Any], *, n_classes: int) -> Any:
    """The model as its builder makes it for these published weights, but for the number of classes."""
    models = require("torchvision.models", what=f"torchvision:{architecture}", extra="models")
    kwargs: dict[str, Any] = {}
    if architecture in ("googlenet", "inception_v3"):
        # The published weights were made for other pixels; the network shifts them itself.
        kwargs = {"transform_input": True, "init_weights": False}
        kwargs["aux_logits"] = any(key.startswith(("aux", "Aux")) for key in state)
    elif architecture.startswith("vit_"):
        kwargs = {"image_size": chosen.meta["min_size"][0]}
    elif architecture.startswith("maxvit"):
        kwargs = {"input_size": chosen.meta["min_size"]}
    return models.get_model(architecture, weights=None, num_classes=n_classes, **kwargs)


def _of_today(state: dict[str, Any]) -> dict[str, Any]:
    """The tensors with the names of today: published DenseNets are of an older day and renamed by their builder."""
    for key in list(state):
        if found := _OLD_DENSENET.match(key):
            state[found[1] + found[2]] = state.pop(key)
    return state


def plan_of(chosen: Any, *, image_size: int | None = None) -> ImagePlan:
    """The published preprocessing as a plan."""
    preset = chosen.transforms()
    size = image_size or preset.crop_size[0]
    return ImagePlan(
        size_hw=(size, size),
        resize=preset.resize_size[0]
        if not image_size
        else round(image_size * preset.resize_size[0] / preset.crop_size[0]),
        interpolation=preset.interpolation.value,
        mean=as_triple(preset.mean),
        std=as_triple(preset.std),
    )
