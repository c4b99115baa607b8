"""The score of one detector on one dataset: mAP under natural perturbation, localization, and why it broke.

Definitions are those of docs/detection.md (methods §6): pm-k mAP replaces each anchor by the frame of its set with the
lowest AP and computes mAP once over the chosen frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.detection_parts import AsClassifier, Curve, as_classifier, curve_of, temporal
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.dataset import Boxes, Dataset
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.estimate import Estimate
from strobe.metrics.detection.average import Interpolation, frame_ap, frame_class_ap
from strobe.metrics.detection.diagnose import KINDS, diagnose
from strobe.metrics.detection.match import Matches, Overlap, ilsvrc_vid_iou, match
from strobe.metrics.detection.tables import DetectionTable, TruthTable
from strobe.metrics.detection.worst import Worst, worst_frames
from strobe.metrics.intervals import Interval

__all__ = ["DetectionOptions", "DetectionScore", "score"]

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

DRAWS = 1000
SMALL_CLASS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionOptions:
    """How to score a detector: everything that can change a figure, but the data.

    `k` None means the dataset's own. `iou` is a list of overlaps or the ILSVRC-VID rule. `frame_ap` says how the worst
    frame is found: `pooled` over classes (default) or `mean` over the classes present. `confidence` is what a
    detection needs to count as found along a track; mAP does not use it.
    """

    k: int | None = None
    iou: Overlap = (0.5,)
    interpolation: Interpolation = "coco-101"
    max_dets: int = 100
    area_range: tuple[float, float] | None = None
    frame_ap: Literal["pooled", "mean"] = "pooled"
    confidence: float = 0.5
    interval: Interval = "auto"
    seed: int = 0
    bootstrap: bool = True
    replicates: int = DRAWS

    def __post_init__(self) -> None:
        known = ("coco-101", "voc-all-points")
        expect(self.interpolation in known, "interpolation", f"one of {', '.join(known)}", self.interpolation)
        expect(self.frame_ap in ("pooled", "mean"), "frame_ap", "pooled or mean", self.frame_ap)
        expect(self.max_dets >= 1, "max_dets", ">= 1", self.max_dets)

    def to_json(self) -> dict[str, Any]:
        """The settings as they stand in results.json."""
        return {
            "k": self.k,
            "iou": self.iou if isinstance(self.iou, str) else list(self.iou),
            "interpolation": self.interpolation,
            "max_dets": self.max_dets,
            "area_range": None if self.area_range is None else list(self.area_range),
            "frame_ap": self.frame_ap,
            "confidence": self.confidence,
            "interval": self.interval,
            "seed": self.seed,
            "replicates": self.replicates if self.bootstrap else 0,
        }

    def plan(self) -> ScoreOptions:
        """The options a Plan is made with."""
        return ScoreOptions(
            k=self.k, interval=self.interval, seed=self.seed, bootstrap=self.bootstrap, replicates=self.replicates
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionScore:
    """Everything measured of one detector on one dataset.

    Arrays are per set of the dataset, −1 or NaN where a set is unscored: `worst_frame` (a row of frames) at k,
    `anchor_ap` and `worst_ap` its per-frame AP before and after, `cause` a place in KINDS (−1 where AP did not fall or
    no kind of error explains it).
    """

    model: str
    k: int
    detection: Curve
    localization: Curve
    classifier: AsClassifier
    per_class: tuple[Mapping[str, Any], ...]
    errors: Mapping[str, Any]
    temporal: Mapping[str, Any]
    settings: Mapping[str, Any]
    unscored: Mapping[str, int]
    set_id: NDArray[np.object_] = field(repr=False)
    worst_frame: NDArray[np.int64] = field(repr=False)
    worst_distance: Floats = field(repr=False)
    anchor_ap: Floats = field(repr=False)
    worst_ap: Floats = field(repr=False)
    cause: NDArray[np.int64] = field(repr=False)
    model_type: str | None = None

    @property
    def map_orig(self) -> Estimate:
        """mAP on the anchors."""
        return self.detection.orig

    @property
    def map_pmk(self) -> Estimate:
        """mAP on the worst frames within k."""
        return self.detection.pmk

    def to_json(self) -> dict[str, Any]:
        """The model's object of results.json."""
        return {
            "task": "detection",
            "model_type": self.model_type,
            **self.detection.to_json(),
            "per_class": [dict(row) for row in self.per_class],
            "localization": self.localization.to_json(),
            "as_classifier": self.classifier.to_json(),
            "errors": dict(self.errors),
            "temporal": dict(self.temporal),
            "settings": dict(self.settings),
            "chosen_frames": [self._chosen(row) for row in np.flatnonzero(self.worst_frame >= 0).tolist()],
            "unscored": dict(self.unscored),
        }

    def _chosen(self, row: int) -> dict[str, Any]:
        cause = int(self.cause[row])
        return {
            "set": str(self.set_id[row]),
            "frame": int(self.worst_frame[row]),
            "distance": float(self.worst_distance[row]),
            "ap_orig": _number(self.anchor_ap[row]),
            "ap_worst": _number(self.worst_ap[row]),
            "cause": KINDS[cause] if cause >= 0 else None,
        }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def score(
    dataset: Dataset,
    found: DetectionTable,
    *,
    model: str,
    options: DetectionOptions | None = None,
    model_type: str | None = None,
) -> DetectionScore:
    """Score one detector's boxes, which are in the dataset's classes and in the order of its frames.

    A set is scored if its anchor and all members within k were looked at; the rest are counted apart. Raises
    StrobeError where the dataset has no boxes on its members.
    """
    options = options or DetectionOptions()
    n_frames, n_classes = len(dataset.frames), len(dataset.info.label_space)
    expect(found.n_frames == n_frames, "detections", f"one answer per frame ({n_frames})", found.n_frames)
    expect(found.n_classes == n_classes, "detections", f"the dataset's {n_classes} classes", found.n_classes)
    boxes = _boxes_of_members(dataset)
    plan, scored, unscored = _cohort(dataset, found, options, model)
    truth = TruthTable.of_boxes(boxes, n_frames=n_frames, n_classes=n_classes)

    matches = _match(truth, found, options)
    per_frame = (frame_ap if options.frame_ap == "pooled" else frame_class_ap)(
        truth, found, matches, interpolation=options.interpolation
    )
    worst = _worst(plan, per_frame)
    detection, class_ap, class_draws = curve_of(plan, truth, found, matches, worst, options.interpolation)
    causes, errors = _errors(truth, found, matches, worst, options)

    merged = truth.merged(), found.merged()
    merged_matches = _match(*merged, options)
    located = _worst(plan, frame_ap(*merged, merged_matches, interpolation=options.interpolation))
    localization, _, _ = curve_of(plan, *merged, merged_matches, located, options.interpolation)

    places = np.flatnonzero(scored)

    def spread(values: NDArray[Any], missing: float) -> NDArray[Any]:
        out = np.full(len(scored), missing, dtype=values.dtype)
        out[places] = values
        return out

    return DetectionScore(
        model=model,
        k=plan.k,
        detection=detection,
        localization=localization,
        classifier=as_classifier(plan, found),
        per_class=_per_class(plan, truth, worst, class_ap, class_draws),
        errors=errors,
        temporal=temporal(plan, truth, found, matches[0], confidence=options.confidence),
        settings=options.to_json() | {"k": plan.k},
        unscored=unscored | {"undefined_sets": int(worst.undefined[-1])},
        set_id=dataset.sets.set_id,
        worst_frame=spread(worst.frame[:, -1], -1),
        worst_distance=spread(plan.distance[worst.row[:, -1]], np.nan),
        anchor_ap=spread(worst.ap[:, 0], np.nan),
        worst_ap=spread(worst.ap[:, -1], np.nan),
        cause=spread(causes, -1),
        model_type=model_type,
    )


def _boxes_of_members(dataset: Dataset) -> Boxes:
    """The dataset's boxes; a StrobeError where its members have none of their own."""
    boxes, sets = dataset.boxes, dataset.sets
    where = f"{printable(dataset.name)}: detection cannot be scored: "
    if boxes is None or not len(boxes.frame):
        raise StrobeError(where + "the dataset has no boxes; import or build it with boxes.parquet")
    size = boxes.xyxy[:, 2:] - boxes.xyxy[:, :2]
    bad = np.flatnonzero(~(np.isfinite(boxes.xyxy).all(axis=1) & (size > 0).all(axis=1)))
    if len(bad):
        key, box = dataset.frames.key[boxes.frame[bad[0]]], boxes.xyxy[bad[0]].tolist()
        raise StrobeError(
            where + f"{len(bad)} box(es) without a positive width and height, first {box} on {printable(key)}; "
            "boxes are x0, y0, x1, y1"
        )
    boxed = np.zeros(len(dataset.frames), dtype=bool)
    boxed[boxes.frame] = True
    if dataset.info.label_source == "anchor":
        raise StrobeError(where + "its members carry their anchor's labels and no boxes of their own")
    if (~sets.is_anchor).any() and not boxed[sets.frame[~sets.is_anchor]].any():
        raise StrobeError(where + "boxes are on the anchors only, no member has any")
    return boxes


def _cohort(
    dataset: Dataset, found: DetectionTable, options: DetectionOptions, model: str
) -> tuple[Plan, Bools, dict[str, int]]:
    """The plan over the sets that were looked at whole, which those are (S,), and how many were not."""
    plan = Plan(dataset, options.plan())
    seen = found.scored[plan.frame]
    scored = np.logical_and.reduceat(seen, plan.start)
    if not scored.any():
        raise StrobeError(
            f"{printable(model)}: none of the {plan.n_sets} sets is predicted whole (anchor and all members within "
            f"{plan.k}); nothing can be scored"
        )
    unscored = {"frames": len(np.unique(plan.frame[~seen])), "sets": int((~scored).sum())}
    return (plan if scored.all() else plan.only(scored)), scored, unscored


def _match(truth: TruthTable, found: DetectionTable, options: DetectionOptions) -> tuple[Matches, ...]:
    return match(truth, found, iou=options.iou, max_dets=options.max_dets, area_range=options.area_range)


def _worst(plan: Plan, per_frame: Floats) -> Worst:
    return worst_frames(per_frame, plan.set_row, plan.frame, plan.distance, ks=range(plan.k + 1))


def _errors(
    truth: TruthTable, found: DetectionTable, matches: tuple[Matches, ...], worst: Worst, options: DetectionOptions
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """The main kind of error on each set's worst frame, (S,), where its AP is below the anchor's, and the counts."""
    before, after = np.round(worst.ap[:, 0], 9), np.round(worst.ap[:, -1], 9)
    fails = np.flatnonzero((after < before) | (np.isnan(before) & (after < 1)))
    enough = ilsvrc_vid_iou(truth.xyxy) if options.iou == "ilsvrc-vid" else np.full(len(truth), options.iou[0])
    frames, place = np.unique(worst.frame[fails, -1], return_inverse=True)
    found_out = diagnose(truth, found, matches[0], frames, enough=enough, interpolation=options.interpolation)
    main, present = found_out.main[place], found_out.present[place]
    cause = np.full(len(worst.ap), -1, dtype=np.int64)
    cause[fails] = main
    counts: dict[str, Any] = {"failing": len(fails)}
    counts |= {kind: int((main == at).sum()) for at, kind in enumerate(KINDS)}
    counts["unexplained"] = int((main < 0).sum())
    counts["present"] = {kind: int(present[:, at].sum()) for at, kind in enumerate(KINDS)}
    return cause, counts


def _per_class(
    plan: Plan, truth: TruthTable, worst: Worst, ap: Floats, draws: Floats | None
) -> tuple[dict[str, Any], ...]:
    """AP of every class with something to be found on the anchors or the worst frames; n counts those sets."""
    space = plan.view.info.label_space
    there = np.zeros((truth.n_frames, truth.n_classes), dtype=bool)
    there[truth.frame[~truth.crowd], truth.label[~truth.crowd]] = True
    n = [there[worst.frame[:, place]].sum(axis=0) for place in (0, -1)]
    rows = []
    for label in range(truth.n_classes):
        if np.isnan(ap[label, [0, -1]]).all():
            continue
        figures = Curve.of_values(
            plan, ap[label], None if draws is None else draws[:, label], n=(int(n[0][label]), int(n[1][label]))
        )
        rows.append(
            {
                "label": space.ids[label],
                "name": space.names[label],
                "ap_orig": figures.orig.to_json(),
                "ap_pmk": figures.pmk.to_json(),
                "drop": figures.drop.to_json(),
                "small": bool(n[0][label] < SMALL_CLASS),
            }
        )
    return tuple(rows)
