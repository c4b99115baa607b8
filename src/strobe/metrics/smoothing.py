"""Smoothing predictions over time, per set: the usual cure for flicker, and what it costs in delay.

A *strip* is the stretch of a video around one anchor: place p of set s is the frame at offset p − reach, present where
the frame is in the dataset and predicted, whether or not review kept it. Windows go by index distance; a missing frame
is a gap, never a neighbour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect

__all__ = ["Method", "Windowed", "delay", "smooth_labels", "smooth_votes"]

Method = Literal["centred", "causal", "ema"]
FINEST = 48
"""Averages are compared as whole numbers of 2^−48: sums are exact, so equal windows tie in any order of frames."""


@dataclass(frozen=True, slots=True)
class Windowed:
    """The smoothed class (S, L), −1 where no frame is present, and whether each window holds every frame it could."""

    label: NDArray[np.int64]
    complete: Bools


def delay(method: Method, parameter: float) -> float:
    """Frames of delay: w for a centred window, w/2 for a causal one, (1 − α)/α for an exponential average.

    >>> delay("centred", 2), delay("causal", 2), delay("ema", 0.5)
    (2.0, 1.0, 1.0)
    """
    _check(method, parameter)
    if method == "centred":
        return float(parameter)
    return parameter / 2 if method == "causal" else (1 - parameter) / parameter


def smooth_labels(
    probability: Floats, present: Bools, label: Ints, *, variants: Sequence[tuple[Method, float]]
) -> list[Windowed]:
    """The best class after averaging probabilities (S, L, C) over each place's window, for each (method, w or α).

    `label` (S, L) is the unsmoothed class: it stands where the window holds the frame alone, so that w = 0 and α = 1
    change nothing. Ties go to the lowest class. An exponential average is complete where the frame before is present.

    >>> p = np.array([[[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]])
    >>> label, present = p.argmax(axis=2), np.ones((1, 3), bool)
    >>> smooth_labels(p, present, label, variants=[("centred", 1)])[0].label.tolist()
    [[0, 0, 0]]
    """
    # Time first, sets last: running sums, shifts and maxima over classes all go along whole rows of memory.
    filled = np.ascontiguousarray(np.transpose(probability, (1, 2, 0)), dtype=np.float64)
    here = np.ascontiguousarray(present.T)
    np.copyto(filled, 0.0, where=~here[:, None, :])
    unit, room = _unit(filled.shape[0], filled.shape[1]), _room(filled.shape[1])
    sums: _Sums | None = None
    counts = _Sums(here[:, None, :].astype(np.int64), variants)
    out = []
    for method, parameter in variants:
        _check(method, parameter)
        if method == "ema":
            smoothed, alone = _ema(filled, here, parameter)
            best = _best((smoothed * unit).astype(np.int64) << room)
            complete = counts.over("causal", 1)[:, 0] == 2
        else:
            sums = sums or _Sums((filled * unit).astype(np.int64) << room, variants)
            best = _best(sums.over(method, int(parameter)))
            count = counts.over(method, int(parameter))[:, 0]
            alone, complete = count <= 1, count == _full(method, int(parameter))
        out.append(Windowed(np.where(present, np.where(alone.T, label, best.T), -1), complete.T))
    return out


def smooth_votes(
    label: Ints, present: Bools, *, variants: Sequence[tuple[Method, float]], n_classes: int
) -> list[Windowed]:
    """The class most frames of each window name, for each (method, w); a tie leaves the current frame's class.

    >>> label, present = np.array([[3, 5, 3]]), np.ones((1, 3), bool)
    >>> smooth_votes(label, present, variants=[("centred", 1)], n_classes=6)[0].label.tolist()
    [[3, 3, 3]]
    """
    # One more column for −1, a prediction outside the dataset's classes, which can win a vote like any other.
    votes = np.zeros((label.shape[1], n_classes + 1, label.shape[0]), dtype=np.int64)
    rows, places = np.nonzero(present)
    votes[places, label[rows, places] + 1, rows] = 1
    sums = _Sums(votes, variants)
    out = []
    for method, parameter in variants:
        expect(method != "ema", "smoothing", "centred or causal for labels alone", method)
        _check(method, parameter)
        tally = sums.over(method, int(parameter))
        tied = ((tally == tally.max(axis=1, keepdims=True)).sum(axis=1) > 1).T
        complete = np.equal(tally.sum(axis=1).T, _full(method, int(parameter)))
        out.append(
            Windowed(np.where(present, np.where(tied, label, _best(tally << _room(n_classes + 1)).T - 1), -1), complete)
        )
    return out


def _check(method: str, parameter: float) -> None:
    expect(method in ("centred", "causal", "ema"), "smoothing", "centred, causal or ema", method)
    if method == "ema":
        expect(0 < parameter <= 1, "smoothing: alpha", "in (0, 1]", parameter)
    else:
        expect(parameter >= 0 and parameter == int(parameter), "smoothing: window", "a whole number >= 0", parameter)


def _full(method: Method, width: int) -> int:
    return (2 if method == "centred" else 1) * width + 1


def _unit(length: int, n_classes: int) -> float:
    """2^48, or less where a sum over a whole strip and the code of a class would not fit 62 bits."""
    return 2.0 ** min(FINEST, 62 - length.bit_length() - n_classes.bit_length())


def _room(n_classes: int) -> int:
    """The bits that hold the code of a class."""
    return (n_classes - 1).bit_length()


def _best(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class of the largest value over axis 1 of (L, C, S), the lowest on a tie: much faster than argmax.

    Values come shifted left by `_room` bits and are used up: the class is packed into them, reversed, so that one
    maximum finds both.
    """
    last = values.shape[1] - 1
    values |= (last - np.arange(last + 1, dtype=np.int64))[None, :, None]
    return np.asarray(last - (values.max(axis=1) & ((1 << _room(last + 1)) - 1)))


class _Sums:
    """Whole-number sums over any window of strips (L, C, S), from running sums padded by the widest window."""

    def __init__(self, values: NDArray[np.int64], variants: Sequence[tuple[Method, float]]) -> None:
        self._pad = max([1, *(int(width) for method, width in variants if method != "ema")])
        self._length = values.shape[0]
        start, end = self._pad + 1, self._pad + 1 + self._length
        self._running = np.zeros((end + self._pad, *values.shape[1:]), dtype=np.int64)
        np.cumsum(values, axis=0, out=self._running[start:end])
        self._running[end:] = self._running[end - 1]

    def over(self, method: Method, width: int) -> NDArray[np.int64]:
        """The sum over each place's window, (L, C, S)."""
        last = self._pad + 1 + (width if method == "centred" else 0)
        first = self._pad - width
        return np.asarray(self._running[last : last + self._length] - self._running[first : first + self._length])


def _ema(filled: Floats, present: Bools, alpha: float) -> tuple[Floats, Bools]:
    """Exponential averages (L, C, S); after a gap of g frames the new one weighs 1 − (1 − α)^g, the first one all."""
    place = np.arange(present.shape[0])[:, None]
    seen = np.maximum.accumulate(np.where(present, place, -1), axis=0)
    before = np.concatenate([np.full((1, present.shape[1]), -1), seen[:-1]])
    weight = np.where(before >= 0, 1.0 - (1.0 - alpha) ** np.where(before >= 0, place - before, 1), 1.0)
    alone = present & (weight == 1.0)
    weight = np.where(present, weight, 0.0)[:, None, :]
    out = filled * weight
    kept = 1.0 - weight
    for step in range(1, len(out)):
        out[step] += kept[step] * out[step - 1]
    return out, alone
