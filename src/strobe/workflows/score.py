"""From predictions to figures: score every model of a run, compare them, fit the trend, write what was found."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strobe.analyses.classification import ClassificationScore, Prepared, ScoreOptions, score
from strobe.analyses.comparison import compare
from strobe.analyses.detection import DetectionOptions
from strobe.analyses.offsets import OffsetPool
from strobe.analyses.results import Results, Settings, dataset_facts
from strobe.analyses.review_impact import ReviewStages, impact
from strobe.analyses.trend import fit
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import CannotWrite, StrobeError, expect, printable
from strobe.core.files import cannot_write, make_folder, write_json
from strobe.core.ports import Progress, Silent
from strobe.core.protocol import review_views
from strobe.datasets import folder as dataset_folder
from strobe.datasets.external import write_external, write_external_detections
from strobe.datasets.read_detections import Absent, BoxFormat, DetectionFile, looks_like_detections, read_detections
from strobe.datasets.read_predictions import Kind, read_predictions
from strobe.report.tables import TABLES, write_tables
from strobe.workflows.detection import score_detectors
from strobe.workflows.model_facts import Ceilings, Types, known_types, read_types
from strobe.workflows.runs import (
    Incomplete,
    RunModel,
    check_frames,
    dataset_of_run,
    is_run,
    open_dataset,
    record_run,
    run_models,
)

__all__ = [
    "ScoreRequest",
    "Scored",
    "bring",
    "check_request",
    "is_run_folder",
    "score_dataset",
    "score_run",
    "split_name",
]


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
    space: str | None = None
    allow_missing: bool = False
    ignore_extra: bool = False
    types: Path | None = None
    compare_review: bool = False
    models: tuple[str, ...] = ()

    def settings(self) -> Settings:
        """What results.json says of how it was made."""
        return Settings(
            interval=self.options.interval,
            seed=self.options.seed,
            merge=self.merge,
            subset=None if self.subset is None else self.subset.name,
            allow_missing=self.allow_missing,
        )


def split_name(text: str) -> tuple[str | None, str]:
    """A model as `NAME=preds:FILE` or `preds:FILE`: its name where given, and the spec.

    >>> split_name("mine=preds:scores.json")
    ('mine', 'preds:scores.json')
    """
    name, mark, spec = text.partition("=preds:")
    return (name, f"preds:{spec}") if mark and name else (None, text)


def check_request(request: ScoreRequest, candidates: Dataset, dataset: Dataset) -> None:
    """Refuse what cannot be scored before any model runs or any file is written."""
    k = request.options.k
    expect(k is None or k <= dataset.info.k, "k", f"at most {dataset.info.k}, the k of dataset {dataset.name}", k)
    read_types(request.types)
    if request.compare_review and not candidates.verdicts:
        raise StrobeError(f"{candidates.name} has no votes, so there is no review to compare; see strobe review --help")


def bring(dataset: Dataset, run: Path, specs: Sequence[str], request: ScoreRequest, progress: Progress) -> list[str]:
    """Read prediction files into the run folder, one at a time; all of them come in or none. Names come back."""
    from strobe.predict.store import models_of

    files: dict[str, Path] = {}
    here = models_of(run)
    for text in specs:
        given, spec = split_name(text)
        path = Path(spec.removeprefix("preds:"))
        # Names come from the outside and go to terminals, tables and pages: control characters end here.
        name = printable(given or path.stem).strip() or "model"
        if name in files:
            raise StrobeError(f"two models are called {name}; name them with -m NAME=preds:FILE")
        if name in here:
            raise StrobeError(
                f"{printable(run)} holds predictions of a model called {name} that was run there; "
                "name the file's with -m NAME=preds:FILE"
            )
        files[name] = path
    with _incoming(run) as stage:
        for name, path in files.items():
            _bring_one(path, dataset, stage, name, request, progress)
        _move_in(stage, run)
    return list(files)


def _bring_one(path: Path, dataset: Dataset, stage: Path, name: str, request: ScoreRequest, progress: Progress) -> None:
    if looks_like_detections(path):
        boxes = _read_boxes(path, dataset, name, request)
        for line in (f"{len(boxes.table)} boxes in {boxes.source_space}", *boxes.notes):
            progress.note(f"{name}: {line}")
        write_external_detections(stage, boxes, dataset, source=path)
        return
    one = read_predictions(
        path, dataset, name=name, kind=request.kind, source_space=request.space, merge=request.merge,
        allow_missing=request.allow_missing, ignore_extra=request.ignore_extra,
    )  # fmt: skip
    assumed = "" if one.kind_declared or one.kind == "labels" else " (by their look; --kind says otherwise)"
    extra = f", {one.n_extra} frames left out" if one.n_extra else ""
    progress.note(f"{name}: {one.kind}{assumed} in {one.source_space}{extra}")
    write_external(stage, one, dataset, source=path)


@contextmanager
def _incoming(run: Path) -> Iterator[Path]:
    """A folder inside the run for what is not whole yet; it goes in any case, and so does a new run nothing came of."""
    new = not run.exists()
    make_folder(run)
    try:
        stage = Path(tempfile.mkdtemp(prefix=".incoming-", dir=run))
    except OSError as error:
        raise cannot_write(run, error) from error
    try:
        yield stage
    except CannotWrite as error:  # name the place the file was meant for
        raise CannotWrite(str(error).replace(str(stage), str(run))) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if new:
            with suppress(OSError):  # not empty: something came of it
                run.rmdir()


def _move_in(stage: Path, run: Path) -> None:
    """Every file below `stage` takes its place below `run`; they were written whole, on the same disk."""
    for path in sorted(stage.rglob("*")):
        if path.is_file():
            place = run / path.relative_to(stage)
            make_folder(place.parent)
            try:
                path.replace(place)
            except OSError as error:
                raise cannot_write(place, error) from error


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
) -> Results:
    """Score prediction files on a dataset; with `run` the results, tables and predictions are kept there.

    A run that already holds models keeps them, and all of them are scored.
    """
    if not path.is_dir():
        raise StrobeError(f"no such folder: {printable(path)}; give a dataset folder, or a run folder to score again")
    if not specs:
        raise StrobeError(
            "nothing to score: give predictions with -m preds:FILE; a run is scored again by strobe score RUN"
        )
    wrong = next((text for text in specs if not split_name(text)[1].startswith("preds:")), None)
    if wrong is not None:
        raise StrobeError(f"{printable(wrong)}: score takes preds:FILE; strobe eval runs models")
    if run is None:
        with tempfile.TemporaryDirectory() as temporary:
            return score_dataset(path, specs, Path(temporary), request, progress)
    candidates = dataset_folder.read(path)
    dataset = open_dataset(path, subset=request.subset)
    check_request(request, candidates, dataset)
    check_frames(run, candidates)
    bring(dataset, run, specs, request, progress)
    record_run(run, candidates, path=path, changes={})
    models = run_models(run, dataset, allow_missing=request.allow_missing)
    return _finish(run, dataset, candidates, models, request, progress).results


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The content of results.json, and why models of the run are not in it."""

    results: Results
    left_out: tuple[str, ...]


def score_run(
    run: Path,
    request: ScoreRequest,
    progress: Progress,
    *,
    dataset_path: Path | None = None,
    leave_out: Sequence[str] = (),
    skip_incomplete: bool = False,
) -> Scored:
    """Score the predictions a run folder holds, and write results.json and tables/ there.

    `dataset_path` says where the dataset lies if it was moved. `leave_out` names models not to score;
    `skip_incomplete` leaves out those that lack frames instead of refusing.
    """
    files = next((name for name in request.models if split_name(name)[1].startswith("preds:")), None)
    if files is not None:
        raise StrobeError(
            f"{printable(files)}: a run is scored by the names of its models; to add a file give the dataset: "
            f"strobe score DATASET -m {printable(files)} -o {printable(run)}"
        )
    path, candidates = dataset_of_run(run, moved_to=dataset_path)
    dataset = open_dataset(path, subset=request.subset)
    check_request(request, candidates, dataset)
    models = run_models(run, dataset, only=request.models, allow_missing=request.allow_missing)
    models = [model for model in models if model.name not in leave_out]
    if not models:
        raise StrobeError(f"{printable(run)} holds no predictions yet; run strobe predict or eval first")
    return _finish(run, dataset, candidates, models, request, progress, skip_incomplete=skip_incomplete)


def _finish(
    run: Path,
    dataset: Dataset,
    candidates: Dataset,
    models: Sequence[RunModel],
    request: ScoreRequest,
    progress: Progress,
    *,
    skip_incomplete: bool = False,
) -> Scored:
    loading = _Loading(skip_incomplete=skip_incomplete)
    classifiers = [model for model in models if model.task == "classification"]
    detectors = [model for model in models if model.task == "detection"]
    types = known_types(run, request.types)
    results = _results(dataset, candidates, classifiers, types, loading, request, progress)
    if detectors:
        found = score_detectors(dataset, loading.each(detectors), request.options, request.detection, progress)
        results = replace(results, models={**results.models, **found})
    if not results.models:
        raise StrobeError(loading.left_out[0])
    with _incoming(run) as stage:
        write_json(stage / "results.json", encode(results))
        write_tables(stage, encode(results))
        gone = [name for name in TABLES if not (stage / "tables" / f"{name}.csv").is_file()]
        _move_in(stage, run)
    for name in gone:  # an earlier score had rows for it
        (run / "tables" / f"{name}.csv").unlink(missing_ok=True)
    return Scored(results=results, left_out=tuple(loading.left_out))


class _Loading:
    """Loads models one after the other, so that memory does not grow with their number, and notes those left out."""

    def __init__(self, *, skip_incomplete: bool) -> None:
        self._skip = skip_incomplete
        self.left_out: list[str] = []

    def each(self, models: Sequence[RunModel]) -> Iterator[tuple[RunModel, Any]]:
        """Every model with its predictions."""
        for model in models:
            try:
                loaded = model.load()
            except Incomplete as error:
                if not self._skip:
                    raise
                self.left_out.append(str(error))
                continue
            yield model, loaded


def _results(
    dataset: Dataset,
    candidates: Dataset,
    models: Sequence[RunModel],
    types: Types,
    loading: _Loading,
    request: ScoreRequest,
    progress: Progress,
) -> Results:
    scores: list[ClassificationScore] = []
    ceilings = Ceilings(dataset)
    options = request.options
    prepared = Prepared(dataset, options)
    pool = OffsetPool(prepared.plan)
    stages = _review_stages(candidates, request) if request.compare_review else None
    with (progress if models else Silent()).task("scoring", len(models)) as advance:
        for model, predictions in loading.each(models):
            said = model.facts
            model_type, standard = types.get(model.name, (said.get("model_type"), bool(said.get("standard", False))))
            one = score(dataset, predictions, prepared=prepared, pool=pool, model_type=model_type, standard=standard)
            one = replace(one, ceiling=ceilings.of(said))
            if stages is not None:
                found = impact(stages, predictions, seed=options.seed, replicates=options.draws)
                one = replace(one, review_impact=found)
            scores.append(one)
            advance(1)
    facts, settings = dataset_facts(dataset, k=prepared.plan.k if scores else None), request.settings()
    if not scores:
        return Results(dataset=facts, settings=settings, models={})
    return Results(
        dataset=facts,
        settings=settings,
        models={one.model: one for one in scores},
        offset_error_all_models=pool.estimates(),
        comparison=compare(dataset, scores, seed=options.seed, replicates=options.draws),
        trend=fit(dataset, scores, seed=options.seed, replicates=options.draws),
    )


def _review_stages(candidates: Dataset, request: ScoreRequest) -> ReviewStages:
    views = review_views(candidates)
    return ReviewStages.of(views.before, views.anchors, views.reviewed, options=request.options)


def is_run_folder(path: Path) -> bool:
    """Whether the path names a run rather than a dataset."""
    return is_run(path) and not dataset_folder.is_dataset(path)
