"""The measures of a model: one name each for the page, tables, figures, results.json and the docs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import nothing
from strobe.studies.unlabelled.records import FlickerScore

__all__ = ["CLASSIFICATION", "DETECTION", "FLICKER", "Measure", "figures_of", "flicker_figures"]

M = TypeVar("M", bound=ModelResult | FlickerScore)


@dataclass(frozen=True, slots=True)
class Measure(Generic[M]):
    """A measure: its name, its meaning, and the function that returns a model's figure.

    `headline` puts it in the first table.

    A `seldom` measure is omitted for a model that does not have it.
    """

    name: str
    meaning: str
    of: Callable[[M], Estimate]
    headline: bool = True
    seldom: bool = False


CLASSIFICATION: tuple[Measure[ClassificationResult], ...] = (
    Measure("acc_orig", "Share of anchors that are right.", lambda one: one.acc_orig),
    Measure("acc_pmk", "Share of sets right on the anchor and on all members up to k.", lambda one: one.acc_pmk),
    Measure("drop", "acc_orig − acc_pmk: right anchors whose set fails somewhere.", lambda one: one.drop),
    Measure(
        "mean_frame", "Share of all frames that are right, each frame scored separately.", lambda one: one.mean_frame
    ),
    Measure(
        "flip_rate",
        "Share of pairs of neighbouring frames with different answers, right or wrong.",
        lambda m: m.flip_rate,
    ),
    Measure(
        "right_wrong_flip_rate",
        "Share of pairs of neighbouring frames in which one is right and the other wrong.",
        lambda one: one.right_wrong_flip_rate,
        headline=False,
    ),
    Measure(
        "confidence_swing",
        "Largest minus smallest confidence in a set, on average.",
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
        "mAP on the worst frames: in each set, the frame up to k with the lowest AP.",
        lambda one: one.map_pmk,
    ),
    Measure("drop", "map_orig − map_pmk: the loss on the worst frames.", lambda one: one.drop),
    Measure(
        "localization_orig",
        "map_orig with all classes merged: whether objects are found, whatever their class.",
        lambda one: one.localization.map_orig,
    ),
    Measure(
        "localization_pmk",
        "map_pmk with all classes merged, and the worst frames chosen again.",
        lambda one: one.localization.map_pmk,
    ),
    Measure(
        "as_classifier_orig",
        "Share of anchors whose most confident box has a right class.",
        lambda one: one.as_classifier.acc_orig,
        headline=False,
    ),
    Measure(
        "as_classifier_pmk",
        "Share of sets whose most confident boxes have a right class on the anchor and on all members up to k.",
        lambda one: one.as_classifier.acc_pmk,
        headline=False,
    ),
    Measure("coverage", "Share of frames with at least one box.", lambda one: one.as_classifier.coverage),
)
"""The measures of detectors. If nothing can change (k = 0), map_orig is called mAP."""


FLICKER: tuple[Measure[FlickerScore], ...] = (
    Measure("flicker", "Share of sets in which some frame gets another answer than the anchor.", lambda m: m.flicker),
    Measure("consistency", "Share of sets in which every frame gets the anchor's answer.", lambda m: m.consistency),
    Measure("flip_rate", "Share of pairs of neighbouring frames with different answers.", lambda one: one.flip_rate),
    Measure(
        "sure_flip_rate",
        "Share of pairs of neighbouring frames with different answers, both with a high confidence.",
        lambda one: one.sure_flip_rate,
    ),
)
"""The measures of classifiers that need no label."""


def flicker_figures(model: FlickerScore) -> dict[str, Estimate]:
    """Return the figures that need no label, by measure name."""
    return _figures(FLICKER, model, headline=False)


def figures_of(model: ModelResult, *, headline: bool = False) -> dict[str, Estimate]:
    """Return a model's figures by measure name; with `headline`, only the figures of the first table."""
    if isinstance(model, ClassificationResult):
        return _figures(CLASSIFICATION, model, headline)
    return _figures(DETECTION, model, headline)


def _figures(measures: tuple[Measure[M], ...], model: M, headline: bool) -> dict[str, Estimate]:
    found = {one.name: (one, one.of(model)) for one in measures if one.headline or not headline}
    return {name: value for name, (one, value) in found.items() if not one.seldom or value.value is not None}
