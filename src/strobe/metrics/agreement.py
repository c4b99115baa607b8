"""Agreement of annotators: raw agreement, Cohen's and Fleiss' kappa, Krippendorff's alpha, each with an interval.

All measures are ratios of sums over items. The interval resamples clusters of items (their videos) and recomputes the
ratio. An interval from fewer than ten clusters is marked. Missing ratings are −1 and are excluded, never imputed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import SWITCHED_OFF, Bootstrap, too_few
from strobe.metrics.intervals import ONE_VIDEO

_METHOD = "cluster-bootstrap"
_ALWAYS_SAME = "every rating is the same, so agreement cannot be distinguished from chance"


def rating_counts(ratings: Ints, *, n_classes: int) -> NDArray[np.int64]:
    """Count the ratings of each item by class, (items, classes); `ratings` (items, raters) is −1 where missing.

    >>> rating_counts(np.array([[0, 1, -1], [1, 1, 1]]), n_classes=2).tolist()
    [[1, 1], [0, 3]]
    """
    expect(ratings.ndim == 2, "ratings", "shape (items, raters)", ratings.shape)
    expect(bool((ratings >= -1).all() and (ratings < n_classes).all()), "ratings", f"-1 to {n_classes - 1}", None)
    return np.stack([(ratings == label).sum(axis=1) for label in range(n_classes)], axis=1).astype(np.int64)


def raw_agreement(counts: Ints, *, cluster: Ints | None = None, seed: int = 0, draws: int = 2000) -> Estimate:
    """Return the share of agreeing pairs of ratings of the same item. `counts` is (items, classes)."""
    counts, cluster = _pairable(counts, cluster)
    n = counts.sum(axis=1)
    agree = (counts * (counts - 1)).sum(axis=1) / 2
    pairs = n * (n - 1) / 2
    return _ratio(np.stack([agree, pairs], axis=1).astype(float), cluster, lambda s: (s[:, 0], s[:, 1]), seed, draws)


def fleiss_kappa(counts: Ints, *, cluster: Ints | None = None, seed: int = 0, draws: int = 2000) -> Estimate:
    """Return Fleiss' kappa of `counts` (items, classes); items with fewer than two ratings are excluded.

    If items have different numbers of ratings, agreement within an item follows Fleiss, and class shares are over all
    ratings. With equal numbers this is Fleiss (1971) exactly.
    """
    counts, cluster = _pairable(counts, cluster)
    n = counts.sum(axis=1)
    share = (counts * (counts - 1)).sum(axis=1) / np.maximum(n * (n - 1), 1)
    stats = np.concatenate([share[:, None], np.ones((len(n), 1)), counts], axis=1).astype(float)

    def kappa(sums: Floats) -> tuple[Floats, Floats]:
        observed = sums[:, 0] / sums[:, 1]
        shares = sums[:, 2:] / sums[:, 2:].sum(axis=1, keepdims=True)
        chance = (shares**2).sum(axis=1)
        return observed - chance, 1.0 - chance

    return _ratio(stats, cluster, kappa, seed, draws)


def krippendorff_alpha(counts: Ints, *, cluster: Ints | None = None, seed: int = 0, draws: int = 2000) -> Estimate:
    """Return Krippendorff's alpha for nominal classes; as in his definition, items with one rating are excluded."""
    counts, cluster = _pairable(counts, cluster)
    n = counts.sum(axis=1)
    disagree = (n**2 - (counts**2).sum(axis=1)) / np.maximum(n - 1, 1)
    stats = np.concatenate([disagree[:, None], counts], axis=1).astype(float)

    def alpha(sums: Floats) -> tuple[Floats, Floats]:
        total = sums[:, 1:].sum(axis=1)
        observed = sums[:, 0] / total
        expected = (total**2 - (sums[:, 1:] ** 2).sum(axis=1)) / (total * (total - 1))
        return expected - observed, expected

    return _ratio(stats, cluster, alpha, seed, draws)


def cohen_kappa(
    a: Ints, b: Ints, *, n_classes: int, cluster: Ints | None = None, seed: int = 0, draws: int = 2000
) -> Estimate:
    """Return Cohen's kappa of two raters on the items that both rated.

    Ratings `a` and `b` (items,) are −1 if missing.
    """
    expect(a.shape == b.shape and a.ndim == 1, "ratings", "two rows of one length", (a.shape, b.shape))
    both = (a >= 0) & (b >= 0)
    cells = np.zeros((int(both.sum()), n_classes * n_classes))
    cells[np.arange(len(cells)), a[both] * n_classes + b[both]] = 1.0
    groups = (np.arange(len(a)) if cluster is None else cluster)[both]

    def kappa(sums: Floats) -> tuple[Floats, Floats]:
        table = sums.reshape(-1, n_classes, n_classes)
        table = table / table.sum(axis=(1, 2), keepdims=True)
        observed = np.trace(table, axis1=1, axis2=2)
        chance = (table.sum(axis=1) * table.sum(axis=2)).sum(axis=1)
        return observed - chance, 1.0 - chance

    return _ratio(cells, groups, kappa, seed, draws)


def _pairable(counts: Ints, cluster: Ints | None) -> tuple[NDArray[np.int64], Ints]:
    expect(counts.ndim == 2, "counts", "shape (items, classes)", counts.shape)
    groups = np.arange(len(counts)) if cluster is None else cluster
    expect(len(groups) == len(counts), "cluster", "one per item", len(groups))
    enough = counts.sum(axis=1) >= 2
    return counts[enough].astype(np.int64), groups[enough]


def _ratio(
    stats: Floats, cluster: Ints, formula: Callable[[Floats], tuple[Floats, Floats]], seed: int, draws: int
) -> Estimate:
    """Return a ratio of sums over items with the percentile interval of resampled clusters.

    `stats` is (items, d); `formula` maps sums (B, d) to numerators and denominators (B,).
    """
    n = len(stats)
    if n == 0:
        return _null(0, "no item has two ratings")
    top, bottom = formula(stats.sum(axis=0, keepdims=True))
    if abs(float(bottom[0])) < 1e-12:
        return _null(n, _ALWAYS_SAME)
    value = float(top[0] / bottom[0])
    draws_of_sums = Bootstrap(cluster, replicates=draws, seed=seed)
    if draws_of_sums.n_clusters == 1:
        return Estimate(value=value, low=None, high=None, n=n, method=_METHOD, reason=ONE_VIDEO)
    if draws == 0:
        return Estimate(value=value, low=None, high=None, n=n, method=_METHOD, reason=SWITCHED_OFF)
    drawn = draws_of_sums.sums(stats)
    tops, bottoms = formula(drawn)
    # A draw with a single class has no kappa and gives no information on the spread, so it is skipped.
    usable = np.abs(bottoms) >= 1e-12
    if not usable.any():
        return Estimate(value=value, low=None, high=None, n=n, method=_METHOD, reason="too few differing ratings")
    low, high = np.percentile(tops[usable] / bottoms[usable], [2.5, 97.5]).tolist()
    low, high = min(low, value), max(high, value)  # a ratio's draws can all lie on one side of it
    return Estimate(value=value, low=low, high=high, n=n, method=_METHOD, reason=too_few(draws_of_sums.n_clusters))


def _null(n: int, reason: str) -> Estimate:
    return Estimate(value=None, low=None, high=None, n=n, method=_METHOD, reason=reason)
