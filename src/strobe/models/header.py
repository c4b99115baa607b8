"""What weights written by strobe say of themselves in the header of their file: classes, preprocessing, training."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import write_bytes
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan

__all__ = ["Header", "header_of", "read_header", "write_weights"]

_KEY = "strobe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The classes of the outputs, and how images are prepared where that is a plan."""

    label_space: LabelSpace
    plan: ImagePlan | None = None

    def plan_at(self, image_size: int | None) -> ImagePlan | None:
        """The plan at another input size, where one is asked for."""
        plan = self.plan
        if plan is None or image_size is None or plan.size_hw == (image_size, image_size):
            return plan
        short = None if plan.resize is None else round(plan.resize * image_size / min(plan.size_hw))
        return replace(plan, size_hw=(image_size, image_size), resize=short, resize_hw=None)


def read_header(path: Path) -> Header | None:
    """What the file says of itself; None where it is not one of ours. Raises InvalidFile where it is damaged."""
    opener = require("safetensors", what="reading safetensors", extra="models").safe_open
    try:
        with opener(str(path), framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
    except Exception:  # safetensors raises its own Rust-side class; who reads the tensors says what is wrong
        return None
    if text is None:
        return None
    try:
        told = json.loads(text)
        plan = told.get("plan")
        return Header(
            label_space=LabelSpace.from_json(told["label_space"]),
            plan=None if plan is None else ImagePlan.from_json(plan),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, StrobeError) as error:
        raise InvalidFile(path, f"its header is damaged ({printable(error, limit=100)})") from error


def header_of(model: ModelName, options: LoadOptions) -> Header | None:
    """The header of the file after @ in a model's name; None without one, or where a settings file says it all anew."""
    if model.weights is None or options.settings is not None or not model.weights.is_file():
        return None
    return read_header(model.weights)


def write_weights(
    path: Path,
    state: Mapping[str, Any],
    *,
    label_space: LabelSpace,
    training: Mapping[str, Any],
    plan: ImagePlan | None = None,
    half: bool = False,
) -> None:
    """Write tensors as safetensors, in half precision where asked, with what is to be known of them in the header."""
    library = require("safetensors.torch", what="writing safetensors", extra="models")
    told: dict[str, Any] = {"label_space": label_space.to_json(), "training": dict(training)}
    if plan is not None:
        told["plan"] = plan.to_json()
    tensors = {name: (tensor.half() if half else tensor).detach().cpu().contiguous() for name, tensor in state.items()}
    # The library's own writer raises a class of its own where a disk is full.
    write_bytes(path, library.save(tensors, metadata={_KEY: json.dumps(told, sort_keys=True)}))
