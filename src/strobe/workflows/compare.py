"""Paired comparison of models on the same sets, within one run or over several."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from strobe.analyses.answer_patterns import answer_lines, with_twins
from strobe.analyses.ceilings import Ceilings
from strobe.analyses.classification import Prepared, score
from strobe.analyses.clips import ClipComparison, ModelColumns, Scope
from strobe.analyses.comparison import Comparison, compare
from strobe.analyses.detection import has_boxes
from strobe.analyses.detection import score as score_boxes
from strobe.analyses.forms import form_families
from strobe.analyses.label_sample import is_planned
from strobe.analyses.model_results import ClassificationScore, DetectionScore
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.results import Cohort
from strobe.analyses.variants_view import overall
from strobe.analyses.video_plan import no_flicker, without_cuts
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable, spelled
from strobe.core.names import short_names
from strobe.core.ports import Progress
from strobe.core.readings import reading_lines
from strobe.core.tasks import Task
from strobe.metrics.columns import Measured
from strobe.models.requested import requested_models
from strobe.report.headline import out_of_reach
from strobe.report.view import Subject, kinds_of
from strobe.report.wording import counted
from strobe.store.opening import Opened
from strobe.store.run_folder import Run, StoredModel, Subset
from strobe.studies.forms.records import FormScore
from strobe.studies.forms.score import compared
from strobe.studies.noise.score import asked_twice, noise_column, noise_score, repeated_answers
from strobe.workflows.clips import clips_of, compare_on_clips


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The comparisons of every pair of models: with labels or boxes, and without labels on the clips themselves.

    `forms` has what changes between the reference of several forms of one model and each other form.
    """

    comparisons: tuple[Comparison, ...]
    clips: tuple[ClipComparison, ...] = ()
    forms: tuple[FormScore, ...] = ()


def compare_runs(
    runs: Sequence[Path],
    *,
    models: Sequence[str],
    options: ScoreOptions,
    subset: Path | None,
    progress: Progress,
    dataset_path: Path | None = None,
    allow_missing: bool = False,
    scope: Scope = "these-clips",
) -> Compared:
    """Compare every pair of models on the sets that both were scored on.

    Tests of accuracy are exact, with Holm's correction. If some sets have no label, classifiers are also compared on
    the clips themselves, and the verdict is about the `scope`.

    Models follow the order of `models`. Without `models`, they follow the order of the runs and, within a run, the
    order in which they were requested. The first model of a pair is the earlier one. If there are several detectors,
    they are also compared by mAP. Models with the same name in two runs get their run's folder as a prefix.
    `dataset_path` is where the dataset is if it was moved.
    """
    opened = of_one_dataset(runs, subset=subset, dataset_path=dataset_path)
    given, dataset = opened.dataset, overall(opened.dataset)
    if subset is None and opened.subset is not None:
        which = f"{printable(runs[0])} was" if len(runs) == 1 else "the runs were"
        progress.note(spelled(f"{which} scored on {opened.subset.text}; use <<subset=all>> for every set"))
    entries = _wanted(
        runs, models, [Run(run).models_as_asked(dataset, allow_missing=allow_missing, k=options.k) for run in runs]
    )
    detectors = [name for name, model in entries if model.task is not Task.CLASSIFICATION]
    boxed = bool(detectors) and has_boxes(dataset)
    by_map = len(detectors) > 1 and boxed
    clips, _ = clips_of(given, options)
    by_flicker = clips is not None and (len(entries) - len(detectors) > 1 or (len(detectors) > 1 and not boxed))
    planned = by_flicker and is_planned(dataset)
    without_accuracy = (by_map or by_flicker) and (planned or not dataset.labelled.any())
    if planned:
        progress.note("accuracy is not compared, because a plan drew the sets with a label; flicker is, on all sets")
    if detectors and not without_accuracy:
        progress.note("detectors are compared as classifiers, by the class of their most confident box")
    judged = dataset if without_accuracy else dataset.labelled_sets()
    prepared = None if without_accuracy else Prepared(judged, options)
    scores: list[ClassificationScore] = []
    boxes: list[DetectionScore] = []
    with progress.task("scoring", len(entries)) as advance:
        for name, model in entries:
            if prepared is None and not boxed:
                break
            answers = model.load()
            if prepared is not None:
                scores.append(replace(score(judged, answers.as_classes(), prepared=prepared), model=name))
            if boxed and isinstance(answers, BoxAnswers):
                boxes.append(_boxes_scored(dataset, answers, name, model, options))
            advance(1)
    noise: dict[str, Measured] = {}
    if scores or boxes:
        plan, _ = noise_plan(given, options, needs_labels=prepared is not None)
        for name, model in entries:
            if model.is_repeated and (noisy := noise_of(plan, model)) is not None:
                noise |= {name: noisy.columns["noise"]}
    found = compare(judged, [*scores, *boxes], noise=noise)
    said = in_words(found, given, k=options.k, detectors=with_twins(boxes))
    facts = {name: model.facts for name, model in entries}
    on_clips = compare_on_clips(clips, dict(entries), scope=scope) if clips is not None and by_flicker else ()

    def read(*names: str, cautions: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return (*(cautions or ()), *reading_lines({name: facts[name] for name in names})) or None

    families = form_families({name: one.facts for name, one in entries})
    pairs = [
        (old, new)
        for old, new in combinations(entries, 2)
        for family in families
        if family[0] in (old[0], new[0]) and {old[0], new[0]} <= {*family}
    ]
    return Compared(
        forms=tuple(
            compared(Plan(dataset, options), old, (facts[old], one.load()), new, (facts[new], other.load()))
            for (old, one), (new, other) in pairs
        ),
        comparisons=tuple(replace(one, cautions=read(one.a, one.b, cautions=one.cautions)) for one in said),
        clips=tuple(
            replace(on_clip, cautions=read(on_clip.old, on_clip.new, cautions=on_clip.cautions)) for on_clip in on_clips
        ),
    )


def noise_plan(given: Dataset, options: ScoreOptions, *, needs_labels: bool) -> tuple[Plan, int]:
    """Return the sets on which noise is measured, and the number of sets left out because of a scene cut.

    These are the sets on which accuracy is measured or, without any label, flicker.
    """
    dataset = overall(given)
    if not dataset.labelled.any() and no_flicker(given) is None:
        kept, cuts = without_cuts(dataset, options.k)
        if kept is not None:
            return Plan(kept, options), cuts
    return Plan(dataset.labelled_sets() if needs_labels else dataset, options), 0


def noise_of(plan: Plan, model: StoredModel) -> ModelColumns | None:
    """Return the noise of a model, or None if no set has two answers on all its frames."""
    answers = repeated_answers(model.load(), model.repeats())
    score = None if answers is None else noise_score(plan, answers)
    if answers is None or score is None:
        return None
    return ModelColumns(
        name=model.name,
        columns={"noise": noise_column(plan, answers)},
        figures={"noise": score.noise, "beyond_noise": score.beyond_noise},
        scored=asked_twice(plan, answers),
    )


def cut_lines(cuts: int) -> tuple[str, ...]:
    """Return the caution about sets that flicker is not measured on."""
    if not cuts:
        return ()
    return (f"{counted(cuts, 'set')} excluded from flicker, because a scene cut lies inside",)


def in_words(
    comparisons: Sequence[Comparison],
    dataset: Dataset,
    *,
    k: int | None = None,
    detectors: Sequence[DetectionScore] = (),
) -> tuple[Comparison, ...]:
    """Return the comparisons with sentences in the terms of the dataset and k, e.g. photos instead of videos.

    Each comparison also lists the sets that were not compared, and warnings about its detectors' boxes.
    """
    subject = Subject(
        kinds=kinds_of(dataset), k=dataset.info.k if k is None else k, varied=dataset.variants is not None
    )
    needs_labels = any(not comparison.metric.startswith("map_") for comparison in comparisons)
    cohort, names = Cohort.of(dataset, needs_labels=needs_labels), [detector.model for detector in detectors]
    cautions = cohort.cautions()
    doubts = {
        detector.model: [subject.say(line, names=names) for line in doubt_lines({detector.model: detector})]
        for detector in detectors
    }
    return tuple(
        replace(
            comparison,
            sentence=subject.say(comparison.sentence, names=(comparison.a, comparison.b)),
            cautions=tuple(dict.fromkeys((*cautions, *doubts.get(comparison.a, ()), *doubts.get(comparison.b, ()))))
            or None,
        )
        for comparison in comparisons
    )


def doubt_lines(scores: Mapping[str, ClassificationScore | DetectionScore]) -> list[str]:
    """Return the notes on the models' answers, and the classes that detectors cannot find."""
    return [*answer_lines(scores), *out_of_reach(scores)]


def of_one_dataset(runs: Sequence[Path], *, subset: Path | None, dataset_path: Path | None) -> Opened:
    """Return the dataset and the subset that all runs were scored on. Raise StrobeError if the runs differ."""
    frames = [Run(run).about()["dataset"]["frames_digest"] for run in runs]
    other = next((run for run, digest in zip(runs, frames, strict=True) if digest != frames[0]), None)
    if other is not None:
        raise StrobeError(
            f"{printable(runs[0])} and {printable(other)} are runs on different frames; pass runs on one dataset"
        )
    twice = next((run for run, count in Counter(run.resolve() for run in runs).items() if count > 1), None)
    if twice is not None:
        raise StrobeError(f"the run {printable(twice)} is given twice; pass each run once")
    scored = [run for run in map(Run, runs) if run.was_scored] if subset is None else []
    parts = [run.subset() for run in scored]
    for run, part in zip(scored, parts, strict=True):
        if _ids(part) != _ids(parts[0]):
            first, second = ("all sets" if one is None else one.text for one in (parts[0], part))
            raise StrobeError(
                f"{printable(scored[0].path)} was scored on {first}, {printable(run.path)} on {second}; choose the "
                "same for both with <<subset=FILE>>, or <<subset=all>> for every set"
            )
    return Opened.of_run(scored[0] if scored else Run(runs[0]), moved_to=dataset_path, subset=subset)


def _ids(part: Subset | None) -> frozenset[str] | None:
    return None if part is None else frozenset(part.videos)


def scores_of(
    dataset: Dataset, models: Mapping[str, StoredModel], options: ScoreOptions, progress: Progress
) -> dict[str, ClassificationScore | DetectionScore]:
    """Score every model by its task. Raise StrobeError for a detector if the dataset has no boxes.

    A classifier is scored on the sets that have a label.
    """
    prepared: Prepared | None = None
    scores: dict[str, ClassificationScore | DetectionScore] = {}
    with progress.task("scoring", len(models)) as advance:
        for name, model in models.items():
            answers = model.load()
            if isinstance(answers, BoxAnswers):
                scores[name] = _boxes_scored(dataset, answers, name, model, options)
            else:
                prepared = prepared or Prepared(dataset.labelled_sets(), options)
                scores[name] = replace(score(prepared.plan.dataset, answers, prepared=prepared), model=name)
            advance(1)
    return dict(zip(scores, with_twins(list(scores.values())), strict=True))


def _boxes_scored(
    dataset: Dataset, answers: BoxAnswers, name: str, model: StoredModel, options: ScoreOptions
) -> DetectionScore:
    """Return the score of a detector, with the classes that it cannot find."""
    how = ScoreOptions(k=options.k, interval=options.interval, bootstrap=False)
    found = score_boxes(dataset, answers, model=name, how=how)
    return replace(found, ceiling=Ceilings(dataset).of_detector(model.facts))


def _wanted(
    runs: Sequence[Path], models: Sequence[str], found: Sequence[Sequence[StoredModel]]
) -> list[tuple[str, StoredModel]]:
    """Return the models to compare, each under a unique name."""
    stored = [(run, model) for run, held in zip(runs, found, strict=True) for model in held]
    known = Counter(model.name for _, model in stored)
    models = [name if name in known else model_name(name) for name in models]
    missing = next((name for name in models if name not in known), None)
    if missing is not None:
        names = ", ".join(printable(name) for name in sorted(known)) or "none"
        raise StrobeError(f"the runs have no predictions of {printable(missing)}; their models are {names}")
    chosen = [(run, model) for run, model in stored if not models or model.name in models]
    chosen.sort(key=lambda one: models.index(one[1].name) if models else 0)
    if len(chosen) < 2:
        raise StrobeError(f"a comparison needs two models, got {len(chosen)}; pass another run or model")
    folders = short_names([str(run.resolve()) for run in runs])
    of_run = dict(zip(runs, folders, strict=True))
    return [(model.name if known[model.name] == 1 else f"{of_run[run]}/{model.name}", model) for run, model in chosen]


def model_name(text: str) -> str:
    """Return the name under which `strobe eval -m TEXT` stores a model, or the text if it is no model string."""
    try:
        return requested_models([text])[0].name
    except StrobeError:
        return text
