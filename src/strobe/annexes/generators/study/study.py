"""Searches in the activations of a generator, from coarse to fine features."""

from collections.abc import Mapping, Sequence

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.annexes.generators.study.chapter import build_strips
from strobe.annexes.generators.study.figures import granularity_curves, granularity_kept, granularity_ratio
from strobe.annexes.generators.study.reconstruction import (
    NOTE,
    reconstructed,
    reconstruction_lines,
    reconstruction_text,
)
from strobe.annexes.generators.study.words import (
    accepted_text,
    by_class,
    generator_lead,
    granular,
    granular_lines,
    medians,
    restarts_text,
)
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import Lines, View

FIGURES = (
    granularity_ratio,
    granularity_curves,
    granularity_kept,
)


class Generator(Study):
    """The magnitudes at which searches in early and late layers change a model's answer."""

    name = "generator"
    decides = 4
    drawings = FIGURES
    scripts = (f"{__package__}:strips.js",)
    needs_to_show = ("results.searches",)

    def lines(self, view: View) -> Sequence[Lines]:
        """Return what reconstruction alone does to each model, then the median magnitudes from coarse to fine."""
        return [*reconstruction_lines(view), *granular_lines(view)]

    def lead(self, view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
        """Return the granularity at which the smallest change breaks the model."""
        scored = any(isinstance(model, ClassificationResult) for model in models.values())
        found = granular(view) if scored else None
        if found is None:
            return None
        head, more = generator_lead(found)
        return head, " ".join(filter(None, (reconstruction_text(view), more)))

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return the figures of the granularities."""
        applies = view.results.models and granular(view) is not None
        return [SectionFigures(section="granularity", figures=FIGURES)] if applies else ()

    def chapter(self, page: PageInput) -> Chapter | None:
        """Return the chapter on the granularities, with short films of the findings."""
        levels = granular(page.view)
        if levels is None:
            return None
        about = page.dataset.info.provenance
        strips = build_strips(page.dataset, levels, page.source, page.answers)
        content = {
            "reconstructed": reconstructed(page.view),
            "note": NOTE,
            "strips": strips is not None,
            "accepted": " ".join(filter(None, (accepted_text(about), restarts_text(about)))),
            "medians": medians(page.view, levels),
            "by_class": by_class(levels),
            "kept": levels.preserved,
        }
        data = {} if strips is None else {"strips-data": strips}
        return Chapter(
            name="granularity",
            title="Coarse to fine",
            template=f"{__package__}:generator.html.j2",
            content=content,
            data=data,
        )


GENERATOR = Generator()
