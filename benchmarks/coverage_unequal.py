"""Simulate how often 95 % intervals of shares and means contain the true value if videos have unequal numbers of sets.

    python benchmarks/coverage.py --unequal [--draws 4000]

Sizes: `equal` (5 sets each), `lognormal` (σ 1.2, median 5), `fifth` (a fifth of the videos have 20 sets, the others
one), `half` (one video has half of all sets) and `dominant` (one video has nine tenths). Every video has its own
probability of being right, beta-distributed around the true value. `harder` makes long videos harder: the odds of a
video fall with the 0.3rd power of its size, and the true value is that of all sets. Every sample draws new sizes.
`mean` is the interval of a mean of numbers from 0 to 1 (quarters, like flip rates). For equal sizes, the score uses a
bootstrap for it. `G - 1` is Korn–Graubard without the correction for sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from strobe.metrics.intervals import clopper_pearson_bounds, effective_n, mean_bounds

__all__ = ["ASKED", "CELLS", "MOSTLY", "UnequalCell", "UnequalRow", "bounds", "row", "rows"]

Floats = NDArray[np.float64]

ASKED_EFFECTIVE, ASKED, MOSTLY = 20, 0.91, 0.93
"""With at least this many effective videos, every cell covers at least 91 %, and most cover 93 %."""
HARDER = 0.3


@dataclass(frozen=True, slots=True)
class UnequalCell:
    """One setting: the distribution of sizes, the number of videos, the true value at median size, the correlation."""

    sizes: str
    videos: int
    truth: float
    correlation: float
    harder: bool = False


def _cells() -> Iterator[UnequalCell]:
    for sizes, videos, truth, correlation in product(
        ("equal", "lognormal", "fifth", "half", "dominant"), (20, 75, 100, 300), (0.6, 0.9), (0.1, 0.5)
    ):
        yield UnequalCell(sizes, videos, truth, correlation)
        if sizes in ("lognormal", "fifth"):
            yield UnequalCell(sizes, videos, truth, correlation, harder=True)


CELLS = tuple(_cells())


def sizes_of(kind: str, videos: int, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the number of sets of each video in every draw, (draws, videos)."""
    if kind == "lognormal":
        drawn = np.exp(rng.normal(np.log(5), 1.2, (draws, videos)))
        return np.maximum(1, np.rint(drawn)).astype(np.int64)
    sizes = np.full((draws, videos), 1 if kind == "fifth" else 5, dtype=np.int64)
    if kind == "fifth":
        sizes[:, : videos // 5] = 20
    elif kind in ("half", "dominant"):
        sizes[:, 0] = sizes[:, 1:].sum(axis=1) * (1 if kind == "half" else 9)
    return sizes


def chances(cell: UnequalCell, sizes: NDArray[np.int64]) -> Floats:
    """Return the expected share of right sets of each video, (draws, videos)."""
    if not cell.harder:
        return np.full(sizes.shape, cell.truth)
    odds = cell.truth / (1 - cell.truth) * (sizes / np.median(sizes)) ** -HARDER
    return np.asarray(odds / (1 + odds))


def bounds(total: Floats, sizes: NDArray[np.int64], *, published: bool = False) -> tuple[Floats, Floats]:
    """Return the bounds of every draw's share from totals and sizes of videos, (draws, videos), as in the score.

    With `published`, use G − 1 degrees of freedom.
    """
    n, videos = sizes.sum(axis=1).astype(np.float64), np.full(len(sizes), float(sizes.shape[1]))
    share = total.sum(axis=1) / n
    square = ((total - share[:, None] * sizes) ** 2).sum(axis=1) / n**2
    effective = videos if published else n**2 / (sizes.astype(np.float64) ** 2).sum(axis=1)
    size = effective_n(share, n, videos, effective, square)
    return clopper_pearson_bounds(share * size, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalRow:
    """The result of one cell: effective videos, coverage and mean width of G − 1 and of ours, coverage of a mean."""

    cell: UnequalCell
    effective: float
    published: float
    published_width: float
    ours: float
    width: float
    mean: float

    @property
    def asked(self) -> bool:
        """Whether this cell has a target."""
        return self.effective >= ASKED_EFFECTIVE


def row(cell: UnequalCell, *, draws: int, seed: int) -> UnequalRow:
    """Simulate one cell. The same seed gives the same row."""
    rng = np.random.default_rng([seed, CELLS.index(cell)])
    many = sizes_of(cell.sizes, cell.videos, max(400_000 // cell.videos, 1), rng)
    truth = float((many * chances(cell, many)).sum() / many.sum())
    sizes = sizes_of(cell.sizes, cell.videos, draws, rng)
    expected, strength = chances(cell, sizes), (1 - cell.correlation) / cell.correlation
    chance = rng.beta(expected * strength, (1 - expected) * strength)
    right = rng.binomial(sizes, chance).astype(np.float64)
    quarters = rng.binomial(4 * sizes, chance) / 4.0

    def covered(ends: tuple[Floats, Floats]) -> float:
        return float(((ends[0] <= truth) & (truth <= ends[1])).mean())

    old, new = bounds(right, sizes, published=True), bounds(right, sizes)
    n = sizes.sum(axis=1).astype(np.float64)
    return UnequalRow(
        cell=cell,
        effective=float((n**2 / (sizes.astype(np.float64) ** 2).sum(axis=1)).mean()),
        published=covered(old),
        published_width=float((old[1] - old[0]).mean()),
        ours=covered(new),
        width=float((new[1] - new[0]).mean()),
        mean=covered(mean_bounds(quarters, sizes.astype(np.float64))),
    )


def rows(*, draws: int, seed: int) -> Iterator[UnequalRow]:
    """Yield every cell's row, in order."""
    return (row(cell, draws=draws, seed=seed) for cell in CELLS)
