"""The measures of a model: one name each for the page, tables, figures, results.json and the docs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import nothing

__all__ = ["CLASSIFICATION", "DETECTION", "Measure", "figures_of"]

M = TypeVar("M", bound=ModelResult)


@dataclass(frozen=True, slots=True)
class Measure(Generic[M]):
    """A measure: its name, its meaning, and its figure of a model; `headline` measures are in the first table.

    `seldom` measures are omitted for a model that does not have them.
    """

    name: str
    meaning: str
    of: Callable[[M], Estimate]
    headline: bool = True
    seldom: bool = False


CLASSIFICATION: tuple[Measure[ClassificationResult], ...] = (
    Measure("acc_orig", "Share of anchors that are right.", lambda one: one.acc_orig),
    Measure("acc_pmk", "Share of sets right on the anchor and on all others up to k.", lambda one: one.acc_pmk),
    Measure("drop", "acc_orig − acc_pmk: right anchors whose set fails somewhere.", lambda one: one.drop),
    Measure("mean_frame", "Share of all frames that are right, each alone.", lambda one: one.mean_frame),
    Measure("flip_rate", "Share of neighbouring frames with different answers, right or wrong.", lambda m: m.flip_rate),
    Measure(
        "right_wrong_flip_rate",
        "Share of neighbouring frames of which one is right and one wrong.",
        lambda one: one.right_wrong_flip_rate,
        headline=False,
    ),
    Measure(
        "confidence_swing",
        "Largest less smallest confidence in a set, on average.",
        lambda one: one.confidence_swing,
        headline=False,
    ),
    Measure(
        "coverage",
        "Share of frames answered with a class of the dataset; the others count as wrong.",
        lambda one: one.coverage or nothing("every frame was answered with a class of the dataset"),
        seldom=True,
    ),
)
"""The measures of classifiers. If nothing can change (k = 0), acc_orig is called accuracy."""

DETECTION: tuple[Measure[DetectionResult], ...] = (
    Measure("map_orig", "Mean average precision (mAP) on the anchors.", lambda one: one.map_orig),
    Measure(
        "map_pmk",
        "mAP on the worst frames: of each set up to k the one whose own AP is lowest.",
        lambda one: one.map_pmk,
    ),
    Measure("drop", "map_orig − map_pmk: what the worst frames cost.", lambda one: one.drop),
    Measure(
        "localization_orig",
        "map_orig with all classes merged: was the object found, whatever it was called?",
        lambda one: one.localization.map_orig,
    ),
    Measure(
        "localization_pmk",
        "map_pmk with all classes merged, worst frames chosen again.",
        lambda one: one.localization.map_pmk,
    ),
    Measure(
        "as_classifier_orig",
        "Share of anchors whose surest box has a right class.",
        lambda one: one.as_classifier.acc_orig,
        headline=False,
    ),
    Measure(
        "as_classifier_pmk",
        "Share of sets in which that holds on the anchor and on all others up to k.",
        lambda one: one.as_classifier.acc_pmk,
        headline=False,
    ),
    Measure("coverage", "Share of frames with at least one box.", lambda one: one.as_classifier.coverage),
)
"""The measures of detectors. If nothing can change (k = 0), map_orig is called mAP."""


def figures_of(model: ModelResult, *, headline: bool = False) -> dict[str, Estimate]:
    """Return a model's figures by measure name; with `headline`, only those of the first table."""
    if isinstance(model, ClassificationResult):
        return _figures(CLASSIFICATION, model, headline)
    return _figures(DETECTION, model, headline)


def _figures(measures: tuple[Measure[M], ...], model: M, headline: bool) -> dict[str, Estimate]:
    found = {one.name: (one, one.of(model)) for one in measures if one.headline or not headline}
    return {name: value for name, (one, value) in found.items() if not one.seldom or value.value is not None}
