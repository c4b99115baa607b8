"""A measure is a column: one number per row, the video of each row, and which rows were measured.

From a column follow its value, its interval by video, and the difference of two models, whatever it measures. A row is
a frame, a pair of neighbouring frames, or a set. What is no mean is a `Median`, a `Maximum` or a `Statistic`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import POSITIVE, REPLICATES, SWITCHED_OFF, Bootstrap, too_few
from strobe.metrics.detection.jackknife import LEAST_VIDEOS, METHOD, NO_SPREAD, ONE_DECIDES, standard_error
from strobe.metrics.intervals import (
    LEAST_FREEDOM,
    ONE_VIDEO,
    Interval,
    effective_videos,
    nothing,
    proportion,
    rare_share,
)
from strobe.metrics.paired import LEVEL, holm_steps, mcnemar, paired_difference, paired_rate, sign_flip, sign_flip_sums

NO_ROW = "no row was measured"
NO_MAXIMUM = "it has no interval"
NO_SHARED_ROW = "no row was measured for both models"


@dataclass(frozen=True, slots=True)
class Column:
    """One number per row, (R,): `total` out of `size`; rows of size 0 are not measured.

    The value is Σtotal / Σsize. A *share* has totals of True and False, a *mean* numbers in [0, 1], and a *rate* any
    numbers over any sizes, such as changes over seconds. `video` is the video of each row. A share of `rare` events,
    which come in bursts, has the interval of `metrics.intervals.rare_share`. `most` is the largest number that a row of
    a share or mean can have.
    """

    kind: Literal["share", "mean", "rate"]
    total: NDArray[Any]
    size: NDArray[Any]
    video: Ints
    rare: bool = False
    most: float = 1.0

    def __post_init__(self) -> None:
        expect(self.total.ndim == 1, "Column.total", "shape (R,)", self.total.shape)
        expect(
            self.total.shape == self.size.shape == self.video.shape, "Column", "as many sizes and videos as totals", 0
        )
        if self.kind == "share":
            expect(self.total.dtype == self.size.dtype == np.bool_, "Column.total", "True or False", self.total.dtype)

    @property
    def measured(self) -> Bools:
        """The measured rows, (R,)."""
        return np.asarray(self.size > 0)

    @property
    def n(self) -> int:
        """The number of measured rows."""
        return int(np.count_nonzero(self.size))

    @property
    def value(self) -> float | None:
        """Σtotal / Σsize, or None if no row was measured.

        >>> share(np.array([True, False]), np.array([0, 1])).value
        0.5
        """
        size = float(self.size.sum())
        return float(self.total[self.measured].sum()) / size if size > 0 else None

    def only(self, rows: Bools) -> "Column":
        """Return the column of some rows, (R,)."""
        return replace(self, total=self.total[rows], size=self.size[rows], video=self.video[rows])


@dataclass(frozen=True, slots=True)
class Median:
    """The median of `values` (N,), such as the times between two changes, with the video of each."""

    values: Floats
    video: Ints

    @property
    def n(self) -> int:
        """The number of values."""
        return len(self.values)

    @property
    def value(self) -> float | None:
        """The median, or None without values."""
        return float(np.median(self.values)) if self.n else None


@dataclass(frozen=True, slots=True)
class Maximum:
    """The largest of `values` (N,), such as the longest outage of each object, with the video of each."""

    values: Floats
    video: Ints

    @property
    def n(self) -> int:
        """The number of values."""
        return len(self.values)

    @property
    def value(self) -> float | None:
        """The maximum, or None without values."""
        return float(self.values.max()) if self.n else None


@dataclass(frozen=True, slots=True)
class Statistic:
    """A figure of `n` sets that is no mean, such as mAP, its values without each video, (G,), and each set's video.

    `reason` explains a figure without a value.
    """

    value: float | None
    without: Floats
    video: Ints
    n: int
    reason: str | None = None


Measured = Column | Median | Maximum | Statistic


def share(values: Bools, video: Ints, *, measured: Bools | None = None, rare: bool = False) -> Column:
    """Return the column of a share: True or False per row, (R,)."""
    return Column("share", values, np.ones(len(values), dtype=bool) if measured is None else measured, video, rare)


def mean(values: Floats, video: Ints, *, measured: Bools | None = None) -> Column:
    """Return the column of a mean of numbers in [0, 1], one per row, (R,)."""
    use = np.ones(len(values), dtype=bool) if measured is None else measured
    return Column("mean", np.where(use, values, 0.0), use, video)


def rate(total: NDArray[Any], size: Floats, video: Ints) -> Column:
    """Return the column of a rate, such as changes (R,) over seconds (R,)."""
    return Column("rate", total, size, video)


def without_each(column: Column) -> Statistic:
    """Return a rate with its values without each video, to compare models whose rows have different sizes.

    >>> without_each(rate(np.array([2, 1, 3]), np.ones(3), np.array([0, 0, 1]))).without.tolist()
    [3.0, 1.5]
    """
    _, place = np.unique(column.video, return_inverse=True)
    total, size = (np.bincount(place, weights=np.where(column.measured, one, 0)) for one in (column.total, column.size))
    left = size.sum() - size
    without: Floats = np.divide(total.sum() - total, left, out=np.full(len(left), np.nan), where=left > 0)
    return Statistic(column.value, without, column.video, column.n, None if column.n else NO_ROW)


def estimate(column: Measured, *, replicates: int = REPLICATES, seed: int = 0, interval: Interval = "auto") -> Estimate:
    """Return the value with its 95 % interval over videos.

    >>> videos = np.arange(30) // 3
    >>> estimate(share(np.arange(30) % 3 == 0, videos)).value
    0.3333333333333333
    """
    value = column.value
    if value is None:
        return nothing(NO_ROW)
    if isinstance(column, Maximum | Statistic):
        return Estimate(value=value, low=None, high=None, n=column.n, reason=NO_MAXIMUM)
    draws = Bootstrap(column.video, replicates=replicates, seed=seed)
    if isinstance(column, Median):
        return draws.estimate(value, _drawn_medians(column, draws), n=column.n, limits=POSITIVE)
    rows = column.measured
    if column.kind == "share":
        found = rare_share if column.rare else proportion
        return found(column.total[rows], column.video[rows], interval=interval)
    if not replicates:
        return Estimate(value=value, low=None, high=None, n=column.n, reason=SWITCHED_OFF)
    if column.kind == "mean":
        return draws.mean(column.total, count=column.size)
    return draws.estimate(value, draws.ratio(column.total, column.size), n=column.n, limits=POSITIVE)


def _drawn_medians(column: Median, draws: Bootstrap) -> Floats:
    """Return the median of each draw, (B,); NaN if a draw has no value."""
    order = np.argsort(column.values, kind="stable")
    values, place = column.values[order], draws.place[order]
    out = np.full(draws.replicates, np.nan)
    for row in range(draws.replicates):
        weight = np.cumsum(draws.weights[row][place])
        if weight.size and weight[-1] > 0:
            low, high = np.searchsorted(weight, [weight[-1] / 2, weight[-1] / 2 + 1e-9])
            out[row] = (values[low] + values[min(high, len(values) - 1)]) / 2
    return out


class Gap:
    """Two measures of two models, paired by row or by video, and the test of a − b.

    Columns are compared on the rows that both measured: `a`, `b` and `n` are of these. `p` is the p-value under random
    sign flips of each video's sum, which is McNemar's if each video has one row. A statistic is tested with Student's
    t, whose standard error is from the values without each video. `p` is None if nothing can be tested; `reason` says
    why. `test` is the name of the test, and `unpaired` the number of rows that are not compared.

    >>> videos = np.arange(40)
    >>> gap = Gap(share(videos < 10, videos), share(videos == 10, videos))
    >>> gap.difference().text(), gap.test
    ('22.5 [6.2, 38.9]', 'exact McNemar')
    """

    def __init__(self, a: Measured, b: Measured) -> None:
        self.a, self.b = a, b
        self.p: float | None = None
        self.reason: str | None = None
        self.test, self.unpaired = "none", 0
        if isinstance(a, Column) and isinstance(b, Column):
            same = a.kind == b.kind and a.total.shape == b.total.shape
            expect(same, "columns", "the same measure on the same rows", a.kind)
            if not (both := a.measured & b.measured).all():
                self.a = a.only(both)
                self.b = replace(b, total=b.total[both], size=b.size[both], video=self.a.video)
            self.unpaired = int(np.count_nonzero(~both))
        self.n = min(self.a.n, self.b.n)
        if unknown := [one for one in (self.a, self.b) if one.value is None]:
            self.n, self.reason = 0, getattr(unknown[0], "reason", NO_SHARED_ROW)
        elif isinstance(self.a, Column) and isinstance(self.b, Column):
            self.p = self._paired(self.a, self.b)
        elif isinstance(self.a, Statistic) and isinstance(self.b, Statistic):
            self.p = self._without_each(self.a, self.b)
        else:
            self.reason = NO_MAXIMUM if isinstance(a, Maximum) else "medians of different rows are not paired"

    @property
    def rows(self) -> Ints | None:
        """The differences of two shares, −1, 0 or 1 per row, (n,); None if they are no shares."""
        if not (isinstance(self.a, Column) and isinstance(self.b, Column) and self.a.kind == "share"):
            return None
        return np.asarray(self.a.total.astype(np.int64) - self.b.total)

    def _paired(self, a: Column, b: Column) -> float:
        sizes: Floats = np.bincount(a.video, weights=a.size).astype(np.float64)
        sums: Floats = np.bincount(a.video, weights=a.total.astype(np.float64) - b.total).astype(np.float64)
        self._sums, self._sizes = sums[sizes > 0], sizes[sizes > 0]
        if a.kind != "share":
            return sign_flip_sums(self._sums)
        if len(self._sums) == self.n:
            self.test = "exact McNemar"
            return mcnemar(int((self._sums > 0).sum()), int((self._sums < 0).sum()))
        self.test = "video-level sign-flip"
        return sign_flip(np.rint(self._sums).astype(np.int64))

    def _without_each(self, a: Statistic, b: Statistic) -> float | None:
        gap, value = a.without - b.without, (a.value or 0.0) - (b.value or 0.0)
        if len(gap) < LEAST_VIDEOS:
            self.reason = f"only {len(gap)} video(s): an interval of this difference needs at least ten"
            return None
        self._error = standard_error(gap) if np.isfinite(gap).all() else np.nan
        if not self._error > 1e-12:  # NaN if only one video shows objects to find
            self.reason = NO_SPREAD if self._error == self._error else ONE_DECIDES
            return None
        self.test = "paired video jackknife"
        self._freedom = max(effective_videos(np.unique(a.video, return_counts=True)[1]) - 1, LEAST_FREEDOM)
        return min(1.0, 2 * float(stdtr(self._freedom, -abs(value) / self._error)))

    def difference(self, *, p_holm: float | None = None, pairs: int = 1) -> Estimate:
        """Return a − b with the interval of its test, corrected by Holm's method over `pairs` if `p_holm` is given."""
        if self.a.value is None or self.b.value is None:
            return nothing(self.reason or NO_SHARED_ROW)
        a, value, p = self.a, self.a.value - self.b.value, self.p
        method = METHOD if isinstance(a, Statistic) else ""
        if p is None:
            return Estimate(value=value, low=None, high=None, n=self.n, method=method, reason=self.reason)
        corrected = p if p_holm is None else p_holm
        if isinstance(a, Statistic):
            steps, how = holm_steps(p, corrected, pairs)
            reach = float(stdtrit(self._freedom, 1 - LEVEL / steps / 2)) * self._error
            return Estimate(value=value, low=value - reach, high=value + reach, n=self.n, method=METHOD + how)
        if (rows := self.rows) is not None:
            return paired_difference(rows, a.video, p=p, p_holm=corrected, pairs=pairs)
        if len(self._sums) == 1:
            return Estimate(value=value, low=None, high=None, n=self.n, method="paired rate", reason=ONE_VIDEO)
        low, high = paired_rate(self._sums, self._sizes, p=p, p_holm=corrected, pairs=pairs)
        reason = too_few(len(self._sums))
        return Estimate(
            value=value, low=min(low, value), high=max(high, value), n=self.n, method="paired rate", reason=reason
        )


def filled(column: Column, *, with_most: bool) -> Column:
    """Return the column as if every row that was not measured had the smallest number, or the largest.

    It is for shares and means, whose rows lie between 0 and 1.

    >>> some = share(np.array([True, True, False]), np.arange(3), measured=np.array([True, False, False]))
    >>> filled(some, with_most=False).value, filled(some, with_most=True).value
    (0.3333333333333333, 1.0)
    """
    expect(column.kind != "rate", "filled", "a share or a mean", column.kind)
    total = np.where(column.measured, column.total, column.total.dtype.type(with_most and column.most))
    return replace(column, total=total, size=np.ones_like(column.size))


def is_saturated(columns: Sequence[Measured]) -> bool:
    """Return whether a share or mean is 0 for every model, or 1 for every model, so that it cannot tell them apart."""
    values = {column.value for column in columns}
    return (
        bool(columns)
        and all(isinstance(column, Column) and column.kind != "rate" for column in columns)
        and (values <= {0.0} or values <= {1.0})
    )
