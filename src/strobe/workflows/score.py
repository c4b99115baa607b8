"""From predictions to figures: score every model of a run, compare them, fit the trend, write what was found."""

import csv
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strobe.analyses.classification import ClassificationScore, Prepared, ScoreOptions, score
from strobe.analyses.comparison import compare
from strobe.analyses.detection import DetectionOptions
from strobe.analyses.offsets import OffsetPool
from strobe.analyses.results import results_json
from strobe.analyses.review_impact import ReviewStages, impact
from strobe.analyses.trend import fit
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import make_folder, write_json
from strobe.core.ports import Progress, Silent
from strobe.core.predictions import Predictions
from strobe.core.protocol import review_views
from strobe.datasets import folder as dataset_folder
from strobe.datasets.external import write_external, write_external_detections
from strobe.datasets.read_detections import Absent, BoxFormat, DetectionFile, looks_like_detections, read_detections
from strobe.datasets.read_predictions import Kind, PredictionFile, read_predictions
from strobe.report.tables import write_tables
from strobe.workflows.detection import score_detectors
from strobe.workflows.runs import RunModel, is_run, open_dataset, read_run, record_run, run_models

__all__ = ["ScoreRequest", "bring", "is_run_folder", "score_dataset", "score_run", "split_name"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """What to score and how: everything that can change a figure, but the data."""

    options: ScoreOptions = field(default_factory=ScoreOptions)
    detection: DetectionOptions = field(default_factory=DetectionOptions)
    box_space: str | None = None
    box_images: Path | None = None
    box_format: BoxFormat = "auto"
    absent: Absent = "error"
    subset: Path | None = None
    merge: str = "max"
    kind: Kind = "auto"
    allow_missing: bool = False
    ignore_extra: bool = False
    types: Path | None = None
    compare_review: bool = False
    models: tuple[str, ...] = ()

    def settings(self) -> dict[str, Any]:
        """What results.json says of how it was made."""
        return {
            "interval": self.options.interval,
            "seed": self.options.seed,
            "merge": self.merge,
            "subset": None if self.subset is None else self.subset.name,
            "allow_missing": self.allow_missing,
        }


def split_name(text: str) -> tuple[str | None, str]:
    """A model as `NAME=preds:FILE` or `preds:FILE`: its name where given, and the spec.

    >>> split_name("mine=preds:scores.json")
    ('mine', 'preds:scores.json')
    """
    name, mark, spec = text.partition("=preds:")
    return (name, f"preds:{spec}") if mark and name else (None, text)


def bring(dataset: Dataset, run: Path, specs: Sequence[str], request: ScoreRequest, progress: Progress) -> list[str]:
    """Read prediction files into the run folder; every file is read before the first is written. Names come back."""
    found: list[tuple[Path, PredictionFile | DetectionFile]] = []
    for text in specs:
        name, spec = split_name(text)
        path = Path(spec.removeprefix("preds:"))
        if looks_like_detections(path):
            boxes = _read_boxes(path, dataset, name, request)
            for line in (f"{len(boxes.table)} boxes in {boxes.source_space}", *boxes.notes):
                progress.note(f"{printable(boxes.model)}: {line}")
            found.append((path, boxes))
            continue
        one = read_predictions(
            path, dataset, name=name, kind=request.kind, merge=request.merge, allow_missing=request.allow_missing,
            ignore_extra=request.ignore_extra,
        )  # fmt: skip
        assumed = "" if one.kind_declared or one.kind == "labels" else " (by their look; --kind says otherwise)"
        extra = f", {one.n_extra} frames left out" if one.n_extra else ""
        progress.note(f"{printable(one.predictions.model)}: {one.kind}{assumed} in {one.source_space}{extra}")
        found.append((path, one))
    names = [one.model if isinstance(one, DetectionFile) else one.predictions.model for _, one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StrobeError(f"two models are called {printable(twice)}; name them with -m NAME=preds:FILE")
    for path, file in found:
        if isinstance(file, DetectionFile):
            write_external_detections(run, file, dataset, source=path)
        else:
            write_external(run, file, dataset, source=path)
    return names


def _read_boxes(path: Path, dataset: Dataset, name: str | None, request: ScoreRequest) -> DetectionFile:
    return read_detections(
        path,
        dataset,
        name=name,
        source_space=request.box_space,
        images=request.box_images,
        box_format=request.box_format,
        absent="unscored" if request.allow_missing else request.absent,
        ignore_extra=request.ignore_extra,
    )


def score_dataset(
    path: Path, specs: Sequence[str], run: Path | None, request: ScoreRequest, progress: Progress
) -> dict[str, Any]:
    """Score prediction files on a dataset; with `run` the results, tables and predictions are kept there."""
    if not specs:
        raise StrobeError("nothing to score: give predictions with -m preds:FILE, or score a run folder")
    wrong = next((text for text in specs if not split_name(text)[1].startswith("preds:")), None)
    if wrong is not None:
        raise StrobeError(f"{printable(wrong)}: score takes preds:FILE; strobe eval runs models")
    if run is None:
        with tempfile.TemporaryDirectory() as temporary:
            return score_dataset(path, specs, Path(temporary), request, progress)
    candidates = dataset_folder.read(path)
    dataset = open_dataset(path, subset=request.subset)
    make_folder(run)
    names = bring(dataset, run, specs, request, progress)
    record_run(run, candidates, path=path, changes={})
    models = run_models(run, dataset, only=names)
    return _finish(run, dataset, candidates, models, request, progress)


def score_run(
    run: Path, request: ScoreRequest, progress: Progress, *, dataset_path: Path | None = None
) -> dict[str, Any]:
    """Score the predictions a run folder holds, and write results.json and tables/ there."""
    known = read_run(run)
    path = dataset_path or Path(known["dataset"]["path"])
    candidates = dataset_folder.read(path)
    if candidates.frames_digest() != known["dataset"]["frames_digest"]:
        raise StrobeError(
            f"{printable(run)} was predicted on other frames than {printable(path)} holds now; "
            "predict again into another folder"
        )
    dataset = open_dataset(path, subset=request.subset)
    models = run_models(run, dataset, only=request.models, allow_missing=request.allow_missing)
    if not models:
        raise StrobeError(f"{printable(run)} holds no predictions yet; run strobe predict or eval first")
    return _finish(run, dataset, candidates, models, request, progress)


def _finish(
    run: Path,
    dataset: Dataset,
    candidates: Dataset,
    models: Sequence[RunModel],
    request: ScoreRequest,
    progress: Progress,
) -> dict[str, Any]:
    classifiers = [model for model in models if model.task == "classification"]
    detectors = [model for model in models if model.task == "detection"]
    loaded = ((model.load(), model.facts) for model in classifiers)
    results = _results(dataset, candidates, loaded, request, progress, total=len(classifiers))
    if detectors:
        found = score_detectors(dataset, detectors, request.options, request.detection, progress)
        results["models"] |= {name: one.to_json() for name, one in found.items()}
    write_json(run / "results.json", results)
    write_tables(run, results)
    return results


def _results(
    dataset: Dataset,
    candidates: Dataset,
    loaded: Iterable[tuple[Predictions, dict[str, Any]]],
    request: ScoreRequest,
    progress: Progress,
    *,
    total: int | None = None,
) -> dict[str, Any]:
    """One model at a time, so that memory does not grow with their number."""
    scores: list[ClassificationScore] = []
    types = _model_types(request.types)
    prepared = Prepared(dataset, request.options)
    pool = OffsetPool(prepared.plan)
    stages = _review_stages(candidates, request) if request.compare_review else None
    with (progress if total != 0 else Silent()).task("scoring", total) as advance:
        for predictions, facts in loaded:
            model_type, standard = types.get(
                predictions.model, (facts.get("model_type"), bool(facts.get("standard", False)))
            )
            one = score(dataset, predictions, prepared=prepared, pool=pool, model_type=model_type, standard=standard)
            if stages is not None:
                found = impact(stages, predictions, seed=request.options.seed, replicates=request.options.replicates)
                one = replace(one, review_impact=found.to_json())
            scores.append(one)
            advance(1)
    draws = {"seed": request.options.seed, "replicates": request.options.replicates}
    return results_json(
        dataset,
        scores,
        settings=request.settings(),
        pool=pool if scores else None,
        comparison=compare(dataset, scores, **draws),
        trend=fit(dataset, scores, **draws) if scores else None,
    )


def _model_types(path: Path | None) -> dict[str, tuple[str | None, bool]]:
    """Model type and whether it makes the trend line: the shipped testbed's word, then the user's CSV."""
    from strobe.models.testbed import entries

    known: dict[str, tuple[str | None, bool]] = {
        entry.model: (entry.model_type, entry.standard) for entry in entries() if entry.model
    }
    if path is None:
        return known
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                word = (row.get("standard") or "").strip().lower()
                if not row.get("model") or word not in ("true", "false", "1", "0", "yes", "no", ""):
                    raise InvalidFile(path, "expected model,model_type,standard (yes or no)", where=f"line {number}")
                known[row["model"]] = (row.get("model_type") or None, word in ("true", "1", "yes"))
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFile(path, "not a readable CSV file") from error
    return known


def _review_stages(candidates: Dataset, request: ScoreRequest) -> ReviewStages:
    if not candidates.verdicts:
        raise StrobeError(f"{candidates.name} has no votes, so there is no review to compare; see strobe review --help")
    views = review_views(candidates)
    return ReviewStages.of(views.before, views.anchors, views.reviewed, options=request.options)


def is_run_folder(path: Path) -> bool:
    """Whether the path names a run rather than a dataset."""
    return is_run(path) and not dataset_folder.is_dataset(path)
