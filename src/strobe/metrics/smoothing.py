"""Smoothing predictions over time, per set: the usual remedy for flicker, and its cost in delay.

A *strip* is the part of a video around one anchor. Index p of set s is the frame at offset p − reach. It is present
if the frame is in the dataset and predicted, whether or not review kept it. Windows use index distance; a missing
frame is a gap, never a neighbour.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect

__all__ = ["Method", "Windowed", "delay", "smooth_labels", "smooth_votes"]

Method = Literal["centred", "causal", "ema"]
FINEST = 48
"""Averages are compared as integer multiples of 2^−48, so sums are exact and equal windows tie in any frame order."""


@dataclass(frozen=True, slots=True)
class Windowed:
    """The smoothed class (S, L), −1 if no frame is present, and whether each window is complete."""

    label: NDArray[np.int64]
    complete: Bools


def delay(method: Method, parameter: float) -> float:
    """Return the delay in frames: w for a centred window, w/2 for a causal one, (1 − α)/α for an exponential one.

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
    """Return the best class after averaging probabilities (S, L, C) over each window, for each (method, w or α).

    `label` (S, L) is the unsmoothed class. It is kept if the window holds only that frame, so w = 0 and α = 1 change
    nothing. Ties go to the lowest class. An exponential average is complete if the previous frame is present.

    >>> p = np.array([[[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]])
    >>> label, present = p.argmax(axis=2), np.ones((1, 3), bool)
    >>> smooth_labels(p, present, label, variants=[("centred", 1)])[0].label.tolist()
    [[0, 0, 0]]
    """
    for method, parameter in variants:
        _check(method, parameter)
    steady = _steady(probability, present, label)
    winners = _winners(probability[~steady], present[~steady], variants) if not steady.all() else None
    counts = _Sums(present.T[:, None].astype(np.int64), variants, shape=(present.shape[1], 1, len(present)))
    out = []
    for number, (method, parameter) in enumerate(variants):
        window: Method = "causal" if method == "ema" else method
        width = 1 if method == "ema" else int(parameter)
        count = counts.over(window, width)[:, 0].T
        smoothed = np.where(present, label, -1)
        if winners is not None:
            best, alone = winners[number]
            kept = count[~steady] <= 1 if alone is None else alone
            smoothed[~steady] = np.where(kept | ~present[~steady], smoothed[~steady], best)
        out.append(Windowed(smoothed, np.equal(count, _full(window, width))))
    return out


def _winners(
    probability: Floats, present: Bools, variants: Sequence[tuple[Method, float]]
) -> list[tuple[NDArray[np.int64], Bools | None]]:
    """Return the best class of each window (S, L) and, for exponential averages, the indices of isolated frames."""
    # Time first, sets last: running sums, shifts and maxima over classes then use contiguous rows. Each time step
    # reuses the same work arrays, which stay in the processor's cache.
    filled = np.ascontiguousarray(np.transpose(probability, (1, 2, 0)), dtype=np.float64)
    here = np.ascontiguousarray(present.T)
    np.copyto(filled, 0.0, where=~here[:, None, :])
    unit, classes = _unit(*filled.shape[:2]), _contenders(filled)
    if classes is not None:
        filled = np.take_along_axis(filled, classes[None], axis=1)
    coder, sums = _ClassCoder(filled.shape[1:], unit), None
    out: list[tuple[NDArray[np.int64], Bools | None]] = []
    for method, parameter in variants:
        alone = None
        if method == "ema":
            best, alone = _ema(filled, here, parameter, coder)
        else:
            sums = sums or _Sums((coder.whole(step) for step in filled), variants, shape=filled.shape, ends=coder.codes)
            best = coder.classes(sums.over(method, int(parameter)))
        if classes is not None:
            best = np.take_along_axis(classes, best, axis=0)
        out.append((best.T, None if alone is None else alone.T))
    return out


def smooth_votes(
    label: Ints, present: Bools, *, variants: Sequence[tuple[Method, float]], n_classes: int
) -> list[Windowed]:
    """Return the majority class of each window, for each (method, w); a tie keeps the current frame's class.

    >>> label, present = np.array([[3, 5, 3]]), np.ones((1, 3), bool)
    >>> smooth_votes(label, present, variants=[("centred", 1)], n_classes=6)[0].label.tolist()
    [[3, 3, 3]]
    """
    # An additional column for −1, a prediction outside the dataset's classes, which can win a vote like any other.
    votes = np.zeros((label.shape[1], n_classes + 1, label.shape[0]), dtype=np.int64)
    rows, places = np.nonzero(present)
    votes[places, label[rows, places] + 1, rows] = 1
    sums = _Sums(votes, variants, shape=votes.shape)
    out = []
    for method, parameter in variants:
        expect(method != "ema", "smoothing", "centred or causal for labels alone", method)
        _check(method, parameter)
        tally = sums.over(method, int(parameter))
        tied = ((tally == tally.max(axis=1, keepdims=True)).sum(axis=1) > 1).T
        complete = np.equal(tally.sum(axis=1).T, _full(method, int(parameter)))
        out.append(Windowed(np.where(present, np.where(tied, label, tally.argmax(axis=1).T - 1), -1), complete))
    return out


def _steady(probability: Floats, present: Bools, label: Ints) -> Bools:
    """Return the strips (S,) whose frames clearly share one best class; any average over them has the same one."""
    largest = np.where(present, label, -1).max(axis=1)
    same = np.where(present, label, largest[:, None]) == largest[:, None]
    found = same.all(axis=1) & (largest >= 0)
    where = np.flatnonzero(found)
    top = np.take_along_axis(probability[where], np.maximum(label[where], 0)[..., None], axis=2)
    clear = (probability[where] >= top * (1 - 1e-9)).sum(axis=2) == 1
    found[where] = (clear | ~present[where]).all(axis=1)
    return np.asarray(found)


def _check(method: str, parameter: float) -> None:
    expect(method in ("centred", "causal", "ema"), "smoothing", "centred, causal or ema", method)
    if method == "ema":
        expect(0 < parameter <= 1, "smoothing: alpha", "in (0, 1]", parameter)
    else:
        expect(parameter >= 0 and parameter == int(parameter), "smoothing: window", "a whole number >= 0", parameter)


def _full(method: Method, width: int) -> int:
    return (2 if method == "centred" else 1) * width + 1


def _unit(length: int, n_classes: int) -> float:
    """Return 2^48, or less if a sum over a whole strip and the code of a class would exceed 62 bits."""
    return 2.0 ** min(FINEST, 62 - length.bit_length() - n_classes.bit_length())


def _contenders(filled: Floats) -> NDArray[np.int64] | None:
    """Return the classes (M, S) that can win a window of each strip, ascending; None if M would be most classes.

    The winner of an average is at least the mean over classes there, so it is at least the mean of some frame. Strips
    with fewer than M such classes are padded with classes that cannot win.
    """
    can_win = np.zeros(filled.shape[1:], dtype=bool)
    for step in filled:
        can_win |= step >= step.mean(axis=0) * (1 - 1e-9)
    most = max(1, int(can_win.sum(axis=0).max(initial=0)))
    if 2 * most > len(can_win):
        return None
    return np.argsort(~can_win, axis=0, kind="stable")[:most]


class _ClassCoder:
    """Encode averages (C, S) as integers in 1/unit plus the code of their class, so one maximum finds both.

    The lowest class has the largest code and so wins ties. This is much faster than argmax.
    """

    def __init__(self, shape: tuple[int, ...], unit: float) -> None:
        self._unit, self._room = unit, (shape[0] - 1).bit_length()
        self._scaled, self._whole = np.empty(shape), np.empty(shape, dtype=np.int64)
        self.codes = np.arange(shape[0] - 1, -1, -1, dtype=np.int64)[:, None]

    def whole(self, values: Floats) -> NDArray[np.int64]:
        """Return the values without their codes; the next call reuses the array."""
        np.multiply(values, self._unit, out=self._scaled)
        np.copyto(self._whole, self._scaled, casting="unsafe")
        return np.left_shift(self._whole, self._room, out=self._whole)

    def classes(self, coded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class of the largest of some coded values (…, C, S)."""
        return np.asarray(len(self.codes) - 1 - (coded.max(axis=-2) & ((1 << self._room) - 1)))


class _Sums:
    """Integer sums over any window of strips (L, C, S), from running sums padded by the widest window.

    `ends` (C, 1) is added to every sum. The next call reuses the array that `over` returns.
    """

    def __init__(
        self,
        steps: Iterable[NDArray[np.int64]],
        variants: Sequence[tuple[Method, float]],
        *,
        shape: tuple[int, ...],
        ends: NDArray[np.int64] | None = None,
    ) -> None:
        self._pad = max([1, *(int(width) for method, width in variants if method != "ema")])
        self._running = np.zeros((shape[0] + 2 * self._pad + 1, *shape[1:]), dtype=np.int64)
        place = self._pad + 1
        for step in steps:
            np.add(self._running[place - 1], step, out=self._running[place])
            place += 1
        self._running[place:] = self._running[place - 1]
        self._ends = self._running[self._pad + 1 :]
        if ends is not None:
            self._ends = self._ends + ends
        self._over = np.empty(shape, dtype=np.int64)

    def over(self, method: Method, width: int) -> NDArray[np.int64]:
        """Return the sum over each window, (L, C, S)."""
        last, first, length = width if method == "centred" else 0, self._pad - width, len(self._over)
        return np.subtract(self._ends[last : last + length], self._running[first : first + length], out=self._over)


def _ema(filled: Floats, present: Bools, alpha: float, coder: _ClassCoder) -> tuple[NDArray[np.int64], Bools]:
    """Return the best class of exponential averages (L, S), and the isolated frames.

    After a gap of g frames, the new frame has the weight 1 − (1 − α)^g; the first frame has all the weight.
    """
    place = np.arange(present.shape[0])[:, None]
    seen = np.maximum.accumulate(np.where(present, place, -1), axis=0)
    before = np.concatenate([np.full((1, present.shape[1]), -1), seen[:-1]])
    weight = np.where(before >= 0, 1.0 - (1.0 - alpha) ** np.where(before >= 0, place - before, 1), 1.0)
    alone = present & (weight == 1.0)
    weight = np.where(present, weight, 0.0)
    average, new = np.zeros(filled.shape[1:]), np.empty(filled.shape[1:])
    best = np.empty(present.shape, dtype=np.int64)
    for step, (frame, share) in enumerate(zip(filled, weight, strict=True)):
        np.multiply(frame, share, out=new)
        average *= 1.0 - share
        average += new
        coded = coder.whole(average)
        coded |= coder.codes
        best[step] = coder.classes(coded)
    return best, alone
