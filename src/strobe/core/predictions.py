"""Predictions of one model for every frame of a dataset, aligned with its frame table."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import expect
from strobe.core.labels import check_scores, confidence_of

__all__ = ["Predictions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """One model's word on every frame, (F,) in the order of the dataset's frame table.

    `label` is −1 and `scored` False where there is no prediction: an unscored frame is counted apart and is never a
    wrong one. `probability` (F, C) holds softmax over the dataset's classes (NaN rows where unscored) or None where
    only labels were given.
    """

    model: str
    kind: Literal["logits", "probabilities", "labels"]
    label: NDArray[np.int64]
    scored: NDArray[np.bool_]
    probability: NDArray[np.floating[Any]] | None = None

    def __post_init__(self) -> None:
        expect(self.label.ndim == 1 and self.label.shape == self.scored.shape, "Predictions.label", "shape (F,)", None)
        if self.probability is not None:
            expect(len(self.probability) == len(self.label), "Predictions.probability", "one row per frame", None)

    @classmethod
    def from_scores(
        cls,
        model: str,
        scores: NDArray[np.floating[Any]],
        *,
        kind: Literal["logits", "probabilities"],
        scored: NDArray[np.bool_] | None = None,
        names: list[str] | None = None,
    ) -> "Predictions":
        """From scores (F, C) in the dataset's classes; rows where `scored` is False are not looked at.

        Ties go to the lowest class.

        >>> import numpy as np
        >>> Predictions.from_scores("m", np.array([[1.0, 1.0], [0.0, 2.0]]), kind="logits").label.tolist()
        [0, 1]
        """
        expect(scores.ndim == 2, "scores", "shape (F, C)", scores.shape)
        seen = np.ones(len(scores), dtype=bool) if scored is None else scored
        rows = scores[seen]
        where = np.flatnonzero(seen)
        check_scores(rows, names=[names[i] if names else f"row {i}" for i in where], what=model)
        label = np.full(len(scores), -1, dtype=np.int64)
        label[seen] = rows.argmax(axis=1)
        probability = np.full(scores.shape, np.nan)
        probability[seen] = confidence_of(rows.astype(np.float64), kind=kind)
        return cls(model=model, kind=kind, label=label, scored=seen, probability=probability)

    @classmethod
    def from_labels(
        cls, model: str, label: NDArray[np.integer[Any]], *, scored: NDArray[np.bool_] | None = None
    ) -> "Predictions":
        """From one class per frame; −1 is a prediction outside the dataset's classes (wrong, and scored)."""
        seen = np.ones(len(label), dtype=bool) if scored is None else scored
        return cls(model=model, kind="labels", label=label.astype(np.int64), scored=seen)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The probability of the predicted class, NaN where unknown."""
        if self.probability is None:
            return np.full(len(self.label), np.nan)
        return np.asarray(self.probability.max(axis=1), dtype=np.float64)
