"""People beside models on the same images: do they err on the same ones, what do most say, how long does it take.

Raters are columns: people, models, or both. An answer that was not given is −1 and is left out, never filled.
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

__all__ = ["FEW_PICTURES", "Consistency", "error_consistency", "majority", "quartiles", "weighted_quantile"]

NOTHING_SHARED = "no image was answered by both"
NEVER_DIFFER = "both are right on every image they share, or both wrong: that cannot be told from chance"
ONE_CONSTANT = "one of the two is right on every image, or wrong on every one: it is nought whatever the other does"

FEW_PICTURES = 50
"""Below this many images the percentile bootstrap of a kappa covers too little (benchmarks/people_coverage.py)."""

_CHUNK = 256
"""Pairs resampled at once: memory stays flat however many raters there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """Error consistency of pairs of raters: the value of each (NaN: none), its images, their sources, and its draws
    (B, pairs). `constant` where it is nought because one of the two is never wrong, or never right."""

    value: Floats
    n: Ints
    sources: Ints
    constant: Bools
    drawn: Floats
    bootstrap: Bootstrap

    def estimates(self) -> list[Estimate]:
        """Every pair's value with its interval."""
        out = []
        for place, (value, n) in enumerate(zip(self.value.tolist(), self.n.tolist(), strict=True)):
            if value != value:
                reason = NEVER_DIFFER if n else NOTHING_SHARED
                out.append(Estimate(value=None, low=None, high=None, n=n, method=METHOD, reason=reason))
            elif self.constant[place]:
                out.append(Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=ONE_CONSTANT))
            else:
                drawn, sources = self.drawn[:, place], int(self.sources[place])
                out.append(
                    self.bootstrap.estimate(value, drawn, n=n, n_clusters=sources, few=FEW_PICTURES, limits=DIFFERENCES)
                )
        return out

    def mean(self, which: Ints) -> Estimate:
        """The plain mean over these pairs, those without a value left out, in a draw too; n counts pairs."""
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
    """Cohen's kappa of being right, of each pair of raters on the images both answered: 0 is chance, 1 the same ones.

    `right` (N, raters) is 1 where right, 0 where wrong, −1 where not answered; `draws` resample the N images by their
    source. A pair that is right on everything, or wrong on everything, has no value.

    >>> right = np.array([[1, 1, 0, 0], [1, 0, 0, 1]]).T
    >>> error_consistency(right, [(0, 1)], Bootstrap(np.arange(4), replicates=0)).value.tolist()
    [0.0]
    """
    expect(right.ndim == 2, "right", "shape (images, raters)", right.shape)
    expect(bool(np.isin(right, (-1, 0, 1)).all()), "right", "1, 0, or −1 where there is no answer", None)
    expect(len(draws.place) == len(right), "draws", f"one source per image ({len(right)})", len(draws.place))
    found = [_part(right, pairs[start : start + _CHUNK], draws) for start in range(0, len(pairs), _CHUNK)]
    value, n, sources, constant, drawn = zip(*(found or [_part(right, [], draws)]), strict=True)
    return Consistency(
        value=np.concatenate(value), n=np.concatenate(n), sources=np.concatenate(sources),
        constant=np.concatenate(constant), drawn=np.concatenate(drawn, axis=1), bootstrap=draws,
    )  # fmt: skip


def _part(right: Ints, pairs: Sequence[tuple[int, int]], draws: Bootstrap) -> tuple[Floats, Ints, Ints, Bools, Floats]:
    """Values, images, sources, whether one never differs, and draws of some pairs."""
    a, b = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    both = (right[:, a] >= 0) & (right[:, b] >= 0)
    parts = [both, both & (right[:, a] == 1), both & (right[:, b] == 1), both & (right[:, a] + right[:, b] == 2)]
    n, one, two, _ = totals = [part.sum(axis=0).astype(np.float64) for part in parts]
    sources = (draws.per_video(both) > 0).sum(axis=0)
    constant = (one == 0) | (one == n) | (two == 0) | (two == n)
    return _kappa(*totals), n.astype(np.int64), sources, constant, _kappa(*(draws.sums(part) for part in parts))


def _kappa(n: Floats, a: Floats, b: Floats, both: Floats) -> Floats:
    """(observed − chance) / (1 − chance) from counts: images shared, right for one, for the other, for both."""
    # Multiplied out by n²: whole numbers up to the division, so that chance agreement that is complete is exactly zero.
    top, bottom = 2 * (n * both - a * b), n * (a + b) - 2 * a * b
    return np.asarray(np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0))


def majority(answers: Ints, *, n_classes: int) -> NDArray[np.int64]:
    """The class more than half of a picture's answers give, −1 where none does; `answers` is (N, raters).

    >>> majority(np.array([[2, 2, 0], [1, 0, -1], [-1, 1, -1]]), n_classes=3).tolist()
    [2, -1, 1]
    """
    expect(answers.ndim == 2, "answers", "shape (images, raters)", answers.shape)
    expect(bool(((answers >= -1) & (answers < n_classes)).all()), "answers", f"-1 to {n_classes - 1}", None)
    if not answers.size:
        return np.full(len(answers), -1, dtype=np.int64)
    # What more than half say stands in the middle of the sorted answers; −1 sorts first and is stepped over.
    ordered = np.sort(answers, axis=1)
    given = (answers >= 0).sum(axis=1)
    middle = ordered.shape[1] - given + given // 2
    found = ordered[np.arange(len(ordered)), np.minimum(middle, ordered.shape[1] - 1)].astype(np.int64)
    return np.where((answers == found[:, None]).sum(axis=1) * 2 > given, found, -1)


def weighted_quantile(values: Floats, weights: Floats, share: float) -> Floats:
    """The smallest of `values` (M,) below or at which `share` of the weight lies, for each row of `weights` (B, M).

    Where the weight splits exactly there, the mean of that value and the next, so that with equal weights and a share
    of one half it is the median. NaN where a row has no weight.

    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]), 0.5).tolist()
    [2.0, 2.0]
    """
    expect(values.ndim == 1 and values.size > 0, "values", "shape (M,), not empty", values.shape)
    expect(weights.ndim == 2 and weights.shape[1] == values.size, "weights", "shape (B, M)", weights.shape)
    expect(0 < share < 1, "share", "above 0 and below 1", share)
    order = np.argsort(values, kind="stable")
    ordered, reached = values[order], np.cumsum(weights[:, order], axis=1)
    goal = share * reached[:, -1:]
    # A row without weight reaches nothing; its place does not matter.
    low, high = (reached < goal).sum(axis=1), np.minimum((reached <= goal).sum(axis=1), values.size - 1)
    return np.where(goal[:, 0] > 0, (ordered[low] + ordered[high]) / 2, np.nan)


def quartiles(values: Floats, use: Bools, draws: Bootstrap) -> tuple[Estimate, float | None, float | None]:
    """The median of `values` (N, raters) where `use`, with its interval from resampled sources, and the two quartiles.

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
    step = max(1, 4_000_000 // kept.size)  # draws at once: memory stays flat
    drawn = [
        weighted_quantile(kept, draws.weights[start : start + step, place], 0.5)
        for start in range(0, draws.replicates, step)
    ]
    sources = len(np.unique(place))
    found = draws.estimate(
        median, np.concatenate([np.empty(0), *drawn]), n=int(kept.size), n_clusters=sources, limits=POSITIVE
    )
    return found, low, high
