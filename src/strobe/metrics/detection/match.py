"""Match detections to objects, once for all frames; every aggregate uses these matches.

The rule is the same as in pycocotools (`COCOeval.evaluateImg`). Within a frame and class, detections choose in the
order of their scores. Each detection takes the object with the largest overlap among the free objects that overlap
enough. An ordinary object takes precedence over an ignored object. Equal overlaps go to the later object. A crowd
region can be matched any number of times.

This order of choice is the same for every object, so the outcome is the one stable matching. The matching is found for
all frames at once. Each detection proposes to its best object, and each object keeps the proposal of the first
detection in score order. The other detections then propose to their next object.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.metrics.detection.tables import TruthTable

Overlap = tuple[float, ...] | Literal["ilsvrc-vid"]
"""The overlaps to score at, or the ILSVRC-VID rule."""

COCO_IOUS: tuple[float, ...] = tuple(np.linspace(0.5, 0.95, 10).tolist())
"""0.5, 0.55 … 0.95: COCO's primary metric."""

_PAIRS_AT_ONCE = 1 << 17  # work arrays of this many pairs fit into the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The matches at one overlap.

    `found` (M,) are the rows of the detection table that are true positives, ascending. `object` (M,) are the matched
    rows of the truth table. `counts` (D,) is False for detections that are neither right nor wrong (beyond max_dets,
    on a crowd or ignored object, outside the area range), or None if all count. A detection that counts and is not in
    `found` is a false positive. `wanted` (G,) marks the objects to find.
    """

    found: Ints
    object: Ints
    counts: Bools | None
    wanted: Bools


def box_iou(a: Floats, b: Floats, *, crowd: Bools | None = None) -> Floats:
    """Return the overlap of each box of `a` (N, 4) with the same row of `b` (N, 4), xyxy.

    The overlap is intersection over union or, for `crowd`, intersection over the area of `a`. The result is zero if the
    boxes do not overlap.

    >>> box_iou(np.array([[0.0, 0.0, 2.0, 2.0]]), np.array([[0.0, 0.0, 2.0, 4.0]])).tolist()
    [0.5]
    """
    width = np.minimum(a[:, 2], b[:, 2]) - np.maximum(a[:, 0], b[:, 0])
    height = np.minimum(a[:, 3], b[:, 3]) - np.maximum(a[:, 1], b[:, 1])
    # Clip before multiplying: two negative sides would make a positive area.
    both = np.where((width > 0) & (height > 0), width * height, 0.0)
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    whole = area_a + area_b - both
    if crowd is not None:
        whole = np.where(crowd, area_a, whole)
    return np.divide(both, whole, out=np.zeros_like(both), where=both > 0)


def ilsvrc_vid_iou(xyxy: Floats) -> Floats:
    """Return the overlap required by the ILSVRC-VID rule: min(0.5, wh / ((w + 10)(h + 10))), (N,).

    >>> ilsvrc_vid_iou(np.array([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 500.0, 500.0]])).tolist()
    [0.25, 0.5]
    """
    width, height = xyxy[:, 2] - xyxy[:, 0], xyxy[:, 3] - xyxy[:, 1]
    return np.asarray(np.minimum(0.5, width * height / ((width + 10) * (height + 10))), dtype=np.float64)


def match(
    truth: TruthTable,
    found: BoxAnswers,
    *,
    iou: Overlap = (0.5,),
    max_dets: int = 100,
    area_range: tuple[float, float] | None = None,
) -> tuple[Matches, ...]:
    """Match every frame, and return one result per required overlap (a single result for the ILSVRC-VID rule).

    `max_dets` applies per frame and class. Objects and unmatched detections outside `area_range` (pixels, both ends
    included) are ignored. For localization pass `truth.merged()` and `found.merged()`.
    """
    expect(truth.n_frames == found.n_frames, "match", "tables of the same frames", (truth.n_frames, found.n_frames))
    expect(truth.n_classes == found.n_classes, "match", "the same classes", (truth.n_classes, found.n_classes))
    expect(max_dets >= 1, "max_dets", ">= 1", max_dets)
    ignored = truth.crowd
    if area_range is not None:
        ignored = ignored | (truth.area < area_range[0]) | (truth.area > area_range[1])
    required: list[Floats]
    if iou == "ilsvrc-vid":
        required = [ilsvrc_vid_iou(truth.xyxy)]
    else:
        expect(len(iou) > 0 and all(0 < one <= 1 for one in iou), "iou", "overlaps in (0, 1]", iou)
        # As in pycocotools: at 1.0 a perfect box must not be lost to rounding.
        required = [np.full(len(truth), min(one, 1 - 1e-10)) for one in iou]
    beyond = _beyond_max_dets(found, max_dets)
    least = required[0] if len(required) == 1 else np.min(required, axis=0)
    detection, target, overlap = _pairs(truth, found, least, beyond)
    order = _by_preference(detection, target, overlap, ignored)
    detection, target, overlap = detection[order], target[order], overlap[order]
    outside = None
    if area_range is not None:
        area = (found.xyxy[:, 2] - found.xyxy[:, 0]) * (found.xyxy[:, 3] - found.xyxy[:, 1])
        outside = (area < area_range[0]) | (area > area_range[1])
    results = []
    for limit in required:
        enough = overlap >= limit[target] if len(required) > 1 else slice(None)
        kept = _settle(detection[enough], target[enough], truth.crowd)
        chooser, choice = detection[enough][kept], target[enough][kept]
        spared = ignored[choice]
        counts = None
        if beyond is not None or outside is not None or spared.any():
            counts = np.ones(len(found), dtype=bool) if outside is None else ~outside
            counts[chooser] = ~spared  # outside the range, a detection counts only if it is matched
            if beyond is not None:
                counts &= ~beyond
        results.append(Matches(found=chooser[~spared], object=choice[~spared], counts=counts, wanted=~ignored))
    return tuple(results)


def _beyond_max_dets(answers: BoxAnswers, max_dets: int) -> Bools | None:
    """Return the detections after the first max_dets of their frame and class; None if there are none."""
    starts = answers.starts()
    crowded = np.diff(starts) > max_dets
    if not crowded.any():
        return None
    rows = np.flatnonzero(np.repeat(crowded, np.diff(starts)))
    key = answers.frame[rows].astype(np.int64) * answers.n_classes + answers.label[rows]
    order = np.argsort(key, kind="stable")
    sorted_key = key[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_key, sorted_key)
    beyond = np.zeros(len(answers), dtype=bool)
    beyond[rows[order[rank >= max_dets]]] = True
    return beyond if beyond.any() else None


def _pairs(
    truth: TruthTable, answers: BoxAnswers, least: Floats, beyond: Bools | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return every (detection, object of its frame and class, overlap) with enough overlap, sorted by detection.

    Frames are processed in blocks, so that memory does not grow with the number of pairs.
    """
    starts = answers.starts()
    truth_starts = np.searchsorted(truth.frame, np.arange(truth.n_frames + 1))
    detections, targets, overlaps = [], [], []
    first = 0
    while first < answers.n_frames:
        last = int(np.searchsorted(starts, starts[first] + _PAIRS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), answers.n_frames)
        rows, objects = slice(starts[first], starts[last]), slice(truth_starts[first], truth_starts[last])
        key = _group(answers.frame[rows], answers.label[rows], first, answers.n_classes)
        object_key = _group(truth.frame[objects], truth.label[objects], first, truth.n_classes)
        per_group = np.bincount(object_key, minlength=(last - first) * truth.n_classes)
        before = np.cumsum(per_group) - per_group
        options = per_group[key]
        if beyond is not None:
            options[beyond[rows]] = 0
        some = np.flatnonzero(options)
        options = options[some]
        detection = np.repeat(some, options)
        step = np.arange(len(detection)) - np.repeat(np.cumsum(options) - options, options)
        target = before[key[detection]] + step + objects.start
        detection += rows.start
        a, b = np.take(answers.xyxy, detection, axis=0), np.take(truth.xyxy, target, axis=0)
        touch = np.flatnonzero(
            (np.minimum(a[:, 2], b[:, 2]) > np.maximum(a[:, 0], b[:, 0]))
            & (np.minimum(a[:, 3], b[:, 3]) > np.maximum(a[:, 1], b[:, 1]))
        )
        detection, target = detection[touch], target[touch]
        overlap = box_iou(np.take(a, touch, axis=0), np.take(b, touch, axis=0), crowd=truth.crowd[target])
        enough = overlap >= least[target]
        detections.append(detection[enough])
        targets.append(target[enough])
        overlaps.append(overlap[enough])
        first = last
    if not detections:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    return np.concatenate(detections), np.concatenate(targets), np.concatenate(overlaps)


def _group(frame: Ints, label: Ints, first: int, n_classes: int) -> NDArray[np.int64]:
    return (frame.astype(np.int64) - first) * n_classes + label


def _by_preference(detection: Ints, target: Ints, overlap: Floats, ignored: Bools) -> NDArray[np.int64]:
    """Return the order of pairs by preference.

    It is by detection, then ordinary before ignored objects, then by overlap, then the later object first.

    Pairs are already sorted by detection. Few detections have a choice, so only their pairs are sorted.
    """
    order = np.arange(len(detection))
    same = detection[1:] == detection[:-1]
    choice = np.zeros(len(detection), dtype=bool)
    choice[1:] |= same
    choice[:-1] |= same
    some = np.flatnonzero(choice)
    keys = (-target[some], -overlap[some], ignored[target[some]], detection[some])
    order[some] = some[np.lexsort(keys)]
    return order


def _settle(detection: Ints, target: Ints, crowd: Bools) -> NDArray[np.int64]:
    """Return the final pairs, ascending. Pairs are sorted by detection (the earlier chooses first) and preference."""
    n_pairs = len(detection)
    if not n_pairs:
        return np.zeros(0, dtype=np.int64)
    nobody = n_pairs
    holder = np.full(len(crowd), nobody, dtype=np.int64)
    on_crowd: list[NDArray[np.int64]] = []
    first = np.ones(n_pairs, dtype=bool)
    first[1:] = detection[1:] != detection[:-1]
    asking = np.flatnonzero(first)
    while len(asking):
        free = crowd[target[asking]]
        if free.any():
            on_crowd.append(asking[free])
            asking = asking[~free]
        wish = target[asking]
        before = holder[wish]
        holder[wish[::-1]] = asking[::-1]  # of duplicates, the last write wins: the first proposal
        holder[wish] = np.minimum(before, holder[wish])
        after = holder[wish]
        refused = asking[after != asking]
        ousted = np.unique(before[(before != nobody) & (before != after)])
        again = np.concatenate((refused, ousted)) + 1
        again = again[again < n_pairs]
        asking = np.sort(again[~first[again]])
    return np.sort(np.concatenate((holder[holder != nobody], *on_crowd)))
