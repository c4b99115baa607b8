"""Results made up by hand, as small as a test needs them."""

from typing import Any

from strobe.analyses.model_results import ClassificationResult, DetectionResult, DetectionUnscored, Unscored
from strobe.analyses.results import DatasetFacts, Results
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.temporal import AtRisk, Survival
from strobe.report.drawing import Figure, FigureSpec
from strobe.report.view import View
from strobe.studies.detection.records import AsClassifier, DetectionSettings, ErrorCounts, MapFigures
from strobe.studies.temporal.records import ClassMedians, CurvePoint, GivenRightAnchor


def share(value: float | None, low: float | None = None, high: float | None = None, **more: Any) -> Estimate:
    return Estimate(value=value, low=low, high=high, **{"n": 10, "reason": "made up" if low is None else None, **more})


NONE = share(None)


def scored(orig: float | None = None, pmk: float | None = None, **parts: Any) -> ClassificationResult:
    drop = None if orig is None or pmk is None else orig - pmk
    whole: dict[str, Any] = {
        "kind": "logits", "model_type": None, "standard": False, "acc_orig": share(orig), "acc_pmk": share(pmk),
        "drop": share(drop), "curve": (), "time_curve": Missing("made up"), "per_class": (),
        "per_class_median": ClassMedians(acc_orig=NONE, acc_pmk=NONE, drop=NONE, n_classes=0), "per_offset": (),
        "mean_frame": NONE, "given_right_anchor": GivenRightAnchor(sets=NONE, members=NONE), "flip_rate": NONE,
        "right_wrong_flip_rate": NONE, "confidence_swing": NONE, "first_failure": survival(n=0), "smoothing": (),
        "frame_types": (), "by_fps": (), "by_hint": {}, "reasons": {}, "unscored": Unscored(frames=0, sets=0),
        "bounds": None,
    }  # fmt: skip
    return ClassificationResult(**whole | parts)


def detected(orig: float | None = None, pmk: float | None = None, **parts: Any) -> DetectionResult:
    figures = {"map_orig": share(orig), "map_pmk": share(pmk), "drop": NONE, "curve": ()}
    whole: dict[str, Any] = {
        "model_type": None, **figures, "per_class": (), "localization": MapFigures(**figures),
        "as_classifier": AsClassifier(acc_orig=NONE, acc_pmk=NONE, drop=NONE, coverage=NONE, curve=()),
        "errors": ErrorCounts(
            failing=0, classification=0, localization=0, both=0, missed=0, duplicate=0, background=0, unexplained=0,
            present={},
        ),
        "temporal": Missing("the boxes have no track ids"),
        "settings": DetectionSettings(
            k=2, iou=(0.5,), interpolation="coco-101", max_dets=100, area_range=None, frame_ap="pooled",
            confidence=0.5, interval="auto", seed=0, replicates=100,
        ),
        "chosen_frames": (), "unscored": DetectionUnscored(frames=0, sets=0, undefined_sets=0),
    }  # fmt: skip
    return DetectionResult(**whole | parts)


def curve(*values: float) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(k, share(value), NONE) for k, value in enumerate(values))


def survival(*alive: float, n: int, events: int = 0) -> Survival:
    rows = (AtRisk(distance=k, at_risk=n, events=0, alive=share(value)) for k, value in enumerate(alive))
    return Survival(n=n, events=events, median=None, survival=tuple(rows))


def results_of(models: dict[str, Any], *, comparison: Any = (), **dataset: Any) -> Results:
    facts: dict[str, Any] = {
        "name": "d", "digest": "0" * 64, "n_sets": 8, "n_videos": 4, "n_frames": 40, "k": 2, "axis": "frame-offset",
        "label_source": "frame", "reviewed": "none",
    }  # fmt: skip
    return Results(dataset=DatasetFacts(**facts | dataset), models=models, comparison=comparison)


def view_of(models: dict[str, Any], *, show: Any = (), **more: Any) -> View:
    return View(results=results_of(models, **more), show=show)


def figure(question: FigureSpec, found: Results | View) -> Figure:
    """The one figure a question has for these results."""
    (only,) = question.figures(found if isinstance(found, View) else View(results=found))
    return only
