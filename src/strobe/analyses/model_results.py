"""The records of one model in results.json; keys are in the order of the fields.

A field that only newer results have is optional and omitted if it is None (`metadata=LEFT_OUT`), so that old files
stay readable and unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from strobe.analyses.answer_patterns import AnswerPattern
from strobe.analyses.ceilings import Ceiling, MapCeiling
from strobe.analyses.early import StoppedEarly
from strobe.core.codec import LEFT_OUT, Count, Share, encode, written_as
from strobe.core.estimate import Estimate, Missing
from strobe.core.tasks import Task
from strobe.metrics.temporal import Survival
from strobe.studies.background.records import BackgroundScore
from strobe.studies.variants.records import MeanScore, VariantScore

__all__ = [
    "AccPoint", "AllClasses", "AmongAll", "AsClassifier", "Bounds", "ChosenFrame", "ClassAp",
    "ClassMedians", "ClassScore", "ClassificationResult", "Control", "CurvePoint", "DetectionResult",
    "DetectionSettings", "DetectionUnscored", "ErrorCounts", "GivenRightAnchor", "Headline", "HintBin", "Impact",
    "MapFigures", "MapPoint", "ModelResult", "OffsetError", "RateSlice", "Smoothed", "Stage", "TimeCurve",
    "TimePoint", "Tracks", "TypeSlice", "Unscored",
]  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Accuracy and drop at one k."""

    k: Count
    acc: Estimate
    drop: Estimate


@dataclass(frozen=True, slots=True)
class TimePoint:
    """Accuracy within a time."""

    ms: Count
    acc: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCurve:
    """Accuracy against milliseconds on the sets that reach `t_max_ms`."""

    t_max_ms: Count
    n_sets: Count
    points: tuple[TimePoint, ...]


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
class ClassMedians:
    """Medians over the classes; n counts classes."""

    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    n_classes: Count


@dataclass(frozen=True, slots=True)
class OffsetError:
    """The share of wrong frames at one signed distance from the anchor."""

    offset: float
    error: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRightAnchor:
    """Given a right anchor, the share of whole sets that stay right, and the share of single members that are right."""

    sets: Estimate
    members: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothed:
    """Accuracy and drop after smoothing; `incomplete` is the share of evaluated frames with a truncated window."""

    method: str
    parameter: float
    delay_frames: float
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    incomplete: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The drop after deleting equally many random members from the same sets: mean and 95 % range over seeds.

    `seeds` is 0 if there are too many frames to sample deletions; mean and range are then computed
    (metrics/deletions.py).
    """

    drop_mean: float
    drop_low: float
    drop_high: float
    seeds: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSlice:
    """Accuracy and drop without the frames of one type, and the control (None for the slice that deletes nothing)."""

    without: Literal["none", "I", "P", "B"]
    n_sets: Count
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    members_dropped: Count
    control: Control | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSlice:
    """Accuracy and drop on the sets of videos in one range of frame rates."""

    range: str
    n_sets: Count
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate


@dataclass(frozen=True, slots=True)
class HintBin:
    """The error of members in one range of a hint."""

    range: str
    error: Estimate


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
class AmongAll:
    """Accuracy on original images (`anchor`) or on a variant at its highest level.

    `own` is accuracy among the dataset's classes. `all` is accuracy if the best of all the model's classes must be
    right.
    """

    variant: str
    level: float | None
    own: Estimate
    all: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class AllClasses:
    """Accuracy among all of a model's classes, and among the dataset's classes (ImageNet-A's 200 of 1,000)."""

    source: str
    n_own: Count
    n_all: Count
    pictures: tuple[AmongAll, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Accuracies over all sets if every unscored set were wrong, and if every unscored set were right."""

    acc_orig: tuple[Share, Share]
    acc_pmk: tuple[Share, Share]


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


@dataclass(frozen=True, slots=True)
class MapPoint:
    """mAP at one k."""

    k: Count
    map: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFigures:
    """mAP on the anchors and on the worst frames for every k, and the drop."""

    map_orig: Estimate
    map_pmk: Estimate
    drop: Estimate
    curve: tuple[MapPoint, ...]


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


@dataclass(frozen=True, slots=True)
class AccPoint:
    """Accuracy at one k."""

    k: Count
    acc: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class AsClassifier:
    """The detector scored by the class of its most confident box; a frame without a box is wrong."""

    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    coverage: Estimate
    curve: tuple[AccPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounts:
    """Sets whose AP falls, by the kind of error that costs most AP; `present` counts every kind that costs any AP."""

    failing: Count
    classification: Count
    localization: Count
    both: Count
    missed: Count
    duplicate: Count
    background: Count
    unexplained: Count
    present: Mapping[str, Count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracks:
    """Flicker, jitter and score swing of tracked objects along sets."""

    n_tracks: Count
    flicker: Estimate
    found_lost_rate: Estimate
    box_jitter: Estimate
    score_swing: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionSettings:
    """How a detector was scored; `replicates` applies to the means along tracks and is 0 if the bootstrap is off."""

    k: Count
    iou: Literal["ilsvrc-vid"] | tuple[float, ...]
    interpolation: str
    max_dets: Count
    area_range: tuple[float, float] | None
    frame_ap: str
    confidence: float
    interval: str
    seed: int
    replicates: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenFrame:
    """The worst frame of one set (a row of the frame table), its AP before and after, and the cause."""

    set: str
    frame: Count
    distance: float
    ap_orig: float | None
    ap_worst: float | None
    cause: str | None

    @property
    def status(self) -> Literal["holds", "breaks", "wrong"]:
        """Whether AP never falls below the anchor's, falls on some frame, or is already zero on the anchor."""
        before, after = (1.0 if value is None else round(value, 9) for value in (self.ap_orig, self.ap_worst))
        return "breaks" if after < before else "wrong" if before == 0 else "holds"


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
