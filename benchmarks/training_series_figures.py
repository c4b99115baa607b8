"""Draw figures and tables of the training series: intervals over clips, ranges over seeds, and differences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
COLOURS = {"stills": "#5c6570", "finetune": "#0b62b5", "finetune-scratch": "#2a8fbd", "noise": "#a87400",
           "linf": "#b03060", "pmk": "#c8501e", "pmk-scratch": "#d9a08a", "pmk-mixed": "#0c7d5e",
           "consistency": "#8a4a9e", "agreement": "#4d7a1f"}  # fmt: skip
PAIRS = (
    ("finetune", "stills"), ("finetune-scratch", "finetune"), ("noise", "finetune"), ("linf", "finetune"),
    ("pmk", "finetune"), ("pmk-mixed", "pmk"), ("consistency", "pmk"), ("pmk-scratch", "finetune-scratch"),
)  # fmt: skip


class Ladder:
    """The trainings as arrays: `right[recipe]` is (seeds, sets, k + 1), whether each set holds up to each distance."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.k = int(content["k"])
        self.content = content
        found: dict[str, list[tuple[int, NDArray[np.bool_]]]] = {}
        for one in content["trainings"]:
            first = np.array([self.k + 1 if sign == "-" else int(sign, 36) for sign in one["first_wrong"]])
            found.setdefault(one["rung"], []).append((one["seed"], first[:, None] > np.arange(self.k + 1)[None]))
        self.right = {rung: np.stack([right for _, right in sorted(rows, key=lambda row: row[0])])
                      for rung, rows in found.items()}  # fmt: skip
        n = next(iter(self.right.values())).shape[1]
        rng = np.random.default_rng(0)
        # How often each clip is drawn, (draws, sets). Every clip has one set, so this resamples clips.
        self.draws = rng.multinomial(n, np.full(n, 1 / n), size=DRAWS) / n

    def figures(self, rung: str) -> NDArray[np.float64]:
        """Return acc_orig, acc_pmk and drop of every set, averaged over seeds, (3, sets)."""
        mean = self.right[rung].mean(axis=0)
        return np.stack([mean[:, 0], mean[:, -1], mean[:, 0] - mean[:, -1]])

    def seeds(self, rung: str) -> NDArray[np.float64]:
        """Return acc_orig, acc_pmk and drop of every seed, (3, seeds)."""
        share = self.right[rung].mean(axis=1)
        return np.stack([share[:, 0], share[:, -1], share[:, 0] - share[:, -1]])

    def interval(self, values: NDArray[np.float64]) -> tuple[float, float]:
        """Return the 95 % interval over clips of the mean of a value per set."""
        low, high = np.quantile(self.draws @ values, [0.025, 0.975])
        return float(low), float(high)


def table(ladder: Ladder) -> str:
    """Return a row per recipe: the three figures with their interval over clips, and the range over seeds."""
    lines = [
        "| recipe | acc_orig | acc_pmk | drop |",
        "|---|---|---|---|",
    ]
    for rung in ladder.right:
        cells = []
        for values, seeds in zip(ladder.figures(rung), ladder.seeds(rung), strict=True):
            low, high = ladder.interval(values)
            cells.append(
                f"{100 * values.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]; "
                f"{100 * seeds.min():.1f}–{100 * seeds.max():.1f}"
            )
        lines.append(f"| {rung} | {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(ladder: Ladder) -> str:
    """Return first − second on the same clips, with intervals over clips (seed mean) and seeds (paired Student's t)."""
    from scipy import stats

    lines = ["| first − second | acc_orig | acc_pmk | drop |", "|---|---|---|---|"]
    for a, b in PAIRS:
        if a not in ladder.right or b not in ladder.right:
            continue
        cells = []
        for place in range(3):
            gap = ladder.figures(a)[place] - ladder.figures(b)[place]
            low, high = ladder.interval(gap)
            text = f"{100 * gap.mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            n = min(ladder.right[a].shape[0], ladder.right[b].shape[0])
            by_seed = ladder.seeds(a)[place][:n] - ladder.seeds(b)[place][:n]
            if n > 1:
                reach = stats.t.ppf(0.975, n - 1) * by_seed.std(ddof=1) / np.sqrt(n)
                text += f"; {100 * (by_seed.mean() - reach):+.1f} to {100 * (by_seed.mean() + reach):+.1f}"
            cells.append(text.replace("-", "−"))
        lines.append(f"| {a} − {b} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(content: Mapping[str, Any], target: Path) -> None:
    """Write the figures, and print the tables."""
    import matplotlib

    matplotlib.use("Agg")
    ladder = Ladder(content)
    print(table(ladder), "\n")
    print(differences(ladder), "\n")
    print("seconds:", content["seconds"], content["machine"])
    for rung in ladder.right:
        spent = [one["seconds"] for one in content["trainings"] if one["rung"] == rung]
        print(f"{rung}: {np.mean(spent):.0f} s per training")
    target.mkdir(parents=True, exist_ok=True)
    _bars(ladder, target / "training-ladder.png")
    _curves(ladder, target / "training-ladder-curves.png")


def _bars(ladder: Ladder, path: Path) -> None:
    """Draw every recipe as a line from acc_orig down to acc_pmk, with a dot for each seed."""
    from matplotlib import pyplot

    rungs = list(ladder.right)
    figure, axes = pyplot.subplots(figsize=(8.2, 0.5 * len(rungs) + 1.3), layout="constrained", dpi=150)
    for y, rung in enumerate(rungs):
        orig, worst, _ = ladder.figures(rung)
        colour = COLOURS.get(rung, "#5c6570")
        axes.plot([100 * worst.mean(), 100 * orig.mean()], [y, y], color=colour, alpha=0.35, linewidth=5,
                  solid_capstyle="round", zorder=1)  # fmt: skip
        # Seeds are above the line for anchors and below it for sets.
        rows = ((orig, ladder.seeds(rung)[0], "o", -0.24), (worst, ladder.seeds(rung)[1], "D", 0.24))
        for values, seeds, marker, off in rows:
            low, high = ladder.interval(values)
            axes.plot([100 * low, 100 * high], [y, y], color=colour, linewidth=1.4, zorder=3)
            axes.plot(100 * seeds, np.full(len(seeds), y + off), "|", color=colour, markersize=6, zorder=2)
            axes.plot([100 * values.mean()], [y], marker, color=colour, markersize=7, zorder=4)
        text = f"{100 * orig.mean():.0f} → {100 * worst.mean():.0f}"
        axes.annotate(text, xy=(1.01, y), xycoords=("axes fraction", "data"), va="center", color=colour, fontsize=9)
    axes.set_yticks(range(len(rungs)), rungs)
    axes.set_ylim(len(rungs) - 0.5, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"per cent right: ● anchors, ◆ whole sets (pm-{ladder.k}); thin line 95 % over clips, ticks: seeds")
    _plain(axes)
    axes.grid(axis="x", color="#e3e5e8")
    figure.savefig(path)
    pyplot.close(figure)


def _curves(ladder: Ladder, path: Path) -> None:
    """Draw accuracy against distance, averaged over seeds."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.2, 4.4), layout="constrained", dpi=150)
    ends: list[tuple[float, str]] = []
    for rung, right in ladder.right.items():
        mean = 100 * right.mean(axis=(0, 1))
        axes.plot(np.arange(ladder.k + 1), mean, color=COLOURS.get(rung, "#5c6570"), marker="o", markersize=3)
        ends.append((float(mean[-1]), rung))
    _named(axes, ends)
    axes.set(xlabel="k: frames on either side of the anchor", ylabel="sets right up to there, per cent", ylim=(0, 100))
    _plain(axes)
    axes.grid(axis="y", color="#e3e5e8")
    figure.savefig(path)
    pyplot.close(figure)


def _named(axes: Any, ends: Sequence[tuple[float, str]]) -> None:
    """Write names at the ends of lines without overlap."""
    places = np.array([y for y, _ in sorted(ends)])
    for _ in range(200):  # each of two close neighbours moves by half of the missing distance
        lack = np.maximum(0, 3.6 - np.diff(places))
        places[:-1] -= lack / 2
        places[1:] += lack / 2
    for place, (_, rung) in zip(places.tolist(), sorted(ends), strict=True):
        axes.annotate(rung, xy=(1.01, place), xycoords=("axes fraction", "data"), va="center",
                      color=COLOURS.get(rung, "#5c6570"), fontsize=9, annotation_clip=False)  # fmt: skip


def _plain(axes: Any) -> None:
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
