"""From a scored run to the page a person reads: results, dataset, predictions and pictures brought together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import read_json
from strobe.core.ports import FrameSource, Progress, Silent
from strobe.core.predictions import Predictions
from strobe.core.records import Detections
from strobe.report.page import GALLERY_MODELS, ReportOptions, write_report
from strobe.report.wording import models_of
from strobe.workflows.runs import RunModel, dataset_of_run, open_dataset, read_run, run_models
from strobe.workflows.sources import frame_source

__all__ = ["ReportRequest", "report_run"]

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """How to report: the page's options, and where the data lies if not where it was predicted."""

    options: ReportOptions = field(default_factory=ReportOptions)
    dataset: Path | None = None
    subset: Path | None = None


def report_run(run: Path, request: ReportRequest | None = None, progress: Progress | None = None) -> Path:
    """Write report.html, figures/ and tables/ for a scored run folder; the path of the page."""
    request, progress = request or ReportRequest(), progress or Silent()
    read_run(run)
    results = _read_results(run)
    path, _ = dataset_of_run(run, moved_to=request.dataset)
    dataset = open_dataset(path, subset=request.subset)
    if dataset.digest() != results["dataset"]["digest"]:
        subset = (results.get("settings") or {}).get("subset")
        hint = f"give the same --subset ({printable(subset)})" if subset else "run strobe score on this run again"
        raise StrobeError(
            f"{printable(dataset.name)} is not the data {printable(run)}/results.json was scored on; {hint}"
        )
    here = {model.name: model for model in run_models(run, dataset, allow_missing=True)}
    models = [here[name] for name in list(models_of(results))[:GALLERY_MODELS] if name in here]
    predictions: dict[str, Predictions] = {model.name: model.load() for model in models}
    detectors = [here[name] for name in list(models_of(results, "detection"))[:GALLERY_MODELS] if name in here]
    detections: dict[str, Sequence[Detections | None]] = {model.name: model.load() for model in detectors}
    raw = {model.name: names for model in models if (names := _own_classes(run, model, dataset)) is not None}
    options = replace(request.options, raw_names={**raw, **request.options.raw_names})
    source = _source(dataset, progress)
    return write_report(run, results, dataset, predictions, source, options, progress, detections=detections)


def _read_results(run: Path) -> dict[str, Any]:
    path = run / "results.json"
    results = read_json(path, hint="run strobe score on this run first")
    if not isinstance(results, dict) or not isinstance(results.get("schema"), int):
        raise InvalidFile(path, "no schema number", where="schema", hint="run strobe score again")
    if results["schema"] > SCHEMA:
        raise InvalidFile(path, f"format {results['schema']} is newer than this strobe reads ({SCHEMA})")
    if not isinstance(results.get("dataset"), dict) or not isinstance(results.get("models"), dict):
        raise InvalidFile(path, "no dataset or models", where="dataset, models", hint="run strobe score again")
    return results


def _source(dataset: Dataset, progress: Progress) -> FrameSource | None:
    """The dataset's pictures, or none with a word about it: a report without pictures is still a report."""
    try:
        return frame_source(dataset)
    except StrobeError as error:
        progress.note(f"the gallery has no pictures: {error}")
        return None


def _own_classes(run: Path, model: RunModel, dataset: Dataset) -> Sequence[str] | None:
    """The model's own best class per frame, where it was run here and its classes are not the dataset's."""
    if "spec" not in model.facts:
        return None
    from strobe.predict.reading import read_raw

    raw = read_raw(run, model.name, dataset)
    if raw.label_space.ids == dataset.info.label_space.ids:
        return None
    names = raw.label_space.names
    return [names[label] if label >= 0 else "" for label in raw.label.tolist()]
