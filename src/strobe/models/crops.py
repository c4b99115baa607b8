"""Classifiers that see crops of each frame: the mean of shifted crops, or the crop with the most edges."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats
from strobe.core.crops import cut_of
from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import confidence_of
from strobe.core.ports import Classifier, Detector, Image, Preparation
from strobe.metrics.remedies import Remedy
from strobe.models.options import LoadOptions

MARGIN = 0.08
"""The share of each side by which a shifted crop is smaller than its frame."""


def of_crops(
    remedy: Remedy, name: str, load: Callable[[LoadOptions], Classifier | Detector], options: LoadOptions
) -> "CropsClassifier":
    """Return the classifier `name` on the crops of a remedy."""
    model = load(options)
    if not isinstance(model, Classifier) or model.spec.task != "classification":
        raise ModelFailed(f"{printable(name)}: it is not a classifier with scores, so its crops have no mean")
    return CropsClassifier(model, remedy, name)


class CropsClassifier:
    """The mean probabilities of a classifier on the crops of a remedy. A crop is not cropped again."""

    preparation: Preparation | None = None

    def __init__(self, model: Classifier, remedy: Remedy, name: str) -> None:
        self._model, self._remedy = model, remedy
        self._many = int(remedy.value) if remedy.kind == "crops" else 1
        self.seen = {"remedy": remedy.text, "of": name, "passes": self._many}
        settings = {**model.spec.preprocessing, **self.seen}
        self.spec = replace(model.spec, preprocessing=settings, kind="probabilities", scale=1.0)
        self.device, self.lanes = model.device, model.lanes

    def prepare(self, image: Image) -> list[Any]:
        """Return the crops, ready for `forward`."""
        size = image.shape[1::-1]
        boxes = [shifted(size, number, self._many) for number in range(self._many)]
        if self._remedy.kind == "choice":
            boxes = [chosen_crop(image, self._remedy.value)]
        cuts = [cut_of(box.tolist(), size) or (0, 0, *size) for box in boxes]
        crops = [np.ascontiguousarray(image[top:bottom, left:right]) for left, top, right, bottom in cuts]
        return [self._model.prepare_input(crop) for crop in crops]

    prepare_input = prepare

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return the mean probabilities (N, C), with a forward pass of the classifier for each crop."""
        spec, parts = self._model.spec, zip(*prepared, strict=True)
        scores = [np.asarray(self._model.forward(part), dtype=np.float64) * spec.scale for part in parts]
        return np.asarray(np.mean([confidence_of(part, kind=spec.kind) for part in scores], axis=0), dtype=np.float32)


def shifted(size_wh: Sequence[int] | NDArray[np.int64], number: int, many: int) -> Floats:
    """Return one of `many` crops of a frame: the first is in the middle, and the others go round it.

    >>> shifted((100, 50), 0, 5).tolist(), shifted((100, 50), 1, 5).tolist()
    ([4.0, 2.0, 96.0, 48.0], [8.0, 2.0, 100.0, 48.0])
    """
    margin = np.round(np.asarray(size_wh) * MARGIN / 2)
    turn = 2 * math.pi * (number - 1) / max(many - 1, 1)
    move = np.zeros(2) if number == 0 else np.round(margin * np.array([math.cos(turn), math.sin(turn)]))
    return np.concatenate([margin + move, np.asarray(size_wh) - margin + move])


def chosen_crop(image: Image, share: float) -> Floats:
    """Return the crop with this share of both sides that has the most edges, which follows a picture that shifts.

    The choice depends on the content alone: a frame that is shifted by a few pixels gives the same content, unless what
    enters at its border has more edges. Ties go to the uppermost crop, and then to the leftmost.

    >>> image = np.zeros((20, 40, 3), np.uint8)
    >>> image[5:9, 25:38] = 255
    >>> chosen_crop(image, 0.5).tolist()
    [19.0, 0.0, 39.0, 10.0]
    """
    grey = np.asarray(image, dtype=np.float64).mean(axis=2)
    edges = np.zeros((grey.shape[0] + 1, grey.shape[1] + 1))
    edges[2:, 1:] += np.abs(np.diff(grey, axis=0))
    edges[1:, 2:] += np.abs(np.diff(grey, axis=1))
    total = edges.cumsum(axis=0).cumsum(axis=1)
    high, wide = max(1, round(grey.shape[0] * share)), max(1, round(grey.shape[1] * share))
    inside = total[high:, wide:] - total[:-high, wide:] - total[high:, :-wide] + total[:-high, :-wide]
    top, left = np.unravel_index(int(np.round(inside, 6).argmax()), inside.shape)
    return np.array([left, top, left + wide, top + high], dtype=np.float64)
