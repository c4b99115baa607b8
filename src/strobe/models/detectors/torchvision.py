"""torchvision's detectors: `torchvision:fasterrcnn_resnet50_fpn`, RetinaNet, FCOS, SSD; `…@weights.safetensors`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import CannotDownload, ModelFailed, UnknownName, printable
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.spaces import detector_space
from strobe.models.options import LoadOptions, torch_setup
from strobe.models.plan import AsDecoded
from strobe.models.weights import digest_of_state, load_into, read_state

__all__ = ["TorchvisionDetector", "load"]


class TorchvisionDetector:
    """A torchvision detector, which resizes, normalises, suppresses and scales back by itself."""

    lanes, preparation = 1, AsDecoded()

    def __init__(self, module: Any, spec: ModelSpec, *, device: str) -> None:
        self._module, self.spec, self.device = module.eval().to(device), spec, device

    def prepare(self, image: Image) -> Image:
        """The image as it is: the model owns its preprocessing."""
        return image

    def forward(self, prepared: Sequence[Image]) -> list[Detections]:
        """What was found in each image, highest score first."""
        import torch

        out: list[Detections | None] = [None] * len(prepared)
        # Images of one size at a time: in a mixed batch the smaller ones are padded, and padding changes boxes.
        for shape in dict.fromkeys(image.shape for image in prepared):
            places = [place for place, image in enumerate(prepared) if image.shape == shape]
            pixels = torch.from_numpy(np.stack([prepared[place] for place in places])).to(self.device)
            with torch.inference_mode():
                found = self._module(list(pixels.permute(0, 3, 1, 2).float() / 255))
            for place, one in zip(places, found, strict=True):
                values = {key: one[key].float().cpu().numpy() for key in ("boxes", "labels", "scores")}
                out[place] = detections(values["boxes"], values["labels"], values["scores"])
        return [one for one in out if one is not None]


def load(name: str, weights: Path | None, options: LoadOptions) -> TorchvisionDetector:
    """The detector with published weights (a tag after / chooses), weights of your own, or random ones in tests."""
    models = require("torchvision.models", what=f"torchvision:{name}", extra="models")
    detection = require("torchvision.models.detection", what=f"torchvision:{name}", extra="models")
    architecture, _, tag = name.partition("/")
    if architecture not in models.list_models(module=detection):
        raise UnknownName("torchvision detector", architecture, models.list_models(module=detection))
    published = models.get_model_weights(architecture)
    if tag and tag not in published.__members__:
        raise UnknownName(f"weights of torchvision:{architecture}", tag, published.__members__)
    chosen = published[tag] if tag else published.DEFAULT
    text = f"torchvision:{name}" + (f"@{weights}" if weights else "")
    state = read_state(weights, trust=options.trust) if weights else None
    if state is None and options.pretrained:
        state = _fetch(chosen, text, options)
    anchors = 1 if architecture.startswith("fcos") else 9
    n_classes = len(chosen.meta["categories"]) if state is None else _classes(state, anchors, text)
    module = models.get_model(architecture, weights=None, weights_backbone=None, num_classes=n_classes)
    if state is not None:
        load_into(module, state, path=weights or chosen.name, model=f"torchvision:{architecture}")
    if options.precision not in ("auto", "float32"):
        raise ModelFailed(f"{printable(text)}: detectors run in float32; leave --precision out")
    setup = torch_setup(options)
    has_background = not architecture.startswith(("retinanet", "fcos"))
    transform = _sized(module.transform, options.image_size, text)
    heads = getattr(module, "roi_heads", module)
    spec = ModelSpec(
        name=text,
        provider="torchvision",
        task="detection",
        label_space=detector_space(text, n_classes, background=has_background, dataset=options.label_space),
        weights=digest_of_state(module.state_dict()),
        kind="probabilities",
        preprocessing={
            "scale": "x / 255", "min_size": list(transform.min_size), "max_size": transform.max_size,
            "fixed_size": transform.fixed_size and list(transform.fixed_size), "mean": list(transform.image_mean),
            "std": list(transform.image_std), "score_threshold": heads.score_thresh, "nms_iou": heads.nms_thresh,
            "max_detections": heads.detections_per_img, "precision": "float32",
        },
        batch_size=options.batch_size or (1 if setup.device == "cpu" else 8),
    )  # fmt: skip
    return TorchvisionDetector(module, spec, device=setup.device)


def _sized(transform: Any, size: int | None, model: str) -> Any:
    """The model's own resizing, with its shorter side at `size` where that is asked for."""
    if size is None:
        return transform
    if transform.fixed_size is not None:
        raise ModelFailed(f"{printable(model)}: its input is always {transform.fixed_size}; leave --image-size out")
    transform.max_size = round(transform.max_size * size / transform.min_size[-1])
    transform.min_size = (size,)
    return transform


def _classes(state: dict[str, Any], anchors: int, model: str) -> int:
    """How many classes the head of these weights has, background included where there is one."""
    two_stage = state.get("roi_heads.box_predictor.cls_score.bias")
    if two_stage is not None:
        return int(two_stage.shape[0])
    one_stage = state.get("head.classification_head.cls_logits.bias")
    if one_stage is not None:
        return int(one_stage.shape[0]) // anchors
    # SSD: a head per map, with 4 default boxes at the first of ssd300 and 6 at every one of ssdlite.
    for key, boxes in (
        ("head.classification_head.module_list.0.bias", 4),
        ("head.classification_head.module_list.0.1.bias", 6),
    ):
        if key in state:
            return int(state[key].shape[0]) // boxes
    raise ModelFailed(f"{printable(model)}: no detection head in the weights; are they a classifier's?")


def _fetch(chosen: Any, name: str, options: LoadOptions) -> dict[str, Any]:
    hub = require("torch.hub", what=name, extra="models")
    here = Path(hub.get_dir()) / "checkpoints" / chosen.url.rsplit("/", 1)[-1]
    if options.offline and not here.is_file():
        raise CannotDownload(
            f"{name}: its weights are not in {here.parent} and --offline forbids fetching {chosen.url}"
        )
    return dict(chosen.get_state_dict(progress=False, check_hash=True))
