"""torchvision's published weights: parsing their names, and their local files."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from strobe.core.errors import CannotDownload, ModelFailed, UnknownName, printable
from strobe.core.late import require
from strobe.models.options import LoadOptions, ModelName


def published(model: ModelName, known: Collection[str], *, what: str) -> tuple[str, Any]:
    """Return the architecture and its published weights: the weights that the tag after / names, or the newest."""
    models = require("torchvision.models", what=model.plain, extra="models")
    architecture, _, tag = model.name.partition("/")
    if architecture not in known:
        raise UnknownName(f"torchvision {what}", architecture, known, hint="see strobe models 'torchvision:*'")
    weights = models.get_model_weights(architecture)
    if tag and tag not in weights.__members__:
        raise UnknownName(f"weights of torchvision:{architecture}", tag, weights.__members__)
    return architecture, weights[tag] if tag else weights.DEFAULT


def cached(chosen: Any, model: ModelName, options: LoadOptions) -> Path:
    """Return the path of these weights. Raises a one-line error if they are missing and may not be downloaded."""
    hub = require("torch.hub", what=model.text, extra="models")
    file = Path(hub.get_dir()) / "checkpoints" / str(chosen.url).rsplit("/", 1)[-1]
    if options.offline and not file.is_file():
        raise CannotDownload(
            f"{model.text}: its weights are not in {file.parent} and <<offline=True>> forbids downloading {chosen.url}"
        )
    return file


def detection_classes(state: dict[str, Any], architecture: str, model: ModelName) -> int:
    """Return the number of classes in the head of these weights, including the background if there is one."""
    head = "head.classification_head"
    # Outputs per class: one for two-stage heads and FCOS, nine boxes a cell for RetinaNet, four or six in SSD's
    # first map, and R-FCN's 7 × 7 positions.
    for key, boxes in (
        ("roi_heads.box_predictor.cls_score.bias", 1),
        (f"{head}.cls_logits.bias", 1 if architecture.startswith("fcos") else 9),
        ("roi_heads.box_roi_pool.score.bias", 49),
        (f"{head}.module_list.0.bias", 4),
        (f"{head}.module_list.0.1.bias", 6),
    ):
        if key in state:
            return int(state[key].shape[0]) // boxes
    raise ModelFailed(f"{printable(model.text)}: the weights have no detection head; do they belong to a classifier?")
