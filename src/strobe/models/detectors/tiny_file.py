"""The file of strobe-tiny's weights: safetensors, with its classes and how it was trained beside them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile
from strobe.core.files import replacing
from strobe.core.labels import LabelSpace
from strobe.core.late import require

__all__ = ["label_space_of", "save"]

_SETTINGS = "strobe"


def label_space_of(path: Path) -> LabelSpace:
    """The classes that were written beside the tensors."""
    opener = require("safetensors", what="reading safetensors", extra="models").safe_open
    try:
        with opener(str(path), framework="pt") as file:
            settings: dict[str, Any] = json.loads((file.metadata() or {})[_SETTINGS])
    except Exception as error:  # safetensors raises its own Rust-side class, which differs between versions
        raise InvalidFile(path, "not weights of strobe-tiny", hint="make them with strobe train-detector") from error
    return LabelSpace.from_json(settings["label_space"])


def save(path: Path, state: Mapping[str, Any], *, label_space: LabelSpace, training: Mapping[str, Any]) -> None:
    """Write weights as half-precision safetensors, with the classes and how they were trained beside them."""
    torch = require("safetensors.torch", what="writing safetensors", extra="models")
    tensors = {
        name: tensor.half().contiguous() for name, tensor in state.items() if not name.endswith("num_batches_tracked")
    }
    settings = json.dumps({"label_space": label_space.to_json(), "training": dict(training)}, sort_keys=True)
    with replacing(path) as temporary:
        torch.save_file(tensors, str(temporary), metadata={_SETTINGS: settings})
