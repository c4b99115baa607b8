"""The JSON file next to a model file, with facts that the model file lacks (`model.json`, or --model-settings).

    {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "resize": 256, "interpolation": "bilinear",
     "labels": "ilsvrc-2012"}

`labels` is the name of a shipped label space, a list of names, or "dataset". `kind` is logits or
probabilities; if it is missing, test images show it. Any field of ImagePlan may be given. If the model's input has a
fixed size, `size_hw` comes from the model file. An input of 8-bit pixels is not normalised, so it needs no `mean` and
`std`. A model behind an address has no file next to it; its settings are those of --model-settings.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, ModelFailed, UnknownName, printable
from strobe.core.files import read_json
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan

_EXAMPLE = (
    '{"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "labels": "ilsvrc-2012", "resize": 256, '
    '"interpolation": "bilinear"}'
)
_PLAN = {"size_hw", "resize", "resize_hw", "fit", "fill", "interpolation", "divide", "mean", "std", "channels"}


def settings_of(path: Path | None, options: LoadOptions) -> dict[str, Any]:
    """Return the settings from the JSON next to the file, or from --model-settings; empty if there are none."""
    file = options.settings or (path and path.with_suffix(".json"))
    if file is None or (options.settings is None and not file.is_file()):
        return {}
    settings = read_json(file)
    if not isinstance(settings, dict):
        raise InvalidFile(file, "expected a JSON object of settings")
    return settings


def classifier_settings(
    model: ModelName, path: Path | None, options: LoadOptions, *, own: Sequence[str], dtype: str = "float32"
) -> dict[str, Any]:
    """Return a classifier's settings, checked.

    `own` are further keys that the adapter accepts, in addition to labels, kind and the plan's fields. `dtype` is the
    type of the input.
    """
    settings, known, name = settings_of(path, options), _PLAN | {"labels", "kind", *own}, printable(model.plain)
    if not settings:
        where = options.settings or (path and path.with_suffix(".json"))
        lacks = "the file does not contain" if path is not None else "the service does not describe"
        way_out = f"write them to {printable(where)}" if where else "write them to a file, and pass <<model_settings>>"
        raise ModelFailed(f"{name}: {lacks} its input normalisation and its class names; {way_out}, e.g. {_EXAMPLE}")
    unknown = sorted(set(settings) - known)
    if unknown:
        raise UnknownName(f"setting of {printable(path or model.plain)}", unknown[0], sorted(known))
    needed = ("mean", "std", "labels") if dtype != "uint8" else ("labels",)
    missing = [key for key in needed if key not in settings]
    if missing:
        raise ModelFailed(f"{name}: its JSON file lacks {' and '.join(missing)}")
    if dtype != "uint8":
        return settings
    idle = next((key for key in ("mean", "std", "divide") if key in settings), None)
    if idle is not None:
        raise ModelFailed(f"{name}: its input has 8-bit pixels, so {idle} has no effect; remove it from its JSON file")
    return {**settings, "mean": [0.0] * 3, "std": [1.0] * 3, "divide": 1.0}


def plan_of(
    model: ModelName, settings: Mapping[str, Any], options: LoadOptions, *, height: Any, width: Any
) -> ImagePlan:
    """Return the preprocessing from the settings and the file's input size.

    An input size that is not a number is variable.
    """
    name, given = printable(model.plain), {key: settings[key] for key in _PLAN if key in settings}
    if options.image_size:
        given["size_hw"] = (options.image_size, options.image_size)
    if isinstance(height, int) and isinstance(width, int):
        if "size_hw" in given and tuple(given["size_hw"]) != (height, width):
            raise ModelFailed(f"{name}: it takes {height}×{width} images, not {tuple(given['size_hw'])}")
        given["size_hw"] = (height, width)
    if "size_hw" not in given:
        raise ModelFailed(f"{name}: its input has no fixed size; give size_hw in its JSON file, or <<image_size>>")
    if "resize" not in given and "fit" not in given:
        given["fit"] = "squash"
    resizes = given.get("resize") is not None or given.get("fit", "short-side") != "short-side"
    if resizes and "interpolation" not in given:
        raise ModelFailed(
            f"{name}: its JSON file does not set the resizing filter, which changes answers; add "
            '"interpolation": "bilinear" (most exports from torchvision) or "bicubic" (many from timm)'
        )
    return ImagePlan.from_json(given)
