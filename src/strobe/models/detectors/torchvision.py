"""torchvision's detectors: `torchvision:fasterrcnn_resnet50_fpn`, RetinaNet, FCOS, SSD; `…@weights.safetensors`.

Published weights load into the layers that torchvision's own builder makes for them, so boxes are equal bit for bit.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.building import OWN, build, eps_of_frozen, freeze_norms, frozen_eps
from strobe.models.detectors.spaces import detector_space
from strobe.models.detectors.torch_detector import TorchDetector, detector_spec, in_float32
from strobe.models.header import header_of
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.torchvision_weights import cached, detection_classes, published
from strobe.models.weights import digest_of_state, load_into, state_of


class TorchvisionDetector(TorchDetector):
    """A torchvision detector. The module itself resizes, normalises, suppresses boxes and scales them back."""

    cuda_lanes, own_streams = 3, True

    def _same_size(self, prepared: list[Image]) -> Iterator[Detections]:
        import torch

        images = list(self._on_device(prepared).permute(0, 3, 1, 2).float() / 255)
        # Sums in a batch are rounded differently, which reorders proposals of almost equal scores. Their suppression
        # then keeps other proposals, whose scores and boxes differ by far more. So such a detector gets one at a time.
        batches = [[image] for image in images] if hasattr(self._module, "rpn") else [images]
        found = [one for batch in batches for one in self._module(batch)]
        # Transfer everything as one table, because each transfer waits for the device.
        columns = [torch.cat([one["boxes"], one["labels"][:, None], one["scores"][:, None]], dim=1) for one in found]
        table, ends = torch.cat(columns).float().cpu().numpy(), np.cumsum([len(column) for column in columns])
        for rows in np.split(table, ends[:-1]):
            yield detections(rows[:, :4], rows[:, 4], rows[:, 5])


def load(model: ModelName, options: LoadOptions) -> TorchvisionDetector:
    """Load the detector with published weights (selected by a tag after /), your own weights, or random weights in
    tests.
    """
    models = require("torchvision.models", what=model.plain, extra="models")
    detection = require("torchvision.models.detection", what=model.plain, extra="models")
    in_float32(model, options)
    state, header = state_of(model, options), header_of(model, options)
    architecture, chosen = model.name, _NO_WEIGHTS
    if model.name in OWN:
        if state is None:
            raise ModelFailed(
                f"{printable(model.text)}: it has no published weights; train it and write {model.plain}@FILE"
            )
    else:
        architecture, chosen = published(model, models.list_models(module=detection), what="detector")
    if state is None and options.pretrained:
        cached(chosen, model, options)
        state = dict(chosen.get_state_dict(progress=False, check_hash=True))
    n_classes = len(chosen.meta["categories"]) if state is None else detection_classes(state, architecture, model)
    module = build(architecture, n_classes)
    eps = frozen_eps(architecture, state)
    if eps is not None:
        freeze_norms(module, eps if header is None or header.norm_eps is None else header.norm_eps)
    if state is not None:
        load_into(module, state, path=model.weights or chosen.name, model=f"torchvision:{architecture}")
    sized(module.transform, options.image_size or (header.image_size if header else None), model)
    space = (
        header.label_space
        if header
        else detector_space(model.text, n_classes, background=has_background(architecture), dataset=options.label_space)
    )
    return detector_of(module, model, label_space=space, options=options)


_NO_WEIGHTS: Any = None


def has_background(architecture: str) -> bool:
    """Return whether label 0 of an architecture is the background."""
    return not architecture.startswith(("retinanet", "fcos"))


def detector_of(module: Any, model: ModelName, *, label_space: LabelSpace, options: LoadOptions) -> TorchvisionDetector:
    """Wrap the module in the Detector port, with any weights."""
    device, transform = torch_setup(options).device, module.transform
    heads, eps = getattr(module, "roi_heads", module), eps_of_frozen(module)
    spec = detector_spec(
        model,
        label_space=label_space,
        weights=digest_of_state(module.state_dict()),
        preprocessing={
            "scale": "x / 255",
            "min_size": list(transform.min_size),
            "max_size": transform.max_size,
            "fixed_size": transform.fixed_size and list(transform.fixed_size),
            "mean": list(transform.image_mean),
            "std": list(transform.image_std),
            "score_threshold": heads.score_thresh,
            "nms_iou": heads.nms_thresh,
            "max_detections": heads.detections_per_img,
            "precision": "float32",
            **({} if eps is None else {"norms": f"frozen, eps {eps:g}"}),
        },
        batch_size=options.batch_size or (1 if device == "cpu" else 8),
    )
    return TorchvisionDetector(module, spec, device=device)


def sized(transform: Any, size: int | None, model: ModelName) -> Any:
    """Return the model's own resizing, with the shorter side set to `size` if given."""
    if size is None:
        return transform
    if transform.fixed_size is not None:
        said = f"its input size is always {transform.fixed_size}; remove <<image_size>>"
        raise ModelFailed(f"{printable(model.text)}: {said}")
    transform.max_size = round(transform.max_size * size / transform.min_size[-1])
    transform.min_size = (size,)
    return transform
