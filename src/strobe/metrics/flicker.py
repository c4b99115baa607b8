"""Flicker without labels: which sets change their answer, how long another answer lasts, which answers alternate."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints, counts
from strobe.core.errors import expect
from strobe.metrics.pmk import first_wrong


def first_change(answer: Ints, set_row: Ints, level: Ints, is_anchor: Bools, *, n_sets: int, never: int) -> Ints:
    """Return, per set, the smallest level at which a member's answer differs from the anchor's, else `never`.

    The columns are (R,), one row per member; every set has one anchor.

    >>> rows = np.array([0, 0, 0, 1, 1])
    >>> answer, level = np.array([7, 7, 3, 5, 5]), np.array([0, 1, 2, 0, 1])
    >>> first_change(answer, rows, level, level == 0, n_sets=2, never=3).tolist()
    [2, 3]
    """
    return first_wrong(changed(answer, set_row, is_anchor, n_sets=n_sets), set_row, level, n_sets=n_sets, never=never)


def changed(answer: Ints, set_row: Ints, is_anchor: Bools, *, n_sets: int) -> Bools:
    """Return whether each member's answer differs from the answer on the anchor of its set, (R,)."""
    expect(answer.shape == set_row.shape == is_anchor.shape, "answer", "one per set row", answer.shape)
    expect(bool((counts(set_row[is_anchor], n_sets) == 1).all()), "is_anchor", "one anchor per set", None)
    of_anchor = np.empty(n_sets, dtype=answer.dtype)
    of_anchor[set_row[is_anchor]] = answer[is_anchor]
    return np.asarray(answer != of_anchor[set_row])


def most_frequent_share(answer: Ints, set_row: Ints, *, n_sets: int) -> Floats:
    """Return, per set, the share of members that have the set's most frequent answer.

    If a set has one right answer, no model with these answers is right on a larger share of its frames.

    >>> most_frequent_share(np.array([4, 4, 9, 1]), np.array([0, 0, 0, 1]), n_sets=2).round(3).tolist()
    [0.667, 1.0]
    """
    expect(answer.shape == set_row.shape, "answer", "one per set row", answer.shape)
    size = counts(set_row, n_sets)
    expect(bool((size > 0).all()), "set_row", "at least one row per set", None)
    order = np.lexsort((answer, set_row))
    ordered, sets = answer[order], set_row[order]
    starts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]) | (sets[1:] != sets[:-1])))
    length = np.diff(np.append(starts, len(ordered)))
    most = np.zeros(n_sets, dtype=np.int64)
    np.maximum.at(most, sets[starts], length)
    return np.asarray(most / size)


def longest_strays(answer: Ints, set_row: Ints, index: Ints, *, n_sets: int) -> Ints:
    """Return, per set, the longest run of frames without its most frequent answer; ties go to the smallest answer.

    The columns are (R,), one row per member, and `index` is the number of the frame in its video, which orders a set.

    >>> answer, index = np.array([4, 9, 1, 4, 4, 4]), np.arange(6)
    >>> longest_strays(answer, np.zeros(6, dtype=int), index, n_sets=1).tolist()
    [2]
    """
    order = np.lexsort((answer, set_row))
    ordered, sets = answer[order], set_row[order]
    starts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]) | (sets[1:] != sets[:-1])))
    length = np.diff(np.append(starts, len(ordered)))
    first = np.lexsort((ordered[starts], -length, sets[starts]))  # the most frequent answer of each set comes first
    kept = first[np.unique(sets[starts][first], return_index=True)[1]]
    most = np.zeros(n_sets, dtype=answer.dtype)
    most[sets[starts][kept]] = ordered[starts][kept]
    time = np.lexsort((index, set_row))
    stray, owner = (answer != most[set_row])[time], set_row[time]
    runs = np.flatnonzero(np.append(True, (stray[1:] != stray[:-1]) | (owner[1:] != owner[:-1])))
    lengths = np.diff(np.append(runs, len(owner)))
    longest = np.zeros(n_sets, dtype=np.int64)
    np.maximum.at(longest, owner[runs][stray[runs]], lengths[stray[runs]])
    return longest


def sure_flips(
    answer: NDArray[Any], confidence: Floats, first: Ints, second: Ints, *, sure: float
) -> tuple[Bools, Bools]:
    """Return which adjacent pairs (P,) flip, and which flip with both confidences of at least `sure`.

    `first` and `second` index `answer` and `confidence` (N,). A confidence of NaN is never sure.

    >>> flips, surely = sure_flips(np.array([1, 2, 1]), np.array([0.9, 0.8, 0.2]), np.array([0, 1]), np.array([1, 2]),
    ...     sure=0.5)
    >>> flips.tolist(), surely.tolist()
    ([True, True], [True, False])
    """
    expect(0 <= sure <= 1, "sure", "a confidence from 0 to 1", sure)
    flips = np.asarray(answer[first] != answer[second])
    with np.errstate(invalid="ignore"):
        both = (confidence[first] >= sure) & (confidence[second] >= sure)
    return flips, flips & both


@dataclass(frozen=True, slots=True)
class Spells:
    """The maximal runs of one answer along timelines, in order.

    `start` and `length` (N,) are in frames of the ordered columns, and `timeline` (N,) is the run's stretch of video.
    `returns` marks the middle run of a pattern A B A: the model left its answer and came back to it.
    """

    start: Ints
    length: Ints
    answer: Ints
    timeline: Ints
    returns: Bools


def spells(answer: Ints, timeline: Ints) -> Spells:
    """Return the runs of equal answers; `answer` and `timeline` (N,) are ordered by time within each timeline.

    A timeline is a stretch of consecutive frames of one video. A run that a timeline's start or end cuts off is never
    marked as a return, because its length is unknown.

    >>> found = spells(np.array([1, 1, 2, 1, 5]), np.zeros(5, dtype=int))
    >>> found.length.tolist(), found.returns.tolist()
    ([2, 1, 1, 1], [False, True, False, False])
    """
    expect(answer.shape == timeline.shape and answer.ndim == 1, "answer", "one per frame of a timeline", answer.shape)
    if not answer.size:
        none = np.empty(0, dtype=np.int64)
        return Spells(none, none, none, none, none.astype(bool))
    starts = np.flatnonzero(np.append(True, (answer[1:] != answer[:-1]) | (timeline[1:] != timeline[:-1])))
    value, line = answer[starts], timeline[starts]
    returns = np.zeros(len(starts), dtype=bool)
    returns[1:-1] = (value[:-2] == value[2:]) & (line[:-2] == line[1:-1]) & (line[1:-1] == line[2:])
    return Spells(starts, np.diff(np.append(starts, len(answer))), value, line, returns)


@dataclass(frozen=True, slots=True)
class Alternations:
    """Pairs of answers that follow each other, the most frequent first: both answers, their flips and their videos."""

    one: Ints
    other: Ints
    flips: Ints
    videos: Ints


def alternations(before: Ints, after: Ints, video: Ints) -> Alternations:
    """Count flips (P,) by their unordered pair of answers; pairs with equal counts are in the order of their answers.

    >>> found = alternations(np.array([3, 8, 3]), np.array([8, 3, 4]), np.array([0, 0, 1]))
    >>> list(zip(found.one.tolist(), found.other.tolist(), found.flips.tolist(), found.videos.tolist()))
    [(3, 8, 2, 1), (3, 4, 1, 1)]
    """
    expect(bool((before != after).all()), "before", "an answer other than the one after it", None)
    pair = np.stack([np.minimum(before, after), np.maximum(before, after)], axis=1)
    kinds, place, many = np.unique(pair.reshape(-1, 2), axis=0, return_inverse=True, return_counts=True)
    seen = np.unique(np.stack([place.reshape(-1), video], axis=1), axis=0)
    videos = counts(seen[:, 0], len(kinds))
    order = np.argsort(-many, kind="stable")
    return Alternations(kinds[order, 0], kinds[order, 1], many[order], videos[order])


def timelines(video: Ints, index: Ints) -> tuple[Ints, Ints]:
    """Return the order of frames by video and index, and the number of the timeline of each ordered frame.

    A new timeline starts at a new video and after a gap in the indices.

    >>> order, line = timelines(np.array([0, 0, 0, 1]), np.array([5, 4, 9, 10]))
    >>> order.tolist(), line.tolist()
    ([1, 0, 2, 3], [0, 0, 1, 2])
    """
    expect(video.shape == index.shape, "video", "one per frame", video.shape)
    order = np.lexsort((index, video))
    step, same = np.diff(index[order].astype(np.int64)), np.diff(video[order]) == 0
    expect(not bool((same & (step == 0)).any()), "index", "different for the frames of one video", None)
    return order, np.concatenate([np.zeros(min(1, len(order)), dtype=np.int64), np.cumsum(~(same & (step == 1)))])


@dataclass(frozen=True, slots=True)
class Spots:
    """Places where one model keeps its answer and another changes its own, in the order of time.

    `first` and `last` (N,) are the first frame after the first and the last change, and `changes` counts them.
    """

    first: Ints
    last: Ints
    changes: Ints


def spots(steady: Ints, other: Ints, timeline: Ints) -> Spots:
    """Return the stretches in which `steady` gives one answer throughout and `other` changes its answer.

    All are (N,), ordered by time within each timeline.

    >>> found = spots(np.array([1, 1, 1, 1, 2]), np.array([5, 6, 5, 5, 5]), np.zeros(5, dtype=int))
    >>> found.first.tolist(), found.last.tolist(), found.changes.tolist()
    ([1], [2], [2])
    """
    expect(steady.shape == other.shape == timeline.shape, "steady", "as many answers as the other", steady.shape)
    if not len(steady):
        none = np.empty(0, dtype=np.int64)
        return Spots(none, none, none)
    same = timeline[1:] == timeline[:-1]
    spell = np.concatenate([[0], np.cumsum(~same | (steady[1:] != steady[:-1]))])
    at = np.flatnonzero(same & (other[1:] != other[:-1]) & (spell[1:] == spell[:-1])) + 1
    _, first, changes = np.unique(spell[at], return_index=True, return_counts=True)
    return Spots(at[first], at[first + changes - 1], changes)
