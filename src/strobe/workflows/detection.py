"""Score the detectors of a run, and bring boxes found elsewhere into one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from strobe.analyses.detection import DetectionOptions, DetectionScore, score
from strobe.analyses.plan import ScoreOptions
from strobe.core.dataset import Dataset
from strobe.core.ports import Progress
from strobe.datasets.external_detections import (
    external_detectors,
    read_external_detections,
    write_external_detections,
)
from strobe.datasets.read_detections import Absent, BoxFormat, DetectionFile, read_detections
from strobe.metrics.detection.tables import DetectionTable

__all__ = ["bring_detections", "detections_of", "score_detectors"]


def detections_of(run: Path, name: str, dataset: Dataset) -> DetectionTable:
    """A detector's boxes in the order of the dataset's frames, whether it ran here or its file was brought."""
    if name in external_detectors(run):
        return read_external_detections(run, name, dataset)
    from strobe.predict.reading import read_detections as read_stored

    return DetectionTable.of_frames(read_stored(run, name, dataset), n_classes=len(dataset.info.label_space))


def score_detectors(
    dataset: Dataset,
    run: Path,
    names: Sequence[str],
    options: ScoreOptions,
    progress: Progress,
    *,
    detection: DetectionOptions | None = None,
) -> dict[str, Any]:
    """The objects of results.json for these detectors, one at a time.

    What `options` says (k, interval, seed, bootstrap) holds for detectors too; `detection` says the rest (overlap,
    interpolation, …).
    """
    chosen = replace(
        detection or DetectionOptions(),
        k=options.k,
        interval=options.interval,
        seed=options.seed,
        bootstrap=options.bootstrap,
    )
    out: dict[str, Any] = {}
    with progress.task("scoring detectors", len(names)) as advance:
        for name in names:
            one: DetectionScore = score(dataset, detections_of(run, name, dataset), model=name, options=chosen)
            out[name] = one.to_json()
            advance(1)
    return out


def bring_detections(
    dataset: Dataset,
    run: Path,
    path: Path,
    *,
    name: str | None,
    progress: Progress,
    images: Path | None = None,
    source_space: str | None = None,
    box_format: BoxFormat = "auto",
    absent: Absent = "error",
    ignore_extra: bool = False,
) -> DetectionFile:
    """Read a file of detections into the run folder; what is worth saying about it goes to `progress`."""
    found = read_detections(
        path, dataset, name=name, images=images, source_space=source_space, box_format=box_format, absent=absent,
        ignore_extra=ignore_extra,
    )  # fmt: skip
    write_external_detections(run, found, dataset, source=path)
    progress.note(f"{found.model}: {len(found.table)} boxes in {found.source_space}")
    for note in found.notes:
        progress.note(f"{found.model}: {note}")
    return found
