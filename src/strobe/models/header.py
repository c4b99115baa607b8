"""Metadata in the header of weights written by strobe: classes, preprocessing, training."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import json_of, write_bytes
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.readers import safetensors_header
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan

_KEY = "strobe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The classes of the outputs, and the preprocessing if it is a plan.

    A detector may also have the epsilon of its frozen norms, the shorter side of its input, and the head that was added
    to a classifier.
    """

    label_space: LabelSpace
    plan: ImagePlan | None = None
    norm_eps: float | None = None
    image_size: int | None = None
    head: str = ""

    def plan_at(self, image_size: int | None) -> ImagePlan | None:
        """Return the plan, changed to another input size if requested."""
        plan = self.plan
        if plan is None or image_size is None or plan.size_hw == (image_size, image_size):
            return plan
        short = None if plan.resize is None else round(plan.resize * image_size / min(plan.size_hw))
        return replace(plan, size_hw=(image_size, image_size), resize=short, resize_hw=None)


def read_header(path: Path) -> Header | None:
    """Return the file's metadata. None if strobe did not write the file. Raises InvalidFile if the metadata is
    damaged.
    """
    try:
        text = (safetensors_header(path)[0].get("__metadata__") or {}).get(_KEY)
    except (StrobeError, OSError, ValueError, AttributeError):  # loading the tensors later reports the error
        return None
    if text is None:
        return None
    try:
        told = json_of(text)
        plan = told.get("plan")
        return Header(
            label_space=LabelSpace.from_json(told["label_space"]),
            plan=None if plan is None else ImagePlan.from_json(plan),
            norm_eps=None if told.get("norm_eps") is None else float(told["norm_eps"]),
            image_size=None if told.get("image_size") is None else int(told["image_size"]),
            head=str(told.get("head", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, StrobeError) as error:
        raise InvalidFile(path, f"its header is damaged ({printable(error, limit=100)})") from error


def expected_header(path: Path) -> Header:
    """Return the metadata of a file that strobe wrote. Raises InvalidFile for any other file."""
    header = read_header(path)
    if header is None:
        raise InvalidFile(path, "not weights that strobe wrote", hint="make them with strobe train")
    return header


def header_of(model: ModelName, options: LoadOptions) -> Header | None:
    """Return the header of the file after @ in a model's name. None if there is no such file, or if a settings file
    replaces the header.
    """
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
    norm_eps: float | None = None,
    image_size: int | None = None,
    head: str = "",
    half: bool = False,
) -> None:
    """Write tensors as safetensors, in half precision if requested, with their metadata in the header."""
    library = require("safetensors.torch", what="writing safetensors", extra="models")
    metadata: dict[str, Any] = {"label_space": label_space.to_json(), "training": dict(training)}
    if plan is not None:
        metadata["plan"] = plan.to_json()
    further = {"norm_eps": norm_eps, "image_size": image_size, "head": head or None}
    metadata |= {key: value for key, value in further.items() if value is not None}
    tensors = {name: (tensor.half() if half else tensor).detach().cpu().contiguous() for name, tensor in state.items()}
    # The library's own writer raises its own exception class on a full disk.
    write_bytes(path, library.save(tensors, metadata={_KEY: json.dumps(metadata, sort_keys=True)}))
