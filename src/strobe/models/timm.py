"""timm's classifiers: `timm:resnet50.a1_in1k`, `timm:resnet50@weights.safetensors`."""

from contextlib import nullcontext
from typing import Any

from strobe.core import late
from strobe.core.errors import UnknownName
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector
from strobe.models.downloads import hub
from strobe.models.header import header_of
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan, as_triple
from strobe.models.providers import TORCH_SETTINGS, Provider
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import classes_of_state, classifier_state, load_into, plan_normalized_once


def names() -> list[str]:
    """Return the name of every timm model with weights, as timm spells it."""
    timm = require("timm", what="timm models", extra="models")
    return list(timm.list_models(pretrained=True))


def known_name(model: ModelName) -> None:
    """Raise UnknownName unless timm has this model. A model on a hub is not checked."""
    timm, name = require("timm", what=model.plain, extra="models"), model.name
    known = [] if name.startswith(("hf-hub:", "hf_hub:")) else [*timm.list_models(), *timm.list_models(pretrained=True)]
    if known and name not in known:
        raise UnknownName("timm model", name, known, hint="see strobe models 'timm:*'")


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """Load a timm model with its own preprocessing, and weights from the hub or from a file after @.

    If the header of the file names a head, the model is a detector.
    """
    timm, name = require("timm", what=model.plain, extra="models"), model.name
    known_name(model)
    header = header_of(model, options)
    if header is not None and header.head:
        detector: Detector = late.load("strobe.models.detectors.timm:load")(model, options, header)
        return detector
    checkpoint = classifier_state(model, options)
    state = checkpoint.tensors if checkpoint else None
    n_classes = classes_of_state(state)
    fetch = state is None and options.pretrained
    with hub(offline=options.offline) if fetch else nullcontext():
        module = timm.create_model(name, pretrained=fetch, **({"num_classes": n_classes} if n_classes else {}))
    if state is not None:
        load_into(module, state, path=model.weights or "", model=model.plain)
    plan = (header and header.plan_at(options.image_size)) or plan_of(module, image_size=options.image_size)
    plan = plan_normalized_once(plan, checkpoint, model, options)
    label_space = header.label_space if header else _space(model.plain, module, options)
    return classifier_of(module, model, plan=plan, label_space=label_space, options=options)


def _space(name: str, module: Any, options: LoadOptions) -> LabelSpace:
    """Return ILSVRC-2012, or a larger ImageNet label space whose WordNet ids timm contains."""
    data = require("timm.data", what=name, extra="models")
    n_classes, ids, class_names = int(module.num_classes), [], []
    subset = data.infer_imagenet_subset(module) if n_classes > 1000 else None
    if subset:
        info = data.ImageNetInfo(subset)
        ids = info.label_names()
        class_names = [info.label_name_to_description(label) for label in ids]
    return space_of(name, n_classes, ids=ids, names=class_names, given=options.settings, dataset=options.label_space)


def plan_of(module: Any, *, image_size: int | None = None) -> ImagePlan:
    """Return the model's own data config as a plan."""
    data = require("timm.data", what="timm preprocessing", extra="models")
    config = data.resolve_model_data_config(module)
    _, height, width = config["input_size"]
    if image_size:
        height = width = image_size
    share = config["crop_pct"] or 0.875
    scaled = int(height / share), int(width / share)
    mean, std = as_triple(config["mean"]), as_triple(config["std"])
    red, green, blue = (round(255 * value) for value in mean)
    fit = {"squash": "squash", "border": "pad"}.get(config["crop_mode"], "short-side")
    return ImagePlan(
        size_hw=(height, width),
        fit=fit,  # type: ignore[arg-type]  # it is one of the allowed values
        resize=min(scaled) if fit == "short-side" else None,
        resize_hw=scaled if fit != "short-side" else None,
        fill=(red, green, blue) if fit == "pad" else (0, 0, 0),
        interpolation=config["interpolation"],
        mean=mean,
        std=std,
    )


PROVIDER = Provider(
    load=load,
    what="timm's classifiers, more than 1,000, and detectors trained from them",
    example="timm:resnet50.a1_in1k",
    package="timm",
    extra="models",
    names=names,
    settings=TORCH_SETTINGS,
    model_settings=True,
    downloads=True,
    gradients="all",
    trains=True,
    detector="strobe.models.detectors.trainable:timm_start",
)
