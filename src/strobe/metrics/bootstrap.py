"""The seeded video-cluster bootstrap: one matrix of draws for all models and all k."""

from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import ALPHA, LEAST_FREEDOM, ONE_VIDEO, effective_videos, mean_share, nothing

REPLICATES = 2000
MOST_REPLICATES = 1_000_000
"""The largest number of replicates; the percentile error is then far below any digit shown."""

MOST_CLUSTERS = 10_000
"""Above this number, videos are assigned at random to this many bags, and bags are drawn.

With ten thousand independent bags, the interval is as good, and the matrix of draws stops growing with the data.
"""

FEW_VIDEOS = 10
"""Below this number of videos, the coverage of a percentile bootstrap is too low, and estimates are marked."""

_BLOCK = 2**20
_DRAWN: WeakValueDictionary[tuple[int, int, int], Floats] = WeakValueDictionary()
"""The matrices of draws in use, by videos, replicates and seed: up to 160 MB each for 2,000 replicates."""

METHOD = "video-cluster bootstrap"
SWITCHED_OFF = "the bootstrap was switched off"
ONE_SIDED = "no bootstrap draw is beyond the value on one side, so its uncertainty on that side is unknown"

SHARES, DIFFERENCES, POSITIVE = (0.0, 1.0), (-1.0, 1.0), (0.0, float("inf"))
"""The ranges of a share, a difference of two shares and a length."""


def too_few(n_videos: int, *, few: int = FEW_VIDEOS) -> str | None:
    """Return the reason to mark an interval from fewer than `few` videos, else None.

    >>> too_few(3), too_few(10)
    ('only 3 videos: the interval is too narrow', None)
    """
    return f"only {n_videos} videos: the interval is too narrow" if n_videos < few else None


class Bootstrap:
    """Resamples videos with replacement. `cluster` (N,) is the video of each observation (set).

    All draws come from one index matrix (replicates, videos) of a PCG64 seeded with `seed`, so contrasts between
    models or conditions use the same draws. Without replicates, estimates have no interval and give the reason. Above
    MOST_CLUSTERS videos, bags of videos are resampled instead of videos.

    >>> draws = Bootstrap(np.array([0, 0, 1, 2]), replicates=200, seed=1)
    >>> estimate = draws.mean(np.array([1.0, 0.0, 1.0, 0.0]))
    >>> estimate.value, estimate.n, estimate.method
    (0.5, 4, 'korn-graubard')
    """

    __slots__ = ("_stretch", "_weights", "n_clusters", "place", "replicates", "seed")

    def __init__(self, cluster: Ints, *, replicates: int = REPLICATES, seed: int = 0) -> None:
        expect(0 <= replicates <= MOST_REPLICATES, "replicates", f"0 to {MOST_REPLICATES:,}", replicates)
        expect(cluster.ndim == 1 and cluster.size > 0, "cluster", "shape (N,), not empty", cluster.shape)
        videos, self.place = np.unique(cluster, return_inverse=True)
        self.n_clusters = min(len(videos), MOST_CLUSTERS)
        if len(videos) > MOST_CLUSTERS:
            dealt = np.random.Generator(np.random.PCG64([seed, len(videos)])).permutation(len(videos))
            self.place = (dealt % MOST_CLUSTERS)[self.place]
        self.replicates, self.seed = replicates, seed
        self._weights: Floats | None = None
        self._stretch: float | None = None

    @property
    def weights(self) -> Floats:
        """The number of times that each draw contains each video, (replicates, videos); computed on first use."""
        if self._weights is None:
            key = (self.n_clusters, self.replicates, self.seed)
            found = _DRAWN.get(key)
            self._weights = _DRAWN[key] = _drawn(*key) if found is None else found
        return self._weights

    @property
    def stretch(self) -> float:
        """The factor by which an interval is widened if videos have unequal numbers of observations; otherwise 1.

        It is the ratio of two values of Student's t: on the effective degrees of freedom, (Σm)²/Σm² − 1, and on the
        degrees of freedom of all videos.
        """
        if self._stretch is None:
            sizes = np.bincount(self.place, minlength=self.n_clusters)
            freedom = np.array(
                [max(effective_videos(sizes) - 1, LEAST_FREEDOM), max(self.n_clusters - 1, LEAST_FREEDOM)]
            )
            few, all_videos = stdtrit(freedom, 1 - ALPHA / 2).tolist()
            self._stretch = 1.0 if np.ptp(sizes) == 0 else few / all_videos
        return self._stretch

    def sums(self, values: NDArray[Any]) -> Floats:
        """Return resampled sums of `values` (N,) or (N, M): (replicates,) or (replicates, M)."""
        return np.asarray(self.weights @ self.per_video(values))

    def per_video(self, values: NDArray[Any]) -> Floats:
        """Return `values` (N,) or (N, M) summed within each video: (videos,) or (videos, M)."""
        columns = np.asarray(values).reshape(len(values), -1)  # columns become floats one at a time
        out: Floats = np.empty((self.n_clusters, columns.shape[1]))
        for index, column in enumerate(columns.T):
            out[:, index] = np.bincount(self.place, weights=column, minlength=self.n_clusters)
        return np.asarray(out[:, 0] if np.ndim(values) == 1 else out)

    def ratio(self, numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
        """Return resampled ratios of sums; NaN if a draw's denominator is zero."""
        top, bottom = self.sums(numerator), self.sums(denominator)
        return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))

    def mean(self, total: Floats, *, count: NDArray[Any] | None = None) -> Estimate:
        """Return the mean of numbers in [0, 1]. For larger numbers, pass `ratio` and its draws to `estimate`.

        Each observation has `count` (N,) numbers, by default one, and `total` (N,) is their sum.

        If all videos have equally many numbers, the interval comes from resampled videos. Otherwise, or if all numbers
        are equal, it is Korn–Graubard's, with the degrees of freedom of the effective videos.
        """
        counts = np.ones(len(total)) if count is None else np.asarray(count, dtype=np.float64)
        n = int(counts.sum())
        if n == 0:
            return nothing("nothing to average", method=METHOD)
        value, sizes = float(total.sum() / n), self.per_video(counts)
        sizes, totals = sizes[sizes > 0], self.per_video(total)[sizes > 0]
        same = bool((np.abs(total - value * counts) <= 1e-12).all())
        if self.replicates and len(sizes) > 1 and (same or np.ptp(sizes) > 0):
            low, high = mean_share(totals, sizes)
            return Estimate(value=value, low=low, high=high, n=n, method="korn-graubard")
        drawn = self.ratio(total, counts) if self.replicates else np.empty(0)
        return self.estimate(value, drawn, n=n, n_clusters=len(sizes), limits=SHARES)

    def estimate(
        self,
        value: float,
        draws: Floats,
        *,
        n: int,
        n_clusters: int | None = None,
        few: int = FEW_VIDEOS,
        limits: tuple[float, float] = (-np.inf, np.inf),
    ) -> Estimate:
        """Return the value with the 2.5 and 97.5 percentiles of its draws.

        The interval is null for one video, and marked for fewer than `few` videos. If the value depends on some videos
        only, `n_clusters` gives their effective number. Otherwise both ends are widened, within `limits`, if the videos
        differ in size. An end that equals the value but is not a limit moves to the nearest draw beyond the value.
        Without such a draw there is no interval.
        """
        videos = self.n_clusters if n_clusters is None else n_clusters
        kept = draws[np.isfinite(draws)]
        reason = ONE_VIDEO if videos == 1 else SWITCHED_OFF if self.replicates == 0 else None
        if reason is None and not kept.size:
            reason = "no draw could be measured"
        if reason is None:
            ends = np.percentile(kept, [2.5, 97.5])
            below, above = kept[kept < value - 1e-12], kept[kept > value + 1e-12]
            if ends[0] >= value - 1e-12 > limits[0]:
                ends[0] = below.max(initial=-np.inf)
            if ends[1] <= value + 1e-12 < limits[1]:
                ends[1] = above.min(initial=np.inf)
            reason = None if np.isfinite(ends).all() else ONE_SIDED
        if reason is not None:
            return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=reason)
        if n_clusters is None and self.stretch > 1:
            ends = np.clip(value + self.stretch * (ends - value), *limits)
        low, high = min(ends[0].item(), value), max(ends[1].item(), value)
        return Estimate(value=value, low=low, high=high, n=n, method=METHOD, reason=too_few(videos, few=few))


def _drawn(n: int, replicates: int, seed: int) -> Floats:
    """Return the number of times that each draw contains each of `n` videos, (replicates, n)."""
    rng = np.random.Generator(np.random.PCG64(seed))
    out: Floats = np.empty((replicates, n))
    many = max(1, _BLOCK // n)
    for first in range(0, replicates, many):  # these are the same numbers as from one call, with far less memory
        index = rng.integers(0, n, size=(min(many, replicates - first), n))
        index += np.arange(len(index))[:, None] * n
        drawn = np.bincount(index.ravel(), minlength=index.size)
        out[first : first + len(index)] = drawn.reshape(index.shape)
    out.flags.writeable = False  # other instances use the same array
    return out
