"""pm-k mAP: each anchor is replaced by the frame of its set with the lowest AP."""

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

_VIDEOS_AT_ONCE = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The frame chosen for each set at each k.

    `frame` and `row` are (S, K): a row of the frame table and of the input set rows. `ap` (S, K) is the chosen
    frame's AP, which never rises with k. It is NaN if no frame of the set within k has objects to find; the anchor is
    then chosen.
    """

    frame: NDArray[np.int64]
    row: NDArray[np.int64]
    ap: Floats

    @property
    def undefined(self) -> NDArray[np.int64]:
        """For each k, the number of sets in which no frame within k has objects to find, (K,)."""
        return np.asarray(np.isnan(self.ap).sum(axis=0), dtype=np.int64)


def worst_frames(ap: Floats, set_of_row: Ints, frame: Ints, distance: Floats, *, ks: Sequence[float]) -> Worst:
    """Return, for every k of `ks`, the frame with the lowest AP in each set (|distance| ≤ k), including the anchor.

    `ap` (F,) is the AP of each frame. Frames with NaN are never chosen; if all are NaN, the anchor is chosen. The other
    columns describe set rows; every set has its anchor at distance 0. Ties after rounding to 1e-9 go to the smallest
    |distance|, then to the earlier frame.

    >>> ap = np.array([0.5, 0.2, 0.2, np.nan])
    >>> worst = worst_frames(ap, np.zeros(4, int), np.arange(4), np.array([0.0, 1.0, -1.0, 2.0]), ks=(0, 1, 2))
    >>> worst.frame.tolist()
    [[0, 2, 2]]
    """
    expect(len(set_of_row) > 0, "sets", "at least one row", 0)
    n_sets = int(set_of_row.max()) + 1
    order = np.lexsort((distance, np.abs(distance), set_of_row))
    sizes = np.bincount(set_of_row)
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
    for index, k in enumerate(ks):
        within = np.bincount(owner, weights=reach <= k, minlength=n_sets).astype(np.int64)
        rows[:, index] = order[starts + latest[everyone, within - 1]]
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
    """Return AP of every class over the chosen frames (S, K), as the mean over overlaps: (C, K).

    NaN if there are no objects to find.

    A frame chosen by two sets counts twice.
    """
    frames, place = np.unique(chosen, return_inverse=True)
    place = place.reshape(chosen.shape)
    weights = np.zeros((len(frames), chosen.shape[1]))
    for k in range(chosen.shape[1]):
        weights[:, k] = np.bincount(place[:, k], minlength=len(frames))
    total = np.zeros((found.n_classes, chosen.shape[1]))
    for match in matches:
        total += curve_index(truth, found, match, frames).ap(weights, interpolation=interpolation)
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
    """Return AP of every class with each video left out: (K, C, G). The chosen frames (S, K) do not change.

    `video_of_set` (S,) is in 0…G−1. Leaving a video out re-weights existing matches. These values serve to estimate a
    spread, so by default they are whole areas under the curve. COCO's mean over 101 recalls moves in steps of a
    hundredth, and leaving out one of many videos rarely causes a step. A jackknife of this mean would therefore miss
    the spread of a single class.
    """
    n_videos = int(video_of_set.max()) + 1
    out = np.empty((chosen.shape[1], found.n_classes, n_videos))
    for k in range(chosen.shape[1]):
        if k and (chosen[:, k] == chosen[:, k - 1]).all():
            out[k] = out[k - 1]
            continue
        frames, place = np.unique(chosen[:, k], return_inverse=True)
        weight_all = np.bincount(place, minlength=len(frames)).astype(np.float64)
        indexes = [curve_index(truth, found, match, frames) for match in matches]
        for begin in range(0, n_videos, _VIDEOS_AT_ONCE):
            videos = slice(begin, min(begin + _VIDEOS_AT_ONCE, n_videos))
            weights = np.repeat(weight_all[:, None], videos.stop - begin, axis=1)
            sets = np.flatnonzero((video_of_set >= begin) & (video_of_set < videos.stop))
            np.subtract.at(weights, (place[sets], video_of_set[sets] - begin), 1.0)
            total = sum((index.ap(weights, interpolation=interpolation) for index in indexes), start=np.zeros(()))
            out[k, :, videos] = total / len(matches)
    return out


def videos_of_class(truth: TruthTable, matches: Matches, chosen: Ints, video_of_set: Ints) -> NDArray[np.int64]:
    """Return the number of videos that show each class on the chosen frames (S, K): (C, K)."""
    return np.asarray((_sets_of_class(truth, matches, chosen, video_of_set) > 0).sum(axis=2))


def effective_of_class(truth: TruthTable, matches: Matches, chosen: Ints, video_of_set: Ints) -> Floats:
    """Return each class's effective number of videos, (Σm)²/Σm² over the m sets of a video that show it: (C, K)."""
    sets = _sets_of_class(truth, matches, chosen, video_of_set).astype(np.float64)
    return np.asarray(sets.sum(axis=2) ** 2 / np.maximum((sets * sets).sum(axis=2), 1))


def _sets_of_class(truth: TruthTable, matches: Matches, chosen: Ints, video_of_set: Ints) -> NDArray[np.int64]:
    """Return the number of sets of each video that show each class on the chosen frames (S, K): (C, K, G)."""
    there = np.zeros((truth.n_frames, truth.n_classes), dtype=bool)
    there[truth.frame[matches.wanted], truth.label[matches.wanted]] = True
    videos = int(video_of_set.max()) + 1
    out = np.zeros((truth.n_classes, chosen.shape[1], videos), dtype=np.int64)
    for k in range(chosen.shape[1]):
        sets, label = np.nonzero(there[chosen[:, k]])
        cells = np.bincount(label * videos + video_of_set[sets], minlength=truth.n_classes * videos)
        out[:, k] = cells.reshape(truth.n_classes, videos)
    return out
