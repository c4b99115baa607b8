"""Remedies for flicker along timelines of answers, and what they cost: delay, and real changes that they hide.

A timeline is a stretch of consecutive answered frames; see metrics.flicker.timelines. All arrays are (N,), one entry
per frame, ordered by time within each timeline. An answer is a whole number; −1 is an answer outside the classes.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import ModelFailed, expect, printable
from strobe.metrics.flicker import spells

_UNIT = 2.0**48
"""Averages are compared in multiples of 2^−48, as in metrics.smoothing."""
_BLOCK = 256
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


def majority(label: Ints, timeline: Ints, *, before: int, after: int = 0) -> Ints:
    """Return, for each frame, the place of an answer that is the most frequent from `before` to `after` frames away.

    If several answers are equally frequent, the frame keeps its own. Otherwise the latest frame with the most frequent
    answer is chosen; if there is none up to this frame, the next one.

    >>> majority(np.array([3, 5, 3, 5, 5]), np.zeros(5, dtype=int), before=2).tolist()
    [0, 1, 2, 3, 4]
    >>> majority(np.array([3, 3, 5, 3]), np.zeros(4, dtype=int), before=2).tolist()
    [0, 1, 1, 3]
    """
    out = np.arange(len(label))
    for first, end in stretches(timeline):
        answers, many = label[first:end].tolist(), Counter[int]()
        last: dict[int, int] = {}
        for place in range(-after, end - first):
            if place + after < end - first:
                many[answers[place + after]] += 1
            if place < 0:
                continue
            if place > before:
                gone = answers[place - before - 1]
                many[gone] -= 1
                if not many[gone]:
                    del many[gone]
            last[answers[place]] = place
            most = max(many.values())
            best = [answer for answer, count in many.items() if count == most]
            if len(best) == 1 and best[0] != answers[place]:
                at = last.get(best[0], -before - 1)
                out[first + place] = first + (at if at >= place - before else answers.index(best[0], place))
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
    shares: Callable[[slice], Floats], label: Ints, timeline: Ints, remedy: Remedy
) -> Iterator[tuple[int, int, Floats]]:
    """Yield the place, the answer and the probabilities (C + 1,) of each frame after an average over time.

    `shares` gives the probabilities (…, C + 1) of some frames; the last column is an answer outside the classes. Equal
    averages go to the lowest class. A frame that is averaged with no other keeps its answer, so `mean=1` and `ema=1`
    change nothing. The values are those of metrics.smoothing on a timeline without gaps.
    """
    after = int(remedy.value) if remedy.kind == "mean-around" else 0
    before = after if remedy.kind == "mean-around" else int(remedy.value) - 1
    for first, end in stretches(timeline):
        rows = (row for begin in range(first, end, _BLOCK) for row in shares(slice(begin, min(begin + _BLOCK, end))))
        if remedy.kind == "ema":
            mean = np.zeros(0)
            for place, row in zip(range(first, end), rows, strict=True):
                weight = 1.0 if place == first else 1.0 - (1.0 - remedy.value) ** 1
                mean = row if place == first else mean * (1.0 - weight) + row * weight
                answer = int(label[place]) if weight == 1.0 else _best(mean * _UNIT)
                yield place, answer, mean
            continue
        window: deque[Ints] = deque()
        total = np.zeros(0, dtype=np.int64)
        for place in range(first - after, end):
            if place + after < end:
                row = (next(rows) * _UNIT).astype(np.int64)
                window.append(row)
                total = total + row if len(total) else row
            if place - before > first:
                total = total - window.popleft()
            if place >= first:
                answer = int(label[place]) if len(window) == 1 else _best(total)
                yield place, answer, total / (_UNIT * len(window))


def _best(values: Floats | Ints) -> int:
    """Return the class with the highest value; the last one is outside the classes."""
    best = int(values.astype(np.int64).argmax())
    return -1 if best == len(values) - 1 else best


# -- what a remedy costs -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Followed:
    """The real changes (C,) that a model follows, those that a remedy swallows, and the delay of each in seconds.

    The delay is how much later than the model the remedy follows; it is NaN where one of the two never does.
    """

    counts: Bools
    swallowed: Bools
    delay_s: Floats


def follow(change: Ints, seconds: Floats, own: Bools, remedied: Bools, *, n: int) -> Followed:
    """Return how a remedy follows `n` real changes.

    The columns (M,) are the frames from each change up to the next one, in order of time: the change, the time, and
    whether the answer of the model, and the remedied answer, fit what is then true. A change counts if the model
    follows it on some frame.

    >>> change, seconds = np.array([0, 0, 0, 1, 1]), np.arange(5) / 10
    >>> own, remedied = np.array([1, 1, 1, 0, 1], dtype=bool), np.array([0, 0, 1, 0, 0], dtype=bool)
    >>> found = follow(change, seconds, own, remedied, n=2)
    >>> found.counts.tolist(), found.swallowed.tolist(), found.delay_s.round(3).tolist()
    ([True, True], [False, True], [0.2, nan])
    """
    first = np.full((2, n), np.inf)
    for out, fits in zip(first, (own, remedied), strict=True):
        np.minimum.at(out, change[fits], seconds[fits])
    counts = np.isfinite(first[0])
    both = counts & np.isfinite(first[1])
    delay = np.full(n, np.nan)
    delay[both] = np.maximum(first[1, both] - first[0, both], 0.0)
    return Followed(counts, counts & ~both, delay)


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
