"""The lives of a detector's objects along a video, without labels: when an object has no box, and how its box trembles.

An object lives from its first box to a cut, to the picture's border if its track leads out, or to the recording's end.
Nothing else ends a life, so an object that is lost for good has no box for the rest of the recording.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.metrics.detection.match import box_iou

WINDOW = 5
"""The number of consecutive frames over which a box is compared with a smooth path."""

PACE = 0.5
"""The seconds over which the speed of a box is measured."""

USUAL_FPS = 30.0
"""The frames per second with which gaps are judged if a video has neither times nor a frame rate."""

_FOURTH = np.array([1.0, -4.0, 6.0, -4.0, 1.0])
_UNIT = float(np.sqrt(np.pi / 2) / np.sqrt((_FOURTH**2).sum()))
"""Turns the mean absolute fourth difference of independent normal errors into their standard deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeRules:
    """How boxes are joined to objects. Times are in seconds.

    A box is *sure* if its score is at least `confidence`, and *faint* if it is lower but at least `faint`. A faint box
    helps to follow an object, but the object counts as without a box. Two boxes can be joined if their IoU is at least
    `iou`. A gap of at most `short` is short: after a longer one, no other object's box may stand where a box is joined.
    A track leads out if the box reaches the border within `leaving` at its speed. The border is a margin of the
    picture, `border` of its width and height. Of two boxes of different classes with an IoU of at least `duplicate`,
    the one with the lower score is ignored: both describe one object.
    """

    confidence: float = 0.5
    faint: float = 0.25
    iou: float = 0.3
    short: float = 0.2
    leaving: float = 2.0
    border: float = 0.02
    duplicate: float = 0.8

    def __post_init__(self) -> None:
        expect(0 < self.iou <= 1, "iou", "an overlap in (0, 1]", self.iou)
        expect(0 < self.duplicate <= 1, "duplicate", "an overlap in (0, 1]", self.duplicate)
        expect(self.short >= 0, "short", "seconds, at least 0", self.short)
        expect(self.leaving >= 0, "leaving", "seconds, at least 0", self.leaving)
        expect(0 <= self.border < 0.5, "border", "a share of the picture below 0.5", self.border)
        expect(self.faint <= self.confidence, "faint", f"at most the confidence, {self.confidence:g}", self.faint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footage:
    """The frames (N,) on which objects live, in the order of time, as rows of the frame table.

    A life ends with its `timeline`, at a cut for example. `clock` has the seconds since any moment before the timeline,
    `lasting` the seconds until the next frame, and `size` (N, 2) the width and height of the picture, 0 if unknown.
    """

    frames: Ints
    timeline: Ints
    clock: Floats
    lasting: Floats
    size: Ints

    def __post_init__(self) -> None:
        n = len(self.frames)
        lengths = {len(self.timeline), len(self.clock), len(self.lasting), len(self.size)}
        expect(lengths == {n}, "Footage", f"columns of one length ({n})", lengths)

    @property
    def edges(self) -> Ints:
        """The first place of each timeline, and N."""
        return np.flatnonzero(np.diff(self.timeline, prepend=-1, append=-1)) if len(self.frames) else np.zeros(1, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """The lives of objects, (L,), and their boxes, (M,), ordered by object and time.

    `row` is the box's row in the answers, `life` its object, and `step` the place of its frame in the footage. A life
    has the frames from `start` to before `end`. It has `left` if its track leads out of the picture. It has `vanished`
    if it has no box on the last frames before a cut or the end, and `appeared` if its first box is neither on the first
    frame nor leads in from the border.

    An outage (K,) is a run of frames without a sure box within a life, from `first` to before `until`. `change` (C, 2)
    are places in `row`: two successive sure boxes of different classes. `known` (N,) are the frames with an answer;
    other frames are no part of any life or outage, and lives pass over them.
    """

    row: Ints
    life: Ints
    step: Ints
    start: Ints
    end: Ints
    left: Bools
    vanished: Bools
    appeared: Bools
    outage_life: Ints
    first: Ints
    until: Ints
    change: Ints
    known: Bools

    def __len__(self) -> int:
        return len(self.start)

    def alive(self) -> Ints:
        """Return the number of objects that live on each frame, (N,)."""
        return self._on(self.start, self.end)

    def absent(self) -> Ints:
        """Return the number of living objects without a box on each frame, (N,)."""
        return self._on(self.first, self.until)

    def _on(self, first: Ints, until: Ints) -> Ints:
        n = len(self.known)
        change = np.bincount(first, minlength=n + 1) - np.bincount(until, minlength=n + 1)
        return np.where(self.known, np.cumsum(change)[:n], 0)

    def within(self, amount: Floats, first: Ints, until: Ints) -> Floats:
        """Return the sum of an amount (N,) over the known frames from `first` to before `until`."""
        total = np.append(0.0, np.cumsum(np.where(self.known, amount, 0.0)))
        return np.asarray(total[until] - total[first])

    def longest(self, lasting: Floats) -> Floats:
        """Return the seconds of the longest outage of each life, (L,); 0 without an outage."""
        out = np.zeros(len(self))
        np.maximum.at(out, self.outage_life, self.within(lasting, self.first, self.until))
        return out


def follow(found: BoxAnswers, footage: Footage, *, rules: LifeRules | None = None) -> Lives:
    """Return the lives of a detector's objects.

    On every frame, objects and boxes are paired one to one such that the total overlap is largest (Hungarian
    assignment), whatever their classes. A box overlaps an object where its last box stood, or where it was heading.
    Objects with a box on the previous frame are paired first, then those after a short gap, then all others. Sure
    boxes are paired before faint boxes, and only sure boxes begin a life. Boxes without an area are ignored.

    >>> boxes = np.array([[30.0, 9, 39, 29], [30.0, 9, 39, 29], [80.0, 40, 90, 49]])
    >>> found = BoxAnswers.of(np.array([0, 3, 3]), np.zeros(3, dtype=int), boxes, np.full(3, 0.9),
    ...     n_frames=4, n_classes=1)
    >>> seconds = np.arange(4) / 10
    >>> lives = follow(found, Footage(frames=np.arange(4), timeline=np.zeros(4, dtype=int), clock=seconds,
    ...     lasting=np.full(4, 0.1), size=np.full((4, 2), 200)))
    >>> lives.end - lives.start, lives.until - lives.first, lives.appeared
    (array([4, 1]), array([2]), array([False,  True]))
    """
    rules = rules or LifeRules()
    life, pace = join_boxes(found, footage, rules)
    return _lives(found, footage, rules, life, pace, np.asarray(found.scored[footage.frames]))


def join_boxes(found: BoxAnswers, footage: Footage, rules: LifeRules) -> tuple[Ints, Floats]:
    """Return the object of each box (B,), −1 for none, and its pace (B, 4); those of a frame depend on no later one."""
    starts, rows = _usable_boxes(found, rules.faint)
    known = np.asarray(found.scored[footage.frames])
    life, pace = np.full(len(found), -1, dtype=np.int64), np.zeros((len(found), 4))
    n_lives, edges = 0, footage.edges
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        chain = _Chain(found, footage, rules, life, pace, n_lives)
        for step in (first + np.flatnonzero(known[first:end])).tolist():
            frame = int(footage.frames[step])
            chain.extend(_without_duplicates(found, rows[starts[frame] : starts[frame + 1]], rules.duplicate), step)
        n_lives = chain.n_lives
    return life, pace


class _Chain:
    """The objects of one timeline that a box can still join.

    For each object: its life, its last box, the step of that box, an earlier box from which its speed is measured, and
    the moment at which its track leads out.
    """

    def __init__(
        self, found: BoxAnswers, footage: Footage, rules: LifeRules, life: Ints, pace: Floats, n_lives: int
    ) -> None:
        self._found, self._footage, self._rules = found, footage, rules
        self._life, self._pace, self.n_lives = life, pace, n_lives
        self._after = np.full(len(found), -1, dtype=np.int64)
        self._when = np.zeros(len(found))
        none = np.zeros(0, dtype=np.int64)
        self._last, self._at, self._from, self._out = none, none, none, np.zeros(0)
        self._previous = -1

    def extend(self, rows: Ints, step: int) -> None:
        """Join the boxes of the next frame to objects, and begin new lives."""
        rules, now = self._rules, float(self._footage.clock[step])
        gap = now - self._footage.clock[self._at]
        joinable = (now < self._out) | (gap <= rules.short) | (self._at == self._previous)
        self._last, self._at, self._from, self._out, gap = (
            part[joinable] for part in (self._last, self._at, self._from, self._out, gap)
        )
        self._when[rows] = now
        sure = self._found.score[rows] >= rules.confidence
        free, waiting = np.ones(len(rows), dtype=bool), np.ones(len(self._last), dtype=bool)
        fresh, short = self._at == self._previous, gap <= rules.short
        for objects, is_long in ((fresh, False), (~fresh & short, False), (~fresh & ~short, True)):
            for boxes in (sure, ~sure):
                self._join(
                    np.flatnonzero(objects & waiting),
                    rows,
                    np.flatnonzero(boxes & free),
                    step,
                    free,
                    waiting,
                    is_long=is_long,
                )
        born = rows[sure & free]
        self._life[born] = self.n_lives + np.arange(len(born))
        self.n_lives += len(born)
        self._last, self._from = np.append(self._last, born), np.append(self._from, born)
        self._at = np.append(self._at, np.full(len(born), step))
        self._out = np.append(self._out, np.full(len(born), np.inf))
        moved = np.flatnonzero(self._at == step)
        self._out[moved] = now + _until_out(
            self._found.xyxy[self._last[moved]], self._pace[self._last[moved]], self._footage.size[step], rules
        )
        self._previous = step

    def _join(
        self, objects: Ints, rows: Ints, boxes: Ints, step: int, free: Bools, waiting: Bools, *, is_long: bool
    ) -> None:
        if not len(objects) or not len(boxes):
            return
        xyxy, last, new = self._found.xyxy, self._last[objects], rows[boxes]
        ahead = (float(self._footage.clock[step]) - self._footage.clock[self._at[objects]])[:, None]
        drift = (self._pace[last][:, :2] + self._pace[last][:, 2:]) / 2 * ahead
        overlaps = []
        for places in (xyxy[last], xyxy[last] + np.tile(drift, 2)):
            overlap = _box_overlaps(places, xyxy[new])
            if is_long and not free.all():
                overlap[overlap <= _box_overlaps(places, xyxy[rows[~free]]).max(axis=1)[:, None]] = 0.0
            overlaps.append(overlap)
        allowed = np.maximum(*overlaps) >= self._rules.iou
        a, b = best_pairs(overlaps[0] + overlaps[1], allowed)
        old, row = objects[a], new[b]
        self._life[row] = self._life[self._last[old]]
        self._after[self._last[old]] = row
        for _ in range(2):  # the box from which speed is measured moves on by one box a frame, and catches up
            later = self._after[self._from[old]]
            far = self._when[row] - self._when[later] >= PACE - 1e-9
            self._from[old] = np.where(far, later, self._from[old])
        since = self._when[row] - self._when[self._from[old]]
        self._pace[row] = (xyxy[row] - xyxy[self._from[old]]) / np.maximum(since, 1e-9)[:, None]
        self._last[old], self._at[old] = row, step
        free[boxes[b]], waiting[old] = False, False


def _usable_boxes(found: BoxAnswers, faint: float) -> tuple[Ints, Ints]:
    """Return the start of each frame among the usable boxes, and their rows, by frame, score, label and place.

    The order includes the coordinates, so that it never depends on the order in which a detector lists its boxes.
    """
    size = found.xyxy[:, 2:] - found.xyxy[:, :2]
    kept = np.flatnonzero((found.score >= faint) & (size > 0).all(axis=1))
    order = np.lexsort((*found.xyxy[kept].T, found.label[kept], -found.score[kept], found.frame[kept]))
    rows = kept[order]
    return np.searchsorted(found.frame[rows], np.arange(found.n_frames + 1)), rows


def _box_overlaps(a: Floats, b: Floats) -> Floats:
    """Return the IoU of each box of `a` (N, 4) with each box of `b` (M, 4), (N, M)."""
    return box_iou(np.repeat(a, len(b), axis=0), np.tile(b, (len(a), 1))).reshape(len(a), len(b))


def _without_duplicates(found: BoxAnswers, rows: Ints, limit: float) -> Ints:
    """Return the rows without those that overlap a row of another class with a higher score."""
    if len(rows) < 2:
        return rows
    label = found.label[rows]
    clash = (label[:, None] != label) & (_box_overlaps(found.xyxy[rows], found.xyxy[rows]) >= limit)
    if not clash.any():
        return rows
    kept = np.ones(len(rows), dtype=bool)
    for place in range(len(rows)):
        if kept[place]:
            kept[place + 1 :] &= ~clash[place, place + 1 :]
    return rows[kept]


def best_pairs(weight: Floats, allowed: Bools) -> tuple[Ints, Ints]:
    """Return the rows and columns of the allowed one-to-one pairs with the largest total weight; weights are positive.

    >>> best_pairs(np.array([[0.9, 0.8], [0.7, 0.1]]), np.array([[True, True], [True, False]]))
    (array([0, 1]), array([1, 0]))
    """
    if allowed.sum(axis=0).max(initial=0) <= 1 and allowed.sum(axis=1).max(initial=0) <= 1:
        one, other = np.nonzero(allowed)  # each has at most one possible partner
    else:
        from scipy.optimize import linear_sum_assignment  # it imports 250 modules, and most runs have no detector

        one, other = linear_sum_assignment(np.where(allowed, weight, 0.0), maximize=True)
        kept = allowed[one, other]
        one, other = one[kept], other[kept]
    return one, other


def _until_out(xyxy: Floats, pace: Floats, size: Ints, rules: LifeRules) -> Floats:
    """Return the seconds until each box (N, 4) is out of the picture at its pace, (N,); infinite if it stays.

    A box is out when its inner edge is within the border. The pace is that of this edge, because the outer one stands
    still at the border.
    """
    room = _room(xyxy, size, rules)
    speed = np.stack([-pace[:, 2], -pace[:, 3], pace[:, 0], pace[:, 1]], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        after = np.where(speed > 0, room / speed, np.inf)
    after = np.where(after <= rules.leaving, after, np.inf)
    return np.asarray(np.where(room <= 0, 0.0, after).min(axis=1))


def _room(xyxy: Floats, size: Ints, rules: LifeRules) -> Floats:
    """Return the distance from each box's inner edge to the left, upper, right and lower border, (N, 4)."""
    extent = np.where(np.asarray(size) > 0, size, np.inf).astype(np.float64)
    margin = np.where(np.isfinite(extent), rules.border * extent, -np.inf)
    return np.concatenate([xyxy[:, 2:] - margin, extent - np.maximum(margin, 0) - xyxy[:, :2]], axis=1)


def _lives(found: BoxAnswers, footage: Footage, rules: LifeRules, life: Ints, pace: Floats, known: Bools) -> Lives:
    """Return the lives of boxes whose life is known, with their ends and outages."""
    place = np.full(found.n_frames, -1, dtype=np.int64)
    place[footage.frames] = np.arange(len(footage.frames))
    rows = np.flatnonzero(life >= 0)
    row = rows[np.lexsort((place[found.frame[rows]], life[rows]))]
    owner, step, sure = life[row], place[found.frame[row]], found.score[row] >= rules.confidence
    n = int(owner.max(initial=-1)) + 1
    edges, kept = footage.edges, np.ones(len(row), dtype=bool)
    end, left, vanished, appeared = np.zeros(n, dtype=np.int64), *np.zeros((3, n), dtype=bool)
    bounds = np.searchsorted(owner, np.arange(n + 1))
    gaps: list[tuple[int, int, int]] = []
    for index, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        own, steps = row[low:high], step[low:high]
        line = int(np.searchsorted(edges, steps[0], side="right"))
        first, last = int(edges[line - 1]), int(edges[line])
        end[index] = _end(found, footage, rules, pace, own, steps, last)
        left[index] = end[index] < last
        kept[low:high] = steps < end[index]
        seen = steps[sure[low:high] & kept[low:high]]
        until = np.append(seen[1:], end[index])
        long = until > seen + 1
        gaps += [(index, a, b) for a, b in zip((seen[long] + 1).tolist(), until[long].tolist(), strict=True)]
        vanished[index] = not left[index] and bool(known[seen[-1] + 1 : last].any())
        appeared[index] = bool(known[first : steps[0]].any()) and not _led_in(found, footage, rules, own, steps)
    outage = np.array(gaps, dtype=np.int64).reshape(-1, 3)
    missed = np.append(0, np.cumsum(known))
    outage = outage[missed[outage[:, 2]] > missed[outage[:, 1]]]
    row, owner, step, sure = row[kept], owner[kept], step[kept], sure[kept]
    at = np.flatnonzero(sure)
    successive = np.stack([at[:-1], at[1:]], axis=1)[owner[at[1:]] == owner[at[:-1]]]
    label = found.label[row]
    return Lives(
        row=row,
        life=owner,
        step=step,
        start=step[np.searchsorted(owner, np.arange(n))],
        end=end,
        left=left,
        vanished=vanished,
        appeared=appeared,
        outage_life=outage[:, 0],
        first=outage[:, 1],
        until=outage[:, 2],
        change=successive[label[successive[:, 0]] != label[successive[:, 1]]],
        known=known,
    )


def _end(found: BoxAnswers, footage: Footage, rules: LifeRules, pace: Floats, own: Ints, steps: Ints, last: int) -> int:
    """Return the step before which a life ends: that on which its box is out of the picture, or the timeline's end."""
    out = (_room(found.xyxy[own], footage.size[steps[0]], rules) <= 0).any(axis=1)
    inside = np.flatnonzero(~out)
    if not len(inside):
        return int(steps[-1]) + 1
    base = int(inside[-1])
    until = _until_out(found.xyxy[own[base : base + 1]], pace[own[base : base + 1]], footage.size[steps[0]], rules)[0]
    clock = footage.clock[steps[base] + 1 : last]
    end = int(steps[base]) + 1 + int(np.searchsorted(clock, footage.clock[steps[base]] + until - 1e-9))
    return min(end, int(steps[base + 1])) if base + 1 < len(own) else end


def _led_in(found: BoxAnswers, footage: Footage, rules: LifeRules, own: Ints, steps: Ints) -> bool:
    """Return whether an object came in over the border: its first box touches it, or its track leads back to it."""
    box, size = found.xyxy[own[:1]], footage.size[steps[0]]
    turned = np.concatenate([box[:, 2:], box[:, :2]], axis=1)  # the outer edges
    if (_room(turned, size, rules) <= 0).any():
        return True
    since = footage.clock[steps] - footage.clock[steps[0]]
    later = int(np.searchsorted(since, PACE, side="right")) - 1
    back = (found.xyxy[own[0]] - found.xyxy[own[later]])[None] / max(float(since[later]), 1e-9)
    return bool(np.isfinite(_until_out(box, back, size, rules)[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """How far boxes are from the smooth path of their object, on every five consecutive frames of a life, (W,).

    `place` is the place of the third box in `Lives.row`. Centre and size are in pixels, and as shares of the box.
    """

    place: Ints
    centre: Floats
    size: Floats
    centre_pixels: Floats
    size_pixels: Floats


def jitter(xyxy: Floats, life: Ints, step: Ints) -> Jitter:
    """Return the jitter of boxes (M, 4), ordered by `life` and `step`.

    On every five consecutive frames of a life, the fourth difference v₁ − 4v₂ + 6v₃ − 4v₄ + v₅ is computed for x and y
    of the centre and for width and height. Up to a factor, it is the distance of the third box from the cubic that fits
    all five best. So a box on a path with steady speed, acceleration or change of acceleration has no jitter, and a
    swing with a period of 30 frames leaves 0.02 % of its amplitude. For shares, it is divided by the mean width (for x)
    or height (for y) of the five boxes.

    The jitter is the mean absolute value over both axes, scaled such that independent normal errors with a standard
    deviation s have the expected jitter s. Boxes rounded to whole pixels have a jitter of about 0.2 pixels in the
    centre and 0.4 in the size. A shaking camera also counts as jitter.

    >>> time = np.arange(8.0)
    >>> smooth = np.stack([time**2, 3 * time, time**2 + 20 + time, 3 * time + 10], axis=1)
    >>> jitter(smooth, np.zeros(8, dtype=int), np.arange(8)).centre.round(9).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    expect(len(xyxy) == len(life) == len(step), "life", "one per box", len(life))
    first = np.arange(max(len(life) - WINDOW + 1, 0))
    first = first[(life[first] == life[first + WINDOW - 1]) & (step[first + WINDOW - 1] - step[first] == WINDOW - 1)]
    window = first[:, None] + np.arange(WINDOW)
    size = xyxy[:, 2:] - xyxy[:, :2]
    typical = size[window].mean(axis=1)
    bends = [
        _UNIT * np.abs(np.einsum("wta,t->wa", values[window], _FOURTH))
        for values in ((xyxy[:, 2:] + xyxy[:, :2]) / 2, size)
    ]
    shares: list[NDArray[np.float64]] = [(bend / typical).mean(axis=1) for bend in bends]
    pixels = [bend.mean(axis=1) for bend in bends]
    return Jitter(
        place=first + WINDOW // 2,
        centre=shares[0],
        size=shares[1],
        centre_pixels=pixels[0],
        size_pixels=pixels[1],
    )
