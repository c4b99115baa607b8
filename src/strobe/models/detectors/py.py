"""Make a detector from your own function, for `py:FILE.py:FACTORY`.

from strobe.models.detectors.py import detector

def make():
    return detector(find, ["cat", "dog"], name="mine")   # find(images) -> [(xyxy, label, score), …] per image
"""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed
from strobe.core.labels import space
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.spaces import named_space
from strobe.models.guard import FunctionModel

Answer = tuple[Any, Any, Any]
"""Boxes (N, 4) in pixels of the image, labels (N,), scores (N,)."""
Function = Callable[[list[Image]], Sequence[Answer]]


class FunctionDetector(FunctionModel):
    """A plain function of images, behind the Detector port."""

    def __init__(self, function: Function, spec: ModelSpec) -> None:
        self.spec, self._function = spec, function

    def forward(self, prepared: Sequence[Image]) -> list[Detections]:
        """Return the function's detections, highest score first."""
        answers = self._function(list(prepared))
        if len(answers) != len(prepared):
            raise ModelFailed(
                f"{self.spec.name}: the function returned {len(answers)} answers for {len(prepared)} images, expected "
                "one per image"
            )
        return [self._one(answer) for answer in answers]

    def _one(self, answer: Answer) -> Detections:
        xyxy, label, score = (np.asarray(part, dtype=np.float64) for part in answer)
        n, shapes = score.size, f"{xyxy.shape}, {label.shape} and {score.shape}"
        if n == xyxy.size == label.size == 0:
            xyxy, label, score = np.zeros((0, 4)), np.zeros(0), np.zeros(0)
        if (xyxy.shape, label.shape, score.shape) != ((n, 4), (n,), (n,)):
            raise ModelFailed(f"{self.spec.name}: expected xyxy (N, 4), label (N,), score (N,), got {shapes}")
        if n and not 0 <= label.min() <= label.max() < len(self.spec.label_space):
            raise ModelFailed(f"{self.spec.name}: returned labels outside 0–{len(self.spec.label_space) - 1}")
        return detections(xyxy, label.astype(np.int64), score)


def detector(
    function: Function, classes: Sequence[str] | str, *, name: str, weights: str = "", batch_size: int = 8
) -> FunctionDetector:
    """Wrap the function as a detector. `classes` are names in label order, or a shipped space (coco-80, …).

    `weights` is any text that changes whenever the answers change (a version, a digest). It defaults to the function's
    source.
    """
    label_space = space(classes) if isinstance(classes, str) else named_space(name, [str(one) for one in classes])
    if not weights:
        try:
            source = inspect.getsource(function)
        except (OSError, TypeError):
            source = getattr(function, "__qualname__", name)
        weights = hashlib.sha256(source.encode()).hexdigest()
    spec = ModelSpec(
        name=name,
        provider="py",
        task="detection",
        label_space=label_space,
        weights=weights,
        kind="probabilities",
        preprocessing={"plugin": name},
        batch_size=batch_size,
    )
    return FunctionDetector(function, spec)
