"""What the study of classifiers on sets of frames adds to results.json; keys are in the order of the fields."""

from dataclasses import asdict, dataclass, field
from typing import Literal

from strobe.analyses.published import PublishedTable
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.estimate import Estimate
from strobe.metrics.fits import Line


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
class AmongAll:
    """Accuracy on original images (`anchor`) or on a variant at its highest level.

    `own` is the accuracy if the model chooses among the dataset's classes, and `all` if it chooses among all its
    classes.
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
class TrendLine(Line):
    """The line over the standard models; both axes are in points (0–100) or in log odds."""

    unit: Literal["points", "log odds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness(Estimate):
    """Effective robustness on one axis: acc_pmk − line(acc_orig), with the line fitted without the model itself.

    `extrapolated` is set if the model's acc_orig is outside the range of the line's models; then there is no verdict.
    """

    extrapolated: bool
    verdict: Literal["above", "below", "on"] | None

    @classmethod
    def of(cls, estimate: Estimate, *, extrapolated: bool = False) -> "Robustness":
        """Return this record with its verdict, which is None if there is no interval or the line is extrapolated."""
        low, high = estimate.low, estimate.high
        if extrapolated or low is None or high is None:
            return cls(**asdict(estimate), extrapolated=extrapolated, verdict=None)
        verdict: Literal["above", "below", "on"] = "above" if low > 0 else "below" if high < 0 else "on"
        return cls(**asdict(estimate), extrapolated=extrapolated, verdict=verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveRobustness:
    """Effective robustness on plain and on logit axes, because the axis can change the sign."""

    linear: Robustness
    logit: Robustness


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrend:
    """One model's accuracies and effective robustness."""

    model: str
    model_type: str | None
    standard: bool
    in_fit: bool
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    effective_robustness: EffectiveRobustness
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDrop:
    """The median drop over the models of one type, without duplicates; n counts models."""

    model_type: str
    median_drop: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The lines over the standard models, every model's position, and the papers' tables for reference.

    If too few models are tagged as standard, the lines are `fitted_to` all models.

    With fewer than five distinct original accuracies, both lines are None and `reason` explains it.
    """

    linear: TrendLine | None
    logit: TrendLine | None
    reason: str | None = field(default=None, metadata=LEFT_OUT)
    fitted_to: Literal["all models"] | None = field(default=None, metadata=LEFT_OUT)
    models: tuple[ModelTrend, ...]
    median_drop: tuple[TypeDrop, ...]
    published: tuple[PublishedTable, ...]
