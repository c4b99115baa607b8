"""Simulate how often the 95 % intervals of proportions contain the true value, with 1, 3 and 10 sets per video.

    python benchmarks/coverage.py [--draws 4000]
    python benchmarks/coverage.py --detection [--draws 150] [--full] [--lanes 4]
    python benchmarks/coverage.py --comparison [--draws 500]
    python benchmarks/coverage.py --alternatives [--draws 4000]
    python benchmarks/coverage.py --unequal [--draws 4000]
    python benchmarks/coverage.py --flips [--draws 1000]

Each video has its own probability of being right, and its sets share it. The probabilities are beta-distributed around
the true value, with half of the variance between videos. The intervals are those of `strobe score`: Clopper–Pearson
with one set per video, Korn–Graubard with several. For comparison, the script also prints Clopper–Pearson on shared
videos and the percentile bootstrap, to show why the score does not use them there. It exits with 1 if the score's
interval covers less than 95 %, beyond the simulation error. The last table shows where Korn–Graubard falls short: few
videos with several sets each and accuracies of 90 % and more, or five videos. There is no target for that table.

With --detection: the intervals of mAP and of its drop (coverage_detection.py), at least 93 % with 50 or more videos;
--full takes every combination (half an hour or more).
With --comparison: the intervals of a difference between two models, at least 94 %. A video's difficulty affects both.
With --unequal: videos of unequal size, a dominant one, long videos that are harder (coverage_unequal.py), at least 91 %
with 20 or more effective videos, and 93 % in most cells.
With --flips: the share of frames and sets that flip between two forms of a model (coverage_flips.py), at least 93 %.
With --alternatives: other methods for shares, compared with Korn–Graubard (coverage_alternatives.py).
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import coverage_alternatives
import coverage_detection
import coverage_flips
import coverage_unequal
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.contrasts import paired_test
from strobe.metrics.intervals import Grouping, Interval
from strobe.metrics.paired import paired_difference

SETS_PER_VIDEO = (1, 3, 10)
ASKED = (*product((10, 30, 100), (0.5, 0.7)), *product((100, 300), (0.85, 0.9, 0.95)))
LIMITS = (*product((5,), (0.5, 0.7)), *product((10, 30), (0.9, 0.95)))
"""Pairs of (videos, truth)."""
CORRELATION = 0.5
"""The correlation of two sets of one video: the share of the variance between videos."""


def outcomes(rng: np.random.Generator, *, truth: float, videos: int, sets: int, draws: int) -> NDArray[np.bool_]:
    """Return simulated outcomes, (draws, videos × sets). Sets of a video share its probability."""
    strength = (1 - CORRELATION) / CORRELATION
    chance = rng.beta(truth * strength, (1 - truth) * strength, size=(draws, videos, 1))
    return np.asarray(rng.random((draws, videos, sets)) < chance).reshape(draws, videos * sets)


def covered(right: NDArray[np.bool_], cluster: NDArray[np.int64], truth: float, interval: Interval) -> float:
    """Return the share of draws whose interval contains the true value."""
    draws, n = right.shape
    group = np.repeat(np.arange(draws), n)
    # Every draw gets separate video numbers, so that one call handles all draws.
    videos = (np.tile(cluster, (draws, 1)) + np.arange(draws)[:, None] * (int(cluster.max()) + 1)).ravel()
    shares = Grouping(group, videos, n_groups=draws, interval=interval).shares(right.ravel())
    return float(((shares.low <= truth) & (truth <= shares.high)).mean())


def covered_by_bootstrap(right: NDArray[np.bool_], cluster: NDArray[np.int64], truth: float) -> float:
    """Return the same for the percentile bootstrap over videos, with 400 draws."""
    boot = Bootstrap(cluster, replicates=400)
    share = boot.sums(right.T.astype(np.float64)) / right.shape[1]
    low, high = np.percentile(share, [2.5, 97.5], axis=0)
    return float(((low <= truth) & (truth <= high)).mean())


Row = tuple[int, int, float, float, float, float]


def table(settings: tuple[tuple[int, float], ...], *, draws: int, seed: int) -> Iterator[Row]:
    """Yield (sets per video, videos, truth, ours, Clopper–Pearson, bootstrap) for every setting."""
    rng = np.random.default_rng(seed)
    for sets, (videos, truth) in product(SETS_PER_VIDEO, settings):
        right = outcomes(rng, truth=truth, videos=videos, sets=sets, draws=draws)
        cluster = np.repeat(np.arange(videos), sets)
        yield (
            sets,
            videos,
            truth,
            covered(right, cluster, truth, "auto"),
            covered(right, cluster, truth, "clopper-pearson"),
            covered_by_bootstrap(right[: min(draws, 500)], cluster, truth),
        )


def tolerance(draws: int) -> float:
    """Return two standard errors of a simulated coverage of 95 %."""
    return float(2 * np.sqrt(0.95 * 0.05 / draws))


def detection(draws: int, seed: int, *, full: bool, lanes: int) -> int:
    """Print the table of mAP's intervals. Returns 1 if one with a target covers too little, beyond simulation error."""
    cells = (*(coverage_detection.full() if full else coverage_detection.SHORT), *coverage_detection.UNEQUAL)
    print(f"coverage of 95 % intervals of mAP, {draws} samples per cell (bootstrap: a quarter), seed {seed}")
    print("videos  classes  shape      mAP    mAP_orig  mAP_pm-k   drop  bootstrap  width  no interval  asked")
    worst = 1.0
    for found in coverage_detection.rows(cells, draws=draws, seed=seed, lanes=lanes):
        cell = found.cell
        shape = cell.sizes if cell.sizes != "one" else "equal" if cell.equal else "tail"
        print(
            f"{cell.videos:6d}  {cell.classes:7d}  {shape:9s}  {found.truth:.3f}  "
            f"{found.before:8.3f}  {found.after:8.3f}  {found.drop:5.3f}  {found.bootstrap:9.3f}  {found.width:.3f}  "
            f"{found.none:11d}  {'yes' if found.asked else 'marked' if found.marked else 'no'}",
            flush=True,
        )
        if found.asked:
            worst = min(worst, found.before, found.after, found.drop)
    asked = coverage_detection.ASKED
    allowed = float(2 * np.sqrt(asked * (1 - asked) / draws))
    print(f"\nlowest coverage with a target: {worst:.3f} ({asked}, simulated to ±{allowed:.3f})")
    return 0 if worst >= asked - allowed else 1


def comparison(draws: int, seed: int) -> int:
    """Print the table for a difference. Returns 1 if an interval covers less than 94 %, beyond simulation error."""
    rng = np.random.default_rng(seed)
    print(f"coverage of 95 % intervals of a difference, {draws} samples per cell")
    print("videos  sets/video  accuracies   ours  percentile bootstrap")
    worst = 1.0
    for videos, sets, (a, b) in product((5, 10, 20, 50, 200), (1, 5), ((0.9, 0.9), (0.9, 0.8), (0.95, 0.6))):
        cluster, held, by_draws = np.repeat(np.arange(videos), sets), 0, 0
        boot = Bootstrap(cluster, replicates=400)
        for _ in range(draws):
            # Half of the variance of both models' answers comes from the video, and is shared.
            hard = np.repeat(rng.normal(size=videos), sets)
            right = [hard + rng.normal(size=len(cluster)) < np.sqrt(2) * ndtri(share) for share in (a, b)]
            gap = right[0].astype(np.int64) - right[1]
            p = paired_test(gap, cluster).p
            found = paired_difference(gap, cluster, p=p, p_holm=p, pairs=1)
            held += (
                found.low is not None and found.high is not None and found.low <= a - b + 1e-12 <= found.high + 2e-12
            )
            low, high = np.percentile(boot.sums(gap) / len(gap), [2.5, 97.5])
            by_draws += bool(low <= a - b + 1e-12 and a - b - 1e-12 <= high)
        print(f"{videos:6d}  {sets:10d}  {a:.2f}, {b:.2f}  {held / draws:.3f}  {by_draws / draws:.3f}", flush=True)
        worst = min(worst, held / draws)
    allowed = float(2 * np.sqrt(0.94 * 0.06 / draws))
    print(f"\nlowest coverage: {worst:.3f} (0.94, simulated to ±{allowed:.3f})")
    return 0 if worst >= 0.94 - allowed else 1


def unequal(draws: int, seed: int) -> int:
    """Print the table for unequal videos.

    Returns 1 if a cell with a target covers too little, beyond simulation error.
    """
    print(f"coverage and mean width of 95 % intervals, videos of unequal size, {draws} draws, seed {seed}")
    print("sizes      harder  videos  effective  truth  corr    G - 1  width    ours  width    mean  asked")
    asked = []
    for found in coverage_unequal.rows(draws=draws, seed=seed):
        cell = found.cell
        print(
            f"{cell.sizes:9s}  {'yes' if cell.harder else 'no':6s}  {cell.videos:6d}  {found.effective:9.1f}  "
            f"{cell.truth:5.2f}  {cell.correlation:4.2f}  {found.published:7.3f}  {found.published_width:.3f}  "
            f"{found.ours:6.3f}  {found.width:.3f}  {found.mean:6.3f}  {'yes' if found.asked else 'no'}",
            flush=True,
        )
        asked += ([found.ours] if cell.sizes == "equal" else [found.ours, found.mean]) if found.asked else []
    least, most = min(asked), float(np.mean(np.array(asked) >= coverage_unequal.MOSTLY))
    limit = coverage_unequal.ASKED
    allowed = float(2 * np.sqrt(limit * (1 - limit) / draws))
    print(f"\nlowest coverage with 20 or more effective videos: {least:.3f} ({limit}, simulated to ±{allowed:.3f})")
    print(f"at least {coverage_unequal.MOSTLY} in {100 * most:.0f} % of {len(asked)} figures")
    return 0 if least >= limit - allowed and most > 0.5 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--draws", type=int, help="samples per cell; default 4000; 150 with --detection, 500 with --comparison"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--detection", action="store_true", help="test the intervals of mAP instead")
    parser.add_argument("--full", action="store_true", help="with --detection: every combination")
    parser.add_argument(
        "--comparison", action="store_true", help="test the intervals of a difference between models instead"
    )
    parser.add_argument("--lanes", type=int, default=1, help="with --detection: number of processes")
    parser.add_argument("--alternatives", action="store_true", help="test other methods for shares")
    parser.add_argument("--flips", action="store_true", help="test the share of flips between two forms of a model")
    parser.add_argument("--unequal", action="store_true", help="test videos with different numbers of sets")
    arguments = parser.parse_args()
    if arguments.alternatives:
        tried = coverage_alternatives.table(draws=arguments.draws or 4000, seed=arguments.seed)
        print("\n".join(coverage_alternatives.summary(tried)))
        return 0
    if arguments.flips:
        return 0 if coverage_flips.report(draws=arguments.draws or 1000) else 1
    if arguments.unequal:
        return unequal(arguments.draws or 4000, arguments.seed)
    if arguments.comparison:
        return comparison(arguments.draws or 500, arguments.seed)
    if arguments.detection:
        return detection(arguments.draws or 150, arguments.seed, full=arguments.full, lanes=arguments.lanes)
    draws = arguments.draws or 4000
    print(f"coverage of 95 % intervals, {draws} draws, correlation {CORRELATION} within videos")
    worst = 1.0
    for title, settings in (("with a target", ASKED), ("known limits, no target", LIMITS)):
        print(f"\n{title}\nsets/video  videos  truth   ours  clopper-pearson  percentile bootstrap")
        for sets, videos, truth, ours, plain, boot in table(settings, draws=draws, seed=arguments.seed):
            print(f"{sets:10d}  {videos:6d}  {truth:5.2f}  {ours:5.3f}  {plain:15.3f}  {boot:20.3f}")
            if settings is ASKED:
                worst = min(worst, ours)
    allowed = tolerance(draws)
    print(f"\nlowest coverage of the score's intervals with a target: {worst:.3f} (0.95, simulated to ±{allowed:.3f})")
    return 0 if worst >= 0.95 - allowed else 1


if __name__ == "__main__":
    sys.exit(main())
