"""Score every model of a run, compare them, fit the trend and write the results."""

import csv
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strobe.analyses.detection import has_boxes
from strobe.analyses.forms import form_families
from strobe.analyses.model_results import ModelResult
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results, Settings, dataset_facts, unreviewed
from strobe.analyses.scoring import Collector, ModelSets, ScorableModel, Scoring
from strobe.analyses.variants_view import overall
from strobe.core.annex import added
from strobe.core.answers import Answers
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName, expect, printable
from strobe.core.files import reading, write_json
from strobe.core.labels import LabelSpace, coarser_groups
from strobe.core.late import installed_version
from strobe.core.ports import Progress
from strobe.core.readings import readings_of_model
from strobe.core.tasks import Task
from strobe.formats.bring import bring
from strobe.formats.prediction_files import FileOptions
from strobe.models.grammar import split_name
from strobe.models.requested import requested_models
from strobe.report.study import STUDIES, scoring_studies, tables
from strobe.report.tables import write_sets, write_tables
from strobe.store import dataset_folder
from strobe.store.brought import brought_files
from strobe.store.opening import Opened
from strobe.store.run_folder import Incomplete, Run, StoredModel, Subset
from strobe.studies.detection.records import DetectionOptions
from strobe.studies.unlabelled.records import SURE, FlickerOptions

Types = dict[str, tuple[str | None, bool]]
"""Model type, and whether the trend line is fitted to the model, by name."""

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False}


def known_types(run: Run, path: Path | None) -> tuple[Types, Types]:
    """Return every model's type by name: from the shipped testbed, then from the run, then from the user's CSV.

    The second value is to be stored in the run, so that later scoring needs no CSV.
    """
    from strobe.models.testbed import entries

    shipped: Types = {entry.model: (entry.model_type, entry.standard) for entry in entries() if entry.model}
    kept = run.about().get("model_types", {}) if run.exists else {}
    try:
        remembered: Types = {str(name): (kind, bool(standard)) for name, (kind, standard) in kept.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidFile(run.path / "run.json", "expected {model: [type, standard]}", where="model_types") from error
    known = remembered | read_types(path)
    return shipped | known, known


def read_types(path: Path | None) -> Types:
    """Return the rows of a CSV model,model_type,standard, or nothing without a file."""
    if path is None:
        return {}
    types: Types = {}
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            word = (row.get("standard") or "").strip().lower()
            if not row.get("model") or word not in _WORDS:
                raise InvalidFile(path, "expected model,model_type,standard (yes or no)", where=f"line {number}")
            types[row["model"]] = (printable(row.get("model_type") or "") or None, _WORDS[word])
    return types


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRunOptions(FileOptions):
    """All options that can change a figure."""

    options: ScoreOptions = field(default_factory=ScoreOptions)
    detection: DetectionOptions = field(default_factory=DetectionOptions)
    subset: Path | None = None
    types: Path | None = None
    compare_review: bool = False
    remedies: bool = False
    sure: float = SURE
    coarser: Path | None = None
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
    """Raise an error for requests that cannot be scored, before any model runs or any file is written."""
    k, candidates = request.options.k, opened.candidates
    if opened.dataset.boxes is None and not any(scored_without_truth(opened.dataset, task) for task in Task):
        opened.dataset.labelled_sets()  # if there are boxes, detectors can be scored without labels
    if k is not None:
        most = overall(opened.dataset).info.k
        expect(k <= most, "k", f"at most {most}, which is the k of dataset {opened.dataset.name}", k)
    read_types(request.types)
    _check_searches(request.options, opened.dataset)
    if not request.compare_review:
        return
    if not candidates.verdicts:
        raise StrobeError(f"{candidates.name} has no votes, so there is no review to compare; see strobe review --help")
    unseen = unreviewed(opened.dataset)
    if unseen.sets == opened.dataset.n_sets:
        raise StrobeError(
            f"{candidates.name}: no pair has a vote ({unseen.pairs} pending), so every set has only its anchor and "
            f"no pair review can be compared; collect votes with strobe review serve"
        )


def scored_without_truth(dataset: Dataset, task: Task) -> bool:
    """Return whether models of the task can be scored on the dataset's frames without labels and boxes."""
    if dataset.info.axis != "frame-offset" or dataset.variants is not None:
        return False
    return task is Task.CLASSIFICATION or not dataset.labelled.any()  # with labels, a detector is expected to have mAP


def check_model(dataset: Dataset, name: str, task: Task) -> None:
    """Raise an error for a model that cannot be scored on the dataset, before it runs."""
    if task is Task.DETECTION and not has_boxes(dataset) and not scored_without_truth(dataset, task):
        raise StrobeError(
            f"{printable(name)}: it is a detector, and {printable(dataset.name)} has no boxes to score it with; give "
            f"them with strobe build --boxes FILE, or score its classes with -m boxes:{printable(name)}"
        )


def _check_searches(options: ScoreOptions, dataset: Dataset) -> None:
    """Check --baseline and --judge, which only apply to searches against models."""
    targets = [variant.target.name for variant in dataset.variants or () if variant.target is not None]
    for flag, given in (("<<baseline>>", options.baseline), ("<<judge>>", options.judges)):
        if given and not targets:
            raise StrobeError(
                f"{flag}: nothing in {printable(dataset.name)} was searched against a model; remove {flag}"
            )
    if options.baseline and options.baseline not in targets:
        known = list(dict.fromkeys(targets))
        raise UnknownName(
            "model for <<baseline>>",
            options.baseline,
            known,
            hint=f"the targets are {', '.join(map(printable, known))}",
        )


def score_dataset(
    path: Path, specs: Sequence[str], run: Path | None, request: ScoreRunOptions, progress: Progress
) -> Results:
    """Score prediction files on a dataset. With `run`, results, tables and predictions are stored there.

    An existing run keeps its models, and all of them are scored. If a file is invalid or cannot be scored, nothing is
    stored. If people named the images, no file is needed, and only people are scored.
    """
    if not path.is_dir():
        raise StrobeError(
            f"no such folder: {printable(path)}; pass a dataset folder, or a run folder to score it again"
        )
    wrong = next((text for text in specs if not split_name(text)[1].startswith("preds:")), None)
    if wrong is not None:
        raise StrobeError(f"{printable(wrong)}: strobe score only takes preds:FILE; run models with strobe eval")
    if run is None:
        with tempfile.TemporaryDirectory() as temporary:
            return score_dataset(path, specs, Path(temporary), request, progress)
    place = Run(run)
    opened = Opened.of(path, subset=request.subset, run=place)
    if not specs and not opened.dataset.names:
        raise StrobeError(
            "nothing to score; pass predictions with -m preds:FILE, or score a run again with strobe score RUN"
        )
    check_request(request, opened)
    place.check(opened.candidates)
    with place.stage() as stage:
        files = requested_models(specs) if specs else []
        bring(opened.dataset, place, files, request, progress, stage=stage)
        names = [file.name for file in files]
        return score_staged(place, stage, opened, request, progress, asked_for=names).results


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

    def repeats(self) -> Iterable[Answers]:
        """Return nothing: each frame has one answer."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """The content of results.json, each model's result on every set, and the reasons for excluded models."""

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
            f"{printable(files)}: for a run, -m takes the names of its models; to add a file, pass the dataset: "
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
    """Score the models of the run and of the stage. All output stays in the stage until everything succeeded.

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
            raise UnknownName(
                "model for <<judge>>", name, known, hint=f"the models of the run are {', '.join(map(printable, known))}"
            )
    if not models and not opened.dataset.names:
        raise StrobeError(f"{printable(run.path)} has no predictions yet; run strobe predict or eval first")
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
        if not is_new:  # this command predicts nothing, so keep the time and command of the last prediction
            changes |= {key: value for key, value in run.about().items() if key in ("at", "command", "versions")}
        run.record(opened.candidates, path=opened.path, changes=changes, stage=stage, asked=asked_for)
    for name in tables():
        if not (stage / "tables" / f"{name}.csv").is_file():  # remove the rows of an earlier score
            (run.path / "tables" / f"{name}.csv").unlink(missing_ok=True)
    return scored


def _missing_maker(dataset: Dataset) -> str | None:
    """Return the command that made the dataset's variants if it belongs to an annex that is not there."""
    maker = printable(dataset.info.provenance.get("made_by", ""))
    verb, _, kind = maker.rpartition(" ")
    return maker if verb == "strobe vary" and kind not in ("attack", "corruption", *added("commands: vary")) else None


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
    """Score models in a run or in memory: every figure, their comparison, the trend. Nothing is written."""
    subset = opened.subset
    scoring = Scoring(
        path=opened.path,
        candidates=opened.candidates,
        dataset=opened.dataset,
        videos=None if subset is None else subset.videos,
        tasks=[model.task for model in models],
        options=request.options,
        detection=request.detection,
        types=types,
        compare_review=request.compare_review,
        remedies=request.remedies,
        is_remedied=any(model.facts.get("view") == "remedy" for model in models),
        flicker=_flicker_options(request, opened.dataset),
        is_repeated=any(isinstance(model, StoredModel) and model.is_repeated for model in models),
        is_remote=any(isinstance(model, StoredModel) and bool(model.facts.get("remote")) for model in models),
        families=form_families({model.name: model.facts for model in models}),
    )
    made = scoring_studies(scoring)
    STUDIES.report(progress.note)
    if (maker := _missing_maker(opened.candidates)) is not None:
        progress.note(f"the dataset was made by {maker}, which is not installed; its variants are scored as plain ones")
    collectors = [collector for _, collector in made]
    # strobe's own studies come first, so no plugin replaces the scorer of a task.
    scorers = {study.task: collector for study, collector in reversed(made) if study.task}
    results: dict[str, ModelResult] = {}
    left_out: list[str] = []
    for task in Task:
        held, scorer = [model for model in models if model.task is task], scorers.get(task)
        if skip_detectors and results and scorer is not None:
            reasons = [scorer.excludes(model) for model in held]
            left_out += [reason for reason in reasons if reason is not None]
            held = [model for model, reason in zip(held, reasons, strict=True) if reason is None]
        doing = Collector.doing if scorer is None else scorer.doing
        with progress.task(doing, len(held)) if held else nullcontext(lambda _: None) as advance:
            for model in held:
                try:
                    answers = model.load()
                except Incomplete as error:
                    if not skip_incomplete:
                        raise
                    left_out.append(str(error))
                    continue
                result: ModelResult | None = None
                for collector in sorted(collectors, key=lambda one: one is not scorer):
                    result = collector.add(result, model, answers)
                if result is not None:
                    results[model.name] = result
                advance(1)
    if not results and left_out:
        raise StrobeError(left_out[0])
    # Without models, only people are scored, and the dataset is described as for models.
    k = None if results else scoring.merged.info.k
    run_results = Results(
        strobe=installed_version(),
        dataset=dataset_facts(opened.dataset, k=k, needs_labels=not results and bool(opened.dataset.labelled.any())),
        settings=request.settings(subset),
        models=results,
    )
    for collector in collectors:
        run_results = collector.into(run_results)
    run_results = _with_readings(run_results, {model.name: readings_of_model(model.facts) for model in models})
    sets = tuple(one for collector in collectors for one in collector.sets)
    return ScoredRun(results=run_results, sets=sets, left_out=tuple(left_out))


def _with_readings(results: Results, readings: Mapping[str, tuple[str, ...]]) -> Results:
    """Add the guesses with which predictions were read to the notes of their models, with and without labels."""

    def noted(models: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: replace(model, notes=(*(model.notes or ()), *readings[name])) if readings.get(name) else model
            for name, model in models.items()
        }

    flicker = results.flicker
    flicker = None if flicker is None else replace(flicker, models=noted(flicker.models))
    return replace(results, models=noted(results.models), flicker=flicker)


def _flicker_options(request: ScoreRunOptions, dataset: Dataset) -> FlickerOptions | None:
    """Return the options of flicker; None if every set has a label and no such option is given."""
    if dataset.labelled.all() and (request.sure, request.coarser) == (SURE, None):
        return None
    return FlickerOptions(sure=request.sure, coarser=_groups(request.coarser, dataset.info.label_space))


def _groups(path: Path | None, space: LabelSpace) -> Mapping[str, tuple[str, ...]]:
    """Return the coarser groups of classes: from a CSV file, or the shipped levels."""
    if path is None:
        return coarser_groups(space)
    hint = "write a header class,group and a row for each class"
    with reading(path, hint=hint):
        rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    if not rows or not {"class", "group"} <= rows[0].keys():
        raise InvalidFile(path, "it needs a column class and a column group", hint=hint)
    groups: dict[int, str] = {}
    for line, row in enumerate(rows, 2):
        try:
            groups[space.index((row["class"] or "").strip())] = (row["group"] or "").strip()
        except (UnknownName, InvalidValue) as error:
            raise InvalidFile(path, f"line {line}: {error}") from error
    missing = [name for index, name in enumerate(space.names) if not groups.get(index)]
    if missing:
        raise InvalidFile(path, f"{len(missing)} of {len(space)} classes have no group, first {missing[0]}", hint=hint)
    return {path.stem: tuple(groups[place] for place in range(len(space)))}


def is_run_folder(path: Path) -> bool:
    """Return whether the path is a run and not a dataset."""
    return Run(path).exists and not dataset_folder.is_dataset(path)
