"""The networks of torchvision's detectors: their layers as torchvision builds them, and detectors of the papers.

torchvision builds a backbone with frozen norms if its detector starts from trained weights, and with live norms
otherwise. The published COCO weights belong to frozen norms, some with an epsilon of 0. torchvision has no builder for
ResNet-101 or for R-FCN, so both are built here from its parts.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require

OWN = ("fasterrcnn_resnet101_fpn", "rfcn_resnet50", "rfcn_resnet101")
"""Detectors that torchvision's parts make and that have no published weights."""

_FROZEN = {
    "fasterrcnn_resnet50_fpn": 0.0,
    "fasterrcnn_mobilenet_v3_large_fpn": 1e-5,
    "fasterrcnn_mobilenet_v3_large_320_fpn": 1e-5,
    "fcos_resnet50_fpn": 1e-5,
    "keypointrcnn_resnet50_fpn": 0.0,
    "maskrcnn_resnet50_fpn": 0.0,
    "retinanet_resnet50_fpn": 0.0,
}
"""The epsilon of the frozen norms that torchvision's builder gives to its published weights."""

TRAINED_EPS = 1e-5
"""torchvision's epsilon of frozen norms that do not belong to published weights."""

_LAYERS = ("layer4", "layer3", "layer2", "layer1", "conv1")
_GRID = 7
"""R-FCN's score maps per class: 7 × 7 positions."""


def build(architecture: str, n_classes: int) -> Any:
    """Return the network with random weights and live norms. The number of classes includes the background."""
    models = require("torchvision.models", what=f"torchvision:{architecture}", extra="models")
    if architecture not in OWN:
        return models.get_model(architecture, weights=None, weights_backbone=None, num_classes=n_classes)
    detection = require("torchvision.models.detection", what=f"torchvision:{architecture}", extra="models")
    utils = require("torchvision.models.detection.backbone_utils", what=architecture, extra="models")
    family, resnet = architecture.split("_")[:2]
    if family == "rfcn":
        return _rfcn(resnet, n_classes)
    nn = require("torch.nn", what=architecture, extra="models")
    body = utils.resnet_fpn_backbone(
        backbone_name=resnet, weights=None, norm_layer=nn.BatchNorm2d, trainable_layers=len(_LAYERS)
    )
    return detection.FasterRCNN(body, num_classes=n_classes)


def frozen_eps(architecture: str, state: Mapping[str, Any] | None) -> float | None:
    """Return the epsilon of frozen norms if these weights belong to frozen norms, otherwise None.

    Live norms also store a counter. Weights without this counter come from frozen norms.

    >>> frozen_eps("fcos_resnet50_fpn", {"backbone.body.bn1.weight": 1}), frozen_eps("ssd300_vgg16", {"x": 1})
    (1e-05, None)
    >>> frozen_eps("fcos_resnet50_fpn", {"backbone.body.bn1.num_batches_tracked": 1}) is None
    True
    """
    counts = any(name.startswith("backbone.") and name.endswith("num_batches_tracked") for name in state or ())
    if state is None or counts:
        return None
    return _FROZEN.get(architecture, TRAINED_EPS if architecture in OWN else None)


def freeze_norms(module: Any, eps: float) -> None:
    """Replace every batch norm of the backbone by torchvision's frozen norm with the same values.

    A backbone of timm replaces its norms itself.
    """
    if hasattr(module.backbone, "freeze_norms"):
        module.backbone.freeze_norms()
        return
    nn = require("torch.nn", what="detectors", extra="models")
    ops = require("torchvision.ops", what="detectors", extra="models")
    for name, part in list(module.backbone.named_modules()):
        if isinstance(part, nn.BatchNorm2d):
            frozen = ops.FrozenBatchNorm2d(part.num_features, eps=eps)
            frozen.load_state_dict(part.state_dict())
            above, _, own = name.rpartition(".")
            setattr(module.backbone.get_submodule(above), own, frozen)


def eps_of_frozen(module: Any) -> float | None:
    """Return the epsilon of a network's frozen norms, or None if it has none."""
    ops = require("torchvision.ops", what="detectors", extra="models")
    return next((float(one.eps) for one in module.modules() if isinstance(one, ops.FrozenBatchNorm2d)), None)


def take_backbone(module: Any, classifier: Any, *, text: str, model: str) -> None:
    """Copy a classifier's tensors into the detector's backbone. Raises ModelFailed unless they fill all of it."""
    body = getattr(getattr(module, "backbone", None), "body", None)
    if body is None:
        raise ModelFailed(f"{printable(model)}: strobe cannot replace its backbone; choose a Faster R-CNN or R-FCN")
    own = body.state_dict()
    given = {name.removeprefix("features."): one for name, one in classifier.state_dict().items()}
    fits = {name: given[name] for name in own if name in given and given[name].shape == own[name].shape}
    missing = [name for name in own if name not in fits and not name.endswith("num_batches_tracked")]
    if missing:
        raise ModelFailed(
            f"{printable(text)}: it does not fit the backbone of {printable(model)}: {len(missing)} of {len(own)} "
            f"tensors are missing or have another shape, first {printable(missing[0])}"
        )
    body.load_state_dict({**own, **fits})


def train_only(module: Any, layers: int, *, model: str) -> None:
    """Freeze all layers of a ResNet backbone but the last `layers` of 5. The first layer includes its norm."""
    body = getattr(getattr(module, "backbone", None), "body", None)
    if layers >= len(_LAYERS):
        return
    if body is None or (layers and not hasattr(body, "layer4")):
        raise ModelFailed(f"{printable(model)}: trainable_layers needs a ResNet backbone; use 0 or 5, or remove it")
    for name, parameter in body.named_parameters():
        parameter.requires_grad_(name.startswith(_LAYERS[:layers]))


def _rfcn(resnet: str, n_classes: int) -> Any:
    """Return R-FCN: a dilated ResNet of stride 16, whose score maps are pooled by position (Dai et al. 2016)."""
    import torch
    from torch import nn
    from torchvision import models, ops
    from torchvision.models import detection
    from torchvision.models._utils import IntermediateLayerGetter

    class DilatedResNet(nn.Module):  # type: ignore[misc]  # torch has no types here
        """The last feature map of a ResNet, reduced to 1,024 channels."""

        def __init__(self) -> None:
            super().__init__()
            network = models.get_model(resnet, weights=None, replace_stride_with_dilation=[False, False, True])
            self.body = IntermediateLayerGetter(network, return_layers={"layer4": "0"})
            self.reduce = nn.Conv2d(2048, 1024, 1)
            self.out_channels = 1024

        def forward(self, images: Any) -> Any:
            return OrderedDict({"0": torch.relu(self.reduce(self.body(images)["0"]))})

    class PositionPool(nn.Module):  # type: ignore[misc]  # as above
        """Score maps and box maps by position, pooled over each proposal: (N, classes + 4)."""

        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Conv2d(1024, _GRID * _GRID * n_classes, 1)
            self.boxes = nn.Conv2d(1024, _GRID * _GRID * 4, 1)
            for layer in (self.score, self.boxes):
                nn.init.normal_(layer.weight, std=0.01)
                nn.init.zeros_(layer.bias)

        def forward(self, features: Any, proposals: Any, image_shapes: Any) -> Any:  # noqa: ARG002 (torchvision's signature)
            maps = features["0"]
            pooled = [
                ops.ps_roi_pool(layer(maps), proposals, _GRID, spatial_scale=1 / 16).mean((2, 3))
                for layer in (self.score, self.boxes)
            ]
            return torch.cat(pooled, dim=1)

    class Votes(nn.Module):  # type: ignore[misc]  # as above
        """The class scores, and one box for every class."""

        def forward(self, pooled: Any) -> Any:
            return pooled[:, :n_classes], pooled[:, n_classes:].repeat(1, n_classes)

    network = detection.FasterRCNN(
        DilatedResNet(),
        rpn_anchor_generator=detection.anchor_utils.AnchorGenerator(
            sizes=((32, 64, 128, 256, 512),), aspect_ratios=((0.5, 1.0, 2.0),)
        ),
        box_head=nn.Identity(),
        box_predictor=Votes(),
    )
    network.roi_heads.box_roi_pool = PositionPool()  # the constructor accepts only its own pooling
    return network
