"""pm-k mAP: each anchor gives way to the frame of its set with the lowest AP."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.metrics.detection.average import Interpolation, curve_index
from strobe.metrics.detection.match import Matches
from strobe.metrics.detection.tables import TruthTable

__all__ = ["Worst", "class_ap", "class_ap_without", "effective_of_class", "videos_of_class", "worst_frames"]

_VIDEOS_AT_ONCE = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The frame that stands for each set at each k.

    `frame` and `row` are (S, K): a row of the frame table and of the set rows that came in. `ap` (S, K) is the chosen
    frame's AP (never rising with k), NaN where no frame of the set within k has anything to be found; the anchor
    stands there.
    """

    frame: NDArray[np.int64]
    row: NDArray[np.int64]
    ap: Floats

    @property
    def undefined(self) -> NDArray[np.int64]:
        """How many sets have no frame with anything to be found within each k, (K,)."""
        return np.asarray(np.isnan(self.ap).sum(axis=0), dtype=np.int64)


def worst_frames(ap: Floats, set_of_row: Ints, frame: Ints, distance: Floats, *, ks: Sequence[float]) -> Worst:
    """The frame with the lowest AP of each set, anchor included, for every k of `ks` (|distance| ≤ k).

    `ap` (F,) is per frame, NaN where undefined (never chosen; the anchor where all are). The other columns describe
    set rows; every set has its anchor at distance 0. Ties after rounding to 1e-9 go to the smallest |distance|, then
    to the earlier frame.

    >>> ap = np.array([0.5, 0.2, 0.2, np.nan])
    >>> worst = worst_frames(ap, np.zeros(4, int), np.arange(4), np.array([0.0, 1.0, -1.0, 2.0]), ks=(0, 1, 2))
    >>> worst.frame.tolist()
    [[0, 2, 2]]
    """
    expect(len(set_of_row) > 0, "sets", "at least one row", 0)
    n_sets = int(set_of_row.max()) + 1
    order = np.lexsort((distance, np.abs(distance), set_of_row))
    sizes = np.bincount(set_of_row, minlength=n_sets)
    starts = np.cumsum(sizes) - sizes
    column = np.arange(len(order)) - np.repeat(starts, sizes)
    owner = set_of_row[order]
    expect(bool((distance[order[starts]] == 0).all()), "sets.distance", "an anchor at 0 in every set", None)
    value = np.full((n_sets, int(sizes.max())), np.inf)
    rounded = np.round(ap[frame[order]], 9)
    value[owner, column] = np.where(np.isnan(rounded), np.inf, rounded)
    lowest = np.minimum.accumulate(value, axis=1)
    falls = np.zeros(value.shape, dtype=bool)
    falls[:, 1:] = value[:, 1:] < lowest[:, :-1]
    latest = np.maximum.accumulate(np.where(falls, np.arange(value.shape[1]), 0), axis=1)
    reach = np.abs(distance[order])
    everyone = np.arange(n_sets)
    rows = np.empty((n_sets, len(ks)), dtype=np.int64)
    for place, k in enumerate(ks):
        within = np.bincount(owner, weights=reach <= k, minlength=n_sets).astype(np.int64)
        rows[:, place] = order[starts + latest[everyone, within - 1]]
    chosen = np.asarray(frame[rows], dtype=np.int64)
    return Worst(frame=chosen, row=rows, ap=ap[chosen])


def class_ap(
    truth: TruthTable,
    found: BoxAnswers,
    matches: tuple[Matches, ...],
    chosen: Ints,
    *,
    interpolation: Interpolation = "coco-101",
) -> Floats:
    """AP of every class over the chosen frames (S, K), mean over overlaps: (C, K), NaN where nothing is to be found.

    A frame chosen by two sets counts twice.
    """
    frames, place = np.unique(chosen, return_inverse=True)
    place = place.reshape(chosen.shape)
    weights = np.zeros((len(frames), chosen.shape[1]))
    for k in range(chosen.shape[1]):
        weights[:, k] = np.bincount(place[:, k], minlength=len(frames))
    total = np.zeros((found.n_classes, chosen.shape[1]))
    for one in matches:
        total += curve_index(truth, found, one, frames).ap(weights, interpolation=interpolation)
    return total / len(matches)


def class_ap_without(
    truth: TruthTable,
    found: BoxAnswers,
    matches: tuple[Matches, ...],
    chosen: Ints,
    video_of_set: Ints,
    *,
    interpolation: Interpolation = "voc-all-points",
) -> Floats:
    """AP of every class with each video left out: (K, C, G). The chosen frames (S, K) stay as they are.

    `video_of_set` (S,) is in 0…G−1. To leave a video out re-weights matches already made. The spread of these values is
    what is wanted, so they are whole areas by default: COCO's mean over 101 recalls jumps in steps of a hundredth,
    which one video of many mostly does not reach, and a jackknife of it misses the spread of a single class.
    """
    n_videos = int(video_of_set.max()) + 1
    out = np.empty((chosen.shape[1], found.n_classes, n_videos))
    for k in range(chosen.shape[1]):
        if k and (chosen[:, k] == chosen[:, k - 1]).all():
            out[k] = out[k - 1]
            continue
        frames, place = np.unique(chosen[:, k], return_inverse=True)
        whole = np.bincount(place, minlength=len(frames)).astype(np.float64)
        indexes = [curve_index(truth, found, one, frames) for one in matches]
        for begin in range(0, n_videos, _VIDEOS_AT_ONCE):
            some = slice(begin, min(begin + _VIDEOS_AT_ONCE, n_videos))
            weights = np.repeat(whole[:, None], some.stop - begin, axis=1)
            sets = np.flatnonzero((video_of_set >= begin) & (video_of_set < some.stop))
            np.subtract.at(weights, (place[sets], video_of_set[sets] - begin), 1.0)
            total = sum((index.ap(weights, interpolation=interpolation) for index in indexes), start=np.zeros(()))
            out[k, :, some] = total / len(matches)
    return out


def videos_of_class(truth: TruthTable, matches: Matches, chosen: Ints, video_of_set: Ints) -> NDArray[np.int64]:
    """How many videos show each class on the chosen frames (S, K): (C, K)."""
    return np.asarray((_sets_of_class(truth, matches, chosen, video_of_set) > 0).sum(axis=2))


def effective_of_class(truth: TruthTable, matches: Matches, chosen: Ints, video_of_set: Ints) -> Floats:
    """The effective number of videos of each class, (Σm)²/Σm² over the m sets of a video that show it: (C, K)."""
    sets = _sets_of_class(truth, matches, chosen, video_of_set).astype(np.float64)
    return np.asarray(sets.sum(axis=2) ** 2 / np.maximum((sets * sets).sum(axis=2), 1))


def _sets_of_class(truth: TruthTable, matches: Matches, chosen: Ints, video_of_set: Ints) -> NDArray[np.int64]:
    """How many sets of each video show each class on the chosen frames (S, K): (C, K, G)."""
    there = np.zeros((truth.n_frames, truth.n_classes), dtype=bool)
    there[truth.frame[matches.wanted], truth.label[matches.wanted]] = True
    videos = int(video_of_set.max()) + 1
    out = np.zeros((truth.n_classes, chosen.shape[1], videos), dtype=np.int64)
    for k in range(chosen.shape[1]):
        sets, label = np.nonzero(there[chosen[:, k]])
        cells = np.bincount(label * videos + video_of_set[sets], minlength=truth.n_classes * videos)
        out[:, k] = cells.reshape(truth.n_classes, videos)
    return out
