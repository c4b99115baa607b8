"""The errors that remain when random members of each set are dropped, computed analytically instead of sampled."""

import numpy as np
from scipy.special import gammaln

from strobe.core.arrays import Ints

_Z = 1.959963984540054


def failures_without(members: Ints, wrong: Ints, dropped: Ints) -> tuple[float, float, float]:
    """Return how many sets keep a wrong member: the mean and the 2.5 and 97.5 percentiles over random deletions.

    The arrays give each set's members, wrong members and dropped members. The number of wrong members kept is
    hypergeometric. Sets are independent, and over thousands of them the sum is normal.

    >>> failures_without(np.array([2]), np.array([1]), np.array([1]))[0]
    0.5
    """
    can_fail = wrong > 0
    m, w, d = (values[can_fail].astype(np.float64) for values in (members, wrong, dropped))
    # Probability that all wrong members are dropped: C(m - w, d - w) / C(m, d) = d! (m - w)! / ((d - w)! m!)
    enough = w <= d
    log = gammaln(d + 1) + gammaln(m - w + 1) - gammaln(np.maximum(d - w, 0) + 1) - gammaln(m + 1)
    kept = 1.0 - np.where(enough, np.exp(log), 0.0)
    mean, spread = float(kept.sum()), float(np.sqrt((kept * (1.0 - kept)).sum()))
    return mean, max(0.0, mean - _Z * spread), min(float(can_fail.sum()), mean + _Z * spread)
