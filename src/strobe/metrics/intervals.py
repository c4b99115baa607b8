"""95 % intervals of proportions: Clopper–Pearson, and Korn–Graubard if videos have several observations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betaincinv, stdtrit

from strobe.core.arrays import Bools, Floats, Ints, blocks, counts, narrow, narrow_type
from strobe.core.errors import expect
from strobe.core.estimate import Estimate

Interval = Literal["auto", "clopper-pearson"]
INTERVALS: tuple[Interval, ...] = ("auto", "clopper-pearson")
"""`auto` chooses Clopper–Pearson if every video has one observation, else Korn–Graubard."""

ALPHA = 0.05
LEAST_FREEDOM = 0.1
"""Lower bound on the degrees of freedom; the interval is already 0–100 % at this value."""
FEW_EFFECTIVE = 20
"""If videos differ in size, a half-right video is added, with at most one in this many observations."""
ONE_VIDEO = "all observations come from one video; an interval needs at least two"


def nothing(reason: str, *, method: str = "none") -> Estimate:
    """Return an estimate without a value, with the reason why it could not be measured.

    >>> nothing("no set").value is None
    True
    """
    return Estimate(value=None, low=None, high=None, n=0, count=None, method=method, reason=reason)


def clopper_pearson_bounds(count: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return exact 95 % bounds for `count` successes of `n`, also at 0 and n.

    Both numbers may be fractional (effective n).

    >>> low, high = clopper_pearson_bounds(np.array([0.0, 10.0]), np.array([10.0, 10.0]))
    >>> float(low[0]), float(high[1])
    (0.0, 1.0)
    """
    count, n = np.asarray(count, dtype=np.float64), np.asarray(n, dtype=np.float64)
    none, every = count <= 0, count >= n
    # The two extremes get harmless parameters, because betaincinv is undefined for a or b of zero.
    low = betaincinv(np.where(none, 1.0, count), np.maximum(n - count, 0.0) + 1.0, ALPHA / 2)
    high = betaincinv(count + 1.0, np.where(every, 1.0, n - count), 1 - ALPHA / 2)
    return np.where(none, 0.0, low), np.where(every, 1.0, high)


def clopper_pearson(count: int, n: int) -> Estimate:
    """Return the share count/n with its exact 95 % interval.

    >>> clopper_pearson(749, 1109).text()
    '67.5 [64.7, 70.3]'
    """
    expect(n >= 0, "n", ">= 0", n)
    expect(0 <= count <= n, "count", f"0–{n}", count)
    if n == 0:
        return nothing("nothing to count", method="clopper-pearson")
    low, high = clopper_pearson_bounds(np.array(float(count)), np.array(float(n)))
    return Estimate(value=count / n, low=float(low), high=float(high), n=n, count=int(count), method="clopper-pearson")


def proportion(right: Bools, cluster: Ints, *, interval: Interval = "auto") -> Estimate:
    """Return the share of `right` (N,) with its interval; `cluster` (N,) is each observation's video.

    If videos have several observations, the interval is Korn–Graubard: Clopper–Pearson at the effective sample size.
    One video with several observations has no interval.

    >>> proportion(np.array([True, False]), np.array([0, 1])).method
    'clopper-pearson'
    >>> proportion(np.array([True, True, False, True]), np.array([0, 0, 1, 2])).method
    'korn-graubard'
    """
    expect(right.shape == cluster.shape, "right", "one per cluster entry", (right.shape, cluster.shape))
    return one_group(cluster, interval=interval).estimates(right)[0]


@dataclass(frozen=True, slots=True)
class Shares:
    """The counts and bounds of several groups, each (n_groups,), or (M, n_groups) for M columns of outcomes.

    Bounds are NaN if there is no interval. `n` and `singles` are the same for all columns, (n_groups,).
    """

    count: Ints
    n: Ints
    low: Floats
    high: Floats
    singles: Bools


class Grouping:
    """The group and the video of each observation, prepared once for many models.

    `group` and `cluster` are (N,); a group is, for example, a class, an offset or a k. Groups may be empty. A dataset
    may need many groupings of all its rows, so each grouping uses narrow integers and derives the video of a row only
    on request.

    >>> two = Grouping(np.array([0, 0, 1]), np.array([5, 6, 5]), n_groups=2)
    >>> [(e.count, e.n) for e in two.estimates(np.array([True, False, True]))]
    [(1, 2), (1, 1)]
    """

    __slots__ = (
        "_cells",
        "_group_of_cell",
        "_interval",
        "_n_clusters",
        "_size_of_cell",
        "_weigh",
        "group",
        "n",
        "n_groups",
    )

    def __init__(self, group: Ints, cluster: Ints, *, n_groups: int, interval: Interval = "auto") -> None:
        expect(group.shape == cluster.shape and group.ndim == 1, "group", "shape (N,), like cluster", group.shape)
        expect(interval in INTERVALS, "interval", f"one of {', '.join(INTERVALS)}", interval)
        self.group = narrow(group)
        self.n_groups = n_groups
        self._interval = interval
        self.n = counts(self.group, n_groups)
        # A cell is one video in one group. If the grid of all cells is small, it is used directly, without sorting.
        width = int(cluster.max(initial=0)) + 1
        if cluster.size and int(cluster.min()) >= 0 and n_groups * width <= 4 * cluster.size + 4096:
            self._cells = _cells(self.group, cluster, width, n_groups)
            self._group_of_cell = np.repeat(narrow(np.arange(n_groups)), width)
        else:
            _, compact = np.unique(cluster, return_inverse=True)
            width = int(compact.max(initial=0)) + 1
            cells, found = np.unique(_cells(self.group, compact, width, n_groups), return_inverse=True)
            self._cells, self._group_of_cell = narrow(found), narrow(cells // width)
        self._size_of_cell = narrow(counts(self._cells, len(self._group_of_cell)))
        self._n_clusters = counts(self._group_of_cell[self._size_of_cell > 0], n_groups)
        squares = self._sums(lambda part: self._size_of_cell[part].astype(np.float64) ** 2)
        self._weigh: Floats = self.n.astype(np.float64) ** 2 / np.maximum(squares, 1)
        if interval != "auto" or bool((self._n_clusters == self.n).all()):  # not needed in this case
            self._cells = self._group_of_cell = self._size_of_cell = np.empty(0, dtype=np.int8)

    @property
    def n_clusters(self) -> Ints:
        """The number of videos in each group, (n_groups,)."""
        return self._n_clusters

    @property
    def effective_videos(self) -> Floats:
        """(Σm)²/Σm² over the m observations of each video, (n_groups,): the number of videos if sizes are equal."""
        return self._weigh

    def shares(self, right: Bools) -> Shares:
        """Return counts and 95 % bounds of every group in one pass; `right` is (N,), or (M, N) for M such columns."""
        expect(right.shape[-1:] == self.group.shape, "right", f"shape {self.group.shape}", right.shape)
        columns = right[None] if right.ndim == 1 else right
        if self.n_groups == 1:
            count = np.count_nonzero(columns, axis=1)[:, None]
        else:
            count = np.stack([counts(self.group[column], self.n_groups) for column in columns])
        n, videos = self.n.astype(np.float64), self._n_clusters.astype(np.float64)
        singles = self._n_clusters == self.n
        effective = n
        if self._interval == "auto" and not singles.all():
            share = np.divide(count, n, out=np.zeros(count.shape), where=n > 0)
            squares = np.stack([self._squares(*pair) for pair in zip(columns, count, strict=True)])
            mean_square = squares / np.maximum(n, 1) ** 2
            effective = np.where(singles, n, effective_n(share, n, videos, self._weigh, mean_square))
        low, high = clopper_pearson_bounds(count / np.maximum(n, 1) * effective, effective)
        if self._interval == "auto":
            lone = (self._n_clusters == 1) & (self.n > 1)
            low, high = np.where(lone, np.nan, low), np.where(lone, np.nan, high)
        else:
            singles = np.ones_like(singles)
        shape = (*right.shape[:-1], self.n_groups)
        return Shares(count.reshape(shape), self.n, low.reshape(shape), high.reshape(shape), singles)

    def _squares(self, right: Bools, count: Ints) -> Floats:
        """Return the sum over videos of squared residuals, (n_groups,)."""
        in_cell = counts(self._cells[right], len(self._group_of_cell))

        def residuals(part: slice) -> Floats:
            # Use integers up to the division, so that residuals that cancel are exactly zero.
            where = self._group_of_cell[part]
            over = in_cell[part] * self.n[where] - count[where] * self._size_of_cell[part]
            return np.asarray((over / np.maximum(self.n, 1)[where]) ** 2)

        return self._sums(residuals)

    def _sums(self, of_cells: Callable[[slice], Floats]) -> Floats:
        """Return, for each group, the sum of its cells' values, (n_groups,).

        `of_cells` returns these values block by block.
        """
        every, sums = np.arange(self.n_groups), np.zeros(self.n_groups)
        for part in blocks(len(self._group_of_cell)):
            # The running sum comes first, so that the result equals a single sum bit for bit.
            where, weights = np.concatenate([every, self._group_of_cell[part]]), np.concatenate([sums, of_cells(part)])
            sums = np.bincount(where, weights=weights).astype(np.float64, copy=False)
        return sums

    def estimates(self, right: Bools) -> list[Estimate]:
        """Return the share of every group as an Estimate, column by column; an empty group has no value."""
        shares = self.shares(right)
        count, low, high = shares.count.ravel().tolist(), shares.low.ravel().tolist(), shares.high.ravel().tolist()
        times = len(count) // self.n_groups if self.n_groups else 0
        return list(map(_estimate, count, self.n.tolist() * times, low, high, shares.singles.tolist() * times))


def one_group(cluster: Ints, *, interval: Interval = "auto") -> Grouping:
    """Return the grouping of observations that are all in one group.

    >>> one_group(np.array([3, 4])).estimates(np.array([True, False]))[0].value
    0.5
    """
    return Grouping(np.zeros(len(cluster), dtype=np.int8), cluster, n_groups=1, interval=interval)


def _cells(group: Ints, cluster: Ints, width: int, n_groups: int) -> Ints:
    """Return the index of each row's cell, ordered by group."""
    out = np.empty(len(group), dtype=narrow_type(0, n_groups * width))
    for part in blocks(len(group)):
        out[part] = group[part].astype(np.int64) * width + cluster[part]
    return out


def effective_videos(sizes: Ints | Floats) -> float:
    """Return (Σm)²/Σm², the equivalent number of videos of equal size, for `sizes` (G,); 0 if there are none.

    >>> effective_videos(np.array([5, 5, 5])), effective_videos(np.array([3, 1, 0]))
    (3.0, 1.6)
    """
    m = np.asarray(sizes, dtype=np.float64)
    return float(m.sum() ** 2 / max(float((m * m).sum()), 1e-300))


def effective_n(
    share: Floats, n: Floats, videos: Floats, effective: Floats, mean_square: Floats, *, most: Floats | None = None
) -> Floats:
    """Return the Korn–Graubard effective sample size of shares over `n` observations in `videos` clusters.

    `effective`, (Σm)²/Σm², replaces the number of videos; the degrees of freedom are `effective` − 1. `mean_square` is
    Σz_g²/n², where z_g is the sum of the residuals of video g. If sizes differ, the result is at most the effective
    size of a sample with one additional, half-right video, whose weight grows with 1 − effective/videos. Otherwise a
    few small videos would hide that no large video has failed yet. The result is at most `most`, by default n.

    >>> equal, square = np.array([2.0]), np.array([0.0])
    >>> effective_n(np.array([0.5]), np.array([4.0]), equal, equal, square).tolist()
    [4.0]
    """
    freedom = np.maximum(effective - 1, LEAST_FREEDOM)
    unequal = np.maximum(1 - effective / np.maximum(videos, 1), 0.0) / np.maximum(effective, FEW_EFFECTIVE)
    shrunk = (share + unequal / 2) / (1 + unequal)
    added = unequal * (0.5 - share) ** 2 / np.maximum(effective, FEW_EFFECTIVE)
    spread, wider = share * (1 - share), shrunk * (1 - shrunk)
    plain, with_one_more = (effective / freedom * square for square in (mean_square, mean_square + added))
    flat = with_one_more <= 0
    ratio = stdtrit(np.maximum(n - 1, 1), 1 - ALPHA / 2) / stdtrit(freedom, 1 - ALPHA / 2)
    size = np.minimum(
        np.divide(spread, plain, out=np.full(np.shape(spread), np.inf), where=plain > 0),
        wider / np.where(flat, 1.0, with_one_more),
    )
    smaller = np.minimum(n if most is None else most, size * ratio**2)
    return np.where(spread <= 0, effective, np.where(flat, n, smaller))


def rare_share(hit: Bools, cluster: Ints, *, interval: Interval = "auto") -> Estimate:
    """Return the share of `hit` (N,) with an interval that also holds if few videos (`cluster`, (N,)) have any.

    Where a share is small and its rows come in bursts, Korn–Graubard covers too little: the videos seen so far say
    little about the next burst. So the degrees of freedom are at most the number of videos with a hit, and the variance
    is as if half of one more video like the one with most hits had been drawn. The effective sample size is at least
    the number of videos, as if all rows of a video were the same.

    >>> video = np.arange(400) // 20
    >>> burst = np.isin(np.arange(400), [60, 61, 62])
    >>> proportion(burst, video).text(), rare_share(burst, video).text()
    ('0.8 [0.0, 4.5]', '0.8 [0.0, 18.2]')
    """
    expect(hit.shape == cluster.shape, "hit", "one per cluster entry", (hit.shape, cluster.shape))
    _, video = np.unique(cluster, return_inverse=True)
    sizes, hits = counts(video, int(video.max(initial=-1)) + 1), np.bincount(video, weights=hit)
    count, n = int(hits.sum()), len(hit)
    if interval != "auto" or len(sizes) in (1, n) or count in (0, n):
        return proportion(hit, cluster, interval=interval)
    share, effective = count / n, effective_videos(sizes)
    residual = hits - share * sizes
    square = float((residual**2).sum()) + float(residual.max()) ** 2 / 2
    freedom = max(min(effective - 1, float(np.count_nonzero(hits))), LEAST_FREEDOM)
    size = share * (1 - share) * n**2 / (effective / max(effective - 1, LEAST_FREEDOM) * square)
    size *= float(stdtrit(n - 1, 1 - ALPHA / 2) / stdtrit(freedom, 1 - ALPHA / 2)) ** 2
    size = min(max(size, effective), float(n))
    low, high = clopper_pearson_bounds(np.array(share * size), np.array(size))
    return Estimate(value=share, low=float(low), high=float(high), n=n, count=count, method="korn-graubard, rare")


def mean_share(total: Floats, size: Floats) -> tuple[float, float]:
    """Return Korn–Graubard 95 % bounds for the mean of numbers in [0, 1], from each video's `total` and `size`, (G,).

    >>> low, high = mean_share(np.array([1.0, 1.5, 0.5]), np.array([4.0, 3.0, 2.0]))
    >>> round(low, 3), round(high, 3)
    (0.048, 0.765)
    """
    low, high = mean_bounds(total[None], size[None])
    return float(low[0]), float(high[0])


def mean_bounds(total: Floats, size: Floats) -> tuple[Floats, Floats]:
    """Return the bounds of `mean_share` for many samples at once, `total` and `size` (samples, G).

    The variance is the larger of two estimates: the sum of squares in `effective_n`, and the jackknife over videos. The
    two agree if all videos have the same size. If long videos are harder, only the jackknife shows how far one long
    video moves the mean.
    """
    n, videos = size.sum(axis=1), np.full(len(size), float(size.shape[1]))
    effective = n**2 / np.maximum((size * size).sum(axis=1), 1e-300)
    share = np.clip(total.sum(axis=1) / n, 0.0, 1.0)
    residual = total - share[:, None] * size
    residual[np.abs(residual) <= 1e-12 * size] = 0.0  # values that differ only by rounding have no spread
    without = np.maximum(n[:, None] - size, 1e-12 * n[:, None])
    jackknife = (videos - 1) / videos * ((residual / without) ** 2).sum(axis=1)
    freedom = np.maximum(effective - 1, LEAST_FREEDOM)
    square = np.maximum((residual**2).sum(axis=1) / n**2, jackknife * freedom / effective)
    sample = effective_n(share, n, videos, effective, square, most=np.full(len(n), np.inf))
    return clopper_pearson_bounds(share * sample, sample)


def _estimate(count: int, n: int, low: float, high: float, single: bool) -> Estimate:
    method = "clopper-pearson" if single else "korn-graubard"
    if n == 0:
        return nothing("nothing to count", method=method)
    if low != low:
        return Estimate(value=count / n, low=None, high=None, n=n, count=count, method=method, reason=ONE_VIDEO)
    return Estimate(value=count / n, low=low, high=high, n=n, count=count, method=method)
