"""transformers' detectors, from the hub or a folder: `hf:facebook/detr-resnet-50`.

Supports DETR and related models, RT-DETR and YOLOS.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.spaces import detector_space
from strobe.models.detectors.torch_detector import TorchDetector, detector_spec, in_float32
from strobe.models.hf_processors import described, no_bars, through
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.weights import digest_of_state, load_into, state_of

_FACTS = (
    "image_processor_type", "do_resize", "size", "resample", "do_rescale", "rescale_factor", "do_normalize",
    "image_mean", "image_std", "do_pad", "pad_size",
)  # fmt: skip


class HfDetector(TorchDetector):
    """A model and its own image processor. Every query is kept, because the metric ranks them."""

    preparation = None  # transformers' own code prepares images, and a bare worker process cannot load it

    def __init__(self, module: Any, processor: Any, spec: ModelSpec, *, device: str) -> None:
        super().__init__(module, spec, device=device)
        self._processor = processor

    def prepare(self, image: Image) -> tuple[Any, tuple[int, int]]:
        """Run one image alone through the model's processor, because a batch would be padded to its largest image."""
        return through(self._processor, image, tensors="pt"), (image.shape[0], image.shape[1])

    def _same_size(self, prepared: list[tuple[Any, tuple[int, int]]]) -> Iterator[Detections]:
        import torch

        sizes = [size_hw for _, size_hw in prepared]
        answer = self._module(pixel_values=torch.stack([pixels for pixels, _ in prepared]).to(self.device))
        found = self._processor.post_process_object_detection(answer, threshold=0.0, target_sizes=sizes)
        for one, (height, width) in zip(found, sizes, strict=True):
            xyxy = one["boxes"].double().cpu().numpy().clip(0, [width, height, width, height])
            yield detections(xyxy, one["labels"].cpu().numpy(), one["scores"].double().cpu().numpy())


def load(model: ModelName, options: LoadOptions) -> HfDetector:
    """Load the model with its processor, from safetensors only unless you name your own weights."""
    transformers, text = require("transformers", what=model.plain, extra="hf"), printable(model.text)
    where: dict[str, Any] = {"local_files_only": options.offline or Path(model.name).is_dir()}
    config = transformers.AutoConfig.from_pretrained(model.name, **where)
    if not any(str(kind).endswith("ForObjectDetection") for kind in config.architectures or ()):
        raise ModelFailed(f"{text}: not an object detection model ({config.architectures})")
    processor = transformers.AutoImageProcessor.from_pretrained(model.name, **where)
    if not hasattr(processor, "post_process_object_detection"):
        raise ModelFailed(f"{text}: its processor {type(processor).__name__} cannot turn outputs into boxes")
    if options.image_size is not None:
        raise ModelFailed(f"{text}: transformers' detectors keep their own input size; remove <<image_size>>")
    in_float32(model, options)
    kind, state = transformers.AutoModelForObjectDetection, state_of(model, options)
    if state is None and options.pretrained:
        where |= {} if options.trust else {"use_safetensors": True}
        with no_bars(transformers, options):
            module = kind.from_pretrained(model.name, config=config, **where)
    else:
        module = kind.from_config(config)
        if state is not None:
            load_into(module, state, path=model.weights or "", model=model.text)
    device, names = torch_setup(options).device, [str(config.id2label[n]) for n in sorted(config.id2label)]
    spec = detector_spec(
        model,
        label_space=detector_space(model.text, len(names), names=names, dataset=options.label_space),
        weights=digest_of_state(module.state_dict()),
        preprocessing=described(processor, _FACTS),
        batch_size=options.batch_size or (1 if device == "cpu" else 8),
    )
    return HfDetector(module, processor, spec, device=device)
