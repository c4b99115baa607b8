"""Accuracy along time: within milliseconds, comparable between videos of different frame rates, and after smoothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import Plan
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Bools, Ints, blocks, narrow
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.intervals import Grouping, one_group
from strobe.metrics.pmk import first_wrong
from strobe.metrics.smoothing import Method, complete_windows, delay, settled_windows, smooth_labels, smooth_votes
from strobe.studies.temporal.records import Smoothed, TimeCurve, TimePoint

UNKNOWN = -1
POINTS = 20
_SAFE = 2**62 // 4000


def millisecond_levels(dataset: Dataset) -> Ints:
    """Return, for each set row, the smallest whole t in ms at which the row counts.

    A row counts if |Δ| ≤ t + 0.5 ms; the result is −1 if times are unknown.

    The result is exact. Δ comes from the presentation times of both frames if these are known, else from the indices
    and the video's frame rate.
    """
    frames, sets = dataset.frames, dataset.sets
    num, den, anchors = frames.passing("time_num"), frames.passing("time_den"), sets.anchor_frame
    found = [
        narrow(_levels(dataset, num, den, anchors[sets.set[rows]], sets.frame[rows])) for rows in blocks(len(sets.set))
    ]
    return np.concatenate(found)  # if the integer types differ, the result has the widest


def _levels(dataset: Dataset, num: Ints, den: Ints, anchor: Ints, frame: Ints) -> NDArray[np.int64]:
    """Return the levels of `millisecond_levels` for these frames and their anchors."""
    frames, videos = dataset.frames, dataset.videos
    out = np.full(len(frame), UNKNOWN, dtype=np.int64)
    den_a, den_b = den[anchor].astype(np.int64), den[frame].astype(np.int64)
    timed = (den_a > 0) & (den_b > 0)
    num_a, num_b = num[anchor].astype(np.int64), num[frame].astype(np.int64)
    same = den_a == den_b
    times_a, times_b = np.where(same, 1, den_b), np.where(same, 1, den_a)
    # A float product shows whether the integer product fits into 64 bits; otherwise plain fractions are used.
    sizes = (np.abs(num_a) * 1.0 * times_a, np.abs(num_b) * 1.0 * times_b, den_a * 1.0 * times_a)
    fits = timed & (np.maximum.reduce(sizes) < _SAFE)
    gaps = np.abs(num_b[fits] * times_b[fits] - num_a[fits] * times_a[fits])
    out[fits] = _level(gaps, den_a[fits] * times_a[fits])
    for row in np.flatnonzero(timed & ~fits):
        gap = abs(Fraction(int(num_b[row]), int(den_b[row])) - Fraction(int(num_a[row]), int(den_a[row])))
        out[row] = -((1 - 2000 * gap) // 2)
    video = frames.video[anchor]
    fps_num, fps_den = videos.fps_num[video].astype(np.int64), videos.fps_den[video].astype(np.int64)
    by_rate = ~timed & (fps_den > 0) & (fps_num > 0) & (frames.video[frame] == video)
    step = np.abs(frames.index[frame].astype(np.int64) - frames.index[anchor])
    out[by_rate] = _level((step * fps_den)[by_rate], fps_num[by_rate])
    return out


def _level(num: Ints, den: Ints) -> NDArray[np.int64]:
    """Return ⌈1000·num/den − ½⌉ in integers."""
    return np.asarray(-((den - 2000 * num) // (2 * den)))


@dataclass(frozen=True, slots=True)
class TimePlan:
    """The cohort that reaches `t_max_ms` and the points of its curve."""

    level: Ints
    cohort: Bools
    t_max_ms: int
    ms: Ints
    grouping: Grouping

    def curve(self, plan: Plan, wrong: Bools) -> TimeCurve:
        """Return the share of the cohort's sets without a wrong frame within each t."""
        never = int(self.ms[-1]) + 1
        rows = wrong & self.cohort[plan.set_row] & (self.level < never)
        first = np.full(plan.n_sets, never, dtype=np.int64)
        np.minimum.at(first, plan.set_row[rows], self.level[rows])
        right = first[self.cohort] > self.ms[:, None]
        points = tuple(map(TimePoint, self.ms.tolist(), self.grouping.estimates(right)))
        return TimeCurve(t_max_ms=self.t_max_ms, n_sets=int(self.cohort.sum()), points=points)


def time_plan(plan: Plan) -> TimePlan | Missing:
    """Return the cohort and points of the curve against time, or the reason why there is none.

    A set's reach is the largest |Δ| of its members. The limit t_max is the 5th percentile of the reaches, rounded down
    to the reach of a set. The sets that reach t_max are the cohort for every t.
    """
    if not plan.is_video:
        return Missing("the axis is not frame-offset")
    level = millisecond_levels(plan.view)
    known = np.minimum.reduceat(level, plan.start) >= 0
    if not known.any():
        return Missing("neither presentation times nor frame rates are known")
    reach = np.maximum.reduceat(level, plan.start)
    ordered = np.sort(reach[known])
    t_max = int(ordered[int(0.05 * (len(ordered) - 1))])
    if t_max <= 0:
        return Missing("more than 5 % of the sets have only an anchor")
    cohort = known & (reach >= t_max)
    step = _round_step(t_max / POINTS)
    ms = np.unique(np.append(np.arange(0, t_max, step), t_max))
    grouping = one_group(plan.cluster[cohort], interval=plan.options.interval)
    return TimePlan(level, cohort, t_max, ms, grouping)


def _round_step(least: float) -> int:
    """Return the smallest 1, 2 or 5 times a power of ten that is not below `least`."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if factor * size >= least:
                return factor * size
        size *= 10


_CELLS, _VALUES = 2**15, 3 * 2**16
"""The most frames and probabilities in one block; sets are smoothed in blocks, so that memory does not grow."""


def smoothed(plan: Plan, predictions: ClassAnswers, unsmoothed: dict[str, Estimate]) -> tuple[Smoothed, ...]:
    """Return the unsmoothed score, then the score of each smoothing in the options, all on the same sets.

    Probabilities are averaged. If a model gave labels only, windows vote and there is no exponential average. Windows
    wider than the dataset's k are omitted. The result is empty if sets are not parts of a video.
    """
    strips = plan.strips if plan.is_video else None
    if strips is None:
        return ()
    out = [Smoothed(method="none", parameter=0, delay_frames=0, incomplete=0.0, **unsmoothed)]
    variants = _variants(plan, votes=not predictions.has_shares)
    if not variants:
        return tuple(out)
    first, short = np.empty((len(variants), plan.n_sets), dtype=np.int32), np.zeros(len(variants), dtype=np.int64)
    n_classes = len(plan.view.info.label_space)
    for sets, rows in plan.blocks(max(1, _CELLS // strips.frame.shape[1])):
        block = _StripBlock(predictions, np.ascontiguousarray(strips.frame[sets].T), variants, n_classes)
        owner, level = plan.set_row[rows].astype(np.intp) - sets.start, plan.level[rows]
        wrong = np.repeat(~plan.view.right(block.main[owner], rows)[None], len(variants), axis=0)
        for number, places, labels in block.open_windows(owner, strips.place[rows]):
            wrong[number, places] = ~plan.view.right(labels, places + rows.start)
        cells = strips.place[rows] * np.intp(len(block.main)) + owner
        for index, complete in enumerate(complete_windows(block.present, variants=variants)):
            short[index] += len(cells) - np.count_nonzero(complete.take(cells))
            first[index, sets] = first_wrong(wrong[index], owner, level, n_sets=len(block.main), never=plan.k + 1)
    figures = plan.headline.several(first > 0, first > plan.k)
    for (method, parameter), incomplete, estimates in zip(variants, short.tolist(), figures, strict=True):
        out.append(
            Smoothed(
                method=method if predictions.has_shares else f"{method} vote",
                parameter=parameter,
                delay_frames=delay(method, parameter),
                incomplete=incomplete / len(plan.frame),
                **estimates,
            )
        )
    return tuple(out)


class _StripBlock:
    """Some strips of frames (L, S), whose windows are smoothed together; `main` (S,) is the class of most windows."""

    def __init__(
        self, predictions: ClassAnswers, frame: Ints, variants: list[tuple[Method, float]], n_classes: int
    ) -> None:
        self._answers, self._frame, self._variants, self._n_classes = predictions, frame, variants, n_classes
        state = predictions.state[frame]
        self.present = (frame >= 0) & (state <= State.OUTSIDE)
        self._label = np.where(self.present, predictions.label[frame], -1)
        self._outside = self.present & (state == State.OUTSIDE)
        top = lead = np.ones(frame.shape)
        if predictions.has_shares:
            top, lead = predictions.confidence_at(frame), predictions.lead[frame].astype(np.float64)
            # An answer outside the classes has the same weight in a window as any other answer.
            lead = np.where(self._outside, 1.0 - top, lead)
            top = np.where(self._outside, np.maximum(top, 1.0), top)
        self.main, self._settled = settled_windows(
            self._label, self.present, top, lead, n_classes=n_classes, variants=variants
        )

    def open_windows(self, owner: Ints, place: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield the smoothed classes of the needed windows that `main` does not certainly win.

        `owner` (R,) is the strip of each needed window, and `place` is the window's index in this strip. The windows
        that `main` might lose are processed in blocks. Each block yields their variants, rows and classes, with −1 for
        a class outside the dataset.
        """
        cell = place * np.intp(len(self.main)) + owner
        rows = [np.flatnonzero(~settled.take(cell)) for settled in self._settled]
        number, row = np.repeat(np.arange(len(rows)), [len(some) for some in rows]), np.concatenate(rows)
        after = np.array([int(width) if method == "centred" else 0 for method, width in self._variants])
        last = np.full(len(self.main), -1)  # the last frame of each strip that its open windows need
        np.maximum.at(last, owner[row], np.minimum(place[row] + after[number], len(self._frame) - 1))
        # Strips that need few frames come first, and their later frames are left out.
        order = np.argsort(last, kind="stable")
        strips = order[np.searchsorted(last[order], 0) :]
        renumbered = np.empty(len(order), dtype=np.intp)
        renumbered[strips] = np.arange(len(strips))
        strip, place = renumbered[owner[row]], place[row]
        for part in blocks(len(strips), max(1, _VALUES // (len(self._frame) * (self._n_classes + 1)))):
            some = np.flatnonzero((strip >= part.start) & (strip < part.stop))
            cells = place[some] * np.intp(part.stop - part.start) + strip[some] - part.start
            use = np.ix_(np.arange(last[strips[part.stop - 1]] + 1), strips[part])
            labels = self._smooth(use, number[some], cells)
            yield number[some], row[some], np.where(labels < self._n_classes, labels, -1)

    def _smooth(self, use: tuple[Ints, ...], number: Ints, cells: Ints) -> NDArray[np.int64]:
        """Return the smoothed classes of some windows of these frames."""
        present, label = self.present[use], self._label[use]
        if not self._answers.has_shares:
            return smooth_votes(
                label, present, variants=self._variants, n_classes=self._n_classes, number=number, cells=cells
            )
        probability = self._answers.shares_of(self._frame[use])
        probability[~present] = 0.0
        outside = self._outside[use]
        if outside.any():
            probability = np.concatenate([probability, outside[..., None].astype(np.float64)], axis=2)
        return smooth_labels(
            probability, present, label, variants=self._variants, number=number, cells=cells, length=len(self._frame)
        )


def _variants(plan: Plan, *, votes: bool) -> list[tuple[Method, float]]:
    windows = [w for w in plan.options.windows if w <= plan.dataset.info.k]
    out: list[tuple[Method, float]] = [("centred", w) for w in windows]
    out += [("causal", w) for w in windows]
    return out if votes else out + [("ema", alpha) for alpha in plan.options.alphas]
