"""The records of one model in results.json; keys are in the order of the fields.

A field that only newer results have is optional and omitted if it is None (`metadata=LEFT_OUT`), so that old files
stay readable and unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.answer_patterns import AnswerPattern
from strobe.analyses.ceilings import Ceiling, MapCeiling
from strobe.analyses.early import StoppedEarly
from strobe.core.arrays import Bools, Floats
from strobe.core.codec import LEFT_OUT, UNWRITTEN, Count, encode, written_as
from strobe.core.estimate import Estimate, Missing
from strobe.core.tasks import Task
from strobe.metrics.temporal import Survival
from strobe.studies.background.records import BackgroundScore
from strobe.studies.detection.records import (
    AsClassifier,
    ChosenFrame,
    DetectionSettings,
    ErrorCounts,
    MapFigures,
    MapPoint,
    Tracks,
)
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
    background: BackgroundScore | None = field(default=None, metadata=LEFT_OUT)
    all_classes: AllClasses | None = field(default=None, metadata=LEFT_OUT)
    notes: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Cautions about the headline figures; omitted if there are none."""
    effective_videos: float | None = field(default=None, metadata=LEFT_OUT)
    """(Σm)²/Σm² over the m scored sets of each video; omitted if every video has equally many."""
    answers: AnswerPattern | None = field(default=None, metadata=LEFT_OUT)
    stopped_early: StoppedEarly | None = field(default=None, metadata=LEFT_OUT)

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

    @property
    def headline(self) -> Headline:
        """The three headline figures of the detector."""
        return Headline(self.map_orig, self.map_pmk, self.drop)


ModelResult = ClassificationResult | DetectionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationScore(ClassificationResult):
    """A model's result and the data that comparison and trend need, small enough to keep for many models.

    `first_wrong` (S,) is each set's first wrong level (k + 1 if none, −1 if the set is unscored). `fingerprint` is
    equal for models that predict the same classes, and `exact` is equal for models with identical answers.
    """

    model: str = field(metadata=UNWRITTEN)
    k: int = field(metadata=UNWRITTEN)
    first_wrong: NDArray[np.int32] = field(repr=False, compare=False, metadata=UNWRITTEN)
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

    `without` (2, G) is mAP with each video left out, on the anchors and on the worst frames at k. `first_wrong` is the
    smallest |distance| at which each set fails: 0 if nothing is right on the anchor, NaN if the set holds.
    """

    model: str = field(metadata=UNWRITTEN)
    without: Floats = field(repr=False, compare=False, metadata=UNWRITTEN)
    first_wrong: Floats = field(repr=False, compare=False, metadata=UNWRITTEN)
    exact: str = field(default="", metadata=UNWRITTEN)
