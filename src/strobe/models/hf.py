"""transformers' image classifiers: `hf:ORG/NAME` from the hub, `hf:FOLDER` from disk, `hf:ORG/NAME@weights`."""

import pickle
from pathlib import Path
from typing import Any

from strobe.core import late
from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector
from strobe.core.readers import check_archive
from strobe.models.downloads import hub
from strobe.models.hf_processors import ProcessorPreparation, described, no_bars, plain
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, ModelName, no_settings
from strobe.models.providers import TORCH_SETTINGS, Provider
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import load_into, state_of, would_run_code

_FACTS = (
    "do_resize", "size", "resample", "crop_pct", "do_center_crop", "crop_size", "do_rescale", "rescale_factor",
    "do_normalize", "image_mean", "image_std",
)  # fmt: skip


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """Load an image classifier with its own image processor. Detectors are passed to the detectors' adapter."""
    library, name = require("transformers", what=model.plain, extra="hf"), model.name
    from_disk = Path(name).is_dir()
    if not from_disk and name.count("/") != 1:
        raise ModelFailed(f"{printable(model.plain)}: expected ORG/NAME or a folder with config.json")
    # Without trust, no code from the repository runs.
    common: dict[str, Any] = {"trust_remote_code": options.trust, "local_files_only": from_disk or options.offline}
    with hub(offline=options.offline or from_disk):
        config = library.AutoConfig.from_pretrained(name, **common)
        if any("ObjectDetection" in kind for kind in getattr(config, "architectures", None) or ()):
            no_settings(options, model.plain)
            detector: Detector = late.load("strobe.models.detectors.hf:load")(model, options)
            return detector
        processor = library.AutoImageProcessor.from_pretrained(name, **common)
        if options.image_size:
            sizes = _sizes(processor, options.image_size, model)
            processor = library.AutoImageProcessor.from_pretrained(name, **common, **sizes)
        if model.weights is None and options.pretrained:
            # Read safetensors if available, otherwise pickles with weights_only. Only --trust lifts that restriction.
            reading = {"weights_only": False} if options.trust else {}
            with no_bars(library, options):
                module = _read(library, name, {**common, **reading})
        else:
            module = library.AutoModelForImageClassification.from_config(config)
    state = state_of(model, options)
    if state is not None:
        load_into(module, state, path=model.weights or "", model=model.plain)
    labels = [str(config.id2label[place]) for place in range(config.num_labels)]
    return classifier_of(
        module,
        model,
        plan=ProcessorPreparation(processor),
        label_space=space_of(
            model.text, len(labels), names=labels, given=options.settings, dataset=options.label_space
        ),
        options=options,
        facts={"processor": {"class": type(processor).__name__, **described(processor, _FACTS)}},
    )


def _read(library: Any, name: str, how: dict[str, Any]) -> Any:
    """Return the network with its weights. A pickle that would run code is refused with the common message."""
    here = sorted(Path(name).glob("*.bin"))
    for path in here:
        check_archive(path)
    try:
        return library.AutoModelForImageClassification.from_pretrained(name, **how)
    except pickle.UnpicklingError as error:
        raise would_run_code(here[0] if here else Path(name) / "pytorch_model.bin") from error


def _sizes(processor: Any, image_size: int, model: ModelName) -> dict[str, Any]:
    """Return the processor's size settings, scaled to produce an image of `image_size`. Each keeps its structure."""
    size, crop = plain(getattr(processor, "size", None)), plain(getattr(processor, "crop_size", None))
    if not isinstance(size, dict) or not set(size) <= {"height", "width", "shortest_edge", "longest_edge"}:
        problem = f"its processor resizes to {printable(size)}; remove <<image_size>>"
        raise ModelFailed(f"{printable(model.plain)}: {problem}")
    if not (getattr(processor, "do_center_crop", False) and isinstance(crop, dict) and crop):
        return {"size": dict.fromkeys(size, image_size)}
    before = max(crop.values())
    return {
        "size": {key: round(value * image_size / before) for key, value in size.items()},
        "crop_size": dict.fromkeys(crop, image_size),
    }


PROVIDER = Provider(
    load=load,
    what="transformers' image classifiers and detectors, from the hub or a folder",
    example="hf:microsoft/resnet-50",
    package="transformers",
    extra="hf",
    settings=TORCH_SETTINGS,
    model_settings=True,
    is_file=True,
    downloads=True,
    gradients="all",
)
