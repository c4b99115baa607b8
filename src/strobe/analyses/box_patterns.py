"""Checks of a detector's boxes before scoring: boxes that ignore the frame, a single class, a wrong unit or order."""

from collections.abc import Callable

import numpy as np

from strobe.analyses.answer_patterns import ENOUGH_VIDEOS, LITTLE, AnswerPattern
from strobe.analyses.plan import Plan
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Floats, Ints
from strobe.core.errors import printable
from strobe.core.tables import Boxes
from strobe.metrics.detection.readings import BoxSample, class_order, misread, named_objects
from strobe.metrics.detection.worst import Worst
from strobe.metrics.paired import LEVEL, sign_flip

ALIKE = 0.5
"""If boxes of other videos reach at least this mean AP, the frames are too similar to detect guesses."""


def box_pattern(
    plan: Plan, boxes: Boxes, found: BoxAnswers, worst: Worst, frame_ap: Callable[[BoxAnswers], Floats]
) -> AnswerPattern | None:
    """Check a detector's boxes on the plan's frames. `frame_ap` returns the AP of every frame for given boxes."""
    facts: dict[str, object] = {}
    read = _misread(plan, boxes, found)
    if read:
        facts["misread"] = read
    n_same = _same_boxes(plan, found)
    if n_same is not None:
        facts["same_boxes"] = n_same
    elif not read:
        facts |= _one_class(plan, boxes, found) | _against_others(plan, found, worst, frame_ap)
    return AnswerPattern(n_frames=len(plan.frames_used), of_boxes=True, **facts) if facts else None  # type: ignore[arg-type]


def _rows(plan: Plan, found: BoxAnswers) -> Ints:
    """Return the rows of the boxes that are on the plan's frames and have a class of the dataset."""
    used = np.zeros(found.n_frames, dtype=bool)
    used[plan.frames_used] = True
    return np.flatnonzero(used[found.frame] & (found.label >= 0))


def _same_boxes(plan: Plan, found: BoxAnswers) -> int | None:
    """Return the number of boxes per frame if all frames have the same boxes and classes; scores may differ."""
    rows, n = _rows(plan, found), len(plan.frames_used)
    each, rest = divmod(len(rows), n)
    if n < 2 or rest or (np.bincount(found.frame[rows], minlength=found.n_frames)[plan.frames_used] != each).any():
        return None
    if not each:
        return 0
    key = np.column_stack([found.label[rows], found.xyxy[rows]])
    key = key[np.lexsort((*key.T[::-1], found.frame[rows]))].reshape(n, each, 5)
    return each if (key == key[0]).all() else None


def _one_class(plan: Plan, boxes: Boxes, found: BoxAnswers) -> dict[str, object]:
    """Return the class of all boxes, if the objects on the same frames have several classes."""
    labels = found.label[_rows(plan, found)]
    if not len(labels):
        return {}
    n_classes = len(np.unique(boxes.label[np.isin(boxes.frame, plan.frames_used) & ~boxes.crowd]))
    if n_classes < 2 or (labels != labels[0]).any():
        return {}
    return {"constant": plan.view.info.label_space.names[int(labels[0])], "n_classes": n_classes}


def _against_others(
    plan: Plan, found: BoxAnswers, worst: Worst, frame_ap: Callable[[BoxAnswers], Floats]
) -> dict[str, object]:
    """Return AP on the anchors and AP of boxes from other videos, unless the first is significantly higher.

    Every anchor gets the boxes of an anchor in another video, scaled to the size of its own image.
    """
    anchor, own = worst.frame[:, 0], worst.ap[:, 0]
    order = np.argsort(plan.cluster, kind="stable")
    _, place, sizes = np.unique(plan.cluster, return_inverse=True, return_counts=True)
    if len(sizes) < 2 or 2 * sizes.max() > plan.n_sets:
        return {}
    partner = np.empty(plan.n_sets, dtype=np.int64)
    partner[order] = anchor[np.roll(order, -int(sizes.max()))]  # the shift leads to another video
    other = frame_ap(_moved(plan, found, anchor, partner))[anchor]
    known = ~(np.isnan(own) | np.isnan(other))
    own, other, place = own[known], other[known], place[known]
    if not known.any() or other.mean() >= ALIKE:
        return {}
    facts: dict[str, object] = {"own_ap": float(own.mean()), "other_ap": float(other.mean())}
    gap = own - other
    if gap.sum() <= 1e-9:
        return facts
    sums = np.bincount(place, weights=gap)
    signs = np.sign(np.where(np.abs(sums) < 1e-9, 0.0, sums)).astype(np.int64)
    little = gap.sum() < LITTLE * (1 - other).sum()
    if (len(sizes) < ENOUGH_VIDEOS and not little) or (p := sign_flip(signs) / 2) < LEVEL:
        return {}
    return {**facts, "p": p}


def _moved(plan: Plan, found: BoxAnswers, anchor: Ints, partner: Ints) -> BoxAnswers:
    """Return the answers in which each anchor has the boxes of its partner frame, and no other frame has boxes."""
    starts, frames = found.starts(), plan.view.frames
    target, first = np.unique(anchor, return_index=True)
    source = partner[first]
    n_boxes = starts[source + 1] - starts[source]
    rows = np.repeat(starts[source] - np.concatenate([[0], np.cumsum(n_boxes)[:-1]]), n_boxes) + np.arange(
        n_boxes.sum()
    )
    size = np.stack([frames.width, frames.height], axis=1).astype(np.float64)
    scale, known = np.ones((len(target), 2)), (size[target] > 0).all(axis=1) & (size[source] > 0).all(axis=1)
    scale[known] = size[target][known] / size[source][known]
    kept = found.label[rows] >= 0
    return BoxAnswers.of(
        np.repeat(target, n_boxes)[kept],
        found.label[rows][kept],
        (found.xyxy[rows] * np.repeat(np.tile(scale, 2), n_boxes, axis=0))[kept],
        found.score[rows][kept],
        n_frames=found.n_frames,
        n_classes=found.n_classes,
    )


def _misread(plan: Plan, boxes: Boxes, found: BoxAnswers) -> tuple[str, ...]:
    """Return why the boxes may be misread: their unit or order differs, or their classes are in another order."""
    dataset = plan.dataset
    plain, names = ~boxes.crowd, dataset.info.label_space.names
    xyxy, frame, label = boxes.xyxy[plain], boxes.frame[plain], boxes.label[plain]
    wh = np.stack([dataset.frames.width, dataset.frames.height], axis=1).astype(np.float64)
    other = misread(BoxSample.of(found.xyxy, found.frame, found.score, xyxy, frame, wh), "xyxy")
    if other is not None:
        return (
            f"its boxes fit the true objects only when {other.text} (median overlap {other.fit:.2f}, but "
            f"{other.taken:.2f} as given); correct the boxes before you use these figures",
        )
    rows, objects = named_objects(found.xyxy, found.frame, found.score, xyxy, frame)
    order = class_order(found.label[rows], found.label[rows], label[objects])
    if not (order.is_other or order.is_none):
        return ()
    calls = [f"{printable(names[said])} for {printable(names[true])}" for said, true in order.means if said != true]
    return (
        f"its boxes match {order.n} of the examined objects, but only {order.right:.0%} of these boxes have the "
        f"object's class ({', '.join(calls[:3])}); are its classes in another order, or counted from 1?",
    )
