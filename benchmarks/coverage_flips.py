"""Simulate how often the 95 % interval of flips between two forms of a model contains the true share.

    python benchmarks/coverage.py --flips [--draws 2000]

Every video has its own probabilities of a negative and of a positive flip, beta-distributed around the true shares with
a given correlation of two frames of one video. Frames flip independently given these. Negative flips are counted by
frame and by set of 21 frames, with the interval of the score. The target is at least 93 % with 20 videos or more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from strobe.metrics.columns import estimate, share

VIDEOS = (20, 50, 100)
SHARES = (0.01, 0.03, 0.1)
CORRELATIONS = (0.02, 0.1, 0.2)
SETS, FRAMES = 5, 21
"""The sets of each video and the frames of each set."""


@dataclass(frozen=True, slots=True)
class FlipCell:
    """The settings of one cell, and how often its intervals contain the truth: by frame, and by set."""

    videos: int
    share: float
    correlation: float
    frames: float
    sets: float


def _chances(rng: np.random.Generator, truth: float, correlation: float, shape: tuple[int, int]) -> NDArray[np.float64]:
    strength = (1 - correlation) / correlation
    return np.asarray(rng.beta(truth * strength, (1 - truth) * strength, size=shape))


def _covers(hit: NDArray[np.bool_], truth: float) -> bool:
    """Return whether the interval of the score contains the truth; `hit` is (videos, rows)."""
    video = np.repeat(np.arange(len(hit)), hit.shape[1])
    found = estimate(share(hit.ravel(), video, rare=True))
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def cell(videos: int, part: float, correlation: float, *, draws: int, rng: np.random.Generator) -> FlipCell:
    """Return the coverage of one cell."""
    by_frame = by_set = 0
    true_of_sets = _true_share_of_sets(part, correlation, rng)
    for _ in range(draws):
        negative, positive = (_chances(rng, part, correlation, (videos, 1)) for _ in range(2))
        luck = rng.random((videos, SETS * FRAMES))
        lost = luck < negative
        gained = ~lost & (luck > 1 - positive)
        truth = np.zeros(luck.shape, dtype=np.int64)
        was, now = truth == np.where(gained, 1, truth), truth == np.where(lost, 1, truth)
        by_frame += _covers(was & ~now, part)
        whole, still = (right.reshape(videos, SETS, FRAMES).all(axis=2) for right in (was, now))
        by_set += _covers(whole & ~still, true_of_sets)
    return FlipCell(videos, part, correlation, by_frame / draws, by_set / draws)


def _true_share_of_sets(part: float, correlation: float, rng: np.random.Generator) -> float:
    """Return the probability that a set was right throughout and is not any more, over very many videos."""
    negative, positive = (_chances(rng, part, correlation, (1, 2_000_000)) for _ in range(2))
    free = 1 - positive
    kept = np.clip(1 - positive - negative, 0, 1)
    return float((free**FRAMES - kept**FRAMES).mean())


def table(*, draws: int, seed: int = 0) -> Iterator[FlipCell]:
    """Yield every cell."""
    rng = np.random.default_rng(seed)
    for videos, part, correlation in product(VIDEOS, SHARES, CORRELATIONS):
        yield cell(videos, part, correlation, draws=draws, rng=rng)


def report(*, draws: int) -> bool:
    """Print the table and return whether every cell reaches 93 %, beyond the simulation error."""
    least = 0.93 - 1.645 * (0.93 * 0.07 / draws) ** 0.5
    print(f"Flips, {SETS} sets of {FRAMES} frames a video, {draws} draws a cell; at least 93 %")
    print(f"{'videos':>6} {'share':>6} {'correlation':>11} {'by frame':>9} {'by set':>7}")
    good = True
    for one in table(draws=draws):
        low = min(one.frames, one.sets)
        good &= low >= least
        mark = "" if low >= least else "  below"
        print(
            f"{one.videos:>6} {one.share:>6.2f} {one.correlation:>11.2f} {one.frames:>9.3f} {one.sets:>7.3f}{mark}",
            flush=True,
        )
    return good
