"""Compare other interval methods with Korn–Graubard, for videos with several sets: coverage and width.

    python benchmarks/coverage.py --alternatives [--draws 4000]

`half video`: the design effect of the sample plus one half-right video (or a quarter of one), if that is larger.
`tail df`: Korn–Graubard with the degrees of freedom of a variance with heavy-tailed terms, 3(Σz²)²/Σz⁴ − 1. `event df`:
Korn–Graubard with as many degrees of freedom as videos with the rarer outcome. `logit`: the t interval of that variance
on the logit scale.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, stdtrit

from strobe.metrics.intervals import ALPHA, clopper_pearson_bounds, effective_n

__all__ = ["CELLS", "METHODS", "summary", "table"]

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]

CELLS = tuple(product((0.02, 0.1, 0.3, 0.5, 0.9), (3, 10), (10, 30, 50, 100), (0.5, 0.9, 0.95, 0.97)))
"""The correlation within videos, sets per video, videos and true value of each cell."""


class Sample:
    """The number of right sets of each video in many draws, `right` (draws, videos), out of `sets` each."""

    def __init__(self, right: Floats, sets: int) -> None:
        self.right, self.sets, self.videos = right, sets, right.shape[1]
        self.n = self.videos * sets
        self.share = right.sum(axis=1) / self.n
        self.residual = right - self.share[:, None] * sets
        self.variance = self.videos / (self.videos - 1) * (self.residual**2).sum(axis=1) / self.n**2

    def bounds(self, *, variance: Floats | None = None, df: Floats | None = None) -> Bounds:
        """Return Clopper–Pearson at the effective size, with another variance or other degrees of freedom if given."""
        used, videos = self.variance if variance is None else variance, np.full(len(self.share), float(self.videos))
        mean_square = used * (videos - 1) / videos
        size = effective_n(self.share, np.full(len(self.share), float(self.n)), videos, videos, mean_square)
        if df is not None:
            narrower = (stdtrit(videos - 1, 1 - ALPHA / 2) / stdtrit(np.clip(df, 1, videos - 1), 1 - ALPHA / 2)) ** 2
            decided = (self.share > 0) & (self.share < 1) & (used > 0)
            size = np.where(decided, np.minimum(size, size * narrower), size)
        return clopper_pearson_bounds(self.share * size, size)

    def half_video(self, weight: float) -> Bounds:
        """Return bounds with the larger design effect: the sample's, or that with a half-right video of this weight."""
        sets, n = self.sets * weight, self.n + self.sets * weight
        share = (self.right.sum(axis=1) + sets / 2) / n
        squares = ((self.right - share[:, None] * self.sets) ** 2).sum(axis=1)
        squares += (sets / 2 - share * sets) ** 2 / weight
        videos = self.videos + weight
        effect = videos / (videos - 1) * squares / n / (share * (1 - share))
        return self.bounds(variance=np.maximum(self.variance, effect * self.share * (1 - self.share) / self.n))

    def tail_df(self) -> Bounds:
        """Fewer degrees of freedom where a few videos make the variance."""
        fourth = (self.residual**4).sum(axis=1)
        square = (self.residual**2).sum(axis=1) ** 2
        return self.bounds(
            df=3 * np.divide(square, fourth, out=np.full_like(fourth, self.videos), where=fourth > 0) - 1
        )

    def event_df(self) -> Bounds:
        """As many as there are videos with the rarer outcome."""
        rare = np.where(self.share[:, None] > 0.5, self.sets - self.right, self.right)
        return self.bounds(df=(rare > 0).sum(axis=1).astype(np.float64))

    def logit(self) -> Bounds:
        """expit(logit p ± t·se/(p(1−p))), Korn–Graubard where p is 0 or 1."""
        share = np.clip(self.share, 0.5 / self.videos, 1 - 0.5 / self.videos)
        half = stdtrit(self.videos - 1.0, 1 - ALPHA / 2) * np.sqrt(self.variance) / (share * (1 - share))
        low, high = np.minimum(expit(logit(share) - half), share), np.maximum(expit(logit(share) + half), share)
        plain, ends = self.bounds(), (self.share <= 0) | (self.share >= 1)
        return np.where(ends, plain[0], low), np.where(ends, plain[1], high)


METHODS: dict[str, Callable[[Sample], Bounds]] = {
    "korn-graubard": Sample.bounds,
    "half video": lambda sample: sample.half_video(1.0),
    "a quarter of one": lambda sample: sample.half_video(0.25),
    "tail df": Sample.tail_df,
    "event df": Sample.event_df,
    "logit": Sample.logit,
}


def table(*, draws: int, seed: int) -> NDArray[np.float64]:
    """Coverage and mean width of every method in every cell, (cells, methods, 2)."""
    rng, found = np.random.default_rng(seed), []
    for correlation, sets, videos, truth in CELLS:
        strength = (1 - correlation) / correlation
        chance = rng.beta(truth * strength, (1 - truth) * strength, size=(draws, videos))
        sample = Sample(rng.binomial(sets, chance).astype(np.float64), sets)
        bounds = [method(sample) for method in METHODS.values()]
        found.append(
            [(float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())) for low, high in bounds]
        )
    return np.array(found)


def summary(found: NDArray[np.float64]) -> list[str]:
    """A line per method: least coverage, how many cells below 94 %, and how much wider where Korn–Graubard holds."""
    cover, wider = found[:, :, 0], found[:, :, 1] / found[:, :1, 1]
    holds = cover[:, 0] >= 0.95
    return [
        f"{name:<17} least {cover[:, place].min():.3f}, below 94 % in {int((cover[:, place] < 0.94).sum()):3d} of "
        f"{len(found)} cells; where korn-graubard covers 95 %: {100 * (wider[holds, place].mean() - 1):+.1f} % wide, "
        f"{100 * (wider[holds, place].max() - 1):+.0f} % at most"
        for place, name in enumerate(METHODS)
    ]
