"""Remedies for flicker along timelines of answers, and what they cost: delay, and real changes that they hide.

A timeline is a stretch of frames; see metrics.flicker.timelines. All arrays are (N,), a row per answered frame, ordered
by timeline and by its `place` there; a place without a row is a gap. An answer is a whole number; −1 is an answer
outside the classes.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strobe.core.arrays import Bools, Floats, Ints, blocks
from strobe.core.errors import ModelFailed, expect, printable
from strobe.metrics.flicker import spells

_UNIT = 2.0**48
"""Averages are compared in multiples of 2^−48, so that sums are exact and equal windows tie in any order."""
_BLOCK = 512
CLOSE = 1e-6
"""Seconds by which times may be inexact."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of remedy: the unit and the range of its value, and the answers that it takes.

    A kind that `looks` changes what the model sees, and needs forward passes of its own.
    """

    unit: str
    least: float
    most: float
    classes: bool = True
    boxes: bool = False
    looks: bool = False


KINDS: Mapping[str, Kind] = {
    "hold": Kind("seconds", 0, 10, boxes=True),
    "confirm": Kind("frames", 1, 1000, boxes=True),
    "hysteresis": Kind("share", 0, 1, boxes=True),
    "mode": Kind("answers", 1, 1000, boxes=True),
    "mean": Kind("answers", 1, 1000, boxes=True),
    "ema": Kind("share", 0.001, 1, boxes=True),
    "mode-around": Kind("frames", 0, 500),
    "mean-around": Kind("frames", 0, 500),
    "fill": Kind("seconds", 0, 10, classes=False, boxes=True),
    "crops": Kind("crops", 2, 32, looks=True),
    "choice": Kind("share", 0.5, 0.99, looks=True),
}
"""Every kind of remedy by name."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy: its kind and value, as in a model string.

    >>> Remedy.of("hold=0.27").text, Remedy.of("hold=0.27").kind
    ('hold=0.27', 'hold')
    """

    kind: str
    value: float

    def __post_init__(self) -> None:
        rule = KINDS[self.kind]
        is_whole = rule.unit in ("frames", "answers", "crops")
        if not rule.least <= self.value <= rule.most or (is_whole and self.value != int(self.value)):
            number = "a whole number" if is_whole else "a number"
            limits = f"from {rule.least:g} to {rule.most:g}"
            raise ModelFailed(f"{self.kind}: expected {number} of {rule.unit} {limits}, got {self.value:g}")

    @classmethod
    def of(cls, text: str) -> "Remedy":
        """Parse KIND=VALUE."""
        kind, _, value = text.partition("=")
        if kind not in KINDS:
            raise ModelFailed(f"no remedy is called {printable(kind)}; the remedies are {', '.join(KINDS)}")
        try:
            return cls(kind, float(value))
        except ValueError:
            raise ModelFailed(f"{kind}: expected a number, got {printable(value) or 'nothing'}") from None

    @property
    def text(self) -> str:
        """The part of a model string that names the remedy."""
        return f"{self.kind}={self.value:g}"

    @property
    def rule(self) -> Kind:
        """What its kind is."""
        return KINDS[self.kind]

    @property
    def waits(self) -> bool:
        """Whether it uses later frames."""
        return self.kind in ("mode-around", "mean-around", "fill")

    @property
    def window(self) -> tuple[int, int]:
        """How many places before and after a frame it uses, if it counts answers."""
        many = int(self.value)
        return (many, many) if self.waits else (1, 0) if self.kind == "ema" else (many - 1, 0)

    @property
    def averages(self) -> bool:
        """Whether it averages scores or boxes. Other remedies give the answer of an earlier frame."""
        return self.kind in ("mean", "ema", "mean-around")

    def delay(self, step: float) -> float:
        """Return how many seconds later it shows a sure and lasting change, if frames are `step` seconds apart.

        It includes the wait for later frames. A remedy that looks at crops, or at the lead of an answer, has no delay.

        >>> [round(Remedy.of(text).delay(0.1), 6) for text in ("hold=0.25", "mode=5", "ema=0.2", "fill=0.5")]
        [0.3, 0.2, 0.3, 0.5]
        """
        frames = 0.0
        if self.kind == "fill":
            return self.value
        if self.kind == "hold":
            frames = math.ceil(self.value / step - CLOSE) if math.isfinite(step) else math.nan
        elif self.kind == "confirm":
            frames = self.value - 1
        elif self.kind in ("mode", "mean"):
            frames = self.value // 2
        elif self.kind == "ema" and self.value < 1:
            frames = math.floor(math.log(0.5) / math.log(1 - self.value) + CLOSE)  # until it has more than half
        elif self.waits:
            frames = self.value
        return frames * step if frames else 0.0


def stretches(timeline: Ints) -> Iterator[tuple[int, int]]:
    """Yield the first place of each timeline, and the place after its last.

    >>> list(stretches(np.array([0, 0, 3])))
    [(0, 2), (2, 3)]
    """
    edges = np.flatnonzero(np.diff(timeline, prepend=-1, append=-1)) if len(timeline) else np.zeros(1, dtype=int)
    return zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)


# -- answers of classifiers ----------------------------------------------------------------------------------------


def stood(label: Ints, timeline: Ints, seconds: Floats, remedy: Remedy) -> Ints:
    """Return, for each frame, the place of the answer that `hold` or `confirm` gives.

    A new answer is believed once it stood without a break for the seconds of `hold`, or for the frames of `confirm`.
    Until then, the last believed answer is given. The first answer of a timeline is believed at once.

    >>> label, line, seconds = np.array([4, 7, 4, 7, 7]), np.zeros(5, dtype=int), np.arange(5) / 10
    >>> [stood(label, line, seconds, Remedy.of(one)).tolist() for one in ("confirm=2", "hold=0.1")]
    [[0, 0, 0, 0, 4], [0, 0, 0, 0, 4]]
    """
    expect(label.shape == timeline.shape == seconds.shape, "label", "one per frame", label.shape)
    if not len(label):
        return np.zeros(0, dtype=np.int64)
    runs, places = spells(label, timeline), np.arange(len(label))
    own = np.searchsorted(runs.start, places, side="right") - 1
    start = runs.start[own]
    is_first = np.diff(runs.timeline, prepend=runs.timeline[0] - 1)[own] != 0
    if remedy.kind == "hold":
        believed = seconds - seconds[start] >= remedy.value - CLOSE
    else:
        believed = places - start >= remedy.value - 1
    return np.maximum.accumulate(np.where(believed | is_first, places, 0))


def windows(timeline: Ints, place: Ints, *, before: int, after: int = 0) -> tuple[Ints, Ints]:
    """Return the first row of each window and the row after its last, (N,). A window has at most these places.

    >>> first, end = windows(np.array([0, 0, 0, 1]), np.array([0, 1, 5, 0]), before=1)
    >>> first.tolist(), end.tolist()
    ([0, 0, 2, 3], [1, 2, 3, 4])
    """
    span = int(np.ptp(place) if len(place) else 0) + before + after + 1
    key = timeline.astype(np.int64) * span + place
    return np.searchsorted(key, key - before), np.searchsorted(key, key + after, side="right")


def majority(label: Ints, timeline: Ints, place: Ints, *, before: int, after: int = 0) -> Ints:
    """Return, for each frame, the row of an answer that is the most frequent from `before` to `after` frames away.

    If several answers are equally frequent, the frame keeps its own. Otherwise the latest frame with the most frequent
    answer is chosen; if there is none up to this frame, the next one.

    >>> majority(np.array([3, 5, 3, 5, 5]), np.zeros(5, dtype=int), np.arange(5), before=2).tolist()
    [0, 1, 2, 3, 4]
    >>> majority(np.array([3, 3, 5, 3]), np.zeros(4, dtype=int), np.arange(4), before=2).tolist()
    [0, 1, 1, 3]
    """
    first, end = windows(timeline, place, before=before, after=after)
    out = np.arange(len(label))
    for part in blocks(len(label), _BLOCK):
        low, begin, until = first[part.start], first[part], end[part]
        kinds, code = np.unique(label[low : until[-1]], return_inverse=True)
        sums = np.zeros((len(code) + 1, len(kinds)), dtype=np.int32)
        np.cumsum(code[:, None] == np.arange(len(kinds)), axis=0, out=sums[1:])
        votes = sums[until - low] - sums[begin - low]
        is_tie = np.count_nonzero(votes == votes.max(axis=1)[:, None], axis=1) > 1
        best = np.where(is_tie, label[part], kinds[votes.argmax(axis=1)])
        for row in (np.flatnonzero(best != label[part]) + part.start).tolist():
            same = np.flatnonzero(label[first[row] : end[row]] == best[row - part.start]) + first[row]
            out[row] = same[max(np.searchsorted(same, row) - 1, 0)]
    return out


def kept_by_margin(
    label: Ints, timeline: Ints, confidence: Floats, share: Callable[[int, int], float], margin: float
) -> Ints:
    """Return, for each frame, the place of the answer that `hysteresis` gives.

    An answer is kept until another one is more probable by more than `margin`. `share` gives the probability of a class
    on a frame, and `confidence` that of the frame's own answer. An answer outside the classes has the probability 1 on
    its own frame and 0 on the others.
    """
    out = np.arange(len(label))
    for first, end in stretches(timeline):
        kept = first
        for place in range(first, end):
            if label[place] != label[kept]:
                own = 1.0 if label[place] < 0 else float(confidence[place])
                other = 0.0 if label[kept] < 0 else share(place, int(label[kept]))
                if own - other <= margin:
                    out[place] = kept
                    continue
            kept = place
    return out


def averages(
    shares: Callable[[slice], Floats], label: Ints, timeline: Ints, place: Ints, remedy: Remedy
) -> Iterator[tuple[slice, Ints, Floats]]:
    """Yield some rows, their answers (n,) and their probabilities (n, C + 1) after an average over time.

    `shares` gives the probabilities of rows; the last column is an answer outside the classes. Equal averages go to the
    lowest class. A frame that is averaged with no other keeps its answer, so `mean=1` and `ema=1` change nothing. After
    a gap of g places, a frame has the weight 1 − (1 − α)^g in an exponential average.
    """
    if remedy.kind == "ema":
        weight = 1.0 - (1.0 - remedy.value) ** np.maximum(np.diff(place, prepend=0), 1)
        weight[np.diff(timeline, prepend=-1) != 0] = 1.0
        last = None
        for part in blocks(len(label), _BLOCK):
            values, own = shares(part).copy(), weight[part, None]
            if last is not None:
                values[0] = last * (1.0 - own[0]) + values[0] * own[0]
            line = timeline[part]
            rank = np.arange(len(line)) - np.searchsorted(line, line)
            for rows in np.split(np.argsort(rank, kind="stable"), np.cumsum(np.bincount(rank)))[1:-1]:
                values[rows] = values[rows - 1] * (1.0 - own[rows]) + values[rows] * own[rows]
            last = values[-1].copy()
            yield part, np.where(weight[part] == 1.0, label[part], _best(values * _UNIT)), values
        return
    before, after = remedy.window
    first, end = windows(timeline, place, before=before, after=after)
    for part in blocks(len(label), _BLOCK):
        low, high = first[part.start], end[part.stop - 1]
        values = (shares(slice(low, high)) * _UNIT).astype(np.int64)
        sums = np.concatenate([np.zeros((1, values.shape[1]), dtype=np.int64), values.cumsum(axis=0)])
        total, size = sums[end[part] - low] - sums[first[part] - low], end[part] - first[part]
        yield part, np.where(size == 1, label[part], _best(total)), total / (_UNIT * size[:, None])


def _best(values: Floats | Ints) -> Ints:
    """Return the class with the highest value in each row; the last column is outside the classes, −1."""
    best = values.astype(np.int64).argmax(axis=1)
    return np.where(best == values.shape[1] - 1, -1, best)


# -- what a remedy costs -------------------------------------------------------------------------------------------


def follow(change: Ints, seconds: Floats, own: Bools, remedied: Bools, *, n: int) -> Floats:
    """Return, for each of `n` real changes that the model follows, how many seconds later the remedy does, or inf.

    The columns (M,) are the frames from each change up to the next one, in order of time: the change, the time, and
    whether the answer of the model, and the remedied answer, fit what is then true. A model follows a change if its
    answer fits on some frame.

    >>> change, seconds = np.array([0, 0, 0, 1, 1]), np.arange(5) / 10
    >>> own, remedied = np.array([1, 1, 1, 0, 1], dtype=bool), np.array([0, 0, 1, 0, 0], dtype=bool)
    >>> follow(change, seconds, own, remedied, n=2).round(3).tolist()
    [0.2, inf]
    """
    first = np.full((2, n), np.inf)
    for out, fits in zip(first, (own, remedied), strict=True):
        np.minimum.at(out, change[fits], seconds[fits])
    model, remedy = first[:, np.isfinite(first[0])]
    return np.asarray(np.maximum(remedy - model, 0.0))


def on_front(costs: Sequence[Sequence[float | None]]) -> list[bool]:
    """Return which rows no other row beats: at least as low in every column, and lower in one. None is the worst.

    >>> on_front([(1.0, 5.0), (2.0, 5.0), (0.5, None)])
    [True, False, True]
    """
    known = [tuple(math.inf if one is None else one for one in row) for row in costs]
    return [
        not any(other != row and all(a <= b for a, b in zip(other, row, strict=True)) for other in known)
        for row in known
    ]
