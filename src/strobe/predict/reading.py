"""Stored predictions as the rest of the house wants them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace
from strobe.core.predictions import Predictions
from strobe.core.records import Detections
from strobe.predict.store import SCHEMA, ModelStore, Stored, folder_of, models_of

__all__ = ["RawPredictions", "model_facts", "read_detections", "read_predictions", "read_raw", "unreadable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPredictions:
    """The model's own word before projection: class (−1 where none) and confidence (NaN), (F,), and its classes."""

    label: NDArray[np.int32]
    confidence: NDArray[np.float32]
    label_space: LabelSpace


def model_facts(run: Path, name: str) -> dict[str, Any]:
    """model.json of a model of the run."""
    path = folder_of(run, name) / "model.json"
    if not path.is_file():
        known = ", ".join(models_of(run)) or "none"
        raise StrobeError(f"{printable(run)} has no predictions of {printable(name)}; it has: {known}")
    facts: dict[str, Any] = read_json(path, hint="run predict again")
    if int(facts.get("schema", 0)) > SCHEMA:
        raise StrobeError(f"{printable(path)}: format {facts['schema']} is newer than this strobe reads ({SCHEMA})")
    return facts


def _stored(run: Path, name: str, dataset: Dataset) -> tuple[dict[str, Any], Stored]:
    facts = model_facts(run, name)
    if facts["frames_digest"] != dataset.frames_digest() or facts["label_space"] != dataset.info.label_space.digest:
        raise StrobeError(
            f"{printable(name)}: the predictions in {printable(run)} were made for other frames or classes than "
            f"{printable(dataset.name)} has now; run the same predict command again"
        )
    store = ModelStore(
        run,
        name,
        key=facts["key"],
        frame_ids=dataset.frame_ids(),
        task=facts["task"],
        n_classes=len(dataset.info.label_space),
    )
    return facts, store.read()


def read_predictions(run: Path, name: str, dataset: Dataset) -> Predictions:
    """A model's predictions aligned with the dataset's frames; frames without one are unscored."""
    facts, stored = _stored(run, name, dataset)
    if stored.scores is None:
        raise StrobeError(f"{printable(name)} is a detector; its boxes are read as detections")
    return Predictions.from_scores(name, stored.scores, kind=facts["kind"], scored=stored.seen)


def read_raw(run: Path, name: str, dataset: Dataset) -> RawPredictions:
    """What the model said in its own classes."""
    facts, stored = _stored(run, name, dataset)
    if stored.raw_label is None or stored.raw_confidence is None:
        raise StrobeError(f"{printable(name)} is a detector; it has no class of its own per frame")
    label_space = LabelSpace.from_json(facts["spec"]["label_space"])
    return RawPredictions(label=stored.raw_label, confidence=stored.raw_confidence, label_space=label_space)


def read_detections(run: Path, name: str, dataset: Dataset) -> list[Detections | None]:
    """A detector's boxes per frame in the dataset's classes; None where there is no prediction."""
    _, stored = _stored(run, name, dataset)
    if stored.detections is None:
        raise StrobeError(f"{printable(name)} is a classifier; it has no boxes")
    return list(stored.detections)


def unreadable(run: Path, name: str, dataset: Dataset) -> dict[str, str]:
    """Frames (by key) that could not be read, and why."""
    _, stored = _stored(run, name, dataset)
    return {str(dataset.frames.key[row]): reason for row, reason in sorted(stored.error.items())}
