"""Paired tests between two models on the same sets, and Holm's correction over many pairs."""

from collections.abc import Sequence

import numpy as np
from scipy.special import bdtr, gammaln

from strobe.core.arrays import Ints
from strobe.core.errors import expect

__all__ = ["holm", "mcnemar", "sign_flip"]


def mcnemar(only_a: int, only_b: int) -> float:
    """The exact two-sided McNemar p-value of two discordant counts; 1 where there are none.

    >>> round(mcnemar(1, 9), 4)
    0.0215
    """
    expect(only_a >= 0 and only_b >= 0, "discordant counts", ">= 0", (only_a, only_b))
    n = only_a + only_b
    return 1.0 if n == 0 else min(1.0, 2.0 * float(bdtr(min(only_a, only_b), n, 0.5)))


def sign_flip(difference: Ints) -> float:
    """The exact two-sided p-value of whole differences per video when each video's sign could as well be the other.

    The distribution of the sum over all 2^G sign choices is computed, not sampled. With differences of −1, 0 and 1
    it is McNemar's test.

    >>> round(sign_flip(np.array([1] * 9 + [-1])), 4)
    0.0215
    """
    size, times = np.unique(np.abs(difference[difference != 0]), return_counts=True)
    if not size.size:
        return 1.0
    ways = np.ones(1)
    for step, many in zip(size.tolist(), times.tolist(), strict=True):
        # `many` videos of one size contribute step·(many − 2·heads): a binomial on a grid of 2·step.
        heads = np.arange(many + 1)
        chance = np.exp(gammaln(many + 1) - gammaln(heads + 1) - gammaln(many - heads + 1) - many * np.log(2.0))
        spread = np.zeros(2 * step * many + 1)
        spread[:: 2 * step] = chance
        ways = np.convolve(ways, spread)
    total = (len(ways) - 1) // 2
    sums = np.arange(-total, total + 1)
    return min(1.0, float(ways[np.abs(sums) >= abs(int(difference.sum()))].sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    out = np.empty(len(p))
    out[order] = adjusted
    return [float(value) for value in out]
