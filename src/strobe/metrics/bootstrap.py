"""The seeded video-cluster bootstrap: one matrix of draws for all models and all k."""

from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import ONE_VIDEO, nothing

__all__ = [
    "FEW_VIDEOS",
    "METHOD",
    "MOST_CLUSTERS",
    "MOST_REPLICATES",
    "REPLICATES",
    "SWITCHED_OFF",
    "Bootstrap",
    "too_few",
]

REPLICATES = 2000
MOST_REPLICATES = 1_000_000
"""More would add nothing but time and memory: the error of a percentile is far below any digit that is shown."""

MOST_CLUSTERS = 10_000
"""More videos than these are dealt into so many bags at random, and bags are drawn: an interval from ten thousand
independent parts is no worse for it, and the matrix of draws no longer grows with the data."""

FEW_VIDEOS = 10
"""Below this many videos a percentile bootstrap covers too little; estimates say so."""

_BLOCK = 2**20
_DRAWN: WeakValueDictionary[tuple[int, int, int], Floats] = WeakValueDictionary()
"""The matrices of draws somebody holds, by videos, replicates and seed: up to 160 MB each at 2,000."""

METHOD = "video-cluster bootstrap"
SWITCHED_OFF = "the bootstrap was switched off"


def too_few(n_videos: int, *, few: int = FEW_VIDEOS) -> str | None:
    """Why an interval from resampling so few videos is marked; None from `few` on.

    >>> too_few(3), too_few(10)
    ('only 3 videos: the interval is too narrow', None)
    """
    return f"only {n_videos} videos: the interval is too narrow" if n_videos < few else None


class Bootstrap:
    """Resamples videos with replacement. `cluster` (N,) is the video of each observation (set).

    All draws come from one index matrix (replicates, videos) of a PCG64 seeded with `seed`, so contrasts between
    models or conditions use the same draws. With no replicates estimates have no interval, and say so. Beyond
    MOST_CLUSTERS videos, what is said of a video holds of a bag of them.

    >>> draws = Bootstrap(np.array([0, 0, 1, 2]), replicates=200, seed=1)
    >>> estimate = draws.mean(np.array([1.0, 0.0, 1.0, 0.0]))
    >>> estimate.value, estimate.n, estimate.method
    (0.5, 4, 'video-cluster bootstrap')
    """

    __slots__ = ("_weights", "n_clusters", "place", "replicates", "seed")

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

    @property
    def weights(self) -> Floats:
        """How often each draw holds each video, (replicates, videos); made on first use."""
        if self._weights is None:
            key = (self.n_clusters, self.replicates, self.seed)
            found = _DRAWN.get(key)
            self._weights = _DRAWN[key] = _drawn(*key) if found is None else found
        return self._weights

    def sums(self, values: NDArray[Any]) -> Floats:
        """Resampled sums of `values` (N,) or (N, M): (replicates,) or (replicates, M)."""
        return np.asarray(self.weights @ self.per_video(values))

    def per_video(self, values: NDArray[Any]) -> Floats:
        """`values` (N,) or (N, M) summed within each video: (videos,) or (videos, M)."""
        columns = np.asarray(values).reshape(len(values), -1)  # one at a time becomes a column of floats
        out: Floats = np.empty((self.n_clusters, columns.shape[1]))
        for place, column in enumerate(columns.T):
            out[:, place] = np.bincount(self.place, weights=column, minlength=self.n_clusters)
        return np.asarray(out[:, 0] if np.ndim(values) == 1 else out)

    def ratio(self, numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
        """Resampled ratios of sums; NaN where a draw's denominator is zero."""
        top, bottom = self.sums(numerator), self.sums(denominator)
        return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))

    def mean(self, values: Floats, *, use: NDArray[np.bool_] | None = None) -> Estimate:
        """The mean of `values` (N,) where `use`, with its interval from resampled videos."""
        used = np.ones(len(values), dtype=bool) if use is None else use
        n = int(used.sum())
        if n == 0:
            return nothing("nothing to average", method=METHOD)
        filled = np.where(used, values, 0.0)
        return self.estimate(float(filled.sum() / n), self.ratio(filled, used), n=n)

    def estimate(
        self, value: float, draws: Floats, *, n: int, n_clusters: int | None = None, few: int = FEW_VIDEOS
    ) -> Estimate:
        """The value with the 2.5 and 97.5 percentiles of its draws; null with one video, marked with fewer than `few`.

        `n_clusters` says how many videos the value rests on, where not all do.
        """
        videos = self.n_clusters if n_clusters is None else n_clusters
        if videos == 1:
            return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=ONE_VIDEO)
        if self.replicates == 0:
            return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=SWITCHED_OFF)
        kept = draws[np.isfinite(draws)]
        if not kept.size:
            return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason="no draw could be measured")
        low, high = np.percentile(kept, [2.5, 97.5])
        reason = too_few(videos, few=few)
        return Estimate(value=value, low=float(low), high=float(high), n=n, method=METHOD, reason=reason)


def _drawn(n: int, replicates: int, seed: int) -> Floats:
    """How often each draw holds each of `n` videos, (replicates, n)."""
    rng = np.random.Generator(np.random.PCG64(seed))
    out: Floats = np.empty((replicates, n))
    many = max(1, _BLOCK // n)
    for first in range(0, replicates, many):  # the same numbers as all at once, in far less memory
        index = rng.integers(0, n, size=(min(many, replicates - first), n))
        index += np.arange(len(index))[:, None] * n
        drawn = np.bincount(index.ravel(), minlength=index.size)
        out[first : first + len(index)] = drawn.reshape(index.shape)
    out.flags.writeable = False  # others hold it too
    return out
