"""Score every model of a run, compare them, fit the trend and write the results."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from strobe.analyses.all_classes import all_classes
from strobe.analyses.answer_patterns import with_twins
from strobe.analyses.background import is_ladder
from strobe.analyses.classification import ClassificationScore, Prepared, ScoreOptions, score
from strobe.analyses.comparison import compare
from strobe.analyses.comparison_detection import compare_detectors
from strobe.analyses.detection import DetectionOptions, has_boxes
from strobe.analyses.detection import score as score_boxes
from strobe.analyses.drawn_results import drawn_results
from strobe.analyses.early import STOPPED
from strobe.analyses.offsets import OffsetPool
from strobe.analyses.people import BesidePeople
from strobe.analyses.per_set import ModelSets, box_sets, class_sets, set_facts
from strobe.analyses.results import Results, Settings, dataset_facts
from strobe.analyses.trainings import trainings
from strobe.analyses.trend import fit
from strobe.analyses.variants_contrasts import ByVariant
from strobe.analyses.variants_view import overall
from strobe.analyses.voting import is_alone, review_results
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.derivation import review_views, unreviewed
from strobe.core.errors import StrobeError, UnknownName, expect, printable
from strobe.core.files import write_json
from strobe.core.late import installed_version
from strobe.core.ports import Progress
from strobe.core.tasks import Task
from strobe.datasets import folder as dataset_folder
from strobe.datasets.ladder_table import read_ladder
from strobe.models.requested import requested_models, split_name
from strobe.report.tables import TABLES, write_tables
from strobe.report.tables_sets import write_sets
from strobe.runs.brought import brought_files
from strobe.runs.folder import Incomplete, Run, Subset
from strobe.workflows.bring import FileOptions, bring
from strobe.workflows.model_facts import Ceilings, Types, classes_of, known_types, read_types
from strobe.workflows.opening import Opened

__all__ = [
    "SCORERS",
    "InMemoryModel",
    "ScoreRunOptions",
    "ScoredRun",
    "check_request",
    "is_run_folder",
    "score_dataset",
    "score_models",
    "score_run",
    "score_staged",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRunOptions(FileOptions):
    """All options that can change a figure."""

    options: ScoreOptions = field(default_factory=ScoreOptions)
    detection: DetectionOptions = field(default_factory=DetectionOptions)
    subset: Path | None = None
    types: Path | None = None
    compare_review: bool = False
    models: tuple[str, ...] = ()

    def settings(self, subset: Subset | None) -> Settings:
        """Return the settings that results.json records."""
        return Settings(
            interval=self.options.interval,
            seed=self.options.seed,
            merge=self.merge,
            subset=None if subset is None else subset.name,
            allow_missing=self.allow_missing,
            baseline=self.options.baseline,
            judges=self.options.judges or None,
        )


def check_request(request: ScoreRunOptions, opened: Opened) -> None:
    """Refuse requests that cannot be scored, before any model runs or any file is written."""
    k, candidates, most = request.options.k, opened.candidates, overall(opened.dataset).info.k
    if opened.dataset.boxes is None:  # a detector is scored by boxes and needs no labels
        opened.dataset.labelled_sets()
    expect(k is None or k <= most, "k", f"at most {most}, the k of dataset {opened.dataset.name}", k)
    read_types(request.types)
    _check_searches(request.options, opened.dataset)
    if request.compare_review and not candidates.verdicts:
        raise StrobeError(f"{candidates.name} has no votes, so there is no review to compare; see strobe review --help")
    unseen = unreviewed(opened.dataset)
    if request.compare_review and unseen.sets == opened.dataset.n_sets:
        raise StrobeError(
            f"{candidates.name}: no pair has a vote ({unseen.pairs} to do), so every set is its anchor "
            "alone and there is no review of pairs to compare; strobe review serve collects votes"
        )


def _check_searches(options: ScoreOptions, dataset: Dataset) -> None:
    """Check --baseline and --judge, which apply to searches against models."""
    targets = [one.target.name for one in dataset.variants or () if one.target is not None]
    for flag, given in (("--baseline", options.baseline), ("--judge", options.judges)):
        if given and not targets:
            raise StrobeError(
                f"{flag}: nothing in {printable(dataset.name)} was searched against a model; leave it out"
            )
    if options.baseline and options.baseline not in targets:
        known = list(dict.fromkeys(targets))
        raise UnknownName(
            "model for --baseline", options.baseline, known, hint=f"searched were {', '.join(map(printable, known))}"
        )


def score_dataset(
    path: Path, specs: Sequence[str], run: Path | None, request: ScoreRunOptions, progress: Progress
) -> Results:
    """Score prediction files on a dataset. With `run`, results, tables and predictions are stored there.

    A run with models keeps them, and all of them are scored. A file that is refused or cannot be scored leaves nothing
    behind. If people named the images, no file is needed: people are scored alone.
    """
    if not path.is_dir():
        raise StrobeError(f"no such folder: {printable(path)}; give a dataset folder, or a run folder to score again")
    wrong = next((text for text in specs if not split_name(text)[1].startswith("preds:")), None)
    if wrong is not None:
        raise StrobeError(f"{printable(wrong)}: score takes preds:FILE; strobe eval runs models")
    if run is None:
        with tempfile.TemporaryDirectory() as temporary:
            return score_dataset(path, specs, Path(temporary), request, progress)
    place = Run(run)
    opened = Opened.of(path, subset=request.subset, run=place)
    if not specs and not opened.dataset.names:
        raise StrobeError(
            "nothing to score: give predictions with -m preds:FILE; a run is scored again by strobe score RUN"
        )
    check_request(request, opened)
    place.check(opened.candidates)
    with place.stage() as stage:
        files = requested_models(specs) if specs else []
        bring(opened.dataset, place, files, request, progress, stage=stage)
        names = [one.name for one in files]
        return score_staged(place, stage, opened, request, progress, asked_for=names).results


class ScorableModel(Protocol):
    """A model with answers, in a run or in memory."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def task(self) -> Task:
        """The task of its answers."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts on how the answers were made."""

    def load(self) -> Answers:
        """Return the answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InMemoryModel:
    """A model whose answers are in memory."""

    name: str
    task: Task
    answers: Answers
    facts: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Answers:
        """Return the answers."""
        return self.answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """The content of results.json, each model's result on every set, and why models are excluded."""

    results: Results
    sets: tuple[ModelSets, ...]
    left_out: tuple[str, ...]


def score_run(
    run: Path, request: ScoreRunOptions, progress: Progress, *, dataset_path: Path | None = None
) -> ScoredRun:
    """Score the predictions of a run folder, and write results.json and tables/ there.

    `dataset_path` is where the dataset is if it was moved.
    """
    files = next((name for name in request.models if split_name(name)[1].startswith("preds:")), None)
    if files is not None:
        raise StrobeError(
            f"{printable(files)}: a run is scored by the names of its models; to add a file give the dataset: "
            f"strobe score DATASET -m {printable(files)} -o {printable(run)}"
        )
    place = Run(run)
    opened = Opened.of_run(place, moved_to=dataset_path, subset=request.subset)
    check_request(request, opened)
    with place.stage() as stage:
        return score_staged(place, stage, opened, request, progress, skip_detectors=True)


def score_staged(
    run: Run,
    stage: Path,
    opened: Opened,
    request: ScoreRunOptions,
    progress: Progress,
    *,
    leave_out: Sequence[str] = (),
    skip_incomplete: bool = False,
    skip_detectors: bool = False,
    asked_for: Sequence[str] = (),
) -> ScoredRun:
    """Score the models of the run and of the stage. The stage keeps all output until everything succeeded.

    `leave_out` names models to exclude. `skip_incomplete` excludes models that lack frames instead of raising an error.
    `skip_detectors` excludes detectors among classifiers if the dataset has no boxes. `asked_for` has the models of the
    command, in order.
    """
    models = run.models(
        opened.dataset, only=request.models, allow_missing=request.allow_missing, k=request.options.k, stage=stage
    )
    models = [model for model in models if model.name not in leave_out]
    for name in request.options.judges:
        if name not in (known := [model.name for model in models]):
            raise UnknownName("model for --judge", name, known, hint=f"the run has {', '.join(map(printable, known))}")
    if not models and not opened.dataset.names:
        raise StrobeError(f"{printable(run.path)} holds no predictions yet; run strobe predict or eval first")
    types, remembered = known_types(run, request.types)
    scored = score_models(
        models, opened, request, progress, types=types, skip_incomplete=skip_incomplete, skip_detectors=skip_detectors
    )
    write_json(stage / "results.json", encode(scored.results))
    write_tables(stage, scored.results)
    if scored.sets:
        write_sets(stage, scored.sets)
    new_subset, is_new = run.judge_on(opened.subset), bool(brought_files(stage)) or not run.exists
    if is_new or new_subset or request.types is not None:
        changes = {"model_types": remembered} if remembered else {}
        if not is_new:  # nothing was predicted: keep the time and command of the last prediction
            changes |= {key: value for key, value in run.about().items() if key in ("at", "command", "versions")}
        run.record(opened.candidates, path=opened.path, changes=changes, stage=stage, asked=asked_for)
    for name in TABLES:
        if not (stage / "tables" / f"{name}.csv").is_file():  # remove the rows of an earlier score
            (run.path / "tables" / f"{name}.csv").unlink(missing_ok=True)
    return scored


def score_models(
    models: Sequence[ScorableModel],
    opened: Opened,
    request: ScoreRunOptions,
    progress: Progress,
    *,
    types: Types,
    skip_incomplete: bool = False,
    skip_detectors: bool = False,
) -> ScoredRun:
    """Score models in a run or in memory: every figure, their comparison, the trend. Writes nothing."""
    people = BesidePeople(opened.dataset.labelled_sets() if opened.dataset.names else opened.dataset, request.options)
    job = _ScoringJob(
        opened=opened,
        types=types,
        request=request,
        progress=progress,
        skip_incomplete=skip_incomplete,
        people=people,
        skip_detectors=skip_detectors,
    )
    results = Results(
        strobe=installed_version(),
        dataset=dataset_facts(opened.dataset, k=None, needs_labels=False),
        settings=request.settings(opened.subset),
        models={},
    )
    for task, scorer in SCORERS.items():
        held = [model for model in models if model.task is task]
        results = scorer(job, held, results) if held else results
    if not results.models and job.left_out:
        raise StrobeError(job.left_out[0])
    if not results.models:  # people alone: the variants are reported nevertheless
        whole = dataset_facts(opened.dataset, k=overall(opened.dataset).info.k)
        results = ByVariant(opened.dataset.labelled_sets(), request.options).into(replace(results, dataset=whole))
    results = people.into(results)
    if opened.candidates.verdicts:
        from strobe.workflows.review import exported_conduct

        conduct = exported_conduct(opened.path)
        alone = is_alone if conduct is None else conduct.is_alone
        found = review_results(opened.candidates, alone=alone, seed=request.options.seed)
        results = replace(results, review=found)
    if opened.dataset.drawn:
        results = replace(results, drawn=drawn_results(opened.dataset, seed=request.options.seed))
    return ScoredRun(results=results, sets=tuple(job.sets), left_out=tuple(job.left_out))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScoringJob:
    """The inputs of every scorer.

    It collects why models are excluded in `left_out`, and each model's result on every set in `sets`.
    """

    opened: Opened
    types: Types
    request: ScoreRunOptions
    progress: Progress
    skip_incomplete: bool
    skip_detectors: bool
    people: BesidePeople
    left_out: list[str] = field(default_factory=list)
    sets: list[ModelSets] = field(default_factory=list)

    def each(self, models: Sequence[ScorableModel]) -> Iterator[tuple[ScorableModel, Answers]]:
        """Yield every model with its predictions, one at a time, so that memory does not grow with their number.

        Each is also scored on the images that people named, unless some of its answers were skipped.
        """
        for model in models:
            try:
                loaded = model.load()
            except Incomplete as error:
                if not self.skip_incomplete:
                    raise
                self.left_out.append(str(error))
                continue
            if not (loaded.state == State.SKIPPED).any():
                self.people.add(model.name, loaded.as_classes())
            yield model, loaded


def _score_classifiers(job: _ScoringJob, models: Sequence[ScorableModel], results: Results) -> Results:
    """Return the results with every classifier's score, their agreement, their comparison and the trend."""
    scores: list[ClassificationScore] = []
    dataset, options = job.opened.dataset.labelled_sets(), job.request.options
    whole = overall(job.opened.dataset).labelled_sets()
    ceilings, variants = Ceilings(whole), ByVariant(dataset, options, areas=_areas(job.opened))
    prepared, facts = Prepared(whole, options), set_facts(dataset)
    pool = OffsetPool(prepared.plan)
    stages = None
    if job.request.compare_review:
        from strobe.analyses.review_impact import ReviewStages, impact

        part = job.opened.subset
        candidates = job.opened.candidates if part is None else job.opened.candidates.only_videos(part.videos)
        stages = ReviewStages.of(*review_views(candidates), options=options)
    with job.progress.task("scoring", len(models)) as advance:
        for model, answers in job.each(models):
            predictions, said = cast(ClassAnswers, answers), model.facts
            known = (said.get("model_type"), bool(said.get("standard", False)))
            model_type, standard = job.types.get(model.name, known)
            one = score(
                whole,
                predictions,
                prepared=prepared,
                pool=pool,
                model_type=model_type,
                standard=standard,
                with_coverage="view" in said,
            )
            one = variants.add(replace(one, ceiling=ceilings.of(said)), predictions, weights=said.get("weights"))
            if (source := classes_of(said)) is not None and one.stopped_early is None:
                of_all = all_classes(dataset, predictions, source, interval=options.interval)
                one = replace(one, all_classes=of_all)
            if stages is not None and one.stopped_early is not None:
                one = replace(one, reasons={**one.reasons, "review_impact": STOPPED})
            elif stages is not None:
                found = impact(stages, predictions, seed=options.seed, replicates=options.draws)
                one = replace(one, review_impact=found)
            scores.append(one)
            job.sets.append(class_sets(dataset, facts, predictions, k=options.k))
            advance(1)
    if not scores:
        return results
    scores = with_twins(scores)
    return variants.into(
        replace(
            results,
            dataset=dataset_facts(job.opened.dataset, k=prepared.plan.k),
            models={**results.models, **{one.model: one for one in scores}},
            offset_error_all_models=pool.estimates() if pool.n_models else (),
            comparison=compare(whole, scores),
            trainings=trainings(whole, scores, seed=options.seed, replicates=options.draws),
            trend=fit(whole, scores, seed=options.seed, replicates=options.draws),
        )
    )


def _areas(opened: Opened) -> dict[str, float]:
    """Return the share of each image that its object's box covers, if the dataset is a background ladder with boxes."""
    pictures = read_ladder(opened.path) if is_ladder(opened.dataset.variants) else None
    return {one.picture: one.area_share for one in pictures or () if one.area_share is not None}


def _score_detectors(job: _ScoringJob, models: Sequence[ScorableModel], results: Results) -> Results:
    """Return the results with every detector's score. k, interval, seed and draws are those of the request."""
    whole, dataset = job.request.options, overall(job.opened.dataset)
    if job.skip_detectors and results.models and not has_boxes(dataset):  # its boxes may only serve boxes: and crop:
        why = f"detection cannot be scored: {printable(dataset.name)} has no boxes; boxes:NAME scores it by its classes"
        job.left_out.extend(f"{printable(model.name)}: {why}" for model in models)
        return results
    options = replace(
        job.request.detection, k=whole.k, interval=whole.interval, seed=whole.seed, bootstrap=whole.bootstrap,
        replicates=whole.replicates,
    )  # fmt: skip
    found, facts, scores, ceilings = dict(results.models), set_facts(dataset), [], Ceilings(dataset)
    with job.progress.task("scoring detectors", None) as advance:
        for model, boxes in job.each(models):
            one = score_boxes(dataset, cast(BoxAnswers, boxes), model=model.name, options=options)
            one = replace(one, ceiling=ceilings.of_detector(model.facts))
            scores.append(one)
            job.sets.append(box_sets(dataset, facts, cast(BoxAnswers, boxes), one))
            advance(1)
    found |= {one.model: one for one in with_twins(scores)}
    return replace(results, models=found, comparison=(*results.comparison, *compare_detectors(dataset, scores)))


SCORERS: Mapping[Task, Callable[[_ScoringJob, Sequence[ScorableModel], Results], Results]] = {
    Task.CLASSIFICATION: _score_classifiers,
    Task.DETECTION: _score_detectors,
}
"""How the models of each task come into the results, one in memory at a time."""


def is_run_folder(path: Path) -> bool:
    """Whether the path names a run rather than a dataset."""
    return Run(path).exists and not dataset_folder.is_dataset(path)
