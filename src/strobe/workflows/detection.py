"""Detectors among the models of a run: their boxes scored as methods §6 says."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from strobe.analyses.detection import DetectionOptions, score
from strobe.analyses.model_results import DetectionResult
from strobe.analyses.plan import ScoreOptions
from strobe.core.dataset import Dataset
from strobe.core.ports import Progress
from strobe.metrics.detection.tables import DetectionTable
from strobe.workflows.runs import RunModel

__all__ = ["detection_table", "score_detectors"]


def detection_table(dataset: Dataset, loaded: Any) -> DetectionTable:
    """A model's boxes as one table, whether it was run here (a list per frame) or brought as a file (a table)."""
    if isinstance(loaded, DetectionTable):
        return loaded
    return DetectionTable.of_frames(loaded, n_classes=len(dataset.info.label_space))


def score_detectors(
    dataset: Dataset,
    loaded: Iterable[tuple[RunModel, Any]],
    options: ScoreOptions,
    detection: DetectionOptions,
    progress: Progress,
) -> dict[str, DetectionResult]:
    """Every detector's score by name, one in memory at a time; k, interval and seed are those of the whole request."""
    used = replace(detection, k=options.k, interval=options.interval, seed=options.seed, bootstrap=options.bootstrap)
    found = {}
    with progress.task("scoring detectors", None) as advance:
        for model, boxes in loaded:
            table = detection_table(dataset, boxes)
            found[model.name] = score(dataset, table, model=model.name, options=used)
            advance(1)
    return found
