"""Simulate how often `strobe gate --max-loss` fails: false alarms, detections, and the detectable loss.

    python benchmarks/gate_rates.py [--draws 2000] [--full]
    python benchmarks/gate_rates.py --history [--draws 1000]
    python benchmarks/gate_rates.py --unequal [--draws 1000]

Two models answer the sets of 25 to 400 videos, one or five sets each. A set's difficulty comes from its video and from
the set itself in equal parts, and affects both models. The rest of the variance is separate for each model, so that two
equally good models differ on about a tenth of the sets. The old model has 85 % of the anchors right and holds 65 % of
the sets. The true loss of the new one is zero (a failure is then a false alarm), the margin, or twice the margin. Every
draw goes through the gate's exact test, interval and rule. The last two columns are the detectable loss that the gate
prints (--fail-on figure, the median over draws), and how often exactly that loss fails, which should be 80 %.

The script exits with 1 if that share is off by more than 12 points, or if another value of --fail-on has fewer wrong
decisions on average than the default. --full prints every measure and margin; docs/ci.md has the short table.

With --unequal: what the gate prints (the mean of "equal models fail", and the median detectable loss), and how often
equal models, or a model with that loss, really fail, if videos have different numbers of sets. Changes between the
models come in equal parts from the video and from the set.

With --history: how often `strobe history` reports a significant change among several equally good checkpoints. The best
earlier one is chosen from the same data, which Holm's correction does not take into account.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from strobe.analyses.gate import DEFAULT, ENDS, Check, FailOn, Limit, check
from strobe.metrics.contrasts import paired_test
from strobe.metrics.paired import LEVEL, holm, mcnemar, paired_difference
from strobe.metrics.power import detectable, pair_spread

VIDEOS, SETS, MEASURES, MARGINS = (25, 50, 100, 400), (1, 5), ("acc_orig", "acc_pmk", "drop"), (1.0, 2.0, 5.0)
SHORT_MEASURES, SHORT_MARGINS = ("acc_pmk",), (2.0, 5.0)
ORIG, PMK = 0.85, 0.65
"""The old model's accuracies."""
COMMON = 0.95
"""The share of the variance common to both models: half of it from the video, half from the set."""
FAIL_ON: tuple[FailOn, ...] = get_args(FailOn)


@dataclass(frozen=True)
class Cell:
    """One group of videos and one rule."""

    measure: str
    margin: float
    videos: int
    sets: int


@dataclass(frozen=True)
class Rates:
    """How often each value of --fail-on failed, by the true loss in margins, and the detectable loss."""

    fails: dict[tuple[int, FailOn], float]
    detectable: float
    power: float


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


def failed(gap: NDArray[np.int64], cell: Cell) -> dict[FailOn, bool]:
    """Return whether one draw fails, for every value of --fail-on."""
    cluster = np.repeat(np.arange(cell.videos), cell.sets)
    p = paired_test(gap, cluster).p
    found = paired_difference(gap, cluster, p=p, p_holm=p, pairs=1)
    limit = Limit(kind="max_loss", measure=cell.measure, value=cell.margin)
    return {how: not check(limit, found, fail_on=how).passed for how in FAIL_ON}


def rates(rng: np.random.Generator, cell: Cell, draws: int) -> Rates:
    """Return the rates of one cell."""
    cluster, margin = np.repeat(np.arange(cell.videos), cell.sets), cell.margin / 100
    fails: dict[tuple[int, FailOn], float] = {}
    for times in (0, 1, 2):
        found = [failed(gaps(rng, cell, times * margin), cell) for _ in range(draws)]
        fails |= {(times, how): float(np.mean([one[how] for one in found])) for how in FAIL_ON}
    said = []
    for _ in range(min(draws, 200)):
        spread = pair_spread(gaps(rng, cell, 0.0), cluster)
        said.append(detectable(spread, limit=margin, ends=ENDS["figure"]) or 1.0)
    loss = float(np.median(said))
    power = np.mean([failed(gaps(rng, cell, loss), cell)["figure"] for _ in range(draws)]) if loss < PMK else 1.0
    return Rates(fails=fails, detectable=loss, power=float(power))


def table(cells: list[Cell], draws: int, seed: int) -> Iterator[tuple[Cell, Rates]]:
    """Yield every cell with its rates."""
    for cell in cells:
        own = [seed, MEASURES.index(cell.measure), int(10 * cell.margin), cell.videos, cell.sets]
        yield cell, rates(np.random.default_rng(own), cell, draws)


SHAPES = {
    "25 × 1": np.ones(25, dtype=np.int64),
    "3 × 40, 22 × 2": np.array([40] * 3 + [2] * 22),
    "40, lognormal": np.maximum(1, np.exp(np.random.default_rng(2).normal(1.0, 1.5, 40)).round()).astype(np.int64),
}
"""The numbers of sets of the videos."""


def unequal(draws: int, seed: int) -> int:
    """Print what the gate says and what happens, for videos with different numbers of sets."""
    print(f"acc_pmk; {draws} draws per cell, seed {seed}")
    print(
        "sets of the videos  effective  margin  equal fail: said, seen  | figure, shown: detectable loss and its power"
    )
    for (name, sizes), margin in product(SHAPES.items(), (2.0, 5.0)):
        rng, cluster = np.random.default_rng([seed, int(margin)]), np.repeat(np.arange(len(sizes)), sizes)
        limit = Limit(kind="max_loss", measure="acc_pmk", value=margin)

        def checked(
            loss: float, how: FailOn, rng: Any = rng, cluster: Any = cluster, limit: Limit = limit, sizes: Any = sizes
        ) -> Check:
            noise = [
                rng.normal(size=(2, len(sizes)))[:, cluster] + rng.normal(size=(2, len(cluster))) for _ in range(2)
            ]
            shared, own = np.sqrt(COMMON / 2) * noise[0][0], np.sqrt((1 - COMMON) / 2) * noise[1]
            gap = (shared + own[0] < ndtri(PMK)).astype(np.int64) - (shared + own[1] < ndtri(PMK - loss))
            p = paired_test(gap, cluster).p
            found = paired_difference(gap, cluster, p=p, p_holm=p, pairs=1)
            return check(limit, found, fail_on=how, spread=pair_spread(gap, cluster))

        equal = [checked(0.0, "figure") for _ in range(draws)]
        said, seen = (
            100 * np.mean(one) for one in ([c.false_alarms or 0 for c in equal], [not c.passed for c in equal])
        )
        cells = []
        for how in ("figure", "shown"):
            loss = float(np.median([checked(0.0, how).detectable or 1.0 for _ in range(min(draws, 300))]))
            power = np.mean([not checked(loss, how).passed for _ in range(draws)]) if loss < PMK else 1.0
            cells.append(f"{100 * loss:5.1f} {100 * power:5.1f}")
        effective = sizes.sum() ** 2 / (sizes**2).sum()
        print(f"{name:18s}  {effective:9.1f}  {margin:6g}  {said:17.1f} {seen:5.1f}  | {', '.join(cells)}", flush=True)
    return 0


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
    """Print the table. Returns 1 if the gate's printed values do not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--history", action="store_true")
    parser.add_argument("--unequal", action="store_true")
    given = parser.parse_args()
    if given.history:
        return histories(given.draws, given.seed)
    if given.unequal:
        return unequal(given.draws, given.seed)
    measures, margins = (MEASURES, MARGINS) if given.full else (SHORT_MEASURES, SHORT_MARGINS)
    cells = [Cell(*one) for one in product(measures, margins, VIDEOS, SETS)]
    print(f"share of draws in which the gate fails, %; {given.draws} draws per cell, seed {given.seed}")
    print("each triple: " + " / ".join(FAIL_ON))
    heads = " | ".join(f"{head:21s}" for head in ("no loss", "the margin", "twice the margin"))
    print(f"measure   margin  videos  sets  | {heads} | detectable  fails")
    wrong, off = dict.fromkeys(FAIL_ON, 0.0), 0.0
    for cell, found in table(cells, given.draws, given.seed):
        triples = [" / ".join(f"{100 * found.fails[times, how]:5.1f}" for how in FAIL_ON) for times in (0, 1, 2)]
        print(
            f"{cell.measure:8s}  {cell.margin:6g}  {cell.videos:6d}  {cell.sets:4d}  | {' | '.join(triples)} "
            f"| {100 * found.detectable:10.1f}  {100 * found.power:5.1f}",
            flush=True,
        )
        for how in FAIL_ON:
            wrong[how] += (found.fails[0, how] + 1 - found.fails[2, how]) / 2 / len(cells)
        off = max(off, abs(found.power - 0.8))
    print(
        "\nwrong decisions, mean of false alarms at no loss and misses at twice the margin: "
        + ", ".join(f"{how} {100 * share:.1f} %" for how, share in wrong.items())
    )
    print(f"default: {DEFAULT}; a loss called detectable fails in 80 % of draws, at most {100 * off:.1f} points off")
    return 0 if wrong[DEFAULT] <= min(wrong.values()) and off <= 0.12 else 1


if __name__ == "__main__":
    sys.exit(main())
