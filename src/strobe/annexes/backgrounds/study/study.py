"""A ladder of backgrounds: how much do models rely on the background?"""

from collections.abc import Mapping, Sequence

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.annexes.backgrounds.ladders import KIND
from strobe.annexes.backgrounds.study.chapter import background_chapter
from strobe.annexes.backgrounds.study.figures import (
    background_area,
    background_context,
    background_contrasts,
    background_models,
    background_rungs,
)
from strobe.annexes.backgrounds.study.tables import TABLES, ladder_lines
from strobe.annexes.backgrounds.study.words import background_lead, ladder
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import View

FIGURES = (
    background_contrasts,
    background_rungs,
    background_context,
    background_models,
    background_area,
)


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return how much the models depend on the background."""
    found = ladder(view) if _has_classifiers(models) else None
    return None if found is None else background_lead(found, view)


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the figures of the ladder."""
    applies = view.results.models and ladder(view) is not None
    return [SectionFigures(section="background", figures=FIGURES)] if applies else ()


def _chapter(page: PageInput) -> Chapter | None:
    """Return the chapter on the ladder, with images."""
    content = background_chapter(page.dataset, ladder(page.view), page.source, page.answers)
    if content is None:
        return None
    return Chapter(name="background", title="Background", template=f"{__package__}:background.html.j2", content=content)


def _has_classifiers(models: Mapping[str, ModelResult]) -> bool:
    return any(isinstance(model, ClassificationResult) for model in models.values())


BACKGROUND = Study(
    name="background",
    decides=3,
    needs_to_show=("variants",),
    tables=TABLES,
    drawings=FIGURES,
    applies=lambda view: any(variant.fields.get("kind") == KIND for variant in view.variants.values()),
    lines=ladder_lines,
    lead=_lead,
    question=lambda view: None if ladder(view) is None else "how much do models rely on the background?",
    figures=_figures,
    chapter=_chapter,
)
"""Accuracy on every rung of the ladder, and the effects isolated by two rungs that differ in one respect."""
