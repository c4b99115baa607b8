"""Link a detector's boxes along a video, without labels."""

from dataclasses import dataclass

import numpy as np

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.metrics.detection.match import box_iou


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRules:
    """How boxes are linked from frame to frame.

    A box is *sure* if its score is at least `confidence`, and *faint* if it is lower but at least `faint`. Sure boxes
    start and continue links; faint boxes only continue them. Two boxes can be linked if their IoU is at least `iou`.
    A link may have up to `max_gap` frames in a row without a box. Of two boxes of different classes with an IoU of at
    least `duplicate`, the one with the lower score is ignored: both describe one object.
    """

    confidence: float = 0.5
    faint: float = 0.25
    iou: float = 0.3
    max_gap: int = 5
    duplicate: float = 0.8

    def __post_init__(self) -> None:
        expect(0 < self.iou <= 1, "iou", "an overlap in (0, 1]", self.iou)
        expect(0 < self.duplicate <= 1, "duplicate", "an overlap in (0, 1]", self.duplicate)
        expect(self.max_gap >= 0, "max_gap", ">= 0", self.max_gap)
        expect(self.faint <= self.confidence, "faint", f"at most the confidence, {self.confidence:g}", self.faint)


def best_pairs(overlap: Floats, *, least: float) -> tuple[Ints, Ints]:
    """Return the rows and columns of the one-to-one pairs with the largest total overlap, each at least `least`.

    >>> best_pairs(np.array([[0.9, 0.8], [0.7, 0.1]]), least=0.3)
    (array([0, 1]), array([1, 0]))
    """
    allowed = overlap >= least
    if allowed.sum(axis=0).max(initial=0) <= 1 and allowed.sum(axis=1).max(initial=0) <= 1:
        one, other = np.nonzero(allowed)  # each has at most one possible partner
    else:
        from scipy.optimize import linear_sum_assignment  # it imports 250 modules, and most runs have no detector

        one, other = linear_sum_assignment(np.where(allowed, overlap, 0.0), maximize=True)
        kept = allowed[one, other]
        one, other = one[kept], other[kept]
    return one, other


def link_boxes(
    found: BoxAnswers, frames: Ints, timeline: Ints, *, rules: LinkRules | None = None, trimmed: bool = True
) -> Ints:
    """Return the number of each box's link, (B,); −1 for boxes in no link.

    `frames` (N,) are rows of frames ordered by time within each `timeline` (N,); see metrics.flicker.timelines. Boxes
    of other frames are not linked. On every frame, links and boxes are paired one to one such that the total IoU of
    the link's last box and the new box is largest (Hungarian assignment), whatever their classes. Links with a box on
    the previous frame are paired first, and sure boxes are paired before faint boxes. Links in a gap are then paired
    with the boxes that are left.

    Faint boxes after the last sure box of a link are not part of it, unless `trimmed` is False: the links of a frame
    then depend on no later frame. Boxes without an area are ignored.

    >>> boxes = np.array([[0.0, 0, 9, 9], [1.0, 0, 10, 9], [3.0, 0, 12, 9], [80.0, 0, 90, 9]])
    >>> found = BoxAnswers.of(np.array([0, 1, 3, 3]), np.zeros(4, dtype=int), boxes, np.full(4, 0.9),
    ...     n_frames=4, n_classes=1)
    >>> link_boxes(found, np.arange(4), np.zeros(4, dtype=int)).tolist()
    [0, 0, 0, 1]
    """
    rules = rules or LinkRules()
    expect(frames.shape == timeline.shape and frames.ndim == 1, "frames", "one per timeline entry", frames.shape)
    starts, rows = usable_boxes(found, rules.faint)
    link = np.full(len(found), -1, dtype=np.int64)
    n_links = 0
    bounds = np.flatnonzero(np.diff(timeline, prepend=-1, append=-1)) if len(timeline) else np.zeros(1, dtype=np.int64)
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        chain = _LinkChain(found, link, rules, n_links)
        for step, frame in enumerate(frames[first:end].tolist()):
            chain.extend(without_duplicates(found, rows[starts[frame] : starts[frame + 1]], rules.duplicate), step)
        n_links = chain.n_links
    return _trimmed(found, link, frames, rules.confidence) if trimmed else link


class _LinkChain:
    """The open links of one timeline: the last box of each, and the step on which it was seen."""

    def __init__(self, answers: BoxAnswers, link: Ints, rules: LinkRules, n_links: int) -> None:
        self._answers, self._link, self._rules, self.n_links = answers, link, rules, n_links
        self._last, self._at = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def extend(self, rows: Ints, step: int) -> None:
        """Continue links with the boxes of the next frame, and start new ones."""
        alive = step - self._at <= self._rules.max_gap + 1
        self._last, self._at = self._last[alive], self._at[alive]
        fresh, sure = self._at == step - 1, self._answers.score[rows] >= self._rules.confidence
        free, waiting = np.ones(len(rows), dtype=bool), np.ones(len(self._last), dtype=bool)
        for links in (fresh, ~fresh):
            for boxes in (sure, ~sure):
                self._assign(np.flatnonzero(links & waiting), rows, np.flatnonzero(boxes & free), step, free, waiting)
        born = rows[sure & free]
        self._link[born] = self.n_links + np.arange(len(born))
        self.n_links += len(born)
        self._last = np.concatenate([self._last, born])
        self._at = np.concatenate([self._at, np.full(len(born), step)])

    def _assign(self, links: Ints, rows: Ints, boxes: Ints, step: int, free: Bools, waiting: Bools) -> None:
        if not len(links) or not len(boxes):
            return
        xyxy = self._answers.xyxy
        a, b = best_pairs(box_overlaps(xyxy[self._last[links]], xyxy[rows[boxes]]), least=self._rules.iou)
        old, new = links[a], boxes[b]
        self._link[rows[new]] = self._link[self._last[old]]
        self._last[old], self._at[old] = rows[new], step
        free[new], waiting[old] = False, False


def usable_boxes(found: BoxAnswers, faint: float) -> tuple[Ints, Ints]:
    """Return the start of each frame among the usable boxes, and their rows, by frame, score, label and place.

    The order includes the coordinates, so that it never depends on the order in which a detector lists its boxes.
    """
    size = found.xyxy[:, 2:] - found.xyxy[:, :2]
    kept = np.flatnonzero((found.score >= faint) & (size > 0).all(axis=1))
    order = np.lexsort((*found.xyxy[kept].T, found.label[kept], -found.score[kept], found.frame[kept]))
    rows = kept[order]
    return np.searchsorted(found.frame[rows], np.arange(found.n_frames + 1)), rows


def box_overlaps(a: Floats, b: Floats) -> Floats:
    """Return the IoU of each box of `a` (N, 4) with each box of `b` (M, 4), (N, M)."""
    return box_iou(np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))).reshape(len(a), len(b))


def without_duplicates(found: BoxAnswers, rows: Ints, limit: float) -> Ints:
    """Return the rows without those that overlap a row of another class with a higher score."""
    if len(rows) < 2:
        return rows
    label = found.label[rows]
    clash = (label[:, None] != label) & (box_overlaps(found.xyxy[rows], found.xyxy[rows]) >= limit)
    if not clash.any():
        return rows
    kept = np.ones(len(rows), dtype=bool)
    for place in range(len(rows)):
        if kept[place]:
            kept[place + 1 :] &= ~clash[place, place + 1 :]
    return rows[kept]


def _trimmed(found: BoxAnswers, link: Ints, frames: Ints, confidence: float) -> Ints:
    """Return the links without the faint boxes after their last sure box."""
    place = np.full(found.n_frames, -1, dtype=np.int64)
    place[frames] = np.arange(len(frames))
    step = place[found.frame]
    sure = (link >= 0) & (found.score >= confidence)
    last = np.full(int(link.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(last, link[sure], step[sure])
    part = link >= 0
    part[part] = step[part] <= last[link[part]]
    return np.where(part, link, -1)
