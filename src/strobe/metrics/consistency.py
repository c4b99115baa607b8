"""People and models compared on the same images: shared errors, majority answers and response times.

Raters are columns: people, models, or both. A missing answer is −1; it is excluded, never imputed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import DIFFERENCES, METHOD, POSITIVE, Bootstrap
from strobe.metrics.intervals import nothing

NOTHING_SHARED = "no image has answers from both"
NEVER_DIFFER = (
    "both are right on every shared image, or both are wrong, so agreement cannot be distinguished from chance"
)
ONE_CONSTANT = "one of the two is right on every image, or wrong on every image, so the value is always zero"

FEW_PICTURES = 50
"""Below this number of images, the percentile interval of a kappa is too narrow (benchmarks/people_coverage.py).
"""

_CHUNK = 256
"""Pairs resampled at once, so that memory does not grow with the number of raters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """The error consistency of pairs of raters.

    Each pair has a value (NaN if there is none), a number of images, a number of sources, and draws (B, pairs).

    `constant` marks a value that is zero because one rater of the pair is never wrong, or never right.
    """

    value: Floats
    n: Ints
    sources: Ints
    constant: Bools
    drawn: Floats
    bootstrap: Bootstrap

    def estimates(self) -> list[Estimate]:
        """Return every pair's value with its interval."""
        out = []
        for index, (value, n) in enumerate(zip(self.value.tolist(), self.n.tolist(), strict=True)):
            if value != value:
                reason = NEVER_DIFFER if n else NOTHING_SHARED
                out.append(Estimate(value=None, low=None, high=None, n=n, method=METHOD, reason=reason))
            elif self.constant[index]:
                out.append(Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=ONE_CONSTANT))
            else:
                drawn, sources = self.drawn[:, index], int(self.sources[index])
                out.append(
                    self.bootstrap.estimate(value, drawn, n=n, n_clusters=sources, few=FEW_PICTURES, limits=DIFFERENCES)
                )
        return out

    def mean(self, which: Ints) -> Estimate:
        """Return the plain mean over these pairs.

        Pairs without a value are skipped, also in draws; n is the number of pairs.
        """
        known = which[np.isfinite(self.value[which])]
        if not known.size:
            return nothing(NEVER_DIFFER if self.n[which].any() else NOTHING_SHARED, method=METHOD)
        if self.constant[known].all():
            n = int(known.size)
            return Estimate(value=0.0, low=None, high=None, n=n, method=METHOD, reason=ONE_CONSTANT)
        drawn = self.drawn[:, known]
        some = drawn[np.isfinite(drawn).any(axis=1)]
        means = np.nanmean(some, axis=1) if some.size else np.empty(0)
        value, n, sources = float(self.value[known].mean()), int(known.size), int(self.sources[known].max())
        return self.bootstrap.estimate(value, means, n=n, n_clusters=sources, few=FEW_PICTURES, limits=DIFFERENCES)


def error_consistency(right: Ints, pairs: Sequence[tuple[int, int]], draws: Bootstrap) -> Consistency:
    """Return Cohen's kappa of correctness for each pair of raters, on the images that both answered.

    0 is chance level, and 1 means errors on the same images. `right` (N, raters) is 1 if right, 0 if wrong, −1 if not
    answered. `draws` resample the N images by their source. A pair has no value if both raters are right on every
    image, or both are wrong on every image.

    >>> right = np.array([[1, 1, 0, 0], [1, 0, 0, 1]]).T
    >>> error_consistency(right, [(0, 1)], Bootstrap(np.arange(4), replicates=0)).value.tolist()
    [0.0]
    """
    expect(right.ndim == 2, "right", "shape (images, raters)", right.shape)
    expect(bool(np.isin(right, (-1, 0, 1)).all()), "right", "1, 0, or −1 for a missing answer", None)
    expect(len(draws.place) == len(right), "draws", f"one source per image ({len(right)})", len(draws.place))
    found = [_part(right, pairs[start : start + _CHUNK], draws) for start in range(0, len(pairs), _CHUNK)]
    value, n, sources, constant, drawn = zip(*(found or [_part(right, [], draws)]), strict=True)
    return Consistency(
        value=np.concatenate(value),
        n=np.concatenate(n),
        sources=np.concatenate(sources),
        constant=np.concatenate(constant),
        drawn=np.concatenate(drawn, axis=1),
        bootstrap=draws,
    )


def _part(right: Ints, pairs: Sequence[tuple[int, int]], draws: Bootstrap) -> tuple[Floats, Ints, Ints, Bools, Floats]:
    """Return each pair's value, number of images, number of sources and draws, and whether one rater is constant."""
    a, b = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    both = (right[:, a] >= 0) & (right[:, b] >= 0)
    parts = [both, both & (right[:, a] == 1), both & (right[:, b] == 1), both & (right[:, a] + right[:, b] == 2)]
    n, one, two, _ = totals = [part.sum(axis=0).astype(np.float64) for part in parts]
    sources = (draws.per_video(both) > 0).sum(axis=0)
    constant = (one == 0) | (one == n) | (two == 0) | (two == n)
    return _kappa(*totals), n.astype(np.int64), sources, constant, _kappa(*(draws.sums(part) for part in parts))


def _kappa(n: Floats, a: Floats, b: Floats, both: Floats) -> Floats:
    """Return (observed − chance) / (1 − chance) from counts of shared images.

    The counts are of all images, and of the images that a, b, and both got right.
    """
    # All terms are multiplied by n², so that they are integers up to the division, and chance agreement is exactly
    # zero.
    top, bottom = 2 * (n * both - a * b), n * (a + b) - 2 * a * b
    return np.asarray(np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0))


def majority(answers: Ints, *, n_classes: int) -> NDArray[np.int64]:
    """Return the class of more than half of an image's answers, −1 if there is none; `answers` is (N, raters).

    >>> majority(np.array([[2, 2, 0], [1, 0, -1], [-1, 1, -1]]), n_classes=3).tolist()
    [2, -1, 1]
    """
    expect(answers.ndim == 2, "answers", "shape (images, raters)", answers.shape)
    expect(bool(((answers >= -1) & (answers < n_classes)).all()), "answers", f"-1 to {n_classes - 1}", None)
    if not answers.size:
        return np.full(len(answers), -1, dtype=np.int64)
    # A majority class is the median of the sorted answers; −1 sorts first and is skipped.
    ordered = np.sort(answers, axis=1)
    given = (answers >= 0).sum(axis=1)
    middle = ordered.shape[1] - given + given // 2
    found = ordered[np.arange(len(ordered)), np.minimum(middle, ordered.shape[1] - 1)].astype(np.int64)
    return np.where((answers == found[:, None]).sum(axis=1) * 2 > given, found, -1)


def weighted_quantile(values: Floats, weights: Floats, share: float) -> Floats:
    """Return the `share` quantile of `values` (M,) for each row of `weights` (B, M).

    If the weight splits exactly at a value, the result is the mean of that value and the next. With equal weights and a
    share of one half, this is the median. NaN if a row has no weight.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]), 0.5).tolist()
    [2.0, 2.0]
    """
    expect(values.ndim == 1 and values.size > 0, "values", "shape (M,), not empty", values.shape)
    expect(weights.ndim == 2 and weights.shape[1] == values.size, "weights", "shape (B, M)", weights.shape)
    expect(0 < share < 1, "share", "above 0 and below 1", share)
    order = np.argsort(values, kind="stable")
    ordered, reached = values[order], np.cumsum(weights[:, order], axis=1)
    goal = share * reached[:, -1:]
    # A row without weight gives NaN, so its index does not matter.
    low, high = (reached < goal).sum(axis=1), np.minimum((reached <= goal).sum(axis=1), values.size - 1)
    return np.where(goal[:, 0] > 0, (ordered[low] + ordered[high]) / 2, np.nan)


def quartiles(values: Floats, use: Bools, draws: Bootstrap) -> tuple[Estimate, float | None, float | None]:
    """Return the median of `values` (N, raters) where `use`, its interval from resampled sources, and the quartiles.

    `draws` resample the N images by their source.
    """
    expect(values.ndim == 2 and values.shape == use.shape, "values", "shape (images, raters), like use", values.shape)
    expect(len(draws.place) == len(values), "draws", f"one source per image ({len(values)})", len(draws.place))
    kept = values[use]
    if not kept.size:
        return nothing("nobody was timed", method=METHOD), None, None
    even = np.ones((1, kept.size))
    low, median, high = (float(weighted_quantile(kept, even, share)[0]) for share in (0.25, 0.5, 0.75))
    place = np.broadcast_to(draws.place[:, None], use.shape)[use]
    step = max(1, 4_000_000 // kept.size)  # process draws in blocks, so that memory does not grow
    medians = [
        weighted_quantile(kept, draws.weights[start : start + step, place], 0.5)
        for start in range(0, draws.replicates, step)
    ]
    sources = len(np.unique(place))
    estimate = draws.estimate(
        median, np.concatenate([np.empty(0), *medians]), n=int(kept.size), n_clusters=sources, limits=POSITIVE
    )
    return estimate, low, high
