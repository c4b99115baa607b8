"""torchvision's published weights: which a name means, and where they lie once fetched."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from strobe.core.errors import CannotDownload, ModelFailed, UnknownName, printable
from strobe.core.late import require
from strobe.models.options import LoadOptions, ModelName

__all__ = ["cached", "detection_classes", "published"]


def published(model: ModelName, known: Collection[str], *, what: str) -> tuple[str, Any]:
    """The architecture, and the weights that the tag after / names; the newest without one."""
    models = require("torchvision.models", what=model.plain, extra="models")
    architecture, _, tag = model.name.partition("/")
    if architecture not in known:
        raise UnknownName(f"torchvision {what}", architecture, known, hint="see strobe models 'torchvision:*'")
    weights = models.get_model_weights(architecture)
    if tag and tag not in weights.__members__:
        raise UnknownName(f"weights of torchvision:{architecture}", tag, weights.__members__)
    return architecture, weights[tag] if tag else weights.DEFAULT


def cached(chosen: Any, model: ModelName, options: LoadOptions) -> Path:
    """Where torch keeps these weights; one line where they are not there and may not be fetched."""
    hub = require("torch.hub", what=model.text, extra="models")
    here = Path(hub.get_dir()) / "checkpoints" / str(chosen.url).rsplit("/", 1)[-1]
    if options.offline and not here.is_file():
        raise CannotDownload(
            f"{model.text}: its weights are not in {here.parent} and --offline forbids fetching {chosen.url}"
        )
    return here


def detection_classes(state: dict[str, Any], architecture: str, model: ModelName) -> int:
    """How many classes the head of these weights has, background included where there is one."""
    head = "head.classification_head"
    # Boxes a cell speaks for: of two-stage heads and FCOS one, of RetinaNet nine, of SSD's first map four or six.
    for key, boxes in (
        ("roi_heads.box_predictor.cls_score.bias", 1),
        (f"{head}.cls_logits.bias", 1 if architecture.startswith("fcos") else 9),
        (f"{head}.module_list.0.bias", 4),
        (f"{head}.module_list.0.1.bias", 6),
    ):
        if key in state:
            return int(state[key].shape[0]) // boxes
    raise ModelFailed(f"{printable(model.text)}: no detection head in the weights; are they a classifier's?")
