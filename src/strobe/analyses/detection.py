"""The score of one detector on one dataset: mAP under natural perturbation, localization and causes of failure.

The definitions are in docs/detection.md (methods §6). For pm-k mAP, each anchor is replaced by the frame of its set
with the lowest AP, and mAP is computed once over the chosen frames.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.answer_patterns import digest_of_boxes
from strobe.analyses.box_patterns import box_pattern
from strobe.analyses.detection_parts import Curves, as_classifier, class_figures, curves, map_figures, temporal
from strobe.analyses.model_results import ClassAp, DetectionScore, DetectionUnscored
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.tables import Boxes
from strobe.core.true_boxes import are_shares
from strobe.metrics.detection.average import frame_ap, frame_class_ap, mean_over_classes
from strobe.metrics.detection.diagnose import KINDS, diagnose
from strobe.metrics.detection.jackknife import few_per_class
from strobe.metrics.detection.match import Matches, ilsvrc_vid_iou, match
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.worst import Worst, worst_frames
from strobe.studies.detection.records import ChosenFrame, DetectionOptions, ErrorCounts

SMALL_CLASS = 10


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def score(
    dataset: Dataset,
    found: BoxAnswers,
    *,
    model: str,
    options: DetectionOptions | None = None,
    how: ScoreOptions | None = None,
) -> DetectionScore:
    """Score one detector's boxes, given in the dataset's classes and in the order of its frames.

    A set is scored if its anchor and all members within k were answered; other sets are counted separately. Raises
    StrobeError if the dataset has no boxes on its members.
    """
    options, how = options or DetectionOptions(), how or ScoreOptions()
    n_frames, n_classes = len(dataset.frames), len(dataset.info.label_space)
    expect(found.n_frames == n_frames, "detections", f"one answer per frame ({n_frames})", found.n_frames)
    expect(found.n_classes == n_classes, "detections", f"the dataset's {n_classes} classes", found.n_classes)
    boxes = _boxes_of_members(dataset)
    full_plan = Plan(dataset, how)
    scored = _scored(full_plan, found, model)
    plan = full_plan if scored.all() else full_plan.only(scored)
    truth = TruthTable.of_boxes(boxes, n_frames=n_frames, n_classes=n_classes)

    matches = _match(truth, found, options)
    per_frame = _frame_ap(truth, found, matches, options=options)
    worst = _worst(plan, per_frame)
    by_class = curves(plan, truth, found, matches, worst, options.interpolation)
    detection = map_figures(by_class, n=plan.n_sets)
    causes, errors = _errors(truth, found, matches, worst, options)

    merged = truth.merged(), found.merged()
    merged_matches = _match(*merged, options)
    located = _worst(plan, frame_ap(*merged, merged_matches, interpolation=options.interpolation))
    localization = curves(plan, *merged, merged_matches, located, options.interpolation)

    ap = partial(_frame_ap, truth, options=options)
    pattern = box_pattern(plan, boxes, found, worst, ap)
    return DetectionScore(
        model=model,
        without=mean_over_classes(by_class.without[[0, -1]]),
        video=dataset.video_of_set,
        first_wrong=_first_wrong(plan, per_frame, worst),
        model_type=None,
        map_orig=detection.map_orig,
        map_pmk=detection.map_pmk,
        drop=detection.drop,
        curve=detection.curve,
        localization=map_figures(localization, n=plan.n_sets),
        as_classifier=as_classifier(plan, found),
        per_class=_per_class(plan, truth, worst, by_class),
        errors=errors,
        temporal=temporal(plan, truth, found, matches[0], confidence=options.confidence),
        settings=options.settings(how, plan.k),
        chosen_frames=_chosen(dataset.sets.set_id[scored], plan, worst, causes),
        unscored=DetectionUnscored(
            frames=len(np.unique(full_plan.frame[~found.scored[full_plan.frame]])),
            sets=int((~scored).sum()),
            undefined_sets=int(worst.undefined[-1]),
        ),
        notes=(*(pattern.sentences() if pattern else ()), *_notes(plan, worst, by_class)) or None,
        answers=pattern,
        effective_videos=plan.effective_videos,
        exact=digest_of_boxes(found) if len(found.frame) else "",
    )


def _notes(plan: Plan, worst: Worst, curves_of_k: Curves) -> tuple[str, ...]:
    """Return the cautions about mAP: sets that do not contribute to it, and classes with few videos."""
    undefined = int(worst.undefined[-1])
    empty = f"{undefined} of {plan.n_sets} sets show no object in any frame: they can only add false positives"
    notes = (empty if undefined else None, few_per_class(curves_of_k.videos[:, 0]), plan.few_dominate)
    return tuple(note for note in notes if note)


def _chosen(
    set_id: NDArray[np.object_], plan: Plan, worst: Worst, causes: NDArray[np.int64]
) -> tuple[ChosenFrame, ...]:
    """Return each scored set's worst frame at k.

    The frame has no cause if AP did not fall, or if no kind of error explains the fall.
    """
    columns = (set_id, worst.frame[:, -1], plan.distance[worst.row[:, -1]], worst.ap[:, 0], worst.ap[:, -1], causes)
    return tuple(
        ChosenFrame(
            set=str(name),
            frame=frame,
            distance=distance,
            ap_orig=_number(before),
            ap_worst=_number(after),
            cause=KINDS[cause] if cause >= 0 else None,
        )
        for name, frame, distance, before, after, cause in zip(*(part.tolist() for part in columns), strict=True)
    )


def _first_wrong(plan: Plan, per_frame: Floats, worst: Worst) -> Floats:
    """Return the smallest |distance| at which each set fails, (S,), by the rule of ChosenFrame.status."""
    # A frame without objects to find cannot be wrong, and an anchor without objects counts as right.
    before, here = (np.where(np.isnan(ap), 1.0, np.round(ap, 9)) for ap in (worst.ap[:, 0], per_frame[plan.frame]))
    lower = (here < before[plan.set_row]) & ~np.isnan(per_frame[plan.frame])
    first = np.full(plan.n_sets, np.inf)
    np.minimum.at(first, plan.set_row[lower], np.abs(plan.distance[lower]))
    first[before == 0] = 0.0
    return np.where(np.isinf(first), np.nan, first)


def has_boxes(dataset: Dataset) -> bool:
    """Return whether detectors can be scored on the dataset."""
    try:
        _boxes_of_members(dataset)
    except StrobeError:
        return False
    return True


def _boxes_of_members(dataset: Dataset) -> Boxes:
    """Return the dataset's boxes; raise StrobeError if its members have no boxes of their own."""
    boxes, sets = dataset.boxes, dataset.sets
    where = f"{printable(dataset.name)}: detection cannot be scored: "
    if boxes is None or not len(boxes.frame):
        raise StrobeError(where + "the dataset has no boxes; import or build it with boxes.parquet")
    size = boxes.xyxy[:, 2:] - boxes.xyxy[:, :2]
    bad = np.flatnonzero(~(np.isfinite(boxes.xyxy).all(axis=1) & (size > 0).all(axis=1)))
    if len(bad):
        key, box = dataset.frames.key[boxes.frame[bad[0]]], boxes.xyxy[bad[0]].tolist()
        raise StrobeError(
            where + f"{len(bad)} box(es) have no positive width and height; the first is {box} on {printable(key)}; "
            "boxes are x0, y0, x1, y1"
        )
    wh = np.stack([dataset.frames.width[boxes.frame], dataset.frames.height[boxes.frame]], axis=1).astype(np.float64)
    if are_shares(boxes.xyxy, wh).all():
        raise StrobeError(
            where + f"all {len(boxes.frame)} true boxes end within a pixel of the corner: they look like "
            "fractions of the image; import or build the dataset again with boxes in pixels"
        )
    boxed = np.zeros(len(dataset.frames), dtype=bool)
    boxed[boxes.frame] = True
    if dataset.info.label_source == "anchor":
        raise StrobeError(
            where
            + "its members are scored with their anchor's labels; detection needs the boxes and labels of each frame"
        )
    if (~sets.is_anchor).any() and not boxed[sets.frame[~sets.is_anchor]].any():
        raise StrobeError(where + "only the anchors have boxes")
    return boxes


def _scored(plan: Plan, answers: BoxAnswers, model: str) -> Bools:
    """Return which sets were answered completely, (S,)."""
    scored = np.logical_and.reduceat(answers.scored[plan.frame], plan.start)
    if not scored.any():
        raise StrobeError(
            f"{printable(model)}: none of the {plan.n_sets} sets has predictions for its anchor and all members within "
            f"{plan.k}, so nothing can be scored"
        )
    return np.asarray(scored)


def _match(truth: TruthTable, answers: BoxAnswers, options: DetectionOptions) -> tuple[Matches, ...]:
    return match(truth, answers, iou=options.iou, max_dets=options.max_dets, area_range=options.area_range)


def _frame_ap(
    truth: TruthTable, answers: BoxAnswers, matches: tuple[Matches, ...] | None = None, *, options: DetectionOptions
) -> Floats:
    """Return the AP of every frame, (F,), by the rule of the options."""
    rule = frame_ap if options.frame_ap == "pooled" else frame_class_ap
    matches = _match(truth, answers, options) if matches is None else matches
    return rule(truth, answers, matches, interpolation=options.interpolation)


def _worst(plan: Plan, per_frame: Floats) -> Worst:
    return worst_frames(per_frame, plan.set_row, plan.frame, plan.distance, ks=range(plan.k + 1))


def _errors(
    truth: TruthTable, answers: BoxAnswers, matches: tuple[Matches, ...], worst: Worst, options: DetectionOptions
) -> tuple[NDArray[np.int64], ErrorCounts]:
    """Return the main kind of error on each set's worst frame if AP fell there, (S,), and the counts of all kinds."""
    before, after = np.round(worst.ap[:, 0], 9), np.round(worst.ap[:, -1], 9)
    fails = np.flatnonzero((after < before) | (np.isnan(before) & (after < 1)))
    enough = ilsvrc_vid_iou(truth.xyxy) if options.iou == "ilsvrc-vid" else np.full(len(truth), options.iou[0])
    frames, place = np.unique(worst.frame[fails, -1], return_inverse=True)
    found_out = diagnose(truth, answers, matches[0], frames, enough=enough, interpolation=options.interpolation)
    main, present = found_out.main[place], found_out.present[place]
    cause = np.full(len(worst.ap), -1, dtype=np.int64)
    cause[fails] = main
    counts = ErrorCounts(
        failing=len(fails),
        **{kind: int((main == at).sum()) for at, kind in enumerate(KINDS)},
        unexplained=int((main < 0).sum()),
        present={kind: int(present[:, at].sum()) for at, kind in enumerate(KINDS)},
    )
    return cause, counts


def _per_class(plan: Plan, truth: TruthTable, worst: Worst, curves_of_k: Curves) -> tuple[ClassAp, ...]:
    """Return AP of every class with objects to find on the anchors or the worst frames; n counts these sets."""
    space = plan.view.info.label_space
    there = np.zeros((truth.n_frames, truth.n_classes), dtype=bool)
    there[truth.frame[~truth.crowd], truth.label[~truth.crowd]] = True
    n = [there[worst.frame[:, place]].sum(axis=0) for place in (0, -1)]
    rows = []
    for label in range(truth.n_classes):
        if np.isnan(curves_of_k.ap[label, [0, -1]]).all():
            continue
        before, after, drop = class_figures(curves_of_k, label, n=(int(n[0][label]), int(n[1][label])))
        small = bool(n[0][label] < SMALL_CLASS)
        rows.append(
            ClassAp(
                label=space.ids[label], name=space.names[label], ap_orig=before, ap_pmk=after, drop=drop, small=small
            )
        )
    return tuple(rows)
