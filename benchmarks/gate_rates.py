"""Simulate how often `strobe gate --max-loss` fails: false alarms and misses, on these clips and for other videos.

    python benchmarks/gate_rates.py [--draws 400] [--full]
    python benchmarks/gate_rates.py --history [--draws 1000]

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
"""

import argparse
import sys
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from strobe.analyses.gate import Limit, check
from strobe.metrics.contrasts import paired_test
from strobe.metrics.paired import LEVEL, holm, mcnemar, paired_difference

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


def main() -> int:
    """Print the table. Returns 1 if another rule has fewer wrong decisions than a limit on the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--history", action="store_true")
    given = parser.parse_args()
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
