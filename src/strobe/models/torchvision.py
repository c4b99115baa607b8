"""torchvision's models: `torchvision:resnet50`, `torchvision:resnet50/IMAGENET1K_V1`, `torchvision:vgg16@file.pth`."""

from pathlib import Path
from typing import Any

from strobe.core import late
from strobe.core.errors import CannotDownload, UnknownName
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions
from strobe.models.plan import ImagePlan, as_triple
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import classes_of_state, load_into, read_state

__all__ = ["load", "names"]


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
        detector: Detector = late.load("strobe.models.detectors.torchvision:load")(name, weights, options)
        return detector
    published = models.get_model_weights(architecture)
    if tag and tag not in published.__members__:
        raise UnknownName(f"weights of torchvision:{architecture}", tag, published.__members__)
    chosen = published[tag] if tag else published.DEFAULT
    state = read_state(weights, trust=options.trust) if weights else None
    if state is None and options.pretrained:
        state = _fetch(chosen, f"torchvision:{name}", options)
    n_classes = classes_of_state(state) or len(chosen.meta["categories"])
    plain = {"init_weights": False} if architecture in ("googlenet", "inception_v3") else {}
    if state is not None and any("aux" in key.lower() for key in state) is False and plain:
        plain["aux_logits"] = False
    module = models.get_model(architecture, weights=None, num_classes=n_classes, **plain)
    if state is not None:
        load_into(module, state, path=weights or tag or "default weights", model=f"torchvision:{architecture}")
    return classifier_of(
        module,
        name=f"torchvision:{name}" + (f"@{weights}" if weights else ""),
        provider="torchvision",
        plan=plan_of(chosen, image_size=options.image_size),
        label_space=space_of(f"torchvision:{name}", n_classes, dataset=options.label_space),
        options=options,
    )


def _fetch(chosen: Any, name: str, options: LoadOptions) -> dict[str, Any]:
    hub = require("torch.hub", what=name, extra="models")
    here = Path(hub.get_dir()) / "checkpoints" / chosen.url.rsplit("/", 1)[-1]
    if options.offline and not here.is_file():
        raise CannotDownload(
            f"{name}: its weights are not in {here.parent} and --offline forbids fetching {chosen.url}"
        )
    return dict(chosen.get_state_dict(progress=False, check_hash=True))


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
