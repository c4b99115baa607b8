"""What a verdict about two models is about: more of this recording, these clips, or other videos."""

from math import ceil
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import ALPHA, nothing

BLOCKS = 6
"""The number of equal blocks of each clip."""
METHOD = "six blocks per clip, t"
CONSTANT = "the difference never varies within a clip, so its spread is unknown"
PARTS = 30
"""The number of parts of the shortest clip; the correlation of neighbouring parts shows what blocks miss."""
MOST_CORRELATION = 0.995
"""The largest correlation of neighbouring parts that is assumed."""
LEAST_REPEATS = 3
CHANGED = 0.01
"""The share of frames whose answer another machine may change."""
ROUNDING = 1e-12

Unit = Literal["share of frames", "share of pairs", "share of sets", "per second"]


def recording_difference(gap: Floats, size: Floats, clip: Ints) -> Estimate:
    """Return Σgap/Σsize with an interval for more of this recording: longer clips of the same scenes.

    `gap` (N,) is the difference between two models, summed at each row, and `size` (N,) is its denominator. A row is a
    frame, a pair of neighbours or a set; rows of size 0 are not measured, and `n` counts the others. The rows of a clip
    (N,) must be in the order of time.

    The measured rows of each clip are divided into six equal blocks, whose spread around the difference of their clip
    gives the error. Blocks are not independent if the difference persists over much of a block. So the error is
    increased by what blocks miss, according to the correlation of shorter parts. It is never smaller than the error of
    independent rows. Student's t has Satterthwaite's degrees of freedom, with five for each clip. There is no interval
    if a clip has fewer than six measured rows, or if the difference never varies within a clip. Clips without measured
    rows are left out.

    >>> gap = np.resize(np.repeat([1.0, 0.0, 0.0, -1.0, 0.0, 1.0, 1.0], 5), 300)
    >>> recording_difference(gap, np.ones(300), np.zeros(300, dtype=int)).text()
    '26.7 [9.5, 43.8]'
    """
    shapes = (gap.shape, size.shape, clip.shape)
    expect(gap.ndim == 1 and len(set(shapes)) == 1, "gap, size, clip", "three arrays of one shape (N,)", shapes)
    expect(bool(np.isfinite(gap).all()), "gap", "finite numbers", None)
    expect(bool((np.isfinite(size) & (size >= 0)).all()), "size", "finite numbers of at least 0", None)
    used = size > 0
    if not used.any():
        return nothing("nothing to compare", method=METHOD)
    gap, size, place, rows = _by_clip(gap[used], size[used], clip[used])
    n, value = len(gap), float(gap.sum() / size.sum())
    if rows.min() < BLOCKS:
        reason = f"a clip with {rows.min()} measured rows is too short for {BLOCKS} blocks"
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=reason)
    rest = gap - size * (np.bincount(place, weights=gap) / np.bincount(place, weights=size))[place]
    if _is_zero(rest, gap):
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=CONSTANT)
    sums = _cut(rest, place, rows, np.full(len(rows), BLOCKS)).reshape(-1, BLOCKS)
    many, _, correlation = _parts(rest, place, rows)
    freedom = BLOCKS - 1
    squares = BLOCKS / freedom * (sums * sums).sum(axis=1) * _missed(correlation, many)
    alone = float((np.bincount(place, weights=rest * rest) * rows / (rows - 1)).sum())
    total = float(squares.sum())
    t = float(stdtrit(freedom * total**2 / float((squares**2).sum()) if total > 0 else freedom, 1 - ALPHA / 2))
    half = t * float(np.sqrt(max(total, alone))) / float(size.sum())
    return Estimate(value=value, low=value - half, high=value + half, n=n, method=METHOD)


def effective_frames(gap: Floats, clip: Ints) -> float:
    """Return the number of independent frames that give the mean of `gap` (N,) as precisely as these frames do.

    It follows from the variance of parts of each clip (N,), whose frames are in the order of time, and from the
    correlation of neighbouring parts. It is at most N, and each clip counts at least once.

    >>> gap = np.resize(np.repeat([1.0, 0.0, 0.0, -1.0, 0.0, 1.0, 1.0], 5), 300)
    >>> round(effective_frames(gap, np.zeros(300, dtype=int)))
    42
    """
    expect(gap.ndim == 1 and gap.shape == clip.shape, "gap", "shape (N,), like clip", gap.shape)
    expect(bool(np.isfinite(gap).all()), "gap", "finite numbers", None)
    if not len(gap):
        return 0.0
    gap, _, place, rows = _by_clip(gap, np.ones(len(gap)), clip)
    n, clips = len(gap), len(rows)
    rest = gap - (np.bincount(place, weights=gap) / rows)[place]
    if _is_zero(rest, gap):
        return float(clips)
    many, squares, correlation = _parts(rest, place, rows)
    n_parts = int(many.sum())
    inflation = float((many * _inflation(correlation, many)).sum()) / n_parts
    alone, true = float((rest * rest).sum()) / (n - clips), squares / (n_parts - clips) * n_parts / n * inflation
    return float(min(n, max(clips, n * alone / true))) if true > 0 else float(n)


def _by_clip(gap: Floats, size: Floats, clip: Ints) -> tuple[Floats, Floats, Ints, Ints]:
    """Return both arrays and the number of each row's clip, sorted by clip, and the number of rows of each clip."""
    _, place, rows = np.unique(clip, return_inverse=True, return_counts=True)
    order = np.argsort(place, kind="stable")
    return gap[order], size[order], place[order], rows


def _is_zero(rest: Floats, gap: Floats) -> bool:
    """Return whether all rows are zero, except for rounding of `gap`."""
    return float(np.abs(rest).max()) <= ROUNDING * float(np.abs(gap).max())


def _cut(rest: Floats, place: Ints, rows: Ints, many: Ints) -> Floats:
    """Return the sums of equal parts of each clip, clip after clip; a clip has as many parts as `many` says."""
    rank = np.arange(len(rest)) - (np.cumsum(rows) - rows)[place]
    first = np.cumsum(many) - many
    part = first[place] + rank * many[place] // rows[place]
    return np.bincount(part, weights=rest, minlength=int(many.sum())).astype(np.float64)


def _parts(rest: Floats, place: Ints, rows: Ints) -> tuple[Ints, float, float]:
    """Return each clip's number of parts, the sum of their squares, and the correlation of neighbouring parts.

    Parts are equally long in all clips; the shortest clip has about PARTS. The correlation is at least 0, and corrected
    for its bias in short clips.
    """
    many = rows // max(1, int(rows.min()) // PARTS)
    sums, clip = _cut(rest, place, rows, many), np.repeat(np.arange(len(rows)), many)
    squares = float((sums * sums).sum())
    products = float((sums[1:] * sums[:-1])[clip[1:] == clip[:-1]].sum())
    raw = products / squares if squares > 0 else 0.0
    return many, squares, min(max(raw + (1 + 3 * raw) * len(rows) / len(sums), 0.0), MOST_CORRELATION)


def _inflation(correlation: float, many: Floats | Ints) -> Floats:
    """Return the variance of the mean of so many parts, divided by that of as many independent parts.

    The correlation of two parts falls by the same factor with each part between them.
    """
    left = 1 - correlation
    return np.asarray((1 + correlation) / left - 2 * correlation * (1 - correlation**many) / (many * left * left))


def _missed(correlation: float, many: Ints) -> Floats:
    """Return the variance of each clip's mean, divided by what its blocks are expected to give; at least 1."""
    true, block = _inflation(correlation, many) / many, _inflation(correlation, many / BLOCKS) / many * BLOCKS
    return np.asarray(np.maximum(1.0, (BLOCKS - 1) * true / (block - true)))


def repeats_difference(a: Floats, b: Floats) -> tuple[float, float]:
    """Return the difference of the means of two models' repeats, (r,) and (s,), on the same frames, and its p-value.

    The test is Welch's t, which does not assume that both models are equally noisy. If neither model ever varies, p is
    1.0 for equal figures and 0.0 for different ones.

    >>> difference, p = repeats_difference(np.array([15.4, 15.2, 15.6]), np.array([10.9, 11.0, 10.8]))
    >>> round(difference, 2), p < 0.001
    (4.5, True)
    """
    for name, repeats in (("a", a), ("b", b)):
        expect(repeats.ndim == 1 and len(repeats) >= LEAST_REPEATS, name, "three repeats or more, (r,)", repeats.shape)
        expect(bool(np.isfinite(repeats).all()), name, "finite numbers", None)
    difference = float(a.mean() - b.mean())
    least = ROUNDING * max(1.0, float(np.abs(a).max()), float(np.abs(b).max()))
    if np.ptp(a) <= least and np.ptp(b) <= least:
        return difference, float(abs(difference) <= least)
    errors = np.array([values.var(ddof=1) / len(values) for values in (a, b)])
    freedom = errors.sum() ** 2 / float((errors**2 / [len(a) - 1, len(b) - 1]).sum())
    return difference, float(2 * stdtr(freedom, -abs(difference) / np.sqrt(errors.sum())))


def other_machine_tolerance(unit: Unit, *, fps: float | None = None, set_frames: float | None = None) -> float:
    """Return how much a figure can change at most if another machine changes the answers of 1 % of frames.

    Each frame changes at most two pairs of neighbours, and one set. "per second" needs the frame rate, and "share of
    sets" the number of frames of a set. The result is in the unit of the figure; shares are from 0 to 1.

    >>> other_machine_tolerance("share of frames"), other_machine_tolerance("per second", fps=30)
    (0.01, 0.6)
    """
    if unit == "share of frames":
        return CHANGED
    if unit == "share of pairs":
        return 2 * CHANGED
    if unit == "share of sets":
        expect(set_frames is not None and set_frames > 0, "set_frames", "the number of frames of a set", set_frames)
        return min(1.0, CHANGED * float(set_frames or 0))
    expect(fps is not None and fps > 0, "fps", "frames per second above 0", fps)
    return 2 * CHANGED * float(fps or 0)


def videos_needed(figure: Estimate, limit: float, n_videos: int) -> int | None:
    """Return how many videos like these `n_videos` would show on which side of the limit a figure is.

    An interval narrows with the root of the number of videos. The result is None if the figure is at the limit or has
    no interval.

    >>> videos_needed(Estimate(value=0.03, low=-0.03, high=0.09, n=20), 0.0, 20)
    80
    """
    expect(n_videos > 0, "n_videos", "at least 1", n_videos)
    if figure.value is None or figure.low is None or figure.high is None:
        return None
    distance = abs(figure.value - limit)
    if distance <= ROUNDING * max(1.0, abs(limit)):
        return None
    ratio = (figure.high - figure.low) / 2 / distance
    return max(1, ceil(n_videos * ratio * ratio - ROUNDING * n_videos))
