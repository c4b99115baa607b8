"""Accuracy along time: within milliseconds, comparable between videos of different frame rates."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import Plan
from strobe.core.arrays import Bools, Ints, blocks, narrow
from strobe.core.dataset import Dataset
from strobe.core.estimate import Missing
from strobe.metrics.intervals import Grouping, one_group
from strobe.studies.temporal.records import TimeCurve, TimePoint

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
