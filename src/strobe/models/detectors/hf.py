"""transformers' detectors, from the hub or a folder: DETR and its kin, RT-DETR, YOLOS: `hf:facebook/detr-resnet-50`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.spaces import detector_space
from strobe.models.hf import no_bars
from strobe.models.options import LoadOptions, torch_setup
from strobe.models.weights import digest_of_state, load_into, read_state

__all__ = ["HfDetector", "is_detector", "load"]

_PREPROCESSING = (
    "image_processor_type", "do_resize", "size", "resample", "do_rescale", "rescale_factor", "do_normalize",
    "image_mean", "image_std", "do_pad", "pad_size",
)  # fmt: skip


def is_detector(config: Any) -> bool:
    """Whether a transformers configuration names an object detection model."""
    return any(str(name).endswith("ForObjectDetection") for name in getattr(config, "architectures", None) or ())


class HfDetector:
    """A model and its own image processor."""

    lanes, preparation = 1, None  # transformers' own code prepares: no data a bare process could carry out

    def __init__(self, module: Any, processor: Any, spec: ModelSpec, *, device: str) -> None:
        self._module, self._processor, self.spec = module.eval().to(device), processor, spec
        self.device = device

    def prepare(self, image: Image) -> dict[str, Any]:
        """The image through the model's own processor, alone: in a batch it would pad to the largest."""
        pixels = image if image.flags.writeable else image.copy()  # torch warns of pixels it may not write to
        made = self._processor(images=pixels, return_tensors="pt", input_data_format="channels_last")
        return {"pixels": made["pixel_values"][0], "size_hw": image.shape[:2]}

    def forward(self, prepared: Sequence[dict[str, Any]]) -> list[Detections]:
        """What was found in each image, highest score first; every query is kept, the metric ranks them."""
        import torch

        out: list[Detections | None] = [None] * len(prepared)
        for shape in dict.fromkeys(tuple(one["pixels"].shape) for one in prepared):
            places = [place for place, one in enumerate(prepared) if tuple(one["pixels"].shape) == shape]
            pixels = torch.stack([prepared[place]["pixels"] for place in places]).to(self.device)
            sizes = [tuple(prepared[place]["size_hw"]) for place in places]
            with torch.inference_mode():
                answer = self._module(pixel_values=pixels)
                found = self._processor.post_process_object_detection(answer, threshold=0.0, target_sizes=sizes)
            for place, one, (height, width) in zip(places, found, sizes, strict=True):
                xyxy = one["boxes"].double().cpu().numpy().clip(0, [width, height, width, height])
                out[place] = detections(xyxy, one["labels"].cpu().numpy(), one["scores"].double().cpu().numpy())
        return [one for one in out if one is not None]


def load(name: str, weights: Path | None, options: LoadOptions) -> HfDetector:
    """The model with its processor; safetensors only, unless weights of your own are named."""
    transformers = require("transformers", what=f"hf:{name}", extra="hf")
    text = f"hf:{name}" + (f"@{weights}" if weights else "")
    where = {"local_files_only": options.offline or Path(name).is_dir()}
    config = transformers.AutoConfig.from_pretrained(name, **where)
    if not is_detector(config):
        raise ModelFailed(f"{printable(text)}: not an object detection model ({config.architectures})")
    processor = transformers.AutoImageProcessor.from_pretrained(name, **where)
    if weights is not None or not options.pretrained:
        module = transformers.AutoModelForObjectDetection.from_config(config)
        if weights is not None:
            load_into(module, read_state(weights, trust=options.trust), path=weights, model=text)
    else:
        with no_bars(transformers, options):
            module = transformers.AutoModelForObjectDetection.from_pretrained(
                name, config=config, use_safetensors=None if options.trust else True, **where
            )
    if not hasattr(processor, "post_process_object_detection"):
        raise ModelFailed(f"{printable(text)}: its processor {type(processor).__name__} cannot turn outputs into boxes")
    if options.image_size is not None:
        raise ModelFailed(f"{printable(text)}: transformers' detectors keep their own size; leave --image-size out")
    if options.precision not in ("auto", "float32"):
        raise ModelFailed(f"{printable(text)}: detectors run in float32; leave --precision out")
    setup = torch_setup(options)
    names = [str(config.id2label[place]) for place in sorted(config.id2label)]
    described = processor.to_dict()
    spec = ModelSpec(
        name=text,
        provider="hf",
        task="detection",
        label_space=detector_space(text, len(names), names=names, dataset=options.label_space),
        weights=digest_of_state(module.state_dict()),
        kind="probabilities",
        preprocessing={key: _plain(described[key]) for key in _PREPROCESSING if described.get(key) is not None},
        batch_size=options.batch_size or (1 if setup.device == "cpu" else 8),
    )
    return HfDetector(module, processor, spec, device=setup.device)


def _plain(value: Any) -> Any:
    """The value as plain JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool) else str(value)
