"""A classifier of timm as the backbone of a detector: its feature maps, torchvision's feature pyramid and a head.

`strobe train detector DATASET -m timm:NAME --head retinanet` makes one. Its weights file records the head, so
`timm:NAME@FILE` loads the detector again.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from strobe.core.errors import InvalidFile, ModelFailed, UnknownName, printable
from strobe.core.late import require
from strobe.models.detectors.torch_detector import in_float32
from strobe.models.detectors.torchvision import TorchvisionDetector, detector_of, sized
from strobe.models.header import Header
from strobe.models.options import LoadOptions, ModelName
from strobe.models.timm import known_name, plan_of
from strobe.models.torchvision_weights import detection_classes
from strobe.models.weights import load_into, state_of

HEADS: Mapping[str, tuple[int, ...]] = {"retinanet": (8, 16, 32), "faster-rcnn": (4, 8, 16, 32)}
"""The heads, and the strides of the feature maps that their pyramid needs."""

_PROBE_HW = (128, 192)
"""The size of the image that shows the strides of a backbone. It is not square, because frames are not."""


def build(model: ModelName, head: str, n_classes: int, *, pyramid: int, state: Mapping[str, Any] | None = None) -> Any:
    """Return the detector with live norms. Its backbone has the tensors of a classifier (`state`) or random weights.

    `pyramid` is the number of channels of the feature pyramid. The number of classes includes the background, if the
    head has one. Raises ModelFailed if the backbone has no feature maps for the head.
    """
    detection = require("torchvision.models.detection", what=model.plain, extra="models")
    if head not in HEADS:
        raise UnknownName("head", head, HEADS, hint=f"known: {', '.join(HEADS)}")
    backbone = _with_pyramid(model, _body(model, state), head, pyramid)
    plan = plan_of(backbone.body)
    normal = {"image_mean": list(plan.mean), "image_std": list(plan.std)}
    if head == "faster-rcnn":
        return detection.FasterRCNN(backbone, num_classes=n_classes, **normal)
    return detection.RetinaNet(backbone, num_classes=n_classes, **normal)


def load(model: ModelName, options: LoadOptions, header: Header) -> TorchvisionDetector:
    """Load a detector that strobe trained: its head and input size are in the header of its weights file."""
    in_float32(model, options)
    state = state_of(model, options) or {}
    channels = state.get("backbone.fpn.inner_blocks.0.0.bias")
    if channels is None or header.head not in HEADS:
        raise InvalidFile(model.weights or model.text, "its header names a head, but it is not a detector")
    classes = detection_classes(state, header.head, model)
    module = build(model, header.head, classes, pyramid=len(channels))
    if not any(name.startswith("backbone.") and name.endswith("num_batches_tracked") for name in state):
        module.backbone.freeze_norms()
    load_into(module, state, path=model.weights or "", model=f"{model.plain} with the head {header.head}")
    sized(module.transform, options.image_size or header.image_size, model)
    return detector_of(module, model, label_space=header.label_space, options=options)


def _body(model: ModelName, state: Mapping[str, Any] | None) -> Any:
    """Return timm's network that returns its feature maps, with the tensors of a classifier of the same name."""
    timm = require("timm", what=model.plain, extra="models")
    known_name(model)
    # timm itself puts a classifier's tensors into the network before it removes the last layers.
    given = {} if state is None else {"pretrained_cfg_overlay": {"state_dict": dict(state), "source": ""}}
    try:
        with _without_notes():
            body = timm.create_model(model.name, features_only=True, pretrained=state is not None, **given)
    except Exception as error:  # each family of timm raises its own exception
        reason = f"{type(error).__name__}: {printable(error, limit=100)}"
        raise ModelFailed(
            f"{printable(model.plain)}: timm returns no feature maps of this model, so it cannot be the backbone of a "
            f"detector ({reason}); choose a convolutional network"
        ) from error
    body.pretrained_cfg.pop("state_dict", None)
    if state is not None and (strange := _not_among(body.state_dict(), state)):
        raise ModelFailed(
            f"{printable(model.text)}: {len(strange)} tensors of the backbone are not those of the classifier, first "
            f"{printable(strange[0])}; choose another architecture"
        )
    return body


def _not_among(own: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the names of tensors that equal no given tensor. timm renames some, so names are not compared."""
    by_shape: dict[Any, list[Any]] = {}
    for one in given.values():
        by_shape.setdefault(one.shape, []).append(one)
    return [name for name, one in own.items() if not any(one.equal(other) for other in by_shape.get(one.shape, ()))]


@contextmanager
def _without_notes() -> Iterator[None]:
    """Hide timm's warning about the tensors of the last layers, which a backbone does not have."""
    log = logging.getLogger("timm")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _with_pyramid(model: ModelName, body: Any, head: str, channels: int) -> Any:
    """Return the backbone of a detector: timm's feature maps at the strides of the head, and the pyramid."""
    import torch
    from torch import nn
    from torchvision.ops import FeaturePyramidNetwork, feature_pyramid_network

    widths = [int(channel) for channel in body.feature_info.channels()]
    height, width = _PROBE_HW
    try:
        with torch.no_grad():
            maps = [
                _channels_first(one, n)
                for one, n in zip(body.eval()(torch.zeros(1, 3, *_PROBE_HW)), widths, strict=True)
            ]
    except Exception as error:  # any code of timm may run here
        raise ModelFailed(
            f"{printable(model.plain)}: it cannot take images of every size ({type(error).__name__}), so it cannot be "
            "the backbone of a detector; choose a convolutional network"
        ) from error
    levels = {
        width // one.shape[3]: index
        for index, one in enumerate(maps)
        if height // one.shape[2] == width // one.shape[3]
    }
    if missing := [stride for stride in HEADS[head] if stride not in levels]:
        raise ModelFailed(
            f"{printable(model.plain)}: it has no feature map of stride {missing[0]}, which the head {head} needs; it "
            f"has {', '.join(map(str, levels)) or 'none'}"
        )
    places = [levels[stride] for stride in HEADS[head]]

    class TimmPyramid(nn.Module):  # type: ignore[misc]  # torch has no types here
        """The feature maps of a timm network and torchvision's pyramid over them."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.out_channels = body.train(), channels
            last = feature_pyramid_network.LastLevelMaxPool()
            if head == "retinanet":
                last = feature_pyramid_network.LastLevelP6P7(channels, channels)
            self.fpn = FeaturePyramidNetwork([widths[place] for place in places], channels, extra_blocks=last)

        def forward(self, images: Any) -> Any:
            maps = self.body(images)
            return self.fpn(
                OrderedDict((str(n), _channels_first(maps[place], widths[place])) for n, place in enumerate(places))
            )

        def freeze_norms(self) -> None:
            """Freeze the norms. Each keeps its own epsilon, and its activation if it has one."""
            layers = require("timm.layers", what=model.plain, extra="models")
            self.body = layers.freeze_batch_norm_2d(self.body)

    return TimmPyramid()


def _channels_first(features: Any, channels: int) -> Any:
    """Return feature maps as (N, C, H, W). Some networks of timm return (N, H, W, C)."""
    return features if features.shape[1] == channels else features.permute(0, 3, 1, 2)
