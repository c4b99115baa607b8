"""A model's answers in its own classes as answers in the dataset's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.labels import Projection
from strobe.core.records import Detections

__all__ = ["own_best", "project_detections"]


def own_best(scores: NDArray[np.float32], *, kind: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The model's own best class and its confidence, before any projection."""
    best = scores.argmax(axis=1)
    top = scores[np.arange(len(best)), best]
    # Softmax at the largest logit: one over the sum of what the others are to it.
    confidence = 1 / np.exp(scores - top[:, None]).sum(axis=1, dtype=np.float64) if kind == "logits" else top
    return best.astype(np.int32), confidence.astype(np.float32)


def project_detections(found: Detections, projection: Projection) -> Detections:
    """Boxes with the dataset's labels; those whose class maps to none of them are dropped."""
    if projection.is_identity:
        return found
    table: NDArray[Any] = projection.map_labels(found.label.astype(np.int64))
    keep = table >= 0
    return Detections(xyxy=found.xyxy[keep], label=table[keep].astype(np.int32), score=found.score[keep])
