"""Classifiers on sets of frames: how often is a model right on every frame of a set?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from strobe.analyses.answer_patterns import with_twins
from strobe.analyses.ceilings import Ceilings, classes_of
from strobe.analyses.classification import Prepared, all_classes, score
from strobe.analyses.comparison import compare
from strobe.analyses.model_results import ClassificationResult, ClassificationScore, ModelResult, figures_of
from strobe.analyses.results import Results, dataset_facts
from strobe.analyses.scoring import Collector, ScorableModel, SetFacts, class_sets, set_facts
from strobe.analyses.slices import OffsetPool
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.core.tasks import Task
from strobe.core.variants import ANCHOR
from strobe.report.drawing import FigureSpec
from strobe.report.figures_classes import per_class
from strobe.report.figures_trend import trend
from strobe.report.study import SectionFigures, Study
from strobe.report.tables import as_row, each, spread
from strobe.report.view import Lines, Row, Table, View
from strobe.report.wording import called, with_interval
from strobe.studies.temporal.change import before_after, before_after_curve, change_content
from strobe.studies.temporal.figures import comparison, curve, first_failure, time_curve
from strobe.studies.temporal.figures_slices import by_fps, by_hint, frame_types, per_offset
from strobe.studies.temporal.records import TypeSlice
from strobe.studies.temporal.score_trend import fit
from strobe.studies.temporal.words import robustness_table, set_terms, temporal_lead


def _headline(model: ClassificationResult) -> Row:
    out: Row = {"model_type": model.model_type}
    for name, figure in figures_of(model).items():
        out |= spread(name, figure)
    return out | {"unscored_frames": model.unscored.frames, "unscored_sets": model.unscored.sets}


def _frame_type(part: TypeSlice) -> Row:
    out = as_row(part, "without", "n_sets", "members_dropped")
    out.pop("control", None)
    return out | {f"control_{key}": value for key, value in (encode(part.control) or {}).items()}


def _trend(view: View) -> Table:
    trend = view.results.trend
    return [
        {"model": one.model, "model_type": one.model_type, "standard": one.standard, "in_fit": one.in_fit}
        | spread("linear", off.linear)
        | {"linear_verdict": off.linear.verdict}
        | spread("logit", off.logit)
        | {"logit_verdict": off.logit.verdict}
        for one in ([] if isinstance(trend, Missing) else trend.models)
        for off in (one.effective_robustness,)
    ]


TABLES: Mapping[str, Callable[[View], Table]] = {
    "headline": lambda view: each(view.classifiers, lambda model: [_headline(model)]),
    "curve": lambda view: each(view.classifiers, lambda model: map(as_row, model.curve)),
    "time_curve": lambda view: each(
        view.classifiers, lambda m: map(as_row, () if isinstance(m.time_curve, Missing) else m.time_curve.points)
    ),
    "per_class": lambda view: each(view.classifiers, lambda model: map(as_row, model.per_class)),
    # The model `all models` is the mean over models on their common members.
    "per_offset": lambda view: (
        each(view.classifiers, lambda model: map(as_row, model.per_offset))
        + [{"model": "all models", **as_row(offset)} for offset in view.results.offset_error_all_models]
    ),
    "smoothing": lambda view: each(
        view.classifiers,
        lambda model: (as_row(one, "method", "parameter", "delay_frames", "incomplete") for one in model.smoothing),
    ),
    "first_failure": lambda view: each(view.classifiers, lambda model: map(as_row, model.first_failure.survival)),
    "frame_types": lambda view: each(view.classifiers, lambda model: map(_frame_type, model.frame_types)),
    "by_fps": lambda view: each(view.classifiers, lambda model: map(as_row, model.by_fps)),
    "by_hint": lambda view: each(
        view.classifiers, lambda m: ({"hint": hint, **as_row(one)} for hint, bins in m.by_hint.items() for one in bins)
    ),
    "comparison": lambda view: [as_row(one) for one in view.results.comparison],
    "trend": _trend,
    "all_classes": lambda view: each(
        view.classifiers,
        lambda model: (
            ()
            if (of := model.all_classes) is None
            else (
                {"source": of.source, "n_own": of.n_own, "n_all": of.n_all, **as_row(picture)}
                for picture in of.pictures
            )
        ),
    ),
}


def all_class_lines(view: View) -> list[Lines]:
    """Return accuracy among the dataset's classes and among all classes of a model, if the former are a subset."""
    rows, own, every = [], 0, set[int]()
    for name, model in view.classifiers.items():
        for one in () if model.all_classes is None else model.all_classes.pictures:
            what = "" if one.variant == ANCHOR else f", {called(view.variants[one.variant])}"
            rows.append([f"{printable(name, limit=60)}{what}", with_interval(one.own), with_interval(one.all)])
        if model.all_classes is not None:
            own, every = model.all_classes.n_own, every | {model.all_classes.n_all}
    if not rows:
        return []
    among = " or ".join(f"{n:,}" for n in sorted(every))
    columns = ["model", f"among the {own:,} classes of the data", f"among all {among} of the model"]
    return [("Accuracy by choice of classes", columns, rows, [])]


MAIN = (
    trend,
    curve,
    time_curve,
    per_class,
    per_offset,
    first_failure,
)
COMPARE = (comparison,)
SLICES = (frame_types, by_fps, by_hint)
CHANGE = (before_after, before_after_curve)

ALONE = {"trend": "How does it compare with published models?"}
"""Questions about several models, reworded for a single model."""


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return how often the most robust model is right on anchors and on whole sets."""
    scored = {name: model for name, model in models.items() if isinstance(model, ClassificationResult)}
    return temporal_lead(view, scored) if scored else None


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the figures of classifiers; with single images or variants, only their comparison."""
    out = [SectionFigures(section="change", figures=CHANGE if view.change and not view.words.is_still else ())]
    if not view.is_temporal:
        compare = COMPARE if len(view.classifiers) > 1 else ()
        return [*out, SectionFigures(section="compare", figures=compare)]
    if not view.classifiers and (view.detectors or view.only_people or view.results.flicker):
        return out
    alone = len(view.results.models) == 1
    main: Sequence[FigureSpec] = [replace(one, title=ALONE.get(one.name, one.title)) for one in MAIN] if alone else MAIN
    return [
        *out,
        SectionFigures(section="main", figures=main, lists_missing=True),
        SectionFigures(section="compare", figures=() if alone else COMPARE, lists_missing=True),
        SectionFigures(section="slices", figures=SLICES, lists_missing=True),
    ]


def _content(view: View) -> Mapping[str, object]:
    """Return the table of a change (before and after), and the models above and below the trend."""
    return {"change": change_content(view) if view.change else None, "robustness": robustness_table(view)}


class ClassifierScores(Collector):
    """Scores classifiers one at a time, and keeps the data that their comparison and the trend need."""

    @cached_property
    def _dataset(self) -> Dataset:
        return self.scoring.dataset.labelled_sets()

    @cached_property
    def _whole(self) -> Dataset:
        return self.scoring.merged.labelled_sets()

    @cached_property
    def _prepared(self) -> Prepared:
        return Prepared(self._whole, self.scoring.options)

    @cached_property
    def _facts(self) -> SetFacts:
        return set_facts(self._dataset)

    @cached_property
    def _ceilings(self) -> Ceilings:
        return Ceilings(self._whole)

    @cached_property
    def _pool(self) -> OffsetPool:
        return OffsetPool(self._prepared.plan)

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Score one classifier."""
        if not isinstance(answers, ClassAnswers) or result is not None:
            return result
        facts, options = model.facts, self.scoring.options
        known = (facts.get("model_type"), bool(facts.get("standard", False)))
        model_type, standard = self.scoring.types.get(model.name, known)
        one = score(
            self._whole,
            answers,
            prepared=self._prepared,
            pool=self._pool,
            model_type=model_type,
            standard=standard,
            with_coverage="view" in facts,
        )
        one = replace(one, ceiling=self._ceilings.of(facts))
        if (source := classes_of(facts)) is not None and one.stopped_early is None:
            one = replace(one, all_classes=all_classes(self._dataset, answers, source, interval=options.interval))
        self.sets.append(class_sets(self._dataset, self._facts, answers, k=options.k))
        return one

    def into(self, results: Results) -> Results:
        """Return the results with agreement, comparison and trend of the classifiers."""
        scores = [model for model in results.models.values() if isinstance(model, ClassificationScore)]
        if not scores:
            return results
        options = self.scoring.options
        scores = with_twins(scores)
        return replace(
            results,
            dataset=dataset_facts(self.scoring.dataset, k=self._prepared.plan.k),
            models={**results.models, **{one.model: one for one in scores}},
            offset_error_all_models=self._pool.estimates() if self._pool.n_models else (),
            comparison=compare(self._whole, scores) if len(scores) > 1 else (),
            trend=fit(self._whole, scores, seed=options.seed, replicates=options.draws),
        )


TEMPORAL = Study(
    name="temporal",
    task=Task.CLASSIFICATION,
    tables=TABLES,
    drawings=(*MAIN, *COMPARE, *SLICES, *CHANGE),
    collector=lambda scoring: ClassifierScores(scoring) if scoring.dataset.labelled.any() else None,
    lines=all_class_lines,
    lead=_lead,
    question=lambda _view: "do models flicker?",
    terms=set_terms,
    figures=_figures,
    content=_content,
)
"""Accuracy on anchors and on whole sets, curves, flips, offsets, smoothing, the trend and comparisons."""
