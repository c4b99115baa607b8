"""Follow tracked objects through a set: objects lost and found again, box jitter and score swing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.metrics.detection.match import Matches, box_iou
from strobe.metrics.detection.tables import TruthTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackFigures:
    """One entry per (set, track) that can be found in at least two frames of the set; all arrays are (T,).

    `flickers` marks objects found, then lost, then found again, over the frames in which they can be found.
    `can_flicker` marks objects with at least three such frames. `flips` is the share of neighbouring frames (indices
    that differ by one) between which the object changes from found to lost or back. `jitter` is the mean of 1 − IoU
    between neighbouring detections, each relative to the object's own box, so that the object's motion does not count.
    `swing` is the highest minus the lowest score over the frames in which the object is found. A value is NaN if it
    cannot be measured.
    """

    set: NDArray[np.int64]
    flickers: Bools
    can_flicker: Bools
    flips: Floats
    jitter: Floats
    swing: Floats


def track_figures(
    truth: TruthTable,
    found: BoxAnswers,
    one: Matches,
    *,
    set_of_row: Ints,
    frame_of_row: Ints,
    index_of_frame: Ints,
    confidence: float,
) -> TrackFigures:
    """Follow every track of the truth table through every set.

    An object is found if a detection with at least `confidence` is matched to it. Set rows give the frames of each
    set. `index_of_frame` (F,) is each frame's index in its video.
    """
    track = truth.track
    finder = np.full(len(truth), -1, dtype=np.int64)
    finder[one.object] = one.found
    sure = finder >= 0
    sure[sure] = found.score[finder[sure]] >= confidence
    usable = np.flatnonzero(one.wanted & (track >= 0))
    # One row per (set row, object): a frame in two sets is followed twice.
    first = np.searchsorted(truth.frame[usable], frame_of_row)
    many = np.searchsorted(truth.frame[usable], frame_of_row, side="right") - first
    owner = np.repeat(set_of_row, many).astype(np.int64)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many)
    thing = usable[np.repeat(first, many) + step]
    index = index_of_frame[truth.frame[thing]].astype(np.int64)
    order = np.lexsort((index, truth.label[thing], track[thing], owner))
    owner, thing, index = owner[order], thing[order], index[order]
    name = np.stack([owner, track[thing].astype(np.int64), truth.label[thing].astype(np.int64)], axis=1)
    new = np.ones(len(owner), dtype=bool)
    new[1:] = (name[1:] != name[:-1]).any(axis=1)
    run = np.cumsum(new) - 1
    n_runs = int(run[-1]) + 1 if len(run) else 0
    seen = sure[thing]
    length = np.bincount(run, minlength=n_runs)
    keep = length >= 2

    neighbour = np.flatnonzero(~new[1:] & (index[1:] - index[:-1] == 1))
    later = neighbour + 1
    changes = seen[later] != seen[neighbour]
    pairs = np.bincount(run[neighbour], minlength=n_runs)
    flips = _share(np.bincount(run[neighbour], weights=changes, minlength=n_runs), pairs)

    stays = seen[later] & seen[neighbour]
    a, b = neighbour[stays], later[stays]
    shake = 1.0 - box_iou(_relative(truth, found, thing[a], finder), _relative(truth, found, thing[b], finder))
    jitter = _share(np.bincount(run[a], weights=shake, minlength=n_runs), np.bincount(run[a], minlength=n_runs))

    score = np.where(seen, found.score[np.maximum(finder[thing], 0)] if len(found) else 0.0, np.nan)
    highest, lowest = np.full(n_runs, -np.inf), np.full(n_runs, np.inf)
    np.maximum.at(highest, run[seen], score[seen])
    np.minimum.at(lowest, run[seen], score[seen])
    n_seen = np.bincount(run[seen], minlength=n_runs)
    swing = np.where(n_seen >= 2, highest - lowest, np.nan)
    return TrackFigures(
        set=owner[new][keep],
        flickers=_comes_back(run, seen, n_runs)[keep],
        can_flicker=(length >= 3)[keep],
        flips=flips[keep],
        jitter=jitter[keep],
        swing=swing[keep],
    )


def _share(total: NDArray[Any], n: Ints) -> Floats:
    return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0), dtype=np.float64)


def _comes_back(run: Ints, seen: Bools, n_runs: int) -> Bools:
    """Return whether a sequence has an unseen frame between two seen frames."""
    place = np.arange(len(run))
    first, last = np.full(n_runs, len(run)), np.full(n_runs, -1)
    np.minimum.at(first, run[seen], place[seen])
    np.maximum.at(last, run[seen], place[seen])
    between = ~seen & (place > first[run]) & (place < last[run])
    return np.bincount(run[between], minlength=n_runs) > 0


def _relative(truth: TruthTable, answers: BoxAnswers, thing: Ints, finder: Ints) -> Floats:
    """Return the box that found each object, in units of the object's own box (0, 0, 1, 1)."""
    box, mine = answers.xyxy[finder[thing]], truth.xyxy[thing]
    corner, size = mine[:, :2], mine[:, 2:] - mine[:, :2]
    return np.concatenate([(box[:, :2] - corner) / size, (box[:, 2:] - corner) / size], axis=1)
