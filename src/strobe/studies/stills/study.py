"""Sets of a single image: how often is a model right?"""

from collections.abc import Mapping, Sequence

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.report.figures_classes import class_accuracy
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View
from strobe.studies.stills.words import still_explanation, still_lead, still_terms

MAIN = (class_accuracy,)


class Stills(Study):
    """Accuracy or mAP on single images, without any figure on change."""

    name = "stills"
    decides = 1
    drawings = MAIN
    needs_to_show = ("words.is_still",)

    def lead(self, view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
        """Return the accuracy of the best model."""
        found = {name: model.acc_orig for name, model in models.items() if isinstance(model, ClassificationResult)}
        return still_lead(view, found) if found else None

    def question(self, view: View) -> str:
        """Return the page's question."""
        return "how accurate are the models?"

    def explanation(self, view: View) -> tuple[str, list[str]]:
        """Return the meaning of accuracy for single images."""
        return still_explanation(view)

    def terms(self, view: View) -> list[tuple[str, str]]:
        """Return the terms for single images."""
        return still_terms(view)

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return accuracy by class."""
        return [SectionFigures(section="main", figures=MAIN)]


STILLS = Stills()
