"""Fit straight lines over many models: perturbed accuracy against original accuracy, on plain and on logit axes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats
from strobe.core.codec import Count
from strobe.core.errors import expect


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A least-squares line y = intercept + slope·x over n points with x in [x_min, x_max]; r is Pearson's."""

    slope: float
    intercept: float
    r: float | None
    n: Count
    x_min: float
    x_max: float

    def at(self, x: Floats | float) -> Floats:
        """Return the line's y at x."""
        return np.asarray(self.intercept + self.slope * np.asarray(x))


def fit_line(x: Floats, y: Floats) -> Line | None:
    """Return the least-squares line, or None if x does not vary.

    >>> fit_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])).slope
    2.0
    """
    expect(x.shape == y.shape and x.ndim == 1, "x", "shape (N,), like y", (x.shape, y.shape))
    if len(np.unique(x)) < 2:
        return None
    dx, dy = x - x.mean(), y - y.mean()
    slope = float((dx * dy).sum() / (dx * dx).sum())
    spread = float((dy * dy).sum())
    r = float((dx * dy).sum() / np.sqrt((dx * dx).sum() * spread)) if spread > 0 else None
    return Line(
        slope=slope,
        intercept=float(y.mean() - slope * x.mean()),
        r=r,
        n=len(x),
        x_min=float(x.min()),
        x_max=float(x.max()),
    )


def leave_one_out(x: Floats, y: Floats, *, used: NDArray[np.bool_], out: NDArray[np.bool_]) -> Floats:
    """Return the line's value at each point's x.

    For each point, the line is fitted to the `used` points that `out` does not exclude.

    `x` and `y` are (M,) or (B, M), one line per leading row; `used` is (M,). Row m of `out` (M, M) marks the points
    that the line for m excludes. The value is NaN if x does not vary among the points left.

    >>> x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0, 9.0])
    >>> leave_one_out(x, y, used=np.ones(4, bool), out=np.eye(4, dtype=bool)).tolist()[-1]
    3.0
    """
    keep = (used[None, :] & ~out).astype(np.float64).T
    # Centre first; otherwise the sums of squares below would lose digits.
    centre_x = x[..., used].mean(axis=-1, keepdims=True)
    centre_y = y[..., used].mean(axis=-1, keepdims=True)
    cx, cy = x - centre_x, y - centre_y
    n = keep.sum(axis=0)
    sx, sy, sxx, sxy = cx @ keep, cy @ keep, (cx * cx) @ keep, (cx * cy) @ keep
    bottom = n * sxx - sx * sx
    varies = bottom > 1e-15 * np.maximum(n * sxx, 1e-300)
    slope = np.where(varies, (n * sxy - sx * sy) / np.where(varies, bottom, 1.0), np.nan)
    intercept = (sy - slope * sx) / np.maximum(n, 1)
    return np.asarray(intercept + slope * cx + centre_y)


def logit_of_counts(count: NDArray[Any], n: NDArray[Any] | int) -> Floats:
    """Return ln(p/(1 − p)) of p = (count + ½)/(n + 1), finite at 0 and n.

    >>> float(logit_of_counts(np.array([5]), 10)[0])
    0.0
    """
    p = (np.asarray(count, dtype=np.float64) + 0.5) / (np.asarray(n, dtype=np.float64) + 1.0)
    return np.asarray(np.log(p / (1.0 - p)))


def expit(x: Floats) -> Floats:
    """Return 1/(1 + e^−x), the inverse of the logit.

    >>> float(expit(np.array([0.0]))[0])
    0.5
    """
    from scipy.special import expit as inverse

    return np.asarray(inverse(x))
