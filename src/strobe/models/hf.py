"""transformers' image classifiers: `hf:ORG/NAME` from the hub, `hf:FOLDER` from disk, `hf:ORG/NAME@weights`."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core import late
from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector, Image
from strobe.models.downloads import hub
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, no_settings
from strobe.models.torch_classifier import classifier_of
from strobe.models.weights import load_into, read_state, would_run_code

__all__ = ["load", "no_bars"]


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
            no_settings(options, f"hf:{name}")
            detector: Detector = late.load("strobe.models.detectors.hf:load")(name, weights, options)
            return detector
        processor = library.AutoImageProcessor.from_pretrained(name, **common)
        if options.image_size:
            sizes = _sizes(processor, options.image_size, model=name)
            processor = library.AutoImageProcessor.from_pretrained(name, **common, **sizes)
        if weights is None and options.pretrained:
            # Safetensors where there are any, else pickles read with weights_only; only trust lifts that.
            reading = {"weights_only": False} if options.trust else {}
            with no_bars(library, options):
                module = _read(library, name, {**common, **reading})
        else:
            module = library.AutoModelForImageClassification.from_config(config)
    if weights is not None:
        load_into(module, read_state(weights, trust=options.trust), path=weights, model=f"hf:{name}")
    text = f"hf:{name}" + (f"@{weights}" if weights else "")
    labels = [str(config.id2label[place]) for place in range(config.num_labels)]
    return classifier_of(
        module,
        name=text,
        provider="hf",
        plan=_prepare(processor),
        label_space=space_of(text, len(labels), names=labels, given=options.settings, dataset=options.label_space),
        options=options,
        facts={"processor": _described(processor)},
    )


def _read(library: Any, name: str, how: dict[str, Any]) -> Any:
    """The network with its weights; a pickle that would run code is refused in the line all adapters say."""
    try:
        return library.AutoModelForImageClassification.from_pretrained(name, **how)
    except pickle.UnpicklingError as error:
        here = sorted(Path(name).glob("*.bin"))
        raise would_run_code(here[0] if here else Path(name) / "pytorch_model.bin") from error


@contextmanager
def no_bars(library: Any, options: LoadOptions) -> Iterator[None]:
    """While open, the library draws no bar of its own over the loading; that of a download stays where bars are."""
    bars = library.utils.logging
    were = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    if were and options.progress is not None:
        require("huggingface_hub.utils", what="hf models", extra="hf").enable_progress_bars()
    try:
        yield
    finally:
        if were:
            bars.enable_progress_bar()


def _sizes(processor: Any, image_size: int, *, model: str) -> dict[str, Any]:
    """The processor's sizes scaled so that an image of `image_size` comes out; each keeps the form it has."""
    size, crop = _plain(getattr(processor, "size", None)), _plain(getattr(processor, "crop_size", None))
    if not isinstance(size, dict) or not set(size) <= {"height", "width", "shortest_edge", "longest_edge"}:
        raise ModelFailed(f"hf:{printable(model)}: its processor resizes to {printable(size)}; leave --image-size out")
    if not (getattr(processor, "do_center_crop", False) and isinstance(crop, dict) and crop):
        return {"size": dict.fromkeys(size, image_size)}
    before = max(crop.values())
    return {
        "size": {key: round(value * image_size / before) for key, value in size.items()},
        "crop_size": dict.fromkeys(crop, image_size),
    }


def _prepare(processor: Any) -> Any:
    """The library's own processor as the preparation of one image, (3, H, W) float32."""

    def prepare(image: Image) -> Any:
        pixels = image if image.flags.writeable else image.copy()  # torch warns of pixels it may not write to
        found = processor(images=pixels, return_tensors="np", input_data_format="channels_last")
        return np.ascontiguousarray(found["pixel_values"][0], dtype=np.float32)

    return prepare


def _plain(value: Any) -> Any:
    """The library's own kinds of dict, tuple and enum as plain JSON."""
    if isinstance(value, str | int | float | bool | None):
        return getattr(value, "value", value)
    if isinstance(value, list | tuple):
        return list(value)
    try:
        return {key: one for key, one in dict(value).items() if one is not None}
    except (TypeError, ValueError):
        return getattr(value, "value", str(value))


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
            described[key] = _plain(value)
    return described
