"""Searches in the activations of a generator, from coarse to fine features."""

from collections.abc import Mapping, Sequence

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.annexes.generators.study.chapter import build_strips
from strobe.annexes.generators.study.figures import granularity_curves, granularity_kept, granularity_ratio
from strobe.annexes.generators.study.words import (
    accepted_text,
    class_lines,
    generator_lead,
    granular,
    granular_lines,
    median_lines,
    reconstruction_lines,
    reconstruction_text,
    restarts_text,
)
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import View

FIGURES = (
    granularity_ratio,
    granularity_curves,
    granularity_kept,
)


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return the granularity at which the smallest change breaks the model."""
    scored = any(isinstance(model, ClassificationResult) for model in models.values())
    found = granular(view) if scored else None
    if found is None:
        return None
    head, more = generator_lead(found)
    return head, " ".join(filter(None, (reconstruction_text(view), more)))


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the figures of the granularities."""
    applies = view.results.models and granular(view) is not None
    return [SectionFigures(section="granularity", figures=FIGURES)] if applies else ()


def _chapter(page: PageInput) -> Chapter | None:
    """Return the chapter on the granularities, with short films of the findings."""
    levels = granular(page.view)
    if levels is None:
        return None
    about = page.dataset.info.provenance
    strips = build_strips(page.dataset, levels, page.source, page.answers)
    content = {
        "first": reconstruction_lines(page.view),
        "strips": strips is not None,
        "accepted": " ".join(filter(None, (accepted_text(about), restarts_text(about)))),
        "tables": [median_lines(page.view, levels), *class_lines(levels)],
    }
    data = {} if strips is None else {"strips-data": strips}
    return Chapter(
        name="granularity",
        title="Coarse to fine",
        template=f"{__package__}:generator.html.j2",
        content=content,
        data=data,
    )


GENERATOR = Study(
    name="generator",
    decides=4,
    drawings=FIGURES,
    scripts=(f"{__package__}:strips.js",),
    needs_to_show=("results.searches",),
    lines=lambda view: [*reconstruction_lines(view), *granular_lines(view)],
    lead=_lead,
    figures=_figures,
    chapter=_chapter,
)
"""The magnitudes at which searches in early and late layers change a model's answer."""
