"""`strobe gate`: judge a model by limits on its figures, and on its losses against baselines on the same sets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from strobe.analyses.clips import ClipComparison, ModelColumns, Scope
from strobe.analyses.comparison import COMPARED, Change, change, columns_of, compare, scored_sets
from strobe.analyses.detection import has_boxes
from strobe.analyses.forms import form_families
from strobe.analyses.gate import Check, Gate, Limit, Quantity, judge, losses_of, outcome
from strobe.analyses.gate_plan import GatePlan, plan_loss
from strobe.analyses.label_sample import is_planned
from strobe.analyses.measures import Measure, measures_of
from strobe.analyses.model_results import CLASSIFICATION, NOISE, figures_of
from strobe.analyses.plan import NOT_VIDEO, Plan, ScoreOptions
from strobe.analyses.results import Cohort
from strobe.analyses.variants_view import overall
from strobe.analyses.video_plan import FlickerPlan, no_flicker
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import write_json, write_text
from strobe.core.locks import writes
from strobe.core.names import short_names, shown_models
from strobe.core.ports import Progress
from strobe.core.readings import reading_lines
from strobe.core.swaps import swapping
from strobe.core.tasks import Task
from strobe.metrics.power import PairSpread, spread_of
from strobe.report.gate import as_junit, as_markdown
from strobe.report.view import Subject, kinds_of
from strobe.report.wording import counted
from strobe.store.opening import Opened
from strobe.store.run_folder import Run, StoredModel
from strobe.studies.forms.measures import FormPair
from strobe.studies.unlabelled.records import FlickerOptions
from strobe.studies.variants.score_contrasts import own_contrasts
from strobe.workflows.clips import Clips, Entrant, clips_of, entrant_of, pair_on_clips
from strobe.workflows.compare import cut_lines, doubt_lines, noise_of, noise_plan, of_one_dataset, scores_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """The limits, the model, its baselines, and what the verdict is about.

    The baselines are the models named `baselines` in each run of `against`, or in the run itself. A loss is measured
    against every baseline.
    """

    limits: tuple[Limit, ...]
    model: str | None = None
    against: tuple[Path, ...] = ()
    baselines: tuple[str, ...] = ()
    scope: Scope = "these-clips"
    options: ScoreOptions = field(default_factory=ScoreOptions)
    subset: Path | None = None
    dataset: Path | None = None
    allow_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entrants:
    """The data, the model to judge, the baselines by display name, and all model names in the runs."""

    request: GateOptions
    progress: Progress
    opened: Opened
    model: StoredModel
    baselines: Mapping[str, StoredModel]
    known: tuple[str, ...]

    @property
    def all(self) -> dict[str, StoredModel]:
        """Return the model first, then its baselines."""
        return {self.model.name: self.model, **self.baselines}

    @property
    def options(self) -> ScoreOptions:
        """How the models are scored."""
        return self.request.options


@dataclass(frozen=True, slots=True, kw_only=True)
class _Collected:
    """The columns of the model and its baselines in one family of measures, and the sets that they are measured on.

    `measures` are those in which losses are judged, on the clips themselves if `clips` are given.
    """

    sets: Dataset
    cohort: Cohort
    models: Mapping[str, ModelColumns]
    measures: Sequence[Measure[Any]] = ()
    clips: Clips | None = None
    cautions: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    estimated: tuple[str, ...] = ()
    """The contrasts that depend on boxes or masks that a model made."""

    @property
    def n_videos(self) -> int:
        """The number of videos of the sets."""
        return len(set(self.sets.video_of_set.tolist()))


def gate(new: Path, request: GateOptions, progress: Progress) -> Gate:
    """Judge a model of a run by the limits.

    The baseline is a model of the run `against` (the model of the same name, or the only model), or another model of
    the same run.
    """
    if not request.limits:
        raise StrobeError(
            "no limit given; use for example <<max_loss=acc_pmk=1>>, <<min=acc_pmk=50>> or <<max=drop=10>>"
        )
    entrants = _entrants(new, request, progress)
    given, name, names = entrants.opened.dataset, entrants.model.name, tuple(entrants.baselines)
    lost = next((limit for limit in request.limits if limit.kind == "max_loss"), None)
    if lost is not None and not names:
        raise StrobeError(f"<<max_loss={lost.measure}>> needs a baseline; add <<against=RUN>> or <<baseline=MODEL>>")
    found: dict[Limit, tuple[Check, ...]] = {}
    missing, pairs, collected = [0], [], _collected(entrants)
    for limits, family in collected:
        ours = family.models[name]
        losses, on_clips = _losses(family, name, request.scope)
        pairs += on_clips
        missing += [int((~(ours.scored & model.scored)).sum()) for model in family.models.values()]
        for limit in limits:
            checks = judge(
                [limit], ours, losses, options=request.options, scope=request.scope, n_videos=family.n_videos
            )
            note = "; it depends on estimated boxes or masks" if limit.measure in family.estimated else ""
            found[limit] = tuple(replace(check, sentence=check.sentence + note) for check in checks)
    shown, kinds, subset = shown_models(entrants.known), kinds_of(given), entrants.opened.subset
    subject, families = Subject(kinds=kinds), [family for _, family in collected]
    every = tuple(
        replace(check, sentence=subject.say(check.sentence)) for limit in request.limits for check in found[limit]
    )
    cautions = (subject.say(line, names=list(entrants.all)) for family in families for line in family.cautions)
    dataset, cohort = overall(given), families[0].cohort
    return Gate(
        passed=outcome(every),
        model=name,
        baselines=names,
        dataset=dataset.name,
        n_sets=families[0].sets.n_sets,
        n_sources=families[0].n_videos,
        k=dataset.info.k if request.options.k is None else request.options.k,
        scope=request.scope,
        checks=every,
        changes=tuple(dict.fromkeys(change for family in families for change in family.changes)),
        clips=tuple(pairs) or None,
        short={one.name: shown[one.name] for one in entrants.all.values() if shown[one.name] != one.name} or None,
        kinds=kinds or None,
        subset=None if subset is None else subset.name,
        missing_sets=max(missing) or None,
        unlabelled_sets=cohort.unlabelled_sets or None,
        sets_without_votes=cohort.sets_without_votes or None,
        cautions=(*dict.fromkeys(cautions), *reading_lines({name: one.facts for name, one in entrants.all.items()}))
        or None,
    )


def _losses(family: _Collected, name: str, scope: Scope) -> tuple[dict[str, dict[str, Quantity]], list[ClipComparison]]:
    """Return a model's losses by baseline and measure, and the comparisons on clips without labels."""
    ours, pairs = family.models[name], {}
    theirs = {other: model for other, model in family.models.items() if other != name}
    for other, old in theirs.items():
        if family.clips is not None and isinstance(ours, Entrant) and isinstance(old, Entrant):
            pairs[other] = pair_on_clips(family.clips, old, ours, scope=scope, with_spots=not family.clips.is_labelled)
    losses = {
        other: losses_of(family.measures, ours, old, scope=scope, clips=pairs.get(other))
        for other, old in theirs.items()
    }
    shown = family.clips is not None and not family.clips.is_labelled
    return losses, [*pairs.values()] if shown else []


def _collected(entrants: _Entrants) -> list[tuple[list[Limit], _Collected]]:
    """Return the limits by family of measures, each family with the columns of all models."""
    given, task = entrants.opened.dataset, entrants.model.task
    dataset, families = overall(given), {limit: _family(limit, given, task) for limit in entrants.request.limits}
    labelled = [limit for limit, family in families.items() if family in ("labels", "variants", "labelled clips")]
    if labelled and task is Task.CLASSIFICATION and is_planned(dataset):
        raise StrobeError(
            f"{printable(given.name)}: a plan drew the sets with a label, and they are no random sample, so a gate "
            f"cannot judge {labelled[0].measure}; limit flicker, which is measured on all sets"
        )
    out = []
    for family, collect in _COLLECTORS.items():
        limits = [limit for limit in entrants.request.limits if families[limit] == family]
        if limits:
            found = collect(entrants, limits)
            if family == "clips" and labelled:
                note = f"flicker is measured on all {counted(found.sets.n_sets, 'set')}, with and without a label"
                found = replace(found, cautions=(note, *found.cautions))
            out.append((limits, found))
    return out


def _family(limit: Limit, given: Dataset, task: Task) -> str:
    """Return the family of a limit's measure: what it is computed from, and on which sets."""
    if limit.measure in {measure.name for measure in measures_of("forms")}:
        return "forms"
    if limit.measure in {measure.name for measure in NOISE}:
        return "noise"
    if task is not Task.CLASSIFICATION:
        is_box = limit.measure in {measure.name for measure in measures_of("boxes")}
        return "clips" if is_box or not has_boxes(overall(given)) else "labels"
    if limit.measure in {measure.name for measure in measures_of("unlabelled")}:
        on_labels = overall(given).labelled.any() or no_flicker(given) is not None
        if not on_labels or limit.measure not in {measure.name for measure in CLASSIFICATION}:
            return "clips"
        return "labelled clips" if limit.kind == "max_loss" else "labels"
    return "variants" if limit.is_contrast and given.variants is not None else "labels"


def _labels(entrants: _Entrants, _limits: Sequence[Limit]) -> _Collected:
    """Collect the measures with labels or boxes, and how the sets changed since each baseline."""
    given, model = entrants.opened.dataset, entrants.model
    dataset = overall(given)
    scores = scores_of(dataset, entrants.all, entrants.options, entrants.progress)
    judged, cohort = _judged(dataset, model), Cohort.of(given, needs_labels=model.task is Task.CLASSIFICATION)
    models = {}
    for name, score in scores.items():
        columns = columns_of(score)
        models[name] = ModelColumns(
            name=name, columns=columns, own=columns, figures=figures_of(score), scored=scored_sets(judged, score)
        )
    pairs = [compare(dataset, [scores[model.name], scores[name]]) for name in entrants.baselines]
    changes = [[one for c in pair if (one := change(c, before=c.b))] for pair in pairs]
    return _Collected(
        sets=judged,
        cohort=cohort,
        models=models,
        measures=COMPARED[model.task],
        changes=tuple(one for some in changes for one in some[:1]),
        cautions=(*cohort.cautions(), *doubt_lines(scores)),
    )


def _variants(entrants: _Entrants, limits: Sequence[Limit]) -> _Collected:
    """Collect the model's losses between the variants of the dataset."""
    model, judged = entrants.model, entrants.opened.dataset.labelled_sets()
    answers = model.load().as_classes()
    contrasts = own_contrasts(judged, answers, entrants.options)
    lacking = judged.sets.set[~answers.scored[judged.sets.frame]]
    ours = ModelColumns(
        name=model.name,
        figures={name: contrast.value for name, contrast in contrasts.items()},
        scored=np.bincount(lacking, minlength=judged.n_sets) == 0,
    )
    estimated = tuple(name for name, contrast in contrasts.items() if contrast.estimated)
    return replace(_labels(entrants, limits), models={model.name: ours}, estimated=estimated)


def _on_clips(entrants: _Entrants, limits: Sequence[Limit], *, labelled: bool = False) -> _Collected:
    """Collect the measures without labels on all sets, or on the sets with a label, for losses beside accuracy's."""
    given, measure, cuts = entrants.opened.dataset, limits[0].measure, 0
    if labelled:
        judged, why = overall(given).labelled_sets(), None if given.info.axis == "frame-offset" else NOT_VIDEO
        shared = FlickerPlan(judged, entrants.options, FlickerOptions())
        clips: Clips | None = Clips(shared, judged, 0, entrants.options, is_labelled=True)
    else:
        (clips, cuts), why = clips_of(given, entrants.options), no_flicker(given)
    if why is not None:
        raise StrobeError(
            f"{printable(given.name)} has no {measure}: {why}; limit drop or flip_rate, or use a dataset without labels"
        )
    if clips is None:
        raise StrobeError(f"{printable(given.name)}: a scene cut lies inside every set, so flicker cannot be measured")
    models: dict[str, Entrant] = {}
    with entrants.progress.task("scoring", len(entrants.all)) as advance:
        for label, stored in entrants.all.items():
            entrant = entrant_of(clips, stored, name=label)
            if entrant is None:
                raise StrobeError(
                    f"{printable(label)}: nothing can be measured without labels, so {measure} is unknown"
                )
            models[label] = entrant
            advance(1)
    ours = models[entrants.model.name]
    if not ours.scored.any():
        raise StrobeError(f"{printable(ours.name)}: none of the {len(ours.scored)} sets has all its answers")
    cohort = Cohort.of(given, needs_labels=labelled)
    cohort = cohort if labelled else replace(cohort, unlabelled_sets=0)
    return _Collected(
        sets=clips.shared.plan.dataset,
        cohort=cohort,
        models=models,
        measures=ours.measures,
        clips=clips,
        cautions=(*cohort.cautions(), *cut_lines(cuts if ours.track is not None else 0)),
    )


def _noise(entrants: _Entrants, limits: Sequence[Limit]) -> _Collected:
    """Collect the noise of the models that were asked several times. Raise StrobeError if one was asked once."""
    given, needs_labels = entrants.opened.dataset, entrants.model.task is Task.CLASSIFICATION
    plan, cuts = noise_plan(given, entrants.options, needs_labels=needs_labels)
    is_loss = any(limit.kind == "max_loss" for limit in limits)
    models = {}
    for name, model in (entrants.all if is_loss else {entrants.model.name: entrants.model}).items():
        found = noise_of(plan, model)
        if found is None:
            raise StrobeError(
                f"{printable(model.name)}: each frame was asked once, so {limits[0].measure} is unknown; run strobe "
                "eval or predict again with <<repeat=3>>"
            )
        models[name] = replace(found, name=name)
    cohort = Cohort.of(given, needs_labels=bool(overall(given).labelled.any()) and needs_labels)
    cautions = (*cohort.cautions(), *cut_lines(cuts))
    return _Collected(sets=plan.dataset, cohort=cohort, models=models, measures=NOISE, cautions=cautions)


def _forms(entrants: _Entrants, limits: Sequence[Limit]) -> _Collected:
    """Collect what changes from the baseline to the model. Raise StrobeError without one baseline."""
    lost, options = next((limit for limit in limits if limit.kind == "max_loss"), None), entrants.options
    if lost is not None or len(entrants.baselines) != 1:
        raise StrobeError(
            f"{limits[0].measure} is a change from one baseline; use <<max={limits[0].measure}=0.5>> with one "
            "<<baseline=MODEL>> or <<against=RUN>>"
        )
    (old,) = entrants.baselines.values()
    dataset = overall(entrants.opened.dataset)
    pair = FormPair(Plan(dataset, options), old.load(), entrants.model.load())
    ours = ModelColumns(
        name=entrants.model.name,
        figures={name: options.estimate(column) for name, column in pair.columns.items()},
        scored=pair.whole,  # what the other answers would be is unknown
    )
    cohort = Cohort.of(entrants.opened.dataset, needs_labels=False)
    return _Collected(sets=dataset, cohort=cohort, models={ours.name: ours})


_COLLECTORS: Mapping[str, Callable[[_Entrants, Sequence[Limit]], _Collected]] = {
    "labels": _labels,
    "variants": _variants,
    "labelled clips": partial(_on_clips, labelled=True),
    "clips": _on_clips,
    "noise": _noise,
    "forms": _forms,
}
"""How the columns of each family are collected, in the order of the cautions."""


def _reference(models: Sequence[StoredModel], name: str | None) -> tuple[str, ...]:
    """Return the form with which a model of a run is compared, if it is one of several forms of one model."""
    families = form_families({model.name: model.facts for model in models})
    return tuple(reference for reference, *others in families if name in others)


def _entrants(new: Path, request: GateOptions, progress: Progress) -> _Entrants:
    """Return the model to judge and its baselines. Raise StrobeError if a name is missing or ambiguous."""
    gone = next((run for run in request.against if not run.exists()), None)
    if gone is not None:
        hint = "; use <<baseline>> for a model of the same run"
        raise StrobeError(f"<<against>>: no such run folder: {printable(gone)}{hint}")
    runs = [new, *request.against]
    opened = of_one_dataset(runs, subset=request.subset, dataset_path=request.dataset)
    whole = overall(opened.dataset)
    held = [Run(run).models(whole, allow_missing=request.allow_missing, k=request.options.k) for run in runs]
    model = _chosen(new, held[0], request.model, option="<<model>>", but=() if request.against else request.baselines)
    if (
        not request.against
        and not request.baselines
        and any(limit.measure in {measure.name for measure in measures_of("forms")} for limit in request.limits)
    ):
        request = replace(request, baselines=_reference(held[0], model.name))
    folders = short_names([str(run.resolve()) for run in runs])
    others: list[tuple[str, StoredModel]] = []
    for run, folder, models in list(zip(runs, folders, held, strict=True))[1 if request.against else 0 :]:
        wanted: Sequence[str | None] = request.baselines
        if request.against and not wanted:
            wanted = [model.name if any(one.name == model.name for one in models) else None]
        others += [(folder, _chosen(run, models, name, option="<<baseline>>")) for name in wanted]
    baselines: dict[str, StoredModel] = {}
    for folder, other in others:
        if other is model:
            raise StrobeError(
                f"{printable(model.name)} cannot be its own baseline; name another model with <<baseline>>, or a run "
                "with <<against>>"
            )
        if other.task is not model.task:
            raise StrobeError(
                f"{printable(model.name)} and {printable(other.name)} cannot be compared, because one is a "
                "classifier and the other a detector"
            )
        same_name = [one.name for _, one in others].count(other.name) + (other.name == model.name) > 1
        baselines[f"{folder}/{other.name}" if same_name else other.name] = other
    known = tuple(one.name for part in held for one in part)
    return _Entrants(request=request, progress=progress, opened=opened, model=model, baselines=baselines, known=known)


def _judged(dataset: Dataset, model: StoredModel) -> Dataset:
    """Return the sets to judge a model on. For a classifier, these are the sets with a label."""
    return dataset.labelled_sets() if model.task is Task.CLASSIFICATION else dataset


def plan_gate(
    new: Path | None, request: GateOptions, progress: Progress, *, churn: float | None = None
) -> tuple[GatePlan, ...]:
    """Compute how many videos each limit on a loss needs, from a run and its baseline or from an assumed `churn`."""
    if not request.limits:
        raise StrobeError("no limit to plan for; use for example <<max_loss=acc_pmk=2>>")
    if new is None:
        assumed = None if churn is None else PairSpread(churn=churn, size=1.0)
        plans = [plan_loss(limit, assumed) for limit in request.limits]
        return tuple(replace(plan, measured_on=None) for plan in plans)
    if churn is not None:
        raise StrobeError(
            "<<churn>> is for a plan without a run, because a run and its baseline determine the churn; remove "
            "<<churn>> or the run"
        )
    entrants = _entrants(new, request, progress)
    if len(entrants.baselines) != 1:
        raise StrobeError(
            "<<plan>> with a run measures one pair of models; use one <<against=RUN>> or one <<baseline=MODEL>>"
        )
    measured: dict[Limit, GatePlan] = {}
    for limits, family in _collected(entrants):
        losses, _ = _losses(family, entrants.model.name, request.scope)
        for limit in limits:
            loss = losses[next(iter(entrants.baselines))][limit.measure]
            if loss.figure.low is None or loss.figure.high is None:
                why = loss.figure.reason or "no interval"
                raise StrobeError(f"<<plan>> <<max_loss={limit.measure}>>: {why}; use more videos")
            measured[limit] = plan_loss(limit, loss.spread or spread_of(loss.figure), n_videos=family.n_videos)
    return tuple(measured[limit] for limit in request.limits)


def _chosen(
    run: Path, held: Sequence[StoredModel], name: str | None, *, option: str, but: Sequence[str] = ()
) -> StoredModel:
    """Return the model of that name, or the only model if no name is given."""
    names = ", ".join(printable(model.name) for model in held) or "none"
    if name is not None:
        chosen = next((model for model in held if model.name == name), None)
        if chosen is None:
            raise StrobeError(
                f"{option}: {printable(run)} has no predictions of {printable(name)}; its models are {names}"
            )
        return chosen
    left = [model for model in held if model.name not in but]
    if len(left) != 1:
        raise StrobeError(f"{printable(run)} has the models {names}; choose one with {option}")
    return left[0]


@writes("folder")
def write_gate(outcome: Gate, folder: Path) -> None:
    """Write gate.md for pull requests, gate.xml (JUnit) for CI and gate.json for programs: all of them or none."""
    with swapping(folder) as staged:
        write_text(staged.root / "gate.md", as_markdown(outcome))
        write_text(staged.root / "gate.xml", as_junit(outcome))
        write_json(staged.root / "gate.json", encode(outcome))
