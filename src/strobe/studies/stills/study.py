"""Sets of a single image: how often is a model right?"""

from collections.abc import Mapping

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task
from strobe.report.figures_classes import class_accuracy
from strobe.report.headline import measures
from strobe.report.story import interval_term
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View
from strobe.report.wording import DETECTION_TERMS, extreme, measured, value_of

MAIN = (class_accuracy,)


def still_explanation(view: View) -> tuple[str, list[str]]:
    """Return the explanation of accuracy for single images."""
    noun = view.words.source if view.results.dataset.kinds else view.words.picture
    boxes = bool(view.detectors) and not view.classifiers
    right = "the average precision over all images" if boxes else f"the share of images that {_who(view)} right"
    what = "mAP" if boxes else "Accuracy"
    return "What is measured", [
        f"Every {noun} is its own set and is scored once. {what} is {right}. Its interval shows how much the "
        "value could differ with another sample of images."
    ]


def _who(view: View) -> str:
    """Return who gives the answers (a model, a person, or either), with the verb."""
    if not view.classifiers:
        return "people get" if view.results.people else "a model gets"
    return "a model, or a person, gets" if view.results.people else "a model gets"


def still_terms(view: View) -> list[tuple[str, str]]:
    """Return the terms for single images."""
    if view.detectors and not view.classifiers:
        named = [(measure.name, measure.meaning) for measure in measures(view, Task.DETECTION)]
        return [*named, *DETECTION_TERMS, interval_term(view)]
    of = "; for people, share of answers that are right" if view.results.people else ""
    accuracy = ("accuracy", f"Share of images that the model gets right{of} (acc_orig in the files).")
    return [accuracy, interval_term(view)]


def still_lead(view: View, accuracy: Mapping[str, Estimate]) -> tuple[str, str]:
    """Return the lead for sets of a single image. It gives accuracy with its interval and does not mention change."""
    best, _, tie = extreme(accuracy, lambda name: value_of(accuracy[name]), str)
    head = f"{printable(best)} gets {measured(accuracy[best])} of {view.pictures(accuracy[best].n)} right."
    if len(accuracy) == 1:
        return head, "Every image is its own set and is scored once."
    rest = [measured(one) for name, one in sorted(accuracy.items(), key=lambda one: -value_of(one[1])) if name != best]
    others = f"the other gets {rest[0]}" if len(rest) == 1 else f"the others get {rest[-1]} to {rest[0]}"
    if len(rest) > 1 and rest[0] == rest[-1]:
        others = f"the others get {rest[0]} each"
    most = "None of the {} models is right more often" if tie else "Of the {} models, it is right most often"
    return head, f"{most.format(len(accuracy))}; {others}."


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
