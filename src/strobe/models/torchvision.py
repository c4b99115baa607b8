"""torchvision's models: `torchvision:resnet50`, `torchvision:resnet50/IMAGENET1K_V1`, `torchvision:vgg16@file.pth`."""

import pickle
import re
from collections.abc import Mapping
from typing import Any

from strobe.core import late
from strobe.core.errors import ModelFailed
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector
from strobe.models.detectors.building import OWN
from strobe.models.header import header_of
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, ModelName, no_settings
from strobe.models.plan import ImagePlan, as_triple
from strobe.models.providers import TORCH_SETTINGS, Provider
from strobe.models.torch_classifier import classifier_of
from strobe.models.torchvision_weights import cached, published
from strobe.models.weights import (
    classes_of_state,
    classifier_state,
    load_into,
    no_code,
    plan_normalized_once,
    would_run_code,
)

_OLD_DENSENET = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\.(?:weight|bias|running_mean|running_var))$")


def names() -> list[str]:
    """Return the names of classifiers and detectors with weights."""
    models = require("torchvision.models", what="torchvision models", extra="models")
    detection = require("torchvision.models.detection", what="torchvision models", extra="models")
    return [*models.list_models(module=models), *models.list_models(module=detection), *OWN]


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """Load a torchvision model with its weights' preprocessing. A tag after / selects published weights."""
    models = require("torchvision.models", what=model.plain, extra="models")
    if model.name not in OWN:
        architecture, chosen = published(model, names(), what="model")
    if model.name in OWN or architecture not in models.list_models(module=models):
        no_settings(options, model.plain)
        detector: Detector = late.load("strobe.models.detectors.torchvision:load")(model, options)
        return detector
    n_classes = len(chosen.meta["categories"] or ())
    if not n_classes:
        raise ModelFailed(f"{model.plain}: these weights have no classification head; choose another tag")
    header, checkpoint = header_of(model, options), classifier_state(model, options)
    if model.weights is None and options.pretrained:
        file = cached(chosen, model, options)
        try:
            # Only the model's own builder knows every setting of these weights.
            with no_code(unless=options.trust):
                module = models.get_model(architecture, weights=chosen, progress=False)
        except pickle.UnpicklingError as error:
            raise would_run_code(file) from error
    else:
        state = _of_today(checkpoint.tensors if checkpoint else {})
        n_classes = classes_of_state(state) or n_classes
        kwargs = _built(architecture, chosen, state)
        module = models.get_model(architecture, weights=None, num_classes=n_classes, **kwargs)
        if model.weights:
            load_into(module, state, path=model.weights, model=f"torchvision:{architecture}")
            if header is None:
                _say_preset(model, chosen, options)
    plan = (header and header.plan_at(options.image_size)) or plan_of(chosen, image_size=options.image_size)
    return classifier_of(
        module,
        model,
        plan=plan_normalized_once(plan, checkpoint, model, options),
        label_space=header.label_space
        if header
        else space_of(model.text, n_classes, given=options.settings, dataset=options.label_space),
        options=options,
        facts={"transform_input": True} if getattr(module, "transform_input", False) else None,
    )


def _say_preset(model: ModelName, chosen: Any, options: LoadOptions) -> None:
    """Print which published preprocessing is used, if the model has several.

    A weights file does not record its preprocessing.
    """
    others = [one for one in type(chosen) if plan_of(one) != plan_of(chosen)]
    if others and "/" not in model.name and options.progress is not None:
        plan, tags = plan_of(chosen), " or ".join(f"{model.plain}/{one.name}@…" for one in others)
        options.progress.note(
            f"{model.text}: images are prepared as for {chosen.name} (resize {plan.resize}, crop {plan.size_hw[0]}, "
            f"{plan.interpolation}); if it was trained with other preprocessing, write {tags}"
        )


def _built(architecture: str, chosen: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the builder settings of these published weights, except the number of classes."""
    if architecture in ("googlenet", "inception_v3"):
        # The published weights expect pixels in another range. The network converts them itself.
        aux = any(key.startswith(("aux", "Aux")) for key in state)
        return {"transform_input": True, "init_weights": False, "aux_logits": aux}
    if architecture.startswith("vit_"):
        return {"image_size": chosen.meta["min_size"][0]}
    return {"input_size": chosen.meta["min_size"]} if architecture.startswith("maxvit") else {}


def _of_today(state: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors with current names. Published DenseNets use older names that their builder converts."""
    for key in list(state):
        if found := _OLD_DENSENET.match(key):
            state[found[1] + found[2]] = state.pop(key)
    return state


def plan_of(chosen: Any, *, image_size: int | None = None) -> ImagePlan:
    """Return the published preprocessing as a plan."""
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


PROVIDER = Provider(
    load=load,
    what="torchvision's classifiers and detectors",
    example="torchvision:resnet50",
    package="torchvision",
    extra="models",
    names=names,
    settings=TORCH_SETTINGS,
    model_settings=True,
    downloads=True,
    gradients="all",
    trains=True,
    detector="strobe.models.detectors.trainable:torchvision_start",
)
