"""The records of one model in results.json; keys are in the order of the fields.

A field that only newer results have is optional and omitted if it is None (`metadata=LEFT_OUT`), so that old files
stay readable and unchanged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.answer_patterns import AnswerPattern
from strobe.analyses.ceilings import Ceiling, MapCeiling
from strobe.analyses.early import StoppedEarly
from strobe.analyses.measures import Measure, measures_of
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.codec import LEFT_OUT, UNWRITTEN, Count, added_records, encode, written_as
from strobe.core.estimate import Estimate, Missing
from strobe.core.tasks import Task
from strobe.metrics.columns import Column, Statistic, share
from strobe.metrics.intervals import nothing
from strobe.metrics.temporal import Survival
from strobe.studies.detection.records import (
    AsClassifier,
    ChosenFrame,
    DetectionSettings,
    ErrorCounts,
    MapFigures,
    MapPoint,
    Tracks,
)
from strobe.studies.noise.records import NoiseScore
from strobe.studies.temporal.records import (
    AllClasses,
    Bounds,
    ClassMedians,
    CurvePoint,
    GivenRightAnchor,
    HintBin,
    OffsetError,
    RateSlice,
    Smoothed,
    TimeCurve,
    TypeSlice,
)
from strobe.studies.unlabelled.records import FlickerScore
from strobe.studies.variants.records import MeanScore, VariantScore


class Headline(NamedTuple):
    """The three headline figures: on the anchors, on whole sets (or the worst frames), and the drop."""

    orig: Estimate
    pmk: Estimate
    drop: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """Missing predictions: the number of frames, and the number of sets that could not be scored without them."""

    frames: Count
    sets: Count


# -- classification ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScore:
    """The figures of one class, on the sets whose anchor has this label. `small` flags fewer than ten sets."""

    label: str
    name: str
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    small: bool

    @property
    def headline(self) -> Headline:
        """The three headline figures of the class."""
        return Headline(self.acc_orig, self.acc_pmk, self.drop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One model at one stage of review."""

    what: str
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    per_offset: tuple[OffsetError, ...]
    unscored: Unscored


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """One model's figures at the three stages of review, and how much review changed the drop (A − C)."""

    a: Stage = field(metadata=written_as("A"))
    b: Stage = field(metadata=written_as("B"))
    c: Stage = field(metadata=written_as("C"))
    drop_difference: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationResult:
    """All measurements of one classifier, as in methods §5; `reasons` explains empty parts.

    After a run that `stopped_early`, the headline, classes, frame rates and model differences are the same as after a
    full run. Parts that need every frame are omitted.
    """

    task: Literal[Task.CLASSIFICATION] = Task.CLASSIFICATION
    kind: Literal["logits", "probabilities", "labels"]
    model_type: str | None
    standard: bool
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    curve: tuple[CurvePoint, ...]
    time_curve: TimeCurve | Missing
    per_class: tuple[ClassScore, ...]
    per_class_median: ClassMedians
    per_offset: tuple[OffsetError, ...]
    mean_frame: Estimate
    given_right_anchor: GivenRightAnchor
    flip_rate: Estimate
    right_wrong_flip_rate: Estimate
    confidence_swing: Estimate
    first_failure: Survival
    smoothing: tuple[Smoothed, ...]
    frame_types: tuple[TypeSlice, ...]
    by_fps: tuple[RateSlice, ...]
    by_hint: Mapping[str, tuple[HintBin, ...]]
    reasons: Mapping[str, str]
    review_impact: Impact | None = None
    ceiling: Ceiling | None = None
    unscored: Unscored
    bounds: Bounds | None
    coverage: Estimate | None = field(default=None, metadata=LEFT_OUT)
    """Share of the sets' frames answered with a class of the dataset; omitted if no other answer was possible."""
    variants: tuple[VariantScore, ...] | None = field(default=None, metadata=LEFT_OUT)
    means: tuple[MeanScore, ...] | None = field(default=None, metadata=LEFT_OUT)
    added: Mapping[str, Any] = field(default_factory=dict, metadata=added_records("records: model"))
    """The records of studies of annexes, by the name of the study."""
    all_classes: AllClasses | None = field(default=None, metadata=LEFT_OUT)
    notes: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Cautions about the headline figures; omitted if there are none."""
    effective_videos: float | None = field(default=None, metadata=LEFT_OUT)
    """(Σm)²/Σm² over the m scored sets of each video; omitted if every video has equally many."""
    answers: AnswerPattern | None = field(default=None, metadata=LEFT_OUT)
    stopped_early: StoppedEarly | None = field(default=None, metadata=LEFT_OUT)
    noise: NoiseScore | None = field(default=None, metadata=LEFT_OUT)
    """Present if frames were asked several times (`--repeat`)."""

    @property
    def headline(self) -> Headline:
        """The three headline figures of the model."""
        return Headline(self.acc_orig, self.acc_pmk, self.drop)

    def to_json(self) -> dict[str, Any]:
        """The model's object of results.json."""
        found: dict[str, Any] = encode(self)
        return found


# -- detection ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAp:
    """AP of one class with objects to find on the anchors or the worst frames; n counts these sets."""

    label: str
    name: str
    ap_orig: Estimate
    ap_pmk: Estimate
    drop: Estimate
    small: bool

    @property
    def headline(self) -> Headline:
        """The three headline figures of the class."""
        return Headline(self.ap_orig, self.ap_pmk, self.drop)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionUnscored(Unscored):
    """Missing predictions, and the sets that contain no object to find."""

    undefined_sets: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionResult:
    """All measurements of one detector, as in methods §6."""

    task: Literal[Task.DETECTION] = Task.DETECTION
    model_type: str | None
    map_orig: Estimate
    map_pmk: Estimate
    drop: Estimate
    curve: tuple[MapPoint, ...]
    per_class: tuple[ClassAp, ...]
    localization: MapFigures
    as_classifier: AsClassifier
    errors: ErrorCounts
    temporal: Tracks | Missing
    settings: DetectionSettings
    chosen_frames: tuple[ChosenFrame, ...]
    unscored: DetectionUnscored
    ceiling: MapCeiling | None = field(default=None, metadata=LEFT_OUT)
    notes: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Cautions about the headline figures; omitted if there are none."""
    effective_videos: float | None = field(default=None, metadata=LEFT_OUT)
    """(Σm)²/Σm² over the m scored sets of each video; omitted if every video has equally many."""
    answers: AnswerPattern | None = field(default=None, metadata=LEFT_OUT)
    noise: NoiseScore | None = field(default=None, metadata=LEFT_OUT)

    @property
    def headline(self) -> Headline:
        """The three headline figures of the detector."""
        return Headline(self.map_orig, self.map_pmk, self.drop)


ModelResult = ClassificationResult | DetectionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationScore(ClassificationResult):
    """A model's result and the data that comparison and trend need, small enough to keep for many models.

    `first_wrong` (S,) is each set's first wrong level (k + 1 if none, −1 if the set is unscored), and `video` (S,) its
    video. `fingerprint` is equal for models that predict the same classes, and `exact` is equal for models with
    identical answers.
    """

    model: str = field(metadata=UNWRITTEN)
    k: int = field(metadata=UNWRITTEN)
    first_wrong: NDArray[np.int32] = field(repr=False, compare=False, metadata=UNWRITTEN)
    video: Ints = field(repr=False, compare=False, metadata=UNWRITTEN)
    fingerprint: str = field(metadata=UNWRITTEN)
    exact: str = field(default="", metadata=UNWRITTEN)

    @property
    def scored(self) -> Bools:
        """The scored sets, (S,)."""
        return np.asarray(self.first_wrong >= 0)

    def right_at(self, k: int) -> Bools:
        """Return which sets are right at k, (S,); an unscored set is False."""
        return np.asarray(self.first_wrong > k)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionScore(DetectionResult):
    """A detector's result and the data for comparing it with others, small enough to keep for many detectors.

    `without` (2, G) is mAP with each video left out, on the anchors and on the worst frames at k. `video` (S,) is the
    video of each set of the dataset. `first_wrong` is the smallest |distance| at which each set fails: 0 if nothing is
    right on the anchor, NaN if the set holds.
    """

    model: str = field(metadata=UNWRITTEN)
    without: Floats = field(repr=False, compare=False, metadata=UNWRITTEN)
    video: Ints = field(repr=False, compare=False, metadata=UNWRITTEN)
    first_wrong: Floats = field(repr=False, compare=False, metadata=UNWRITTEN)
    exact: str = field(default="", metadata=UNWRITTEN)

    @property
    def k(self) -> int:
        """The largest distance from the anchor."""
        return self.settings.k


M = TypeVar("M", bound=ModelResult | FlickerScore)

_ONCE = nothing("each frame was asked once")

NOISE: tuple[Measure[Any], ...] = (
    Measure(
        "noise",
        "Share of pairs of answers to the same frame that differ.",
        lambda one: _ONCE if one.noise is None else one.noise.noise,
        seldom=True,
        more_is_worse=True,
    ),
    Measure(
        "beyond_noise",
        "Flips between neighbouring frames minus noise, over all answers to the same frames.",
        lambda one: _ONCE if one.noise is None else one.noise.beyond_noise,
        seldom=True,
        more_is_worse=True,
    ),
)
"""The measures of models that were asked several times about each frame."""


def _of_sets(right: Callable[[ClassificationScore], Bools]) -> Callable[[ClassificationScore], Column]:
    """Return the column of a share of sets, (S,), of which those without an answer are not measured."""
    return lambda score: share(right(score), score.video, measured=score.scored)


_lost = _of_sets(lambda one: one.right_at(0) & ~one.right_at(one.k))

CLASSIFICATION: tuple[Measure[ClassificationResult], ...] = (
    Measure(
        "acc_orig",
        "Share of anchors that are right.",
        column=_of_sets(lambda one: one.right_at(0)),
    ),
    Measure(
        "acc_pmk",
        "Share of sets right on the anchor and on all members up to k.",
        column=_of_sets(lambda one: one.right_at(one.k)),
    ),
    Measure(
        "drop",
        "acc_orig − acc_pmk: right anchors whose set fails somewhere.",
        more_is_worse=True,
        column=lambda one: replace(_lost(one), most=float(one.k > 0)),
    ),
    Measure("mean_frame", "Share of all frames that are right, each frame scored separately."),
    Measure(
        "flip_rate",
        "Share of pairs of neighbouring frames with different answers, right or wrong.",
        more_is_worse=True,
        brief=True,
    ),
    Measure(
        "right_wrong_flip_rate",
        "Share of pairs of neighbouring frames in which one is right and the other wrong.",
        headline=False,
        more_is_worse=True,
    ),
    Measure(
        "confidence_swing",
        "Largest minus smallest confidence in a set, on average.",
        headline=False,
        more_is_worse=True,
    ),
    Measure(
        "coverage",
        "Share of frames answered with a class of the dataset; the others count as wrong.",
        lambda one: one.coverage or nothing("every frame was answered with a class of the dataset"),
        seldom=True,
        brief=True,
    ),
    *NOISE,
)
"""The measures of classifiers. If nothing can change (k = 0), acc_orig is called accuracy."""


def _of_map(place: int) -> Callable[[DetectionScore], Statistic]:
    """Return mAP on the anchors, on the worst frames, or their difference, as a statistic over videos."""

    def of(score: DetectionScore) -> Statistic:
        (orig, worst), figure = score.without, score.headline[place]
        value, reason = figure.value, "mAP of one detector is unknown"
        if score.unscored.sets and value is not None:
            value = None
            reason = "a detector lacks answers on some sets, so the two were not scored on the same sets"
        return Statistic(value, (orig, worst, orig - worst)[place], score.video, figure.n, reason)

    return of


DETECTION: tuple[Measure[DetectionResult], ...] = (
    Measure("map_orig", "Mean average precision (mAP) on the anchors.", column=_of_map(0)),
    Measure(
        "map_pmk",
        "mAP on the worst frames: in each set, the frame up to k with the lowest AP.",
        column=_of_map(1),
    ),
    Measure(
        "drop",
        "map_orig − map_pmk: the loss on the worst frames.",
        more_is_worse=True,
        column=_of_map(2),
    ),
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
    Measure("coverage", "Share of frames with at least one box.", lambda one: one.as_classifier.coverage, brief=True),
    *NOISE,
)
"""The measures of detectors. If nothing can change (k = 0), map_orig is called mAP."""


def flicker_measures() -> tuple[Measure[Any], ...]:
    """Return the measures of classifiers that need no label."""
    return (*measures_of("unlabelled"), *NOISE)


def flicker_figures(model: FlickerScore) -> dict[str, Estimate]:
    """Return the figures that need no label, by measure name."""
    return _figures(flicker_measures(), model, headline=False)


def figures_of(model: ModelResult, *, headline: bool = False) -> dict[str, Estimate]:
    """Return a model's figures by measure name; with `headline`, only the figures of the first table."""
    if isinstance(model, ClassificationResult):
        return _figures(CLASSIFICATION, model, headline)
    return _figures(DETECTION, model, headline)


def _figures(measures: tuple[Measure[M], ...], model: M, headline: bool) -> dict[str, Estimate]:
    found = {measure.name: (measure, measure.of(model)) for measure in measures if measure.headline or not headline}
    return {name: value for name, (one, value) in found.items() if not one.seldom or value.value is not None}
