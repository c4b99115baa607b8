"""Flicker without labels: how often does a model change its answer on frames that show the same thing?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from strobe.analyses.label_sample import NamedSample, named_sample
from strobe.analyses.model_results import ClassificationScore, ModelResult
from strobe.analyses.plan import Plan
from strobe.analyses.results import Results, dataset_facts
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.analyses.video_plan import FlickerPlan, answer_labels, answered, cut_frames, no_flicker, without_cuts
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Missing
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View
from strobe.studies.unlabelled import figures
from strobe.studies.unlabelled.chapter import MOST_MODELS, flicker_chapter
from strobe.studies.unlabelled.records import CheckedFlicker, FlickerOptions, FlickerResults, FlickerScore
from strobe.studies.unlabelled.records_links import LinkScore
from strobe.studies.unlabelled.score import first_changes, flicker_score
from strobe.studies.unlabelled.score_labels import CheckedSets, SampledAccuracy
from strobe.studies.unlabelled.score_links import LinkOptions, link_score
from strobe.studies.unlabelled.tables import TABLES
from strobe.studies.unlabelled.words import explanation, flicker_lead, flicker_lines, ranked, terms

PLANNED = "a plan drew the named sets, and they are no random sample"
"""Why models are not compared on sets that a plan drew."""

FIGURES = (figures.flicker_curve, figures.flicker_time_curve)


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return how often the steadiest model changes its answer, if no accuracy is known."""
    found = _only_flicker(view)
    return None if found is None or models else flicker_lead(view, found)


def _explanation(view: View) -> tuple[str, list[str]] | None:
    """Return what flicker is, and what it says about accuracy."""
    found = _only_flicker(view)
    return None if found is None else explanation(found)


def _terms(view: View) -> list[tuple[str, str]] | None:
    """Return the terms of a page without labels."""
    found = _only_flicker(view)
    return None if found is None else terms(view, found)


def _answers_of(view: View) -> Sequence[str]:
    """Return the models with a timeline."""
    found = view.results.flicker
    return () if found is None else [*list(ranked(found))[:MOST_MODELS], *list(found.detectors or ())[:MOST_MODELS]]


def _only_flicker(view: View) -> FlickerResults | None:
    """Return the results of this study, if no model has an accuracy."""
    found = view.results.flicker
    return found if found is not None and not view.results.models else None


class FlickerScores(Collector):
    """Scores the flicker of classifiers on all sets, with and without a label."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._models: dict[str, FlickerScore] = {}
        self._detectors: dict[str, LinkScore] = {}
        self._checks: dict[str, CheckedFlicker] = {}

    @cached_property
    def _sample(self) -> NamedSample | None:
        return None if self._dataset[0] is None else named_sample(self._dataset[0])

    @cached_property
    def _checked(self) -> CheckedSets | None:
        checked_sets = None if self._dataset[0] is None else CheckedSets(self._dataset[0])
        return checked_sets if checked_sets is not None and checked_sets.any else None

    @cached_property
    def _dataset(self) -> tuple[Dataset | None, int]:
        return without_cuts(self.scoring.merged, self.scoring.options.k)

    @cached_property
    def _plan(self) -> FlickerPlan | None:
        dataset = self._dataset[0]
        if dataset is None:
            return None
        cuts = cut_frames(self.scoring.merged)
        return FlickerPlan(dataset, self.scoring.options, self.scoring.flicker or FlickerOptions(), cuts=cuts)

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Score one classifier."""
        if isinstance(answers, ClassAnswers) and self._plan is not None:
            score = flicker_score(self._plan, answers)
            if score is not None:
                self._models[model.name] = score
                result = self._with_people(self._plan.plan, result, model.name, answers)
        elif isinstance(answers, BoxAnswers):
            options, whole = self.scoring.options, self.scoring.merged
            links = link_score(
                whole,
                answers,
                LinkOptions(
                    interval=options.interval,
                    seed=options.seed,
                    bootstrap=options.bootstrap,
                    replicates=options.replicates,
                ),
            )
            if not isinstance(links, Missing):
                self._detectors[model.name] = links
        return result

    def _with_people(
        self, plan: Plan, result: ModelResult | None, name: str, answers: ClassAnswers
    ) -> ModelResult | None:
        """Add what people's answers say about a model: its accuracy on all sets, and its corrected flicker."""
        scored = answered(plan, answers)
        if self._checked is not None:
            flickers = first_changes(plan, answers) <= plan.k
            self._checks[name] = self._checked.of(flickers, scored, plan.cluster)
        if self._sample is None or not isinstance(result, ClassificationScore):
            return result
        return SampledAccuracy(plan, self._sample).of(result, answers, answer_labels(answers), scored)

    def into(self, results: Results) -> Results:
        """Return the results with flicker."""
        dataset, cuts = self._dataset
        if dataset is None and not self._detectors and not results.models:
            raise StrobeError(
                f"{printable(self.scoring.dataset.name)}: each of its {cuts} sets contains a scene cut, so "
                "flicker cannot be measured; use shorter sets (a smaller <<k>>)"
            )
        if not self._models and not self._detectors:
            return results
        facts, whole = results.dataset, self.scoring.merged
        if not results.models:
            facts = dataset_facts(self.scoring.dataset, k=self.scoring.options.k, needs_labels=False)
        flicker = FlickerResults(
            n_sets=0 if dataset is None else dataset.n_sets,
            n_videos=len(set((dataset or whole).video_of_set.tolist())),
            across_cuts=cuts,
            models=self._models,
            detectors=self._detectors or None,
            checked=None if self._checked is None else self._checked.record(self._checks),
        )
        if self._sample is not None and any(
            isinstance(model, ClassificationScore) for model in results.models.values()
        ):
            facts = replace(facts, labels=self._sample.record())
            if self._sample.design == "planned":  # the named sets are no random sample, so they compare nothing
                results = replace(results, comparison=(), trend=Missing(PLANNED), offset_error_all_models=())
        return replace(results, dataset=facts, flicker=flicker)


UNLABELLED = Study(
    name="unlabelled",
    decides=5,
    tables=TABLES,
    drawings=FIGURES,
    needs_to_score=("lacks_labels",),
    needs_to_show=("results.flicker",),
    collector=lambda scoring: FlickerScores(scoring) if no_flicker(scoring.dataset) is None else None,
    lines=flicker_lines,
    lead=_lead,
    question=lambda view: None if _only_flicker(view) is None else "does the answer change?",
    explanation=_explanation,
    terms=_terms,
    figures=lambda view: [SectionFigures(section="flicker", figures=FIGURES)] if view.results.flicker else (),
    answers_of=_answers_of,
    chapter=flicker_chapter,
)
"""Consistency, flips, spells and alternating answers on every set of a dataset that lacks labels."""
