"""Are noise, flips and beyond_noise recovered from models whose noise and flicker are known?

    python benchmarks/noise_floor.py [--studies 400]

Each study draws videos, and for each video how often its right answer changes from frame to frame and how often an
answer is replaced by another class. Each frame is asked several times. The true figures are those of all such videos.
Printed for each design: how often the 95 % intervals cover the true figures, and how often the test finds flips beyond
noise. Without changes from frame to frame (`null`), this is the rate of false positives.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.noise import beyond_noise, mean_of_sets, set_noise

CLASSES = 5


@dataclass(frozen=True)
class Design:
    """How a study is drawn: videos, sets per video (up to `most`, if unequal), frames per set, answers per frame.

    `change` and `guess` are the means over videos of a beta distribution: how often the mode of the answers changes
    from one frame to the next, and how often an answer is another class than the mode. The smaller `spread` is, the
    more videos differ.
    """

    name: str
    videos: int
    sets: int
    frames: int
    repeat: int
    change: float
    guess: float
    spread: float = 4.0
    most: int = 0


DESIGNS = (
    Design("few videos", 20, 1, 21, 3, 0.05, 0.05),
    Design("paper size", 100, 1, 21, 3, 0.05, 0.05),
    Design("asked twice", 100, 1, 21, 2, 0.05, 0.05),
    Design("unequal videos", 60, 1, 21, 3, 0.05, 0.05, most=12),
    Design("much noise", 100, 1, 21, 3, 0.02, 0.3),
    Design("deterministic", 100, 1, 21, 3, 0.05, 0.0),
    Design("null, few videos", 20, 1, 21, 3, 0.0, 0.05),
    Design("null", 100, 1, 21, 3, 0.0, 0.05),
    Design("null, asked twice", 100, 1, 21, 2, 0.0, 0.05),
    Design("null, little noise", 100, 1, 7, 2, 0.0, 0.005),
    Design("null, unequal videos", 60, 1, 21, 3, 0.0, 0.1, most=12),
    Design("null, many videos", 300, 1, 7, 2, 0.0, 0.05),
)


def rates(rng: np.random.Generator, mean: float, spread: float, n: int) -> NDArray[np.float64]:
    """Return a rate per video, (n,)."""
    return rng.beta(mean * spread, (1 - mean) * spread, n) if mean else np.zeros(n)


def shares(change: NDArray[np.float64], guess: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the true noise and flips of videos with these rates."""
    other = guess / (CLASSES - 1)
    noise = 1 - ((1 - guess) ** 2 + (CLASSES - 1) * other**2)
    apart = 1 - (2 * (1 - guess) * other + (CLASSES - 2) * other**2)  # two frames with different modes
    return noise, (1 - change) * noise + change * apart


def true_figures(design: Design) -> tuple[float, float, float]:
    """Return noise, flips and beyond_noise over all videos, which weigh as many sets as they have on average."""
    rng = np.random.default_rng(7)
    n = 2_000_000
    noise, flips = shares(rates(rng, design.change, design.spread, n), rates(rng, design.guess, design.spread, n))
    return float(noise.mean()), float(flips.mean()), float((flips - noise).mean())


def study(design: Design, rng: np.random.Generator, seed: int) -> tuple[list[tuple[float, float]], float]:
    """Draw one study and return the intervals of noise, flips and beyond_noise, and the p-value."""
    change, guess = (rates(rng, mean, design.spread, design.videos) for mean in (design.change, design.guess))
    sizes = rng.integers(1, design.most + 1, design.videos) if design.most else np.full(design.videos, design.sets)
    video = np.repeat(np.arange(design.videos), sizes)
    n_sets = len(video)
    steps = rng.random((n_sets, design.frames - 1)) < change[video][:, None]
    jumps = np.where(steps, rng.integers(1, CLASSES, steps.shape), 0)
    mode = np.cumsum(np.concatenate([np.zeros((n_sets, 1), dtype=np.int64), jumps], axis=1), axis=1) % CLASSES
    shape = (design.repeat, n_sets, design.frames)
    wrong = rng.random(shape) < guess[video][None, :, None]
    answer = ((mode[None] + np.where(wrong, rng.integers(1, CLASSES, shape), 0)) % CLASSES).reshape(design.repeat, -1)
    place = np.arange(n_sets * design.frames).reshape(n_sets, design.frames)
    first, second = place[:, :-1].ravel(), place[:, 1:].ravel()
    owner = np.repeat(np.arange(n_sets), design.frames - 1)
    found = set_noise(answer, np.ones(answer.shape, dtype=bool), first, second, owner, n_sets=n_sets)
    draws = Bootstrap(video, replicates=1000, seed=seed)
    beyond, p = beyond_noise(found.noise, found.flips, draws)
    estimates = (mean_of_sets(found.noise, draws), mean_of_sets(found.flips, draws), beyond)
    # Without an interval, all values are possible: it covers.
    ends = [(-1.0, 1.0) if one.low is None or one.high is None else (one.low, one.high) for one in estimates]
    return ends, p


def main() -> None:
    """Print a row for each design."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{options.studies} studies per design; coverage of 95 % intervals, and how often p < 0.05, in %")
    print(
        f"{'design':22} {'noise':>6} {'flips':>6} {'beyond':>6}   {'noise':>6} {'flips':>6} {'beyond':>6} {'p<.05':>6}"
    )
    for number, design in enumerate(DESIGNS):
        truth = true_figures(design)
        rng = np.random.default_rng([options.seed, number])
        studies = [study(design, rng, seed) for seed in range(options.studies)]
        covered = [
            100 * np.mean([ends[place][0] <= value <= ends[place][1] for ends, _ in studies])
            for place, value in enumerate(truth)
        ]
        found = 100 * np.mean([p < 0.05 for _, p in studies])
        left = " ".join(f"{100 * value:6.2f}" for value in truth)
        print(f"{design.name:22} {left}   {' '.join(f'{one:6.1f}' for one in covered)} {found:6.1f}", flush=True)


if __name__ == "__main__":
    main()
