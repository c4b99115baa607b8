"""Smooth the predictions of each set over time, which is the usual remedy for flicker and causes a delay.

A *strip* is the part of a video around one anchor. Index p of set s is the frame at offset p − reach. The index is
present if the frame is in the dataset and was predicted, whether or not review kept it. Windows use index distance; a
missing frame is a gap, never a neighbour.

Arrays of strips are (L, S) with time first, so that a step in time is one contiguous array. A *variant* is a method
and its w or α. A *cell* is the window at one index of one strip, given as an index into the flattened array (L × S,).
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints, blocks
from strobe.core.errors import expect

Method = Literal["centred", "causal", "ema"]
FINEST = 48
"""Averages are compared as integer multiples of 2^−48, so sums are exact and equal windows tie in any frame order."""


def delay(method: Method, parameter: float) -> float:
    """Return the delay in frames: w for a centred window, w/2 for a causal one, (1 − α)/α for an exponential one.

    >>> delay("centred", 2), delay("causal", 2), delay("ema", 0.5)
    (2.0, 1.0, 1.0)
    """
    _check(method, parameter)
    if method == "centred":
        return float(parameter)
    return parameter / 2 if method == "causal" else (1 - parameter) / parameter


def complete_windows(present: Bools, *, variants: Sequence[tuple[Method, float]]) -> list[Bools]:
    """Return, for each variant, whether each window (L, S) has all its frames.

    An exponential average is complete if the previous frame is present.

    >>> complete_windows(np.array([[True], [True], [False]]), variants=[("causal", 1)])[0].tolist()
    [[False], [True], [False]]
    """
    counts, out = _RunningSums(present, shape=present.shape, dtype=np.int32), []
    for method, parameter in variants:
        _check(method, parameter)
        width = 1 if method == "ema" else int(parameter)
        full = (2 if method == "centred" else 1) * width + 1
        out.append(np.equal(counts.over(method, width), full))
    return out


def settled_windows(
    label: Ints, present: Bools, top: Floats, lead: Floats, *, n_classes: int, variants: Sequence[tuple[Method, float]]
) -> tuple[Ints, list[Bools]]:
    """Return the main class of each strip (S,) and, for each variant, the windows (L, S) that it certainly wins.

    `top` (L, S) is at least the largest probability of each frame. `lead` is at most the probability of the frame's
    `label` minus the probability of any other class. Against the main class, another class gains at most `top` in a
    frame with another label, and loses at least `lead` in a frame with the main label. If the sum of these gains and
    losses is negative, the main class wins, and the other probabilities of the window need not be known.

    >>> label, top, lead = np.array([[4], [4], [2]]), np.array([[0.9], [0.9], [0.6]]), np.array([[0.8], [0.8], [0.2]])
    >>> main, (won,) = settled_windows(label, label > 0, top, lead, n_classes=5, variants=[("causal", 1)])
    >>> main.tolist(), won.tolist()
    ([4], [[True], [True], [True]])
    """
    # If most frames of a strip have one class, this class is the median.
    ordered = np.sort(np.where(present, label, n_classes), axis=0)
    main = ordered[np.maximum(present.sum(axis=0) - 1, 0) // 2, np.arange(label.shape[1])]
    gain = np.where(present, np.where(label == main, lead, -top), 0.0)
    # Probabilities are rounded down to multiples of 1/unit before they are added.
    enough = 1e-9 + len(gain) / _unit(len(gain), n_classes + 1)
    sums, out = _RunningSums(gain, shape=gain.shape, dtype=np.float64), []
    for method, parameter in variants:
        _check(method, parameter)
        if method == "ema":
            out.append(_averages(gain, _weights(present, parameter)) > enough)
        else:
            out.append(sums.over(method, int(parameter)) > enough)
    return main, out


def smooth_labels(
    probability: Floats,
    present: Bools,
    label: Ints,
    *,
    variants: Sequence[tuple[Method, float]],
    number: Ints,
    cells: Ints,
    length: int | None = None,
) -> NDArray[np.int64]:
    """Return the best class of some windows, (N,), after averaging probabilities (L, S, C) over each window.

    `number` (N,) is the window's variant, and `cells` (N,) is its place; the frame at that place is present.
    Probabilities are zero where no frame is present. `label` (L, S) is the unsmoothed class. It is kept if the window
    contains only that frame, so w = 0 and α = 1 have no effect. Ties go to the lowest class. If the last frames are
    left out because no window needs them, `length` is the length of the whole strips.

    >>> p = np.array([[[0.9, 0.1]], [[0.4, 0.6]], [[0.8, 0.2]]])
    >>> label, present, zeros = p.argmax(axis=2), np.ones((3, 1), bool), np.zeros(3, int)
    >>> smooth_labels(p, present, label, variants=[("centred", 1)], number=zeros, cells=np.arange(3)).tolist()
    [0, 0, 0]
    """
    n_classes = probability.shape[2]
    unit = _unit(len(probability) if length is None else length, n_classes)
    out: NDArray[np.int64] = label.take(cells).astype(np.int64, copy=False)
    for index, (method, parameter) in enumerate(variants):
        _check(method, parameter)
        some = np.flatnonzero(number == index) if method == "ema" else ()
        if len(some):
            weights, chosen = _weights(present, parameter), cells[some]
            values = _averages(probability, weights[..., None]).reshape(-1, n_classes).take(chosen, axis=0)
            best = np.multiply(values, unit, out=values).astype(np.int64).argmax(axis=1)
            out[some] = np.where(weights.take(chosen) == 1.0, out[some], best)
    some = np.flatnonzero(np.array([method != "ema" for method, _ in variants])[number])
    if len(some):
        ends, scaled = _ends(variants, number[some], cells[some], present.shape), np.empty_like(probability[0])
        steps = (np.multiply(step, unit, out=scaled) for step in probability)
        sums = _RunningSums(steps, shape=probability.shape, dtype=np.int64)
        counts = _RunningSums(present, shape=present.shape, dtype=np.int32)
        for part in blocks(len(some), present.size):
            several = counts.between(*ends[:, part]) > 1
            best = sums.between(*ends[:, part]).argmax(axis=1)
            out[some[part]] = np.where(several, best, out[some[part]])
    return out


def smooth_votes(
    label: Ints,
    present: Bools,
    *,
    variants: Sequence[tuple[Method, float]],
    n_classes: int,
    number: Ints,
    cells: Ints,
) -> NDArray[np.int64]:
    """Return the majority class of each of some windows, (N,); a tie keeps the current frame's class.

    `number` (N,) is the window's variant, and `cells` (N,) is its place; the frame at that place is present.

    >>> label, present, zeros = np.array([[3], [5], [3]]), np.ones((3, 1), bool), np.zeros(3, int)
    >>> smooth_votes(label, present, variants=[("causal", 2)], n_classes=6, number=zeros, cells=np.arange(3)).tolist()
    [3, 5, 3]
    """
    for method, parameter in variants:
        expect(method != "ema", "smoothing", "centred or causal for labels alone", method)
        _check(method, parameter)
    # The additional column is for −1, a prediction outside the dataset's classes, which can win a vote like any class.
    votes = np.zeros((*label.shape, n_classes + 1), dtype=bool)
    places, strips = np.nonzero(present)
    votes[places, strips, label[places, strips] + 1] = True
    sums, ends = _RunningSums(votes, shape=votes.shape, dtype=np.int32), _ends(variants, number, cells, present.shape)
    out: NDArray[np.int64] = label.take(cells).astype(np.int64, copy=False)
    for part in blocks(len(cells), max(1, label.size)):
        tally = sums.between(*ends[:, part])
        alone = np.count_nonzero(tally == tally.max(axis=1)[:, None], axis=1) == 1
        out[part] = np.where(alone, tally.argmax(axis=1) - 1, out[part])
    return out


def _check(method: str, parameter: float) -> None:
    expect(method in ("centred", "causal", "ema"), "smoothing", "centred, causal or ema", method)
    if method == "ema":
        expect(0 < parameter <= 1, "smoothing: alpha", "in (0, 1]", parameter)
    else:
        expect(parameter >= 0 and parameter == int(parameter), "smoothing: window", "a whole number >= 0", parameter)


def _unit(length: int, n_classes: int) -> float:
    """Return 2^48, or less if a sum over a whole strip and the code of a class would exceed 62 bits."""
    return 2.0 ** min(FINEST, 62 - length.bit_length() - n_classes.bit_length())


def _weights(present: Bools, alpha: float) -> Floats:
    """Return the weight of each frame (L, S) in an exponential average, 0 if it is not present.

    After a gap of g frames, the new frame has the weight 1 − (1 − α)^g; the first frame has the weight 1.
    """
    length, n_strips = present.shape
    by_gap = np.append(1.0 - (1.0 - alpha) ** np.arange(length), [1.0] * length)
    gap, weight = np.full(n_strips, length), np.zeros(present.shape)
    for here, row in zip(present, weight, strict=True):
        np.copyto(row, by_gap.take(gap), where=here)
        gap[here] = 0
        gap += 1
    return weight


def _averages(steps: Floats, weights: Floats) -> Floats:
    """Return the exponential averages (L, …) after each step."""
    out, new = np.empty(steps.shape), np.empty(steps.shape[1:])
    np.multiply(steps[0], weights[0], out=out[0])
    for place in range(1, len(steps)):
        np.multiply(out[place - 1], 1.0 - weights[place], out=out[place])
        out[place] += np.multiply(steps[place], weights[place], out=new)
    return out


def _ends(
    variants: Sequence[tuple[Method, float]], number: Ints, cells: Ints, shape: tuple[int, ...]
) -> NDArray[np.intp]:
    """Return the first cell of each centred or causal window and the cell after its last cell, (2, N).

    The cell after the last may be in row L.
    """
    length, n_strips = shape
    before = np.array([int(width) for _, width in variants])[number]
    after = np.array([int(width) if method == "centred" else 0 for method, width in variants])[number]
    place, strip = np.divmod(cells, n_strips)
    rows = np.stack([np.maximum(place - before, 0), np.minimum(place + after + 1, length)])
    return np.asarray(rows * n_strips + strip)


class _RunningSums:
    """Sums over any window of steps (L, …), as differences of running sums; floats are rounded down to integers."""

    def __init__(self, steps: Iterable[NDArray[Any]], *, shape: tuple[int, ...], dtype: type[np.number[Any]]) -> None:
        self._sums = np.empty((shape[0] + 1, *shape[1:]), dtype=dtype)
        self._sums[0] = 0
        for before, after, step in zip(self._sums, self._sums[1:], steps, strict=False):
            np.copyto(after, step, casting="unsafe")
            after += before

    def over(self, method: Method, width: int) -> NDArray[Any]:
        """Return the sum over every window, (L, …); all but centred windows end at their frame."""
        last, out = min(width, len(self._sums) - 1) if method == "centred" else 0, np.empty_like(self._sums[1:])
        out[: len(out) - last] = self._sums[last + 1 :]
        out[len(out) - last :] = self._sums[-1]
        out[width:] -= self._sums[: max(len(out) - width, 0)]
        return out

    def between(self, first: NDArray[np.intp], end: NDArray[np.intp]) -> NDArray[Any]:
        """Return the sums (N, …) from one cell up to, but not including, a later cell of the same strip."""
        rows = self._sums.reshape(-1, *self._sums.shape[2:])
        sums = rows.take(end, axis=0)
        sums -= rows.take(first, axis=0)
        return sums
