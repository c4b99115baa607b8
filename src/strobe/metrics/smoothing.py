"""Smoothing predictions over time, per set: the usual cure for flicker, and what it costs in delay.

A *strip* is the stretch of a video around one anchor: place p of set s is the frame at offset p − reach, present where
the frame is in the dataset and predicted, whether or not review kept it. Windows go by index distance; a missing frame
is a gap, never a neighbour.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import expect

__all__ = ["Method", "delay", "smooth_labels", "smooth_votes", "window_complete"]

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Method = Literal["centred", "causal", "ema"]


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
    probability: Floats, present: Bools, label: Ints, *, method: Method, parameter: float
) -> NDArray[np.int64]:
    """The best class (S, L) after averaging probabilities (S, L, C) over each place's window; −1 where not present.

    `label` (S, L) is the unsmoothed class: it stands where the window holds the frame alone, so that w = 0 and α = 1
    change nothing. Ties go to the lowest class.

    >>> p = np.array([[[0.9, 0.1], [0.4, 0.6], [0.8, 0.2]]])
    >>> label, present = p.argmax(axis=2), np.ones((1, 3), bool)
    >>> smooth_labels(p, present, label, method="centred", parameter=1).tolist()
    [[0, 0, 0]]
    """
    _check(method, parameter)
    filled = np.where(present[:, :, None], probability, 0.0)
    if method == "ema":
        smoothed, alone = _ema(filled, present, parameter)
    else:
        smoothed, count = _windowed(filled, present, method=method, width=int(parameter))
        alone = count <= 1
    best = smoothed.argmax(axis=2)
    return np.where(present, np.where(alone, label, best), -1)


def smooth_votes(
    label: Ints, present: Bools, *, method: Literal["centred", "causal"], parameter: int, n_classes: int
) -> NDArray[np.int64]:
    """The class (S, L) most frames of each window name; a tie leaves the current frame's class. −1 where not present.

    >>> smooth_votes(np.array([[3, 5, 3]]), np.ones((1, 3), bool), method="centred", parameter=1, n_classes=6).tolist()
    [[3, 3, 3]]
    """
    _check(method, parameter)
    # One more column for −1, a prediction outside the dataset's classes, which can win a vote like any other.
    votes = np.zeros((*label.shape, n_classes + 1))
    rows, places = np.nonzero(present)
    votes[rows, places, label[rows, places] + 1] = 1.0
    tally, _ = _windowed(votes, present, method=method, width=parameter)
    best = tally.argmax(axis=2) - 1
    top = tally.max(axis=2)
    tied = (tally == top[:, :, None]).sum(axis=2) > 1
    return np.where(present, np.where(tied, label, best), -1)


def window_complete(present: Bools, *, method: Method, parameter: float) -> Bools:
    """Whether each place's window (S, L) holds every frame it could: for an exponential average, the frame before.

    >>> window_complete(np.ones((1, 3), bool), method="centred", parameter=1).tolist()
    [[False, True, False]]
    """
    _check(method, parameter)
    width = 1 if method == "ema" else int(parameter)
    kind: Literal["centred", "causal"] = "centred" if method == "centred" else "causal"
    count = _windowed(present[:, :, None].astype(np.float64), present, method=kind, width=width)[1]
    return np.asarray(count == (2 * width + 1 if kind == "centred" else width + 1))


def _check(method: str, parameter: float) -> None:
    expect(method in ("centred", "causal", "ema"), "smoothing", "centred, causal or ema", method)
    if method == "ema":
        expect(0 < parameter <= 1, "smoothing: alpha", "in (0, 1]", parameter)
    else:
        expect(parameter >= 0 and parameter == int(parameter), "smoothing: window", "a whole number >= 0", parameter)


def _windowed(filled: Floats, present: Bools, *, method: str, width: int) -> tuple[Floats, NDArray[np.int64]]:
    """Sums over each window and how many frames it holds. Added in order of time, so equal windows give equal sums."""
    length = present.shape[1]
    total = np.zeros_like(filled)
    count = np.zeros(present.shape, dtype=np.int64)
    for shift in range(-width, width + 1 if method == "centred" else 1):
        if abs(shift) >= length:
            continue
        here = slice(max(0, -shift), length - max(0, shift))
        there = slice(max(0, shift), length - max(0, -shift))
        total[:, here] += filled[:, there]
        count[:, here] += present[:, there]
    return total, count


def _ema(filled: Floats, present: Bools, alpha: float) -> tuple[Floats, Bools]:
    """Exponential averages; after a gap of g frames the new one weighs 1 − (1 − α)^g, the first one all."""
    out = np.empty_like(filled)
    alone = np.zeros(present.shape, dtype=bool)
    state = np.zeros((filled.shape[0], filled.shape[2]))
    last = np.full(filled.shape[0], -1, dtype=np.int64)
    for place in range(present.shape[1]):
        seen = present[:, place]
        started = last >= 0
        weight = np.where(started, 1.0 - (1.0 - alpha) ** np.where(started, place - last, 1), 1.0)
        weight = np.where(seen, weight, 0.0)[:, None]
        state = (1.0 - weight) * state + weight * filled[:, place]
        out[:, place] = state
        alone[:, place] = seen & (weight[:, 0] == 1.0)
        last[seen] = place
    return out, alone
