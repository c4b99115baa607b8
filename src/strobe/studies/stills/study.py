"""Sets of a single image: how often is a model right?"""

from collections.abc import Mapping

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.report.figures_classes import class_accuracy
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View
from strobe.studies.stills.words import still_explanation, still_lead, still_terms

MAIN = (class_accuracy,)


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return the accuracy of the best model."""
    found = {name: model.acc_orig for name, model in models.items() if isinstance(model, ClassificationResult)}
    return still_lead(view, found) if found else None


STILLS = Study(
    name="stills",
    decides=1,
    drawings=MAIN,
    needs_to_show=("words.is_still",),
    lead=_lead,
    question=lambda _view: "how accurate are the models?",
    explanation=still_explanation,
    terms=still_terms,
    figures=lambda _view: [SectionFigures(section="main", figures=MAIN)],
)
"""Accuracy or mAP on single images, without any figure on change."""
