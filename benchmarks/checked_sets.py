"""Simulate bounds from flicker on videos with planted changes: before and after people check flickering sets.

    python benchmarks/checked_sets.py [--draws 4000]

Each study draws 600 sets in 300 videos. A planted share of the sets changes its object, and the model follows the
change, so it is right on every frame and still flickers. Other sets flicker by mistake. People check a random sample of
the flickering sets. The true bound is the share of sets, over the population of videos, on which the model does not
flicker by mistake. The table shows how often the uncorrected interval of consistency contains this share, and how often
the corrected one does. The script exits with 1 if a corrected cell covers less than 93 %.
"""

import argparse
import sys

import numpy as np

from strobe.metrics.intervals import proportion
from strobe.metrics.strata import corrected_flicker

SETS, VIDEOS = 600, 300


def study(rng: np.random.Generator, planted: float, mistakes: float, checked: int, alike: float) -> tuple[float, ...]:
    """Return the bounds of the uncorrected and of the corrected figure, and the corrected value."""
    video = np.repeat(np.arange(VIDEOS), SETS // VIDEOS)
    shares = (rng.beta(max(alike * share, 1e-9), alike * (1 - share), VIDEOS)[video] for share in (planted, mistakes))
    changed, wrong = (rng.random(SETS) < share for share in shares)
    wrong &= ~changed
    flickers = changed | wrong
    sample = np.zeros(SETS, dtype=bool)
    sample[rng.permutation(np.flatnonzero(flickers))[:checked]] = True
    plain, found = proportion(~flickers, video), corrected_flicker(flickers, sample, changed, video).bound
    bounds = (plain.low, plain.high, found.low, found.high, found.value)
    return tuple(np.nan if one is None else one for one in bounds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    args = parser.parse_args()
    print("planted  mistakes  checked  true bound  uncorrected covers  corrected covers  corrected width   bias")
    short = False
    for planted, mistakes in ((0.0, 0.3), (0.05, 0.3), (0.15, 0.3), (0.15, 0.05), (0.3, 0.15)):
        for checked in (20, 60):
            rng = np.random.default_rng([round(100 * planted), round(100 * mistakes), checked])
            truth = 1 - (1 - planted) * mistakes
            rows = np.array([study(rng, planted, mistakes, checked, 4.0) for _ in range(args.draws)])
            before = float(((rows[:, 0] <= truth) & (rows[:, 1] >= truth)).mean())
            after = float(((rows[:, 2] <= truth + 1e-9) & (rows[:, 3] >= truth - 1e-9)).mean())
            width, bias = float((rows[:, 3] - rows[:, 2]).mean()), float(rows[:, 4].mean()) - truth
            print(
                f"{planted:7.2f} {mistakes:9.2f} {checked:8} {truth:11.3f} {before:19.3f} {after:17.3f} {width:16.3f} "
                f"{bias:+6.3f}"
            )
            short |= after < 0.93
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
