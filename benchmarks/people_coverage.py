"""Simulate how often the intervals of people's figures contain the true value, over other images with the same people.

    python benchmarks/people_coverage.py [--samples 400]

Each image has a difficulty, and each person and the model have a skill. Both determine the probability of a right
answer. The true value is the figure of the same raters on 200,000 images. The script draws samples of 20, 50 and 160
images, each answered by every person, and counts how many 95 % intervals contain the true value.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

from strobe.metrics.agreement import fleiss_kappa, rating_counts
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.consistency import error_consistency
from strobe.metrics.intervals import proportion

SKILL = np.array([2.6, 2.3, 2.0, 1.8, 1.2])
"""The skills of four people and of the model, on the logit scale. Difficulties have a standard deviation of 2."""
PEOPLE = 4
PAIRS = [(a, b) for a in range(PEOPLE) for b in range(a + 1, PEOPLE)]
BESIDE = [(a, PEOPLE) for a in range(PEOPLE)]


def answers(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return whether each rater is right on each of n images, (n, raters)."""
    hard = rng.normal(0, 2, (n, 1))
    return np.asarray(rng.random((n, len(SKILL))) < 1 / (1 + np.exp(hard - SKILL)), dtype=np.int64)


def figures(right: NDArray[np.int64], draws: Bootstrap) -> dict[str, tuple[float, float | None, float | None]]:
    """Return every figure with its interval, computed as in the analyses."""
    people = right[:, :PEOPLE]
    n = len(right)
    found = error_consistency(right, [*PAIRS, *BESIDE], draws)
    accuracy = proportion(people.ravel() == 1, np.repeat(np.arange(n), PEOPLE))
    gap = draws.mean(people.mean(axis=1) - right[:, PEOPLE])
    kappa = fleiss_kappa(rating_counts(people, n_classes=2), draws=draws.replicates, seed=draws.seed)
    means = found.mean(np.arange(len(PAIRS))), found.mean(len(PAIRS) + np.arange(PEOPLE))
    return {
        name: (float(one.value or 0.0), one.low, one.high)
        for name, one in (
            ("accuracy", accuracy), ("people − model", gap), ("Fleiss' κ of being right", kappa),
            ("error consistency of people", means[0]), ("with the model", means[1]),
        )
    }  # fmt: skip


def main() -> None:
    """Print a row for each number of images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=400)
    samples = parser.parse_args().samples
    rng = np.random.default_rng(0)
    big = answers(200_000, rng)
    truth = {name: one[0] for name, one in figures(big, Bootstrap(np.arange(len(big)), replicates=0)).items()}
    print("truth: " + ", ".join(f"{name} {value:.3f}" for name, value in truth.items()))
    for n in (20, 50, 160):
        held = dict.fromkeys(truth, 0)
        for number in range(samples):
            found = figures(answers(n, rng), Bootstrap(np.arange(n), replicates=1000, seed=number))
            for name, (_, low, high) in found.items():
                held[name] += low is not None and high is not None and low <= truth[name] <= high
        print(f"{n:4} images: " + ", ".join(f"{name} {100 * count / samples:.0f} %" for name, count in held.items()))


if __name__ == "__main__":
    main()
