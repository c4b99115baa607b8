"""Link a detector's boxes along a video, without labels: gaps, class changes, faint boxes and jitter of each link."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.metrics.detection.match import box_iou

WINDOW = 5
"""The number of consecutive frames over which a box is compared with a smooth path."""

_FOURTH = np.array([1.0, -4.0, 6.0, -4.0, 1.0])
_UNIT = float(np.sqrt(np.pi / 2) / np.sqrt((_FOURTH**2).sum()))
"""Turns the mean absolute fourth difference of independent normal errors into their standard deviation."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedBoxes:
    """The linked boxes (M,), ordered by link and time, and the figures of each link (L,).

    `row` is the box's row in the answers, and `step` is the place of its frame on the ordered timelines. A link starts
    and ends with a sure box. `span` counts its frames from the first to the last, and `seen` counts the frames with a
    box. `timeline` is the stretch of video, and `cut_off` marks links that touch its first or last frame.

    `gaps` counts the runs of frames without a box, and `gap_frames` counts the frames in these runs. `class_changes`
    counts the pairs of successive sure boxes with different classes. `crossings` counts how often the score crosses the
    confidence between successive boxes. `centre_jitter` and `size_jitter` are standard deviations as shares of the box
    (see `jitter`), NaN for links without five consecutive boxes.

    The events are pairs of places in `row`: `gap` (G, 2) are the boxes around a gap, `change` (C, 2) two successive
    sure boxes of different classes, and `dip` (D, 2) two successive sure boxes with faint boxes between them.
    """

    row: Ints
    link: Ints
    step: Ints
    timeline: Ints
    span: Ints
    seen: Ints
    cut_off: Bools
    gaps: Ints
    gap_frames: Ints
    class_changes: Ints
    crossings: Ints
    centre_jitter: Floats
    size_jitter: Floats
    gap: Ints
    change: Ints
    dip: Ints

    def __len__(self) -> int:
        return len(self.span)


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
    starts, rows = _usable(found, rules)
    link = np.full(len(found), -1, dtype=np.int64)
    n_links = 0
    bounds = np.flatnonzero(np.diff(timeline, prepend=-1, append=-1)) if len(timeline) else np.zeros(1, dtype=np.int64)
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        chain = _LinkChain(found, link, rules, n_links)
        for step, frame in enumerate(frames[first:end].tolist()):
            chain.extend(_without_duplicates(found, rows[starts[frame] : starts[frame + 1]], rules.duplicate), step)
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
        a, b = best_pairs(_overlaps(xyxy[self._last[links]], xyxy[rows[boxes]]), least=self._rules.iou)
        old, new = links[a], boxes[b]
        self._link[rows[new]] = self._link[self._last[old]]
        self._last[old], self._at[old] = rows[new], step
        free[new], waiting[old] = False, False


def _usable(found: BoxAnswers, rules: LinkRules) -> tuple[Ints, Ints]:
    """Return the rows of usable boxes by frame, score, label and place, and the start of each frame among them.

    The order includes the coordinates, so that it never depends on the order in which a detector lists its boxes.
    """
    size = found.xyxy[:, 2:] - found.xyxy[:, :2]
    kept = np.flatnonzero((found.score >= rules.faint) & (size > 0).all(axis=1))
    order = np.lexsort((*found.xyxy[kept].T, found.label[kept], -found.score[kept], found.frame[kept]))
    rows = kept[order]
    return np.searchsorted(found.frame[rows], np.arange(found.n_frames + 1)), rows


def _overlaps(a: Floats, b: Floats) -> Floats:
    """Return the IoU of each box of `a` (N, 4) with each box of `b` (M, 4), (N, M)."""
    return box_iou(np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))).reshape(len(a), len(b))


def _without_duplicates(found: BoxAnswers, rows: Ints, limit: float) -> Ints:
    """Return the rows without those that overlap a row of another class with a higher score."""
    if len(rows) < 2:
        return rows
    label = found.label[rows]
    clash = (label[:, None] != label) & (_overlaps(found.xyxy[rows], found.xyxy[rows]) >= limit)
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


def follow(found: BoxAnswers, link: Ints, frames: Ints, timeline: Ints, *, confidence: float) -> LinkedBoxes:
    """Return the figures of every link; `link` (B,) comes from `link_boxes` with the same frames and timelines.

    >>> boxes = np.array([[0.0, 0, 9, 9], [1.0, 0, 10, 9], [3.0, 0, 12, 9]])
    >>> found = BoxAnswers.of(np.array([0, 1, 3]), np.array([0, 1, 1]), boxes, np.full(3, 0.9), n_frames=4, n_classes=2)
    >>> frames, line = np.arange(4), np.zeros(4, dtype=int)
    >>> links = follow(found, link_boxes(found, frames, line), frames, line, confidence=0.5)
    >>> links.span.tolist(), links.gaps.tolist(), links.class_changes.tolist()
    ([4], [1], [1])
    """
    expect(link.shape == found.frame.shape, "link", "one per box", link.shape)
    place = np.full(found.n_frames, -1, dtype=np.int64)
    place[frames] = np.arange(len(frames))
    rows = np.flatnonzero(link >= 0)
    order = np.lexsort((place[found.frame[rows]], link[rows]))
    row = rows[order]
    names, owner = np.unique(link[row], return_inverse=True)
    step, n = place[found.frame[row]], len(names)
    start = np.searchsorted(owner, np.arange(n))
    end = np.searchsorted(owner, np.arange(n), side="right") - 1
    line = timeline[step[start]]
    edges = np.flatnonzero(np.diff(timeline, prepend=-1, append=-1)) if len(timeline) else np.zeros(1, dtype=np.int64)
    which = np.searchsorted(edges, step[start], side="right") - 1
    before = np.flatnonzero(owner[1:] == owner[:-1])
    jump = step[before + 1] - step[before] - 1
    gap = np.stack([before, before + 1], axis=1)[jump > 0]
    sure = np.flatnonzero(found.score[row] >= confidence)
    successive = np.stack([sure[:-1], sure[1:]], axis=1)[owner[sure[1:]] == owner[sure[:-1]]]
    label = found.label[row]
    change = successive[label[successive[:, 0]] != label[successive[:, 1]]]
    dip = successive[successive[:, 1] > successive[:, 0] + 1]
    centre, size = jitter(found.xyxy[row], owner, step, n_links=n)
    return LinkedBoxes(
        row=row,
        link=owner,
        step=step,
        timeline=line,
        span=step[end] - step[start] + 1,
        seen=end - start + 1,
        cut_off=(step[start] == edges[which]) | (step[end] == edges[which + 1] - 1),
        gaps=_count(owner[gap[:, 0]], n),
        gap_frames=np.bincount(owner[before], weights=jump, minlength=n).astype(np.int64),
        class_changes=_count(owner[change[:, 0]], n),
        crossings=2 * _count(owner[dip[:, 0]], n),  # a link starts and ends above the confidence
        centre_jitter=centre,
        size_jitter=size,
        gap=gap,
        change=change,
        dip=dip,
    )


def _count(owner: Ints, n: int) -> NDArray[np.int64]:
    return np.bincount(owner, minlength=n).astype(np.int64)


def jitter(xyxy: Floats, link: Ints, step: Ints, *, n_links: int) -> tuple[Floats, Floats]:
    """Return the jitter of centre and of size of each link, both (L,), as shares of the box; NaN if unknown.

    The boxes (M, 4) are ordered by `link` and `step`. On every five consecutive frames of a link, the fourth difference
    v₁ − 4v₂ + 6v₃ − 4v₄ + v₅ is computed for x and y of the centre and for width and height. It is divided by the mean
    width (for x) or height (for y) of the five boxes. Up to a factor, it is the distance of the third box from the
    cubic that fits all five best. So a box on a path with steady speed, acceleration or change of acceleration has no
    jitter, and a swing with a period of 30 frames leaves 0.02 % of its amplitude.

    The jitter is the mean absolute value over both axes and all windows, scaled such that independent normal errors
    with a standard deviation s have the expected jitter s, however short the link is. Boxes rounded to whole pixels
    have a jitter of about 0.2 pixels in the centre and 0.4 in the size. A shaking camera also counts as jitter.

    >>> time = np.arange(8.0)
    >>> smooth = np.stack([time**2, 3 * time, time**2 + 20 + time, 3 * time + 10], axis=1)
    >>> one = np.zeros(8, dtype=int)
    >>> [round(float(part[0]), 9) for part in jitter(smooth, one, np.arange(8), n_links=1)]
    [0.0, 0.0]
    """
    expect(len(xyxy) == len(link) == len(step), "link", "one per box", len(link))
    first = np.arange(max(len(link) - WINDOW + 1, 0))
    first = first[(link[first] == link[first + WINDOW - 1]) & (step[first + WINDOW - 1] - step[first] == WINDOW - 1)]
    window = first[:, None] + np.arange(WINDOW)
    size = xyxy[:, 2:] - xyxy[:, :2]
    typical = size[window].mean(axis=1)
    count = np.bincount(link[first], minlength=n_links)
    parts = []
    for values in ((xyxy[:, 2:] + xyxy[:, :2]) / 2, size):
        bend = np.abs(np.einsum("wta,t->wa", values[window], _FOURTH)) / typical
        total = np.bincount(link[first], weights=_UNIT * bend.mean(axis=1), minlength=n_links)
        parts.append(np.divide(total, count, out=np.full(n_links, np.nan), where=count > 0))
    return parts[0], parts[1]
