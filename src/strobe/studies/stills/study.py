"""Sets of a single image: how often is a model right?"""

from collections.abc import Mapping, Sequence

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.report import figures_classes
from strobe.report.explain import still_explanation, still_terms
from strobe.report.story import still_lead
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View

__all__ = ["STILLS", "Stills"]

MAIN = (figures_classes.class_accuracy,)


class Stills(Study):
    """Accuracy or mAP on single images, without any figure on change."""

    name = "stills"
    decides = 1
    drawings = MAIN

    def lead(self, view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
        """Return the accuracy of the best model."""
        found = {name: one.acc_orig for name, one in models.items() if isinstance(one, ClassificationResult)}
        return still_lead(view, found) if view.words.is_still and found else None

    def question(self, view: View) -> str | None:
        """Return the page's question."""
        return "how accurate are the models?" if view.words.is_still else None

    def explanation(self, view: View) -> tuple[str, list[str]] | None:
        """Return the meaning of accuracy for single images."""
        return still_explanation(view) if view.words.is_still else None

    def terms(self, view: View) -> list[tuple[str, str]] | None:
        """Return the terms for single images."""
        return still_terms(view) if view.words.is_still else None

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return accuracy by class."""
        return [SectionFigures(section="main", figures=MAIN)] if view.words.is_still else ()


STILLS = Stills()
