"""transformers' image classifiers: `hf:ORG/NAME` from the hub, `hf:FOLDER` from disk, `hf:ORG/NAME@weights`."""

from pathlib import Path
from typing import Any

import numpy as np

from strobe.core import late
from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector, Image
from strobe.models.downloads import hub
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import load_into, read_state

__all__ = ["load"]


def load(name: str, weights: Path | None, options: LoadOptions) -> Classifier | Detector:
    """An image classifier with its own image processor; a detector goes to the detectors' adapter."""
    library = require("transformers", what=f"hf:{name}", extra="hf")
    from_disk = Path(name).is_dir()
    if not from_disk and name.count("/") != 1:
        raise ModelFailed(f"hf:{printable(name)}: expected ORG/NAME or a folder with config.json")
    # Without trust nothing of the repository's own code runs.
    common: dict[str, Any] = {"trust_remote_code": options.trust, "local_files_only": from_disk or options.offline}
    with hub(offline=options.offline or from_disk):
        config = library.AutoConfig.from_pretrained(name, **common)
        kinds = list(getattr(config, "architectures", None) or [])
        if any("ObjectDetection" in kind for kind in kinds):
            detector: Detector = late.load("strobe.models.detectors.hf:load")(name, weights, options)
            return detector
        processor = library.AutoImageProcessor.from_pretrained(name, **common)
        if weights is None and options.pretrained:
            # Safetensors where there are any, else pickles read with weights_only; only trust lifts that.
            reading = {"weights_only": False} if options.trust else {}
            module = library.AutoModelForImageClassification.from_pretrained(name, **common, **reading)
        else:
            module = library.AutoModelForImageClassification.from_config(config)
    if weights is not None:
        load_into(module, read_state(weights, trust=options.trust), path=weights, model=f"hf:{name}")
    labels = [str(config.id2label[place]) for place in range(config.num_labels)]
    return classifier_of(
        module,
        name=f"hf:{name}" + (f"@{weights}" if weights else ""),
        provider="hf",
        plan=_prepare(processor, options),
        label_space=space_of(f"hf:{name}", len(labels), names=labels, dataset=options.label_space),
        options=options,
        facts={"processor": _described(processor)},
    )


def _prepare(processor: Any, options: LoadOptions) -> Any:
    """The library's own processor as the preparation of one image, (3, H, W) float32."""
    size = {"size": {"height": options.image_size, "width": options.image_size}} if options.image_size else {}

    def prepare(image: Image) -> Any:
        found = processor(images=image, return_tensors="np", input_data_format="channels_last", **size)
        return np.ascontiguousarray(found["pixel_values"][0], dtype=np.float32)

    return prepare


def _described(processor: Any) -> dict[str, Any]:
    """What the processor says it does, as plain JSON."""
    wanted = (
        "do_resize", "size", "resample", "crop_pct", "do_center_crop", "crop_size", "do_rescale", "rescale_factor",
        "do_normalize", "image_mean", "image_std",
    )  # fmt: skip
    settings = processor.to_dict()
    described: dict[str, Any] = {"class": type(processor).__name__}
    for key in wanted:
        value = settings.get(key)
        if value is not None:
            described[key] = dict(value) if hasattr(value, "items") else getattr(value, "value", value)
            if isinstance(value, tuple):
                described[key] = list(value)
    return described
