"""Compare two conditions on the same images: a test of the difference, and the ratio of partly censored distances."""

from dataclasses import dataclass

import numpy as np

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import METHOD, SWITCHED_OFF, Bootstrap, too_few
from strobe.metrics.intervals import ONE_VIDEO, nothing
from strobe.metrics.paired import mcnemar, sign_flip


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """The number of pairs won by each side, and the p-value of the named test."""

    only_a: int
    only_b: int
    test: str
    p: float


def paired_test(gap: Ints, cluster: Ints) -> PairedTest:
    """Test paired differences of −1, 0 and 1, (N,): exact McNemar, or sign flips if a source has several pairs.

    >>> paired_test(np.array([1] * 9 + [-1]), np.arange(10)).test
    'exact McNemar'
    """
    expect(gap.shape == cluster.shape and gap.size > 0, "gap", "one per cluster entry, not empty", gap.shape)
    only_a, only_b = int((gap > 0).sum()), int((gap < 0).sum())
    _, place = np.unique(cluster, return_inverse=True)
    if int(place.max()) + 1 == gap.size:
        return PairedTest(only_a=only_a, only_b=only_b, test="exact McNemar", p=mcnemar(only_a, only_b))
    p = sign_flip(np.bincount(place, weights=gap).astype(np.int64))
    return PairedTest(only_a=only_a, only_b=only_b, test="source-level sign-flip", p=p)


def ratio_bounds(a: Floats, a_found: Bools, b: Floats, b_found: Bools) -> tuple[Floats, Floats]:
    """Return the bounds of a/b, (N,); for a censored distance, only a lower bound is known.

    >>> least, most = ratio_bounds(np.array([2.0, 4.0]), np.array([True, False]), np.ones(2), np.array([True, True]))
    >>> least.tolist(), most.tolist()
    ([2.0, 4.0], [2.0, inf])
    """
    ratio = np.divide(a, b, out=np.full(a.shape, np.inf), where=b > 0)
    return np.where(b_found & (b > 0), ratio, 0.0), np.where(a_found, ratio, np.inf)


def paired_ratio(least: Floats, most: Floats, draws: Bootstrap, *, slack: float = 0.0) -> Estimate:
    """Return the median of paired ratios known within bounds, with its interval from resampled sources.

    The value is the geometric mean of its bounds if they coincide or differ by at most a share of `slack`. Otherwise
    there is no value. Slack is needed because a single unknown ratio among distinct ratios already moves the median by
    one rank. The interval runs from the lower quantile of the draws' smallest medians to the upper quantile of their
    largest.

    >>> values = np.array([1.0, 2.0, 3.0])
    >>> paired_ratio(values, np.array([1.0, 2.0, np.inf]), Bootstrap(np.arange(3), replicates=0)).value
    2.0
    """
    expect(least.shape == most.shape == draws.place.shape, "least", "as many values as most and cluster", least.shape)
    down, up = float(np.median(least)), float(np.median(most))
    n = len(least)
    if not np.isfinite(up) or down * (1 + slack) < up:
        where = f"between {down:.3g} and {up:.3g}" if np.isfinite(up) else f"at {down:.3g} or above"
        return nothing(f"because of searches without a finding, the median is only known to be {where}", method=METHOD)
    value = down if down == up else float(np.sqrt(down * up))
    if draws.n_clusters == 1:
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=ONE_VIDEO)
    if draws.replicates == 0:
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=SWITCHED_OFF)
    low = float(np.quantile(_medians(least, draws), 0.025, method="lower"))
    high = float(np.quantile(_medians(most, draws), 0.975, method="higher"))
    if not np.isfinite(high):
        reason = f"the upper end of the interval is beyond the searched range; the interval begins at {low:.3g}"
        return Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=reason)
    low, high = min(low, value), max(high, value)
    return Estimate(value=value, low=low, high=high, n=n, method=METHOD, reason=too_few(draws.n_clusters))


def _medians(values: Floats, draws: Bootstrap) -> Floats:
    """Return the median of `values` (N,) in each draw of sources; a source is drawn with all its values."""
    order = np.argsort(values, kind="stable")
    so_far = np.cumsum(draws.weights[:, draws.place[order]], axis=1)
    whole = so_far[:, -1:]
    first = (so_far >= np.ceil(whole / 2)).argmax(axis=1)
    second = (so_far >= np.floor(whole / 2) + 1).argmax(axis=1)
    ranked = values[order]
    return np.asarray((ranked[first] + ranked[second]) / 2)
