"""Average precision from existing matches, per frame, or per class over any selection of frames with any weights.

Average precision depends only on the true positives and on the number of counted detections before each of them. These
numbers are counted once, so a bootstrap draw only changes the weights of the counts, without sorting again.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.metrics.detection.match import Matches
from strobe.metrics.detection.tables import TruthTable

Interpolation = Literal["coco-101", "voc-all-points"]
"""COCO's mean over 101 recalls, or the whole area under the precision envelope (VOC since 2010)."""

_RECALLS = np.linspace(0.0, 1.0, 101)
_AFTER = np.append(_RECALLS, np.inf)


def _recalls_reached(recall: Floats) -> NDArray[np.int64]:
    """Return how many of the 101 recalls are ≤ recall.

    For large arrays, this is several times faster than np.searchsorted.
    """
    place = (recall * 100.0).astype(np.int64)
    # The product is rounded, so the guess may be off by one in either direction.
    place -= _RECALLS[place] > recall
    place += _AFTER[place + 1] <= recall
    return place + 1


def _grouped_ap(group: Ints, rank: Ints, wanted: Ints, interpolation: Interpolation) -> Floats:
    """Return AP of each group.

    Hits are sorted by group and rank; `rank` is the number of detections up to and including each hit.
    """
    value = np.full(len(wanted), np.nan)
    value[wanted > 0] = 0.0
    if not len(group):
        return value
    opens = np.ones(len(group), dtype=bool)
    opens[1:] = group[1:] != group[:-1]
    place = np.arange(len(group))
    start = np.maximum.accumulate(np.where(opens, place, 0))
    hits = (place - start + 1).astype(np.float64)
    envelope = hits / rank
    # This is the highest precision from here to the end of the group. Doubling steps are exact, unlike an offset per
    # group.
    longest, step = int(hits.max()), 1
    while step < longest:
        same = group[step:] == group[:-step]
        later = np.where(same, envelope[step:], 0.0)
        envelope[:-step] = np.maximum(envelope[:-step], later)
        step *= 2
    objects = wanted[group].astype(np.float64)
    if interpolation == "voc-all-points":
        gain = 1.0 / objects
    else:
        # The first hit also counts for recall 0.
        gain = (_recalls_reached(hits / objects) - np.where(opens, 0, _recalls_reached((hits - 1) / objects))) / 101.0
    total = np.bincount(group, weights=gain * envelope, minlength=len(wanted))
    return np.where(wanted > 0, total, np.nan)


def ap_of_flags(frame: Ints, hit: Bools, counts: Bools, wanted: Ints, interpolation: Interpolation) -> Floats:
    """Return AP of every frame (F,) from hits, counted rows and wanted objects, with rows sorted by frame and score."""
    spared = np.concatenate(([0], np.cumsum(~counts)))
    rows = np.flatnonzero(hit)
    start = np.searchsorted(frame, frame[rows])
    return _grouped_ap(frame[rows], rows - start + 1 - (spared[rows] - spared[start]), wanted, interpolation)


def frame_ap(
    truth: TruthTable, found: BoxAnswers, matches: tuple[Matches, ...], *, interpolation: Interpolation = "coco-101"
) -> Floats:
    """Return AP of each single frame, (F,).

    It comes from one curve pooled over the matched classes, as the mean over overlaps.

    AP is NaN if there are no objects to find, and 0 if there are objects and none was found.
    """
    starts = found.starts()
    total = np.zeros(found.n_frames)
    for matching in matches:
        frame = found.frame[matching.found]
        rank = matching.found - starts[frame] + 1
        if matching.counts is not None:
            spared = np.concatenate(([0], np.cumsum(~matching.counts)))
            rank = rank - (spared[matching.found] - spared[starts[frame]])
        wanted = np.bincount(truth.frame[matching.wanted], minlength=found.n_frames)
        total += _grouped_ap(frame, rank, wanted, interpolation)
    return total / len(matches)


def frame_class_ap(
    truth: TruthTable, found: BoxAnswers, matches: tuple[Matches, ...], *, interpolation: Interpolation = "coco-101"
) -> Floats:
    """Return each frame's mean AP over its classes, (F,), as pycocotools gives for one image; NaN as in frame_ap."""
    n_frames, n_classes = found.n_frames, found.n_classes
    total = np.zeros(n_frames)
    for match in matches:
        key = truth.frame[match.wanted].astype(np.int64) * n_classes + truth.label[match.wanted]
        present, wanted = np.unique(key, return_counts=True)
        group, rank = _ranks_in_groups(found, match, present)
        value = _grouped_ap(group, rank, wanted, interpolation)
        frame = present // n_classes
        classes = np.bincount(frame, minlength=n_frames)
        summed = np.bincount(frame, weights=value, minlength=n_frames)
        total += np.divide(summed, classes, out=np.full(n_frames, np.nan), where=classes > 0)
    return total / len(matches)


def _ranks_in_groups(answers: BoxAnswers, matching: Matches, present: Ints) -> tuple[Ints, Ints]:
    """Return each hit's group (an index into `present`) and its rank in frame and class, sorted by group and rank."""
    hit = np.zeros(len(answers), dtype=bool)
    hit[matching.found] = True
    frame = answers.frame[matching.found].astype(np.int64)
    keys = np.unique(frame * answers.n_classes + answers.label[matching.found])
    frames = np.zeros(answers.n_frames, dtype=bool)
    frames[frame] = True
    rows = np.flatnonzero(frames[answers.frame] if matching.counts is None else frames[answers.frame] & matching.counts)
    key = answers.frame[rows].astype(np.int64) * answers.n_classes + answers.label[rows]
    if answers.n_frames * answers.n_classes <= 4 * len(answers) + 4096:
        # If there are few groups, a table of all groups is several times faster than a search.
        wanted = np.zeros(answers.n_frames * answers.n_classes, dtype=bool)
        wanted[keys] = True
        kept = np.flatnonzero(wanted[key])
    else:
        kept = np.flatnonzero(keys[np.minimum(np.searchsorted(keys, key), len(keys) - 1)] == key)
    order = kept[np.argsort(key[kept], kind="stable")]
    key, rows = key[order], rows[order]
    rank = np.arange(len(key)) - np.searchsorted(key, key) + 1
    keep = hit[rows]
    return np.searchsorted(present, key[keep]), rank[keep]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveIndex:
    """The curves of every class over some frames, ready to be evaluated under any weights of those frames.

    Rows of `before` (H, U) are hits sorted by class and score. Entry (h, u) counts the detections of frame u that
    come after hit h − 1 of the class and not after hit h. `wanted` (C, U) counts the objects to find.
    """

    bounds: Ints
    frame_of_hit: Ints
    before: Any
    wanted: Any
    n_frames: int

    def ap(self, weights: Floats, *, interpolation: Interpolation = "coco-101") -> Floats:
        """Return AP (C, B) under weights (U, B), each frame's multiplicity; NaN if a class has no objects to find.

        Copies of a frame are adjacent in the order of scores.
        """
        expect(weights.ndim == 2 and len(weights) == self.n_frames, "weights", f"({self.n_frames}, B)", weights.shape)
        n_classes = len(self.bounds) - 1
        out = np.full((n_classes, weights.shape[1]), np.nan)
        wanted = self.wanted @ weights
        passed = self.before @ weights
        for label in range(n_classes):
            objects = wanted[label]
            if not objects.any():
                continue
            rows = slice(self.bounds[label], self.bounds[label + 1])
            out[label] = np.where(
                objects > 0,
                _weighted_ap(weights[self.frame_of_hit[rows]], passed[rows], np.maximum(objects, 1), interpolation),
                np.nan,
            )
        return out


def _weighted_ap(hit: Floats, passed: Floats, objects: Floats, interpolation: Interpolation) -> Floats:
    """Return AP (B,) of one class.

    The inputs, both (H, B), are the weight of each hit and the weight of the detections since the last hit.
    """
    if not len(hit):
        return np.zeros(len(objects))
    hits, until = np.cumsum(hit, axis=0), np.cumsum(passed, axis=0)
    envelope = np.divide(hits, until, out=until, where=until > 0)
    np.maximum.accumulate(envelope[::-1], axis=0, out=envelope[::-1])
    if interpolation == "voc-all-points":
        return np.asarray((hit * envelope).sum(axis=0) / objects)
    reached = _recalls_reached(hits / objects)
    reached[1:] -= reached[:-1].copy()
    return np.asarray(np.einsum("hb,hb->b", reached.astype(np.float64), envelope) / 101.0)


def curve_index(truth: TruthTable, found: BoxAnswers, one: Matches, frames: Ints) -> CurveIndex:
    """Return the curves over these frames (distinct rows, ascending: their order decides ties between frames)."""
    from scipy import sparse

    expect(bool((np.diff(frames) > 0).all()), "frames", "ascending, each once", "another order")
    place = np.full(found.n_frames, -1, dtype=np.int64)
    place[frames] = np.arange(len(frames))
    n_classes, n_used = found.n_classes, len(frames)
    chosen = one.wanted & (place[truth.frame] >= 0)
    n_objects = sparse.csr_matrix(
        (np.ones(int(chosen.sum())), (truth.label[chosen], place[truth.frame[chosen]])), shape=(n_classes, n_used)
    )
    hits = one.found[place[found.frame[one.found]] >= 0]
    hits = hits[np.lexsort((hits, -found.score[hits], found.label[hits]))]
    bounds = np.searchsorted(found.label[hits], np.arange(n_classes + 1))
    starts = found.starts()
    sizes = np.diff(starts)[frames]
    rows = np.repeat(starts[frames] - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
    if one.counts is not None:
        rows = rows[one.counts[rows]]
    label = found.label[rows]
    narrow = label.astype(np.int16) if n_classes < 1 << 15 else label  # numpy sorts 16-bit integers by radix
    rows = rows[np.argsort(narrow, kind="stable")]
    sections = np.searchsorted(found.label[rows], np.arange(n_classes + 1))
    kept, buckets = [], []
    for c in range(n_classes):
        if bounds[c] == bounds[c + 1]:
            continue
        mine, targets = rows[sections[c] : sections[c + 1]], hits[bounds[c] : bounds[c + 1]]
        bucket = _next_hit(-found.score[mine], mine, -found.score[targets], targets)
        before_last = bucket < len(targets)
        kept.append(mine[before_last])
        buckets.append(bucket[before_last] + bounds[c])
    passing = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
    bucket = np.concatenate(buckets) if buckets else np.zeros(0, dtype=np.int64)
    before = sparse.csr_matrix((np.ones(len(bucket)), (bucket, place[found.frame[passing]])), shape=(len(hits), n_used))
    return CurveIndex(
        bounds=bounds, frame_of_hit=place[found.frame[hits]], before=before, wanted=n_objects, n_frames=n_used
    )


def _next_hit(value: Floats, row: Ints, hit_value: Floats, hit_row: Ints) -> NDArray[np.int64]:
    """Return the index of the first hit at or after each detection; hits are ordered by (value, row)."""
    place = np.searchsorted(hit_value, value)
    tied = np.flatnonzero(hit_value[np.minimum(place, len(hit_value) - 1)] == value)
    # A run of hits with equal scores is identified by its start, and rows decide within the run.
    span = int(max(row.max(initial=0), hit_row.max(initial=0))) + 1
    run = np.searchsorted(hit_value, hit_value)
    place[tied] = np.searchsorted(run * span + hit_row, place[tied] * span + row[tied])
    return np.asarray(place, dtype=np.int64)


def mean_over_classes(ap: Floats) -> Floats:
    """Return the mean over classes (axis −2) of (…, C, B), skipping classes with no objects; NaN if all are skipped."""
    known = ~np.isnan(ap)
    n = known.sum(axis=-2)
    mean = np.divide(np.where(known, ap, 0.0).sum(axis=-2), n, out=np.full(n.shape, np.nan), where=n > 0)
    return np.asarray(mean, dtype=np.float64)
