"""Why a frame's AP is low: the kind of every false positive and missed object, and the AP gained by fixing it.

The overlap of a false positive with the objects of its frame determines its kind. *Enough* overlap is the overlap used
for scoring, and *some* overlap is at least 0.1. The first kind that fits applies:

- duplicate: enough overlap with an object of its class that another detection found;
- classification: enough overlap with an object of another class;
- localization: some overlap with an object of its class;
- both: some overlap with an object of another class;
- background: none of these.

In addition, *missed* is an object that was not found and that no classification or localization error refers to.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.metrics.detection.average import Interpolation, ap_of_flags
from strobe.metrics.detection.match import Matches, box_iou
from strobe.metrics.detection.tables import TruthTable

KINDS = ("classification", "localization", "both", "missed", "duplicate", "background")
"""All kinds of error, in the order that breaks ties between gains."""

SOME_OVERLAP = 0.1
"""Below this overlap, a detection refers to no object (as in Bolya et al. 2020)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The errors of some frames. `gain` (N, 6) is the rise of each frame's AP if one kind of error is fixed."""

    gain: Floats

    @property
    def main(self) -> NDArray[np.int64]:
        """The kind whose fix gains most AP, as an index into KINDS, (N,); −1 if no fix gains AP."""
        rounded = np.round(self.gain, 9)
        return np.where(rounded.max(axis=1) > 0, rounded.argmax(axis=1), -1)

    @property
    def present(self) -> Bools:
        """The kinds of error whose fix would raise AP, (N, 6)."""
        return np.asarray(np.round(self.gain, 9) > 0)


def diagnose(
    truth: TruthTable,
    found: BoxAnswers,
    one: Matches,
    frames: Ints,
    *,
    enough: Floats,
    interpolation: Interpolation = "coco-101",
) -> Diagnosis:
    """Diagnose each of these frames (rows) by its pooled AP; `enough` (G,) is the overlap required of each object.

    Fixing classification or localization errors turns the best-scored such detection on each missed object into a true
    positive and removes the other such detections. Fixing *both*, *duplicate* or *background* removes the false
    positives. Fixing *missed* removes the missed objects from the objects to find.
    """
    part = _FrameSlice(truth, found, one, frames)
    n_frames = len(frames)
    same, other = part.best(True, enough), part.best(False, enough)
    wrong = part.counts & ~part.hit
    duplicate = wrong & same.enough
    misnamed = wrong & ~duplicate & other.enough
    misplaced = wrong & ~duplicate & ~misnamed & same.some
    both = wrong & ~duplicate & ~misnamed & ~misplaced & other.some
    background = wrong & ~(duplicate | misnamed | misplaced | both)
    lost = part.wanted & ~part.taken
    before = ap_of_flags(part.frame, part.hit, part.counts, part.n_wanted(part.wanted), interpolation)
    gain = np.zeros((n_frames, len(KINDS)))

    def mended(hit: Bools, counts: Bools, wanted: Bools) -> Floats:
        after = ap_of_flags(part.frame, hit, counts, part.n_wanted(wanted), interpolation)
        # Without objects left to find, no error is left.
        return np.where(np.isnan(after), 1.0, after) - before

    covered = np.zeros(len(part.wanted), dtype=bool)
    for place, (kind, target) in enumerate(((misnamed, other.target), (misplaced, same.target))):
        hit = part.hit.copy()
        about = np.flatnonzero(kind & lost[target]) if len(lost) else np.zeros(0, dtype=np.int64)
        covered[target[about]] = True
        _, first = np.unique(target[about], return_index=True)  # rows are sorted by descending score
        hit[about[first]] = True
        gain[:, place] = mended(hit, part.counts & ~(kind & ~hit), part.wanted)
    gain[:, 3] = mended(part.hit, part.counts, part.wanted & ~(lost & ~covered))
    for place, kind in ((2, both), (4, duplicate), (5, background)):
        gain[:, place] = mended(part.hit, part.counts & ~kind, part.wanted)
    return Diagnosis(gain=gain)


@dataclass(frozen=True, slots=True)
class _Best:
    """For each detection, the object with the largest overlap, and whether this overlap is *enough* or *some*.

    `target` is an index into the slice's objects.
    """

    target: NDArray[np.int64]
    enough: Bools
    some: Bools


class _FrameSlice:
    """Some frames of both tables, renumbered, and every pair of a detection and an object of the same frame."""

    def __init__(self, truth: TruthTable, found: BoxAnswers, one: Matches, frames: Ints) -> None:
        place = np.full(found.n_frames, -1, dtype=np.int64)
        place[frames] = np.arange(len(frames))
        self.n_frames = len(frames)
        rows = np.flatnonzero(place[found.frame] >= 0)
        self.rows = rows[np.argsort(place[found.frame[rows]], kind="stable")]
        objects = np.flatnonzero(place[truth.frame] >= 0)
        self.objects = objects[np.argsort(place[truth.frame[objects]], kind="stable")]
        self.frame, self.frame_of_object = place[found.frame[self.rows]], place[truth.frame[self.objects]]
        hit, taken = np.zeros(len(found), dtype=bool), np.zeros(len(truth), dtype=bool)
        hit[one.found], taken[one.object] = True, True
        self.hit, self.taken, self.wanted = hit[self.rows], taken[self.objects], one.wanted[self.objects]
        counts = np.ones(len(found), dtype=bool) if one.counts is None else one.counts
        self.counts = counts[self.rows]
        self._truth, self._found = truth, found
        first = np.searchsorted(self.frame_of_object, self.frame)
        options = np.searchsorted(self.frame_of_object, self.frame, side="right") - first
        self.detection = np.repeat(np.arange(len(self.rows)), options)
        step = np.arange(len(self.detection)) - np.repeat(np.cumsum(options) - options, options)
        self.target = np.repeat(first, options) + step
        a, b = self.rows[self.detection], self.objects[self.target]
        self.overlap = box_iou(np.take(found.xyxy, a, axis=0), np.take(truth.xyxy, b, axis=0))
        self.same = found.label[a] == truth.label[b]
        self.of_wanted = one.wanted[b]

    def n_wanted(self, wanted: Bools) -> NDArray[np.int64]:
        """Return the number of objects to find in each frame, (N,)."""
        return np.bincount(self.frame_of_object[wanted], minlength=self.n_frames)

    def best(self, same: bool, enough: Floats) -> _Best:
        """Return each detection's wanted object with the largest overlap, in its own class or in other classes."""
        pairs = np.flatnonzero((self.same == same) & self.of_wanted & (self.overlap > 0))
        pairs = pairs[np.lexsort((self.overlap[pairs], self.detection[pairs]))]
        n = len(self.rows)
        target, overlap, required = np.zeros(n, dtype=np.int64), np.zeros(n), np.ones(n)
        # The last write wins, and it has the largest overlap.
        target[self.detection[pairs]] = self.target[pairs]
        overlap[self.detection[pairs]] = self.overlap[pairs]
        required[self.detection[pairs]] = enough[self.objects[self.target[pairs]]]
        return _Best(target, (overlap >= required) & (overlap > 0), overlap >= SOME_OVERLAP)
