"""A measure is a column: one number per row, the video of each row, and which rows were measured.

From a column follow its value, its interval by video, and the difference of two models, whatever it measures. A row is
a frame, a pair of neighbouring frames, or a set. What is no mean is a `Median` or a `Maximum`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import POSITIVE, REPLICATES, SWITCHED_OFF, Bootstrap, too_few
from strobe.metrics.intervals import ONE_VIDEO, Interval, nothing, proportion, rare_share
from strobe.metrics.paired import paired_difference, paired_rate, sign_flip, sign_flip_sums

NO_ROW = "no row was measured"
NO_SPREAD = "a maximum has no interval"
NO_SHARED_ROW = "no row was measured for both models"


@dataclass(frozen=True, slots=True)
class Column:
    """One number per row, (R,): `total` out of `size`; rows of size 0 are not measured.

    The value is Σtotal / Σsize. A *share* has totals of True and False, a *mean* numbers in [0, 1], and a *rate* any
    numbers over any sizes, such as changes over seconds. `video` is the video of each row. A share of `rare` events,
    which come in bursts, has the interval of `metrics.intervals.rare_share`.
    """

    kind: Literal["share", "mean", "rate"]
    total: NDArray[Any]
    size: NDArray[Any]
    video: Ints
    rare: bool = False

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
        return Column(self.kind, self.total[rows], self.size[rows], self.video[rows], self.rare)


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


Measured = Column | Median | Maximum


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


def estimate(column: Measured, *, replicates: int = REPLICATES, seed: int = 0, interval: Interval = "auto") -> Estimate:
    """Return the value with its 95 % interval over videos.

    >>> videos = np.arange(30) // 3
    >>> estimate(share(np.arange(30) % 3 == 0, videos)).value
    0.3333333333333333
    """
    value = column.value
    if value is None:
        return nothing(NO_ROW)
    if isinstance(column, Maximum):
        return Estimate(value=value, low=None, high=None, n=column.n, reason=NO_SPREAD)
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


def difference(a: Measured, b: Measured, *, p_holm: float | None = None, pairs: int = 1) -> Estimate:
    """Return the value of a minus that of b, paired by row over the rows measured for both, with its interval by video.

    The interval belongs to the test of `difference_p`, and to Holm's correction if `p_holm` is given. A difference of
    medians or of maxima has no interval, because its rows are not paired.

    >>> videos = np.arange(40)
    >>> new, old = share(videos < 10, videos), share(videos == 10, videos)
    >>> difference(new, old).text()
    '22.5 [6.2, 38.9]'
    """
    if not (isinstance(a, Column) and isinstance(b, Column)):
        if a.value is None or b.value is None:
            return nothing(NO_SHARED_ROW)
        reason = NO_SPREAD if isinstance(a, Maximum) else "medians of different rows are not paired"
        return Estimate(value=a.value - b.value, low=None, high=None, n=min(a.n, b.n), reason=reason)
    first, second = _shared(a, b)
    if not first.n:
        return nothing(NO_SHARED_ROW)
    p = _p(first, second)
    corrected = p if p_holm is None else p_holm
    if first.kind == "share":
        gap = first.total.astype(np.int64) - second.total.astype(np.int64)
        return paired_difference(gap, first.video, p=p, p_holm=corrected, pairs=pairs)
    sums, sizes = _gap_sums(first, second)
    value = _known(first) - _known(second)
    if len(sums) == 1:
        return Estimate(value=value, low=None, high=None, n=first.n, method="paired rate", reason=ONE_VIDEO)
    low, high = paired_rate(sums, sizes, p=p, p_holm=corrected, pairs=pairs)
    low, high = min(low, value), max(high, value)
    return Estimate(value=value, low=low, high=high, n=first.n, method="paired rate", reason=too_few(len(sums)))


def difference_p(a: Measured, b: Measured) -> float | None:
    """Return the p-value of the difference under random sign flips of each video's sum; None if it cannot be tested.

    >>> videos = np.arange(40)
    >>> difference_p(share(videos < 9, videos), share(videos == 10, videos)) < 0.05
    True
    """
    if not (isinstance(a, Column) and isinstance(b, Column)):
        return None
    first, second = _shared(a, b)
    return _p(first, second) if first.n and len(np.unique(first.video)) > 1 else None


def _p(a: Column, b: Column) -> float:
    sums = _gap_sums(a, b)[0]
    return sign_flip(np.rint(sums).astype(np.int64)) if a.kind == "share" else sign_flip_sums(sums)


def _shared(a: Column, b: Column) -> tuple[Column, Column]:
    """Return both columns on the rows that both measured."""
    expect(a.kind == b.kind and a.total.shape == b.total.shape, "columns", "the same measure on the same rows", a.kind)
    both = a.measured & b.measured
    return (a, b) if both.all() else (a.only(both), b.only(both))


def _gap_sums(a: Column, b: Column) -> tuple[Floats, Floats]:
    """Return, per video, the sum of a − b and the size of its rows, (G,)."""
    _, place = np.unique(a.video, return_inverse=True)
    gap = a.total.astype(np.float64) - b.total.astype(np.float64)
    sizes = np.bincount(place, weights=a.size.astype(np.float64))
    return np.bincount(place, weights=gap).astype(np.float64), sizes.astype(np.float64)


def _known(column: Column) -> float:
    return 0.0 if column.value is None else column.value


def bounded(column: Column) -> tuple[float, float]:
    """Return the lowest and highest value if every row that was not measured had the smallest or the largest number.

    It is for shares and means, whose rows lie between 0 and 1.

    >>> bounded(share(np.array([True, True, False]), np.arange(3), measured=np.array([True, False, False])))
    (0.3333333333333333, 1.0)
    """
    expect(column.kind != "rate", "bounded", "a share or a mean", column.kind)
    total, rows = float(column.total[column.measured].sum()), len(column.total)
    return total / max(rows, 1), (total + rows - column.n) / max(rows, 1)


def is_saturated(columns: Sequence[Measured]) -> bool:
    """Return whether a share or mean is 0 for every model, or 1 for every model, so that it cannot tell them apart."""
    values = {one.value for one in columns}
    return (
        bool(columns)
        and all(isinstance(one, Column) and one.kind != "rate" for one in columns)
        and (values <= {0.0} or values <= {1.0})
    )
