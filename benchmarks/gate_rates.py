"""Simulate how often `strobe gate --max-loss` fails: false alarms and misses, on these clips and for other videos.

    python benchmarks/gate_rates.py [--draws 400] [--full]
    python benchmarks/gate_rates.py --history [--draws 1000]
    python benchmarks/gate_rates.py --plan [--draws 250]

Two models answer the sets of 25 to 400 videos, one or five sets each. A set's difficulty comes from its video and from
the set itself in equal parts, and affects both models. The rest of the variance is separate for each model, so that two
equally good models differ on about a tenth of the sets. The old model has 85 % of the anchors right and holds 65 % of
the sets. The true loss of the new one is zero (a failure is then a false alarm), the margin, or twice the margin. Every
draw goes through the gate's exact test, interval and rule. The columns are the verdicts, in per cent of the draws:
worse (the figure is beyond the limit), and for other videos regression, inconclusive and pass.

The script exits with 1 if a limit on the figure has more wrong decisions on average than a limit on the whole interval,
or than one on any part of it. --full prints every measure and margin; docs/ci.md has the short table.

With --history: how often `strobe history` reports a significant change among several equally good checkpoints. The best
earlier one is chosen from the same data, which Holm's correction does not take into account.

With --plan: how often the promise of `strobe gate --plan` holds if it was measured on a run of 25 or 100 videos with
two equal models. Each plan is followed by draws of as many videos as it names, for a true loss of zero and of twice the
limit of 5 points. Videos hold one set, five sets, one or twenty (a fifth of them), or a lognormal number. *Agree*: half
of what separates the models is common to the sets of a video. For other videos, the interval is that of the mean over
videos with t. The script then exits with 1 if equal models fail in more than 15 %, or the loss in less than 65 %.
"""

import argparse
import sys
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from strobe.analyses.gate import Limit, check
from strobe.metrics.contrasts import paired_test
from strobe.metrics.paired import LEVEL, holm, mcnemar, paired_difference
from strobe.metrics.power import pair_spread, videos_needed

VIDEOS, SETS, MEASURES, MARGINS = (25, 50, 100, 400), (1, 5), ("acc_orig", "acc_pmk", "drop"), (1.0, 2.0, 5.0)
SHORT_MEASURES, SHORT_MARGINS = ("acc_pmk",), (2.0, 5.0)
ORIG, PMK = 0.85, 0.65
"""The old model's accuracies."""
COMMON = 0.95
"""The share of the variance common to both models: half of it from the video, half from the set."""
VERDICTS = ("worse", "regression", "inconclusive", "pass")
"""The first is a verdict on these clips, the others are those for other videos."""
RULES = {"figure": ("worse",), "whole interval": ("regression",), "any part of it": ("regression", "inconclusive")}
"""The verdicts with which a limit fails, by what must be beyond it."""


@dataclass(frozen=True)
class Cell:
    """One group of videos and one rule."""

    measure: str
    margin: float
    videos: int
    sets: int


def gaps(rng: np.random.Generator, cell: Cell, loss: float) -> NDArray[np.int64]:
    """Return the new model's loss on every set of one draw: 1, 0 or −1, (videos × sets,)."""
    video = np.repeat(rng.normal(size=cell.videos), cell.sets)
    shared = np.sqrt(COMMON / 2) * (video + rng.normal(size=len(video)))
    old, new = (shared + np.sqrt(1 - COMMON) * rng.normal(size=len(video)) for _ in range(2))
    # A loss on anchors also breaks their sets. A loss on sets increases the drop.
    lost_orig = loss if cell.measure == "acc_orig" else 0.0
    orig_old, orig_new = old < ndtri(ORIG), new < ndtri(ORIG - lost_orig)
    pmk_old, pmk_new = old < ndtri(PMK), new < ndtri(PMK - loss)
    before, after = (orig_old, orig_new) if cell.measure == "acc_orig" else (pmk_old, pmk_new)
    if cell.measure == "drop":  # more is worse
        after, before = orig_new.astype(int) - pmk_new, orig_old.astype(int) - pmk_old
        return np.asarray(after - before, dtype=np.int64)
    return np.asarray(before.astype(int) - after, dtype=np.int64)


def verdicts(gap: NDArray[np.int64], cell: Cell) -> set[str]:
    """Return the verdict on these clips and the verdict for other videos of one draw."""
    cluster = np.repeat(np.arange(cell.videos), cell.sets)
    p = paired_test(gap, cluster).p
    loss = paired_difference(gap, cluster, p=p, p_holm=p, pairs=1)
    limit = Limit(kind="max_loss", measure=cell.measure, value=cell.margin)
    fails = check(limit, loss).verdict == "worse"
    return {check(limit, loss, scope="other-videos").verdict} | ({"worse"} if fails else set())


def rates(rng: np.random.Generator, cell: Cell, draws: int) -> list[dict[str, float]]:
    """Return the share of each verdict, for a true loss of zero, of the margin, and of twice the margin."""
    shares = []
    for times in (0, 1, 2):
        found = [verdicts(gaps(rng, cell, times * cell.margin / 100), cell) for _ in range(draws)]
        shares.append({name: sum(name in one for one in found) / draws for name in VERDICTS})
    return shares


def called_other(rng: np.random.Generator, steps: int, sets: int) -> bool:
    """Return whether any of several equally good checkpoints is called better or worse than an earlier one."""
    shared = np.sqrt(COMMON) * rng.normal(size=sets)
    held = [shared + np.sqrt(1 - COMMON) * rng.normal(size=sets) < ndtri(PMK) for _ in range(steps)]
    share = [one.mean() for one in held]
    pairs: dict[tuple[int, int], None] = {}
    for place in range(1, steps):
        pairs |= dict.fromkeys((place, other) for other in (place - 1, 0, int(np.argmax(share[:place]))))
    found = [mcnemar(int((held[a] & ~held[b]).sum()), int((held[b] & ~held[a]).sum())) for a, b in pairs]
    return min(holm(found)) < LEVEL


def histories(draws: int, seed: int) -> int:
    """Print the false alarms of histories. Returns 1 if up to ten steps have over 5 %, beyond simulation error."""
    print(
        f"histories of equal checkpoints in which any is called better or worse, %; {draws} draws per cell, seed {seed}"
    )
    print("steps  sets  called")
    worst = 0.0
    for steps, sets in product((3, 5, 10, 30), (50, 200, 1000)):
        rng = np.random.default_rng([seed, steps, sets])
        share = float(np.mean([called_other(rng, steps, sets) for _ in range(draws)]))
        worst = max(worst, share if steps <= 10 else 0.0)
        print(f"{steps:5d}  {sets:4d}  {100 * share:6.1f}", flush=True)
    return 0 if worst <= 0.05 + 2 * float(np.sqrt(0.05 * 0.95 / draws)) else 1


SIZES = ("one", "five", "one or 20", "lognormal")
AGAIN = 8
"""The draws of new videos after each plan."""


def sizes_of(rng: np.random.Generator, kind: str, videos: int) -> NDArray[np.int64]:
    """Return the number of sets of each video."""
    if kind == "one or 20":
        return np.where(rng.random(videos) < 0.2, 20, 1)
    if kind == "lognormal":
        return np.maximum(1, np.round(5 * np.exp(1.2 * rng.normal(size=videos) - 0.72))).astype(np.int64)
    return np.full(videos, 1 if kind == "one" else 5)


def pair_of(rng: np.random.Generator, sizes: NDArray[np.int64], loss: float, agree: float) -> NDArray[np.int64]:
    """Return the loss on every set: 1, 0 or −1. `agree` is the share of the models' own variance that videos have."""
    n, own = int(sizes.sum()), 1 - COMMON

    def by_video() -> NDArray[np.float64]:
        return np.repeat(rng.normal(size=len(sizes)), sizes)

    shared = np.sqrt(COMMON / 2) * (by_video() + rng.normal(size=n))
    old, new = (
        shared + np.sqrt(own * agree) * by_video() + np.sqrt(own * (1 - agree)) * rng.normal(size=n) for _ in range(2)
    )
    return np.asarray((old < ndtri(PMK)).astype(int) - (new < ndtri(PMK - loss)), dtype=np.int64)


def is_beyond(gap: NDArray[np.int64], sizes: NDArray[np.int64], limit: float, ends: int) -> bool:
    """Return whether the figure, or the whole interval, is beyond the limit."""
    mean, videos = gap.mean(), len(sizes)
    if not ends:
        return bool(mean > limit + 1e-9)
    sums = np.add.reduceat(gap - mean, np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    error = np.sqrt((sums**2).sum() * videos / (videos - 1)) / len(gap)
    return bool(mean - stdtrit(videos - 1, 0.975) * error > limit)


def plans(draws: int, seed: int) -> int:
    """Print what became of plans. Returns 1 if one is far from its promise."""
    print(f"plans from a run of equal models, limit 5 points; {draws} plans per cell, {AGAIN} draws each, seed {seed}")
    print("sets       agree  run of  these clips: videos, equal fail, loss fails  other videos: the same")
    limit, far = 0.05, False
    for kind, agree, pilot in product(SIZES, (0.0, 0.5), (25, 100)):
        if kind == "one" and agree:
            continue
        rng = np.random.default_rng([seed, SIZES.index(kind), int(2 * agree), pilot])
        found: dict[int, list[tuple[int, float, float]]] = {0: [], 1: []}
        for _ in range(draws):
            sizes = sizes_of(rng, kind, pilot)
            spread = pair_spread(pair_of(rng, sizes, 0.0, agree), np.repeat(np.arange(pilot), sizes))
            for ends, rows in found.items():
                videos = max(2, videos_needed(spread, pilot, limit=limit, ends=ends))
                rates = []
                for loss in (0.0, 2 * limit):
                    new = [sizes_of(rng, kind, videos) for _ in range(AGAIN)]
                    fail = [is_beyond(pair_of(rng, one, loss, agree), one, limit, ends) for one in new]
                    rates.append(float(np.mean(fail)))
                rows.append((videos, rates[0], rates[1]))
        cells = []
        for rows in found.values():
            videos, alarms, caught = np.array(rows).T
            cells.append(f"{np.median(videos):6.0f} {100 * alarms.mean():6.1f} {100 * caught.mean():6.1f}")
            far |= bool(alarms.mean() > 0.15 or caught.mean() < 0.65)
        print(f"{kind:10s} {agree:5g}  {pilot:6d}  {'    '.join(cells)}", flush=True)
    return int(far)


def main() -> int:
    """Print the table. Returns 1 if another rule has fewer wrong decisions than a limit on the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--history", action="store_true")
    parser.add_argument("--plan", action="store_true")
    given = parser.parse_args()
    if given.plan:
        return plans(given.draws, given.seed)
    if given.history:
        return histories(given.draws, given.seed)
    measures, margins = (MEASURES, MARGINS) if given.full else (SHORT_MEASURES, SHORT_MARGINS)
    cells = [Cell(*one) for one in product(measures, margins, VIDEOS, SETS)]
    print(f"share of draws with each verdict, %; {given.draws} draws per cell, seed {given.seed}")
    print(f"each column: {VERDICTS[0]} | {', '.join(VERDICTS[1:])}")
    heads = "  ".join(f"{head:25s}" for head in ("no loss", "the margin", "twice the margin"))
    print(f"measure   margin  videos  sets  {heads}")
    wrong = dict.fromkeys(RULES, 0.0)
    for cell in cells:
        own = [given.seed, MEASURES.index(cell.measure), int(10 * cell.margin), cell.videos, cell.sets]
        none, margin, twice = rates(np.random.default_rng(own), cell, given.draws)
        columns = [
            f"{100 * one['worse']:5.1f} | " + ", ".join(f"{100 * one[name]:5.1f}" for name in VERDICTS[1:])
            for one in (none, margin, twice)
        ]
        print(
            f"{cell.measure:8s}  {cell.margin:6g}  {cell.videos:6d}  {cell.sets:4d}  {'  '.join(columns)}", flush=True
        )
        for rule, failing in RULES.items():
            alarms, hits = (sum(one[name] for name in failing) for one in (none, twice))
            wrong[rule] += (alarms + 1 - hits) / 2 / len(cells)
    print(
        "\nwrong decisions, mean of false alarms at no loss and misses at twice the margin, by what must be beyond it:"
    )
    print(", ".join(f"{rule} {100 * share:.1f} %" for rule, share in wrong.items()))
    return 0 if wrong["figure"] <= min(wrong.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
