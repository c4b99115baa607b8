"""Find out the kind of a live model's scores on test images, where the model does not declare it."""

from dataclasses import replace
from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.readings import read_as
from strobe.core.records import ModelSpec
from strobe.core.score_kinds import kind_of_scores
from strobe.models.guard import probe_images

IN_SETTINGS = '"kind": "probabilities" or "kind": "logits" in its JSON file'
RETURN_KIND = '"probabilities" or "logits" as the last value that the factory returns'
"""How the kind is declared for networks with a JSON file, and for functions and torch modules in a Python file."""


def with_kind(spec: ModelSpec, rows: Any, option: str) -> ModelSpec:
    """Return the spec with the kind that scores (N, C) of test images show. `option` is the way to declare it.

    Only probabilities are a reading. Values that are logits can be nothing else.

    Raises:
        ModelFailed: The scores could be either kind.
    """
    try:
        found = kind_of_scores(np.asarray(rows, dtype=np.float64), option=option)
    except StrobeError as error:
        raise ModelFailed(f"{printable(spec.name)}: on test images, {error}") from error
    if found.kind == "logits":
        return replace(spec, kind="logits")
    reading = read_as("kind", found.kind, f"on test images, {found.reason}")
    return replace(spec, kind=found.kind, scale=found.scale, readings=(reading,))


def kind_on_probes(model: Any, declared: Any, *, batch: int | None = None) -> None:
    """Set the kind of a classifier's scores: as declared, or as test images show. `batch` is a fixed batch size."""
    if declared is None:
        images = probe_images() * (batch or 1)
        model.spec = with_kind(model.spec, model.forward([model.prepare(image) for image in images]), IN_SETTINGS)
