"""`strobe gate`: judge a model by limits on its figures, and on its losses against baselines on the same sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from strobe.analyses.clips import Scope
from strobe.analyses.comparison import COMPARED, Score, columns_of, compare
from strobe.analyses.detection import has_boxes
from strobe.analyses.forms import form_families
from strobe.analyses.gate import Gate, Limit, MissingSets, Opponent, extremes, judge, opponent, outcome
from strobe.analyses.gate_plan import GatePlan, plan_loss
from strobe.analyses.label_sample import is_planned
from strobe.analyses.measures import measures_of
from strobe.analyses.model_results import CLASSIFICATION, DETECTION, NOISE, ClassificationScore, figures_of
from strobe.analyses.plan import NOT_VIDEO, Plan, ScoreOptions
from strobe.analyses.results import Cohort
from strobe.analyses.variants_view import overall
from strobe.analyses.video_plan import FlickerPlan, no_flicker
from strobe.core.answers import ClassAnswers
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Estimate
from strobe.core.files import write_json, write_text
from strobe.core.locks import writes
from strobe.core.names import short_names, shown_models
from strobe.core.ports import Progress
from strobe.core.readings import reading_lines
from strobe.core.swaps import swapping
from strobe.core.tasks import Task
from strobe.metrics.columns import estimate
from strobe.metrics.intervals import nothing
from strobe.metrics.power import PairSpread, spread_of
from strobe.report.gate import as_junit, as_markdown
from strobe.report.view import Subject, kinds_of
from strobe.report.wording import counted
from strobe.store.opening import Opened
from strobe.store.run_folder import Run, StoredModel
from strobe.studies.forms.measures import FormPair
from strobe.studies.noise.score import noise_score, repeated_answers
from strobe.studies.unlabelled.records import FlickerOptions
from strobe.studies.variants.records import Contrast
from strobe.studies.variants.score_contrasts import own_contrasts
from strobe.workflows.clips import Clips, Entrant, clips_of, entrant_of, pair_on_clips
from strobe.workflows.compare import cut_lines, doubt_lines, flicker_plan, of_one_dataset, scores_of


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

    opened: Opened
    model: StoredModel
    baselines: Mapping[str, StoredModel]
    known: tuple[str, ...]

    @property
    def all(self) -> dict[str, StoredModel]:
        """Return the model first, then its baselines."""
        return {self.model.name: self.model, **self.baselines}


@dataclass(frozen=True, slots=True, kw_only=True)
class _JudgedSets:
    """The rules on accuracies, or on flicker: the sets they are judged on, the model's figures, and the baselines.

    `missing_varied` are the missing sets that `contrasts` use. `cautions` are about the excluded sets, which `cohort`
    counts, and about the answers.
    """

    limits: tuple[Limit, ...]
    judged: Dataset
    figures: Mapping[str, Estimate]
    missing: MissingSets
    opponents: Sequence[Opponent]
    cohort: Cohort
    cautions: tuple[str, ...]
    contrasts: Mapping[str, Contrast] = field(default_factory=dict)
    missing_varied: int = 0


def gate(new: Path, request: GateOptions, progress: Progress) -> Gate:
    """Judge a model of a run by the limits.

    The baseline is a model of the run `against` (the model of the same name, or the only model), or another model of
    the same run.
    """
    if not request.limits:
        raise StrobeError(
            "no limit given; use for example <<max_loss=acc_pmk=1>>, <<min=acc_pmk=50>> or <<max=drop=10>>"
        )
    entrants = _entrants(new, request)
    given, model = entrants.opened.dataset, entrants.model
    names = tuple(entrants.baselines)
    lost = next((limit for limit in request.limits if limit.kind == "max_loss"), None)
    if lost is not None and not names:
        raise StrobeError(f"<<max_loss={lost.measure}>> needs a baseline; add <<against=RUN>> or <<baseline=MODEL>>")
    parts = _parts(entrants, request, progress)
    judgements = [
        judge(
            part.limits,
            part.figures,
            part.opponents,
            model=model.name,
            contrasts=part.contrasts,
            missing=part.missing,
            missing_varied=part.missing_varied,
            scope=request.scope,
            n_videos=len(set(part.judged.video_of_set.tolist())),
        )
        for part in parts
    ]
    checks = tuple(one for limit in request.limits for found, _ in judgements for one in found if one.limit is limit)
    changes = tuple(one for _, found in judgements for one in found)
    judged, cohort, dataset = parts[0].judged, parts[0].cohort, overall(given)
    lacking = [part.missing.n for part in parts] + [one.missing.n for part in parts for one in part.opponents]
    shown, kinds, part = shown_models(entrants.known), kinds_of(given), entrants.opened.subset
    subject = Subject(kinds=kinds)
    checks = tuple(replace(check, sentence=subject.say(check.sentence)) for check in checks)
    return Gate(
        passed=outcome(checks),
        model=model.name,
        baseline=names[0] if names else None,
        dataset=dataset.name,
        n_sets=judged.n_sets,
        n_sources=len(set(judged.video_of_set.tolist())),
        k=dataset.info.k if request.options.k is None else request.options.k,
        scope=request.scope,
        checks=checks,
        change=changes[0] if changes else None,
        clips=tuple(one.clips for part in parts for one in part.opponents if one.clips is not None) or None,
        short={one.name: shown[one.name] for one in entrants.all.values() if shown[one.name] != one.name} or None,
        kinds=kinds or None,
        subset=None if part is None else part.name,
        baselines=names if len(names) > 1 else None,
        changes=changes if len(changes) > 1 else None,
        missing_sets=max(lacking) or None,
        unlabelled_sets=cohort.unlabelled_sets or None,
        sets_without_votes=cohort.sets_without_votes or None,
        cautions=tuple(
            dict.fromkeys(subject.say(line, names=list(entrants.all)) for part in parts for line in part.cautions)
        )
        + reading_lines({name: one.facts for name, one in entrants.all.items()})
        or None,
    )


def _parts(entrants: _Entrants, request: GateOptions, progress: Progress) -> list[_JudgedSets]:
    """Return the rules on accuracies, without labels, and on noise, each with its data; empty parts are left out."""
    given = entrants.opened.dataset
    dataset = overall(given)
    names, of_noise = {measure.name for measure in measures_of("unlabelled")}, {one.name for one in NOISE}
    of_clips = names
    if dataset.labelled.any() or no_flicker(given) is not None:
        # these are measured on the sets with a label
        of_clips = names - {one.name for one in CLASSIFICATION} - {one.name for one in DETECTION}
    of_pair = {measure.name for measure in measures_of("forms")}
    noise = tuple(limit for limit in request.limits if limit.measure in of_noise)
    changes = tuple(limit for limit in request.limits if limit.measure in of_pair)
    if entrants.model.task is not Task.CLASSIFICATION:
        of_clips = {measure.name for measure in measures_of("boxes")}
        if not has_boxes(dataset):  # nothing else can be measured, and the message names what can
            of_clips |= {limit.measure for limit in request.limits} - of_noise - of_pair
    flicker = tuple(limit for limit in request.limits if limit.measure in of_clips)
    others = tuple(limit for limit in request.limits if limit.measure not in of_clips | of_noise | of_pair)
    losses = tuple(
        limit
        for limit in others
        if limit.kind == "max_loss" and limit.measure in names and entrants.model.task is Task.CLASSIFICATION
    )
    if (others or losses) and is_planned(dataset) and entrants.model.task is Task.CLASSIFICATION:
        raise StrobeError(
            f"{printable(given.name)}: a plan drew the sets with a label, and they are no random sample, so a gate "
            f"cannot judge {next(iter(others or losses)).measure}; limit flicker, which is measured on all sets"
        )
    others = tuple(limit for limit in others if limit not in losses)
    parts = [_accuracies(entrants, request, others, progress)] if others else []
    if losses:
        parts.append(_flicker(entrants, request, losses, progress, labelled=True))
    if flicker:
        part = _flicker(entrants, request, flicker, progress)
        note = f"flicker is measured on all {counted(part.judged.n_sets, 'set')}, with and without a label"
        parts.append(replace(part, cautions=(note, *part.cautions)) if others or losses else part)
    parts += [_noise(entrants, request, noise)] if noise else []
    return [*parts, _changes(entrants, request, changes)] if changes else parts


def _accuracies(
    entrants: _Entrants, request: GateOptions, limits: tuple[Limit, ...], progress: Progress
) -> _JudgedSets:
    given, model, options = entrants.opened.dataset, entrants.model, request.options
    dataset = overall(given)
    scores = scores_of(dataset, entrants.all, options, progress)
    judged, cohort = _judged(dataset, model), Cohort.of(given, needs_labels=model.task is Task.CLASSIFICATION)
    contrasts, missing_varied = _contrasts(given, model, request)
    columns = {name: columns_of(score) for name, score in scores.items()}
    new = scores[model.name]
    return _JudgedSets(
        limits=limits,
        judged=judged,
        figures=figures_of(new),
        missing=MissingSets(n=new.unscored.sets, extremes=extremes(columns[model.name], interval=options.interval)),
        opponents=[
            opponent(
                name,
                COMPARED[model.task],
                columns[model.name],
                columns[name],
                n_missing=_n_missing(new, scores[name]),
                scope=request.scope,
                comparisons=compare(dataset, [new, scores[name]]),
            )
            for name in entrants.baselines
        ],
        cohort=cohort,
        cautions=(*cohort.cautions(), *doubt_lines(scores)),
        contrasts=contrasts,
        missing_varied=missing_varied,
    )


def _n_missing(new: Score, old: Score) -> int:
    """Return the number of sets that lack predictions of one of two models."""
    if isinstance(new, ClassificationScore) and isinstance(old, ClassificationScore):
        return int((~(new.scored & old.scored)).sum())
    return max(new.unscored.sets, old.unscored.sets)


def _flicker(
    entrants: _Entrants,
    request: GateOptions,
    limits: tuple[Limit, ...],
    progress: Progress,
    *,
    labelled: bool = False,
) -> _JudgedSets:
    """Return the rules without labels, measured on all sets, or on the sets with a label (`labelled`).

    Raise StrobeError if nothing can be measured without labels.
    """
    given, model, options = entrants.opened.dataset, entrants.model, request.options
    name, dataset = limits[0].measure, overall(given)
    clips: Clips | None
    if labelled:
        judged = dataset.labelled_sets()
        why = None if judged.info.axis == "frame-offset" else NOT_VIDEO
        clips, cuts = Clips(FlickerPlan(judged, options, FlickerOptions()), judged, 0, options), 0
    else:
        why = no_flicker(given)
        clips, cuts = clips_of(given, dataset, options)
    if why is not None:
        raise StrobeError(
            f"{printable(given.name)} has no {name}: {why}; limit drop or flip_rate, or use a dataset without labels"
        )
    if clips is None:
        raise StrobeError(f"{printable(given.name)}: a scene cut lies inside every set, so flicker cannot be measured")
    held: dict[str, Entrant] = {}
    with progress.task("scoring", len(entrants.all)) as advance:
        for label, stored in entrants.all.items():
            entrant = entrant_of(clips, stored, name=label)
            if entrant is None:
                raise StrobeError(f"{printable(label)}: nothing can be measured without labels, so {name} is unknown")
            held[label] = entrant
            advance(1)
    new, wanted = held[model.name], {limit.measure for limit in limits}
    if not new.scored.any():
        raise StrobeError(f"{printable(model.name)}: none of the {len(new.scored)} sets has all its answers")
    columns = {name: column for name, column in new.own.items() if name in wanted}
    how: Any = {"replicates": options.draws, "interval": options.interval}
    cohort = Cohort.of(given, needs_labels=labelled)
    cohort = cohort if labelled else replace(cohort, unlabelled_sets=0)
    opponents = [
        opponent(
            name,
            new.measures,
            new.columns.columns,
            old.columns.columns,
            n_missing=int((~(new.scored & old.scored)).sum()),
            scope=request.scope,
            clips=pair_on_clips(clips, old, new, scope=request.scope, with_spots=not labelled),
        )
        for name, old in held.items()
        if name != model.name
    ]
    return _JudgedSets(
        limits=limits,
        judged=clips.shared.plan.dataset,
        figures={
            **dict.fromkeys(new.columns.columns, nothing("it was not asked for")),
            **{name: estimate(column, seed=options.seed, **how) for name, column in columns.items()},
        },
        missing=MissingSets(n=int((~new.scored).sum()), extremes=extremes(columns, **how)),
        opponents=[replace(one, clips=None) for one in opponents] if labelled else opponents,
        cohort=cohort,
        cautions=(*cohort.cautions(), *cut_lines(cuts if new.track is not None else 0)),
    )


def _noise(entrants: _Entrants, request: GateOptions, limits: tuple[Limit, ...]) -> _JudgedSets:
    """Return the rules on noise. Raise StrobeError if the model was asked once."""
    given, model, options = entrants.opened.dataset, entrants.model, request.options
    dataset = overall(given)
    plan, cuts = (None, 0) if dataset.labelled.any() else flicker_plan(given, options)
    plan = plan or Plan(_judged(dataset, model), options)
    found = repeated_answers(model.load(), model.repeats())
    score = None if found is None else noise_score(plan, found)
    if score is None:
        raise StrobeError(
            f"{printable(model.name)}: each frame was asked once, so {limits[0].measure} is unknown; run strobe eval "
            "or predict again with <<repeat=3>>"
        )
    cohort = Cohort.of(given, needs_labels=bool(dataset.labelled.any()) and model.task is Task.CLASSIFICATION)
    return _JudgedSets(
        limits=limits,
        judged=plan.dataset,
        figures={"noise": score.noise, "beyond_noise": score.beyond_noise},
        missing=MissingSets(n=score.unscored),
        opponents=[],
        cohort=cohort,
        cautions=(*cohort.cautions(), *cut_lines(cuts)),
    )


def _changes(entrants: _Entrants, request: GateOptions, limits: tuple[Limit, ...]) -> _JudgedSets:
    """Return the rules on what changes from the baseline to the model. Raise StrobeError without one baseline."""
    lost, options = next((limit for limit in limits if limit.kind == "max_loss"), None), request.options
    if lost is not None or len(entrants.baselines) != 1:
        raise StrobeError(
            f"{limits[0].measure} is a change from one baseline; use <<max={limits[0].measure}=0.5>> with one "
            "<<baseline=MODEL>> or <<against=RUN>>"
        )
    (old,) = entrants.baselines.values()
    dataset = overall(entrants.opened.dataset)
    pair = FormPair(Plan(dataset, options), old.load(), entrants.model.load())
    how: Any = {"replicates": options.draws, "seed": options.seed, "interval": options.interval}
    return _JudgedSets(
        limits=limits,
        judged=dataset,
        figures={name: estimate(column, **how) for name, column in pair.columns.items()},
        missing=MissingSets(n=int((~pair.whole).sum())),  # what the other answers would be is unknown
        opponents=[],
        cohort=Cohort.of(entrants.opened.dataset, needs_labels=False),
        cautions=(),
    )


def _reference(models: Sequence[StoredModel], name: str | None) -> tuple[str, ...]:
    """Return the form with which a model of a run is compared, if it is one of several forms of one model."""
    families = form_families({model.name: model.facts for model in models})
    return tuple(reference for reference, *others in families if name in others)


def _entrants(new: Path, request: GateOptions) -> _Entrants:
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
    return _Entrants(opened=opened, model=model, baselines=baselines, known=known)


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
    entrants = _entrants(new, request)
    if len(entrants.baselines) != 1:
        raise StrobeError(
            "<<plan>> with a run measures one pair of models; use one <<against=RUN>> or one <<baseline=MODEL>>"
        )
    part_of = {id(limit): part for part in _parts(entrants, request, progress) for limit in part.limits}
    out = []
    for limit in request.limits:
        part = part_of[id(limit)]
        (opponent,), videos = part.opponents, len(set(part.judged.video_of_set.tolist()))
        loss = opponent.losses[limit.measure]
        if loss.low is None or loss.high is None:
            raise StrobeError(f"<<plan>> <<max_loss={limit.measure}>>: {loss.reason or 'no interval'}; use more videos")
        out.append(plan_loss(limit, opponent.spreads.get(limit.measure) or spread_of(loss), n_videos=videos))
    return tuple(out)


def _contrasts(dataset: Dataset, model: StoredModel, request: GateOptions) -> tuple[dict[str, Contrast], int]:
    """Return the model's losses between the variants of the dataset, if it has variants and a rule may use them.

    Also return the number of sets of these variants without predictions.
    """
    answers = model.load() if any(limit.is_contrast for limit in request.limits) else None
    if dataset.variants is None or not isinstance(answers, ClassAnswers):
        return {}, 0
    judged = dataset.labelled_sets()
    lacking = ~answers.scored[judged.sets.frame]
    return own_contrasts(judged, answers, request.options), len(set(judged.sets.set[lacking].tolist()))


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
