"""Images that were changed on purpose: which changes break a model, and by how much?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from strobe.analyses.background import is_ladder
from strobe.analyses.classification import ClassificationScore
from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.analyses.variants_contrasts import ByVariant
from strobe.core.answers import Answers, ClassAnswers
from strobe.formats.ladder_table import read_ladder
from strobe.report import figures_classes, figures_detection, figures_trend, figures_variants, story_variants
from strobe.report.drawing import FigureSpec
from strobe.report.explain import variant_explanation, variant_terms
from strobe.report.story_background import ladder
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.terminal_more import search_lines, variant_lines
from strobe.report.view import Lines, View
from strobe.studies.variants.tables import TABLES

__all__ = ["VARIANTS", "VariantScores", "VariantsStudy"]

FIGURES = (
    figures_variants.means,
    figures_variants.levels,
    figures_variants.rungs,
    figures_variants.survival,
)
CONTRASTS = {
    "variants": figures_variants.contrasts_variants,
    "models": figures_variants.contrasts_models,
    "targets": figures_variants.contrasts_targets,
}
"""The figures of contrasts, by kind."""


class VariantsStudy(Study):
    """Accuracy under every variant and level, its worst case and mean, searches, and contrasts between variants."""

    name = "variants"
    decides = 2
    tables = TABLES
    drawings = (*FIGURES, *CONTRASTS.values())

    def collector(self, scoring: Scoring) -> Collector | None:
        """Return the scores by variant, if the dataset has variants."""
        return VariantScores(scoring) if scoring.dataset.variants is not None else None

    def lines(self, view: View) -> Sequence[Lines]:
        """Return accuracy by variant, and the findings of searches."""
        return [*variant_lines(view), *search_lines(view)]

    def lead(self, view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
        """Return accuracy on the images and under the worst of their variants."""
        name, best = next(iter(models.items()), ("", None))
        if not view.variants or not isinstance(best, ClassificationResult):
            return None
        return story_variants.variants_lead(view, name, best)

    def question(self, view: View) -> str | None:
        """Return the page's question."""
        return "how accurate are the models?" if view.variants else None

    def explanation(self, view: View) -> tuple[str, list[str]] | None:
        """Return an explanation of variants, levels and searches."""
        return variant_explanation(view) if view.variants else None

    def terms(self, view: View) -> list[tuple[str, str]] | None:
        """Return the terms for data with variants."""
        return variant_terms(view) if view.variants else None

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return the figures of variants and contrasts. A ladder of backgrounds has its own figures."""
        if not view.variants or not view.results.models:
            return ()
        main: list[FigureSpec] = []
        if view.classifiers or not view.detectors:
            main += [
                replace(figures_trend.trend, title="Is a more accurate model more robust?"),
                replace(figures_classes.per_class, title="Which classes lose most?"),
            ]
        if view.detectors:
            main += [figures_detection.overview, figures_classes.detection_class]
        if view.words.is_still:
            main = []
        if ladder(view) is not None:
            return [SectionFigures(section="main", figures=main)]
        contrasts = [CONTRASTS[one.kind] for one in story_variants.contrasts(view)]
        return [
            SectionFigures(section="main", figures=main),
            SectionFigures(section="variants", figures=FIGURES),
            SectionFigures(section="contrasts", figures=contrasts),
        ]

    def chapter(self, page: PageInput) -> Chapter | None:
        """Return the chapter on variants, searches and contrasts."""
        view = page.view
        if not view.variants:
            return None
        models, rows = story_variants.fooled(view)
        drawn = {groups[0].group: groups for groups in page.figures.get("contrasts", ())}
        content = {
            "study": story_variants.study(view),
            "heat": story_variants.heat(view),
            "searches": [(one, *story_variants.median_text(view, one)) for one in story_variants.own_scale(view)],
            "robust": story_variants.robust(view),
            "survives": story_variants.survives(view),
            "fooled_models": models,
            "fooled": rows,
            "contrasts": [(one, drawn.get(f"contrasts_{one.kind}")) for one in story_variants.contrasts(view)],
            "sided": partial(story_variants.sided, view),
        }
        return Chapter(name="variants", title="Variants", template="variants.html.j2", content=content)


class VariantScores(Collector):
    """Scores classifiers under every variant."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__()
        dataset = scoring.dataset
        pictures = read_ladder(scoring.path) if is_ladder(dataset.variants) else None
        areas = {one.picture: one.area_share for one in pictures or () if one.area_share is not None}
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


VARIANTS = VariantsStudy()
