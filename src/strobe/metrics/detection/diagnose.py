"""Why a frame's AP is low: what every false positive and every object that was not found is, and what mending it gains.

Kinds of error, by the overlap of a false positive with the objects of its frame (enough = the overlap scored at, some =
at least 0.1), the first that fits:

- duplicate: enough with an object of its class, which another detection found;
- classification: enough with an object of another class;
- localization: some with an object of its class;
- both: some with an object of another class;
- background: none of these.

And missed: an object that was not found and that no classification or localization error is about.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.metrics.detection.average import Interpolation, ap_of_flags
from strobe.metrics.detection.match import Matches, box_iou
from strobe.metrics.detection.tables import TruthTable

__all__ = ["KINDS", "SOME_OVERLAP", "Diagnosis", "diagnose"]

KINDS = ("classification", "localization", "both", "missed", "duplicate", "background")
"""Every kind of error, in the order in which equal gains are decided."""

SOME_OVERLAP = 0.1
"""Below this overlap a detection is about nothing (Bolya et al. 2020 use the same)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What is wrong with some frames. `gain` (N, 6) is how much each frame's AP rises when one kind is mended."""

    gain: Floats

    @property
    def main(self) -> NDArray[np.int64]:
        """The kind whose mending gains most, a place in KINDS, (N,); −1 where none gains anything."""
        rounded = np.round(self.gain, 9)
        return np.where(rounded.max(axis=1) > 0, rounded.argmax(axis=1), -1)

    @property
    def present(self) -> Bools:
        """Which kinds would gain something, (N, 6)."""
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
    """What is wrong with each of these frames (rows), by their pooled AP; `enough` (G,) is the overlap to be had.

    To mend a classification or localization error makes its best-scored detection about an object that was not found
    a true positive and removes the rest; to mend both, duplicate or background removes the false positives; to mend
    missed takes the objects off the list of those to be found.
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
        # Where nothing is left to be found, nothing is wrong any more.
        return np.where(np.isnan(after), 1.0, after) - before

    covered = np.zeros(len(part.wanted), dtype=bool)
    for place, (kind, target) in enumerate(((misnamed, other.target), (misplaced, same.target))):
        hit = part.hit.copy()
        about = np.flatnonzero(kind & lost[target]) if len(lost) else np.zeros(0, dtype=np.int64)
        covered[target[about]] = True
        _, first = np.unique(target[about], return_index=True)  # rows come with the highest score first
        hit[about[first]] = True
        gain[:, place] = mended(hit, part.counts & ~(kind & ~hit), part.wanted)
    gain[:, 3] = mended(part.hit, part.counts, part.wanted & ~(lost & ~covered))
    for place, kind in ((2, both), (4, duplicate), (5, background)):
        gain[:, place] = mended(part.hit, part.counts & ~kind, part.wanted)
    return Diagnosis(gain=gain)


@dataclass(frozen=True, slots=True)
class _Best:
    """The object each detection overlaps most (a place in the part's objects) and how well."""

    target: NDArray[np.int64]
    enough: Bools
    some: Bools


class _FrameSlice:
    """Some frames of both tables, numbered anew, and every pair of a detection and an object of its frame."""

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
        """How many objects each frame asks for, (N,)."""
        return np.bincount(self.frame_of_object[wanted], minlength=self.n_frames)

    def best(self, same: bool, enough: Floats) -> _Best:
        """For each detection the wanted object it overlaps most, among those of its class or those of others."""
        pairs = np.flatnonzero((self.same == same) & self.of_wanted & (self.overlap > 0))
        pairs = pairs[np.lexsort((self.overlap[pairs], self.detection[pairs]))]
        n = len(self.rows)
        target, overlap, asked = np.zeros(n, dtype=np.int64), np.zeros(n), np.ones(n)
        # The last written stays: the largest overlap.
        target[self.detection[pairs]] = self.target[pairs]
        overlap[self.detection[pairs]] = self.overlap[pairs]
        asked[self.detection[pairs]] = enough[self.objects[self.target[pairs]]]
        return _Best(target, (overlap >= asked) & (overlap > 0), overlap >= SOME_OVERLAP)
