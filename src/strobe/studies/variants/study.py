"""Images that were changed on purpose: which changes break a model, and by how much?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strobe.analyses.model_results import ClassificationResult, ClassificationScore, ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.analyses.variant_kinds import VARIANT_KINDS, own_kind
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.tasks import Task
from strobe.report.drawing import FigureSpec
from strobe.report.figures_classes import detection_class, per_class
from strobe.report.figures_detection import overview
from strobe.report.figures_trend import trend
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import View
from strobe.studies.variants.figures import (
    contrasts_models,
    contrasts_targets,
    contrasts_variants,
    levels,
    means,
    rungs,
    survival,
)
from strobe.studies.variants.score_contrasts import ByVariant
from strobe.studies.variants.tables import TABLES, change_lines, fooled, heat, search_lines, variant_lines
from strobe.studies.variants.words import (
    contrasts,
    shown_kind,
    survives,
    variant_explanation,
    variant_terms,
    variants_lead,
)

FIGURES = (
    means,
    levels,
    rungs,
    survival,
)
CONTRASTS = {
    "variants": contrasts_variants,
    "models": contrasts_models,
    "targets": contrasts_targets,
}
"""The figures of contrasts, by kind."""


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return accuracy on the images and under the worst of their variants."""
    name, best = next(iter(models.items()), ("", None))
    if not isinstance(best, ClassificationResult):
        return None
    return variants_lead(view, name, best)


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the figures of variants and contrasts. A kind of variants with its own words has its own figures."""
    if not view.results.models:
        return ()
    main: list[FigureSpec] = []
    if view.classifiers or not view.detectors:
        main += [
            replace(trend, title="Is a more accurate model more robust?"),
            replace(per_class, title="Which classes lose most?"),
        ]
    if view.detectors:
        main += [overview, detection_class]
    if view.words.is_still:
        main = []
    if shown_kind(view) is not None:
        return [SectionFigures(section="main", figures=main)]
    compared = [CONTRASTS[kind] for kind, *_ in contrasts(view)]
    return [
        SectionFigures(section="main", figures=main),
        SectionFigures(section="variants", figures=FIGURES),
        SectionFigures(section="contrasts", figures=compared),
    ]


def _chapter(page: PageInput) -> Chapter:
    """Return the chapter on variants, searches and contrasts."""
    view = page.view
    models, rows = fooled(view)
    contrast_figures = {groups[0].group: groups for groups in page.figures.get("contrasts", ())}
    content = {
        "study": change_lines(view),
        "heat": heat(view),
        "searches": search_lines(view),
        "survives": survives(view),
        "fooled_models": models,
        "fooled": rows,
        "contrasts": [(*part, contrast_figures.get(f"contrasts_{part[0]}")) for part in contrasts(view)],
    }
    return Chapter(name="variants", title="Variants", template="variants.html.j2", content=content)


class VariantScores(Collector):
    """Scores classifiers under every variant."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        dataset = scoring.dataset
        kind = None if dataset.variants is None else own_kind(dataset.variants.fields)
        areas = {} if kind is None else VARIANT_KINDS[kind].areas(scoring.path)
        self._scores = ByVariant(dataset.labelled_sets(), scoring.options, areas=areas)
        self._has_added = False

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Score one classifier under every variant."""
        if not isinstance(result, ClassificationScore) or not isinstance(answers, ClassAnswers):
            return result
        self._has_added = True
        return self._scores.add(result, answers, weights=model.facts.get("weights"))

    def into(self, results: Results) -> Results:
        """Return the results with variants, searches and contrasts; without models, only the variants."""
        return self._scores.into(results) if self._has_added or not results.models else results


VARIANTS = Study(
    name="variants",
    decides=2,
    tables=TABLES,
    drawings=(*FIGURES, *CONTRASTS.values()),
    needs_to_score=("dataset.variants",),
    needs_to_show=("variants",),
    collector=VariantScores,
    lines=lambda view: [*variant_lines(view), *search_lines(view)],
    notes=lambda view, task: survives(view) if task is Task.CLASSIFICATION else (),
    lead=_lead,
    question=lambda _view: "how accurate are the models?",
    explanation=variant_explanation,
    terms=variant_terms,
    figures=_figures,
    chapter=_chapter,
)
"""Accuracy under every variant and level, its worst case and mean, searches, and contrasts between variants."""
