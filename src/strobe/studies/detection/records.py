"""The options of a detector’s score, and what the study adds to results.json; keys are in the order of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from strobe.analyses.plan import ScoreOptions
from strobe.core.codec import Count
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.detection.average import Interpolation
from strobe.metrics.detection.match import Overlap


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
class DetectionOptions:
    """How boxes are matched with objects and what AP is, in addition to the options of every score (`ScoreOptions`).

    `iou` is a list of overlaps, or the ILSVRC-VID rule. `frame_ap` defines the AP that selects the worst frame:
    `pooled` over classes (default) or `mean` over the classes present. `confidence` is the score that a detection needs
    to count as found along a track; mAP does not use it.
    """

    iou: Overlap = (0.5,)
    interpolation: Interpolation = "coco-101"
    max_dets: int = 100
    area_range: tuple[float, float] | None = None
    frame_ap: Literal["pooled", "mean"] = "pooled"
    confidence: float = 0.5

    def __post_init__(self) -> None:
        known = ("coco-101", "voc-all-points")
        expect(self.interpolation in known, "interpolation", f"one of {', '.join(known)}", self.interpolation)
        expect(self.frame_ap in ("pooled", "mean"), "frame_ap", "pooled or mean", self.frame_ap)
        expect(self.max_dets >= 1, "max_dets", ">= 1", self.max_dets)

    def settings(self, how: ScoreOptions, k: int) -> DetectionSettings:
        """Return all options as results.json records them; `k` is the k used for scoring.

        The bootstrap applies to the means along tracks; the intervals of mAP and AP come from the jackknife.
        """
        return DetectionSettings(
            k=k,
            iou=self.iou,
            interpolation=self.interpolation,
            max_dets=self.max_dets,
            area_range=self.area_range,
            frame_ap=self.frame_ap,
            confidence=self.confidence,
            interval=how.interval,
            seed=how.seed,
            replicates=how.draws,
        )
