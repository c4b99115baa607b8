"""Figures and tables of the background study from the study.json it wrote.

PYTHONPATH=src python benchmarks/background_figures.py OUT/study.json FIGURES
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLOURS = {"ground": "#b5523b", "object": "#2f6690", "ground boxes": "#e0a458", "object boxes": "#7fb3d5"}
WORDS = {
    "ground": "classifier, telling ground", "object": "classifier, any ground",
    "ground boxes": "detector, telling ground", "object boxes": "detector, any ground",
}  # fmt: skip
SIZES, GROUNDS = ("small", "medium", "large"), ("home", "away")
TITLES = {"home": "at the class's home", "away": "over another ground"}

Told = Mapping[str, Any]


def draw(told: Told, out: Path) -> None:
    """Draw both figures."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    _ladder(plt, told, out / "background-ladder.png")
    _published(plt, told, out / "background-published.png")


def sheet(scales: Mapping[str, tuple[float, float]], path: Path, *, seed: int) -> None:
    """Draw some objects at every size, at home and away. Neighbouring images differ in one property."""
    from PIL import Image

    from strobe.synthetic.sets import SyntheticOptions, balanced_clip
    from strobe.synthetic.world import WorldOptions

    side, gap, places = 128, 6, (0, 1, 4, 7)
    columns = [(scales[size], near) for size in SIZES for near in (1.0, -1.0)]
    whole = Image.new("RGB", (len(columns) * (side + gap) + 2 * gap * 2, len(places) * (side + gap)), "white")
    for row, place in enumerate(places):
        for column, (scale, near) in enumerate(columns):
            world = WorldOptions(
                size=64, frames=1, distractors=1, occluders=0, object_scale=scale, background_correlation=near
            )
            clip = balanced_clip(SyntheticOptions(world=world, seed=seed), place)
            picture = Image.fromarray(clip.frames[0]).resize((side, side), Image.Resampling.BICUBIC)
            whole.paste(picture, (column * (side + gap) + column // 2 * 2 * gap, row * (side + gap)))
    whole.save(path, quality=88)


def _ladder(plt: Any, told: Told, path: Path) -> None:
    """Draw each model's accuracy on every rung, with one column per size and one row per background."""
    rungs = list(told["accuracy"]["home small"])
    models = list(told["accuracy"]["home small"]["whole"])
    figure, axes = plt.subplots(2, 3, figsize=(10, 9.4), sharex=True, sharey=True)
    for row, ground in enumerate(GROUNDS):
        for column, size in enumerate(SIZES):
            axis, shown = axes[row][column], told["accuracy"][f"{ground} {size}"]
            for place, model in enumerate(models):
                lift = (place - (len(models) - 1) / 2) * 0.17
                found = [(at, shown[rung][model]) for at, rung in enumerate(rungs) if rung in shown]
                value = [100 * one["value"] for _, one in found]
                spread = [[100 * (one["value"] - one["low"]) for _, one in found],
                          [100 * (one["high"] - one["value"]) for _, one in found]]  # fmt: skip
                axis.errorbar(value, [at + lift for at, _ in found], xerr=spread, fmt="o", markersize=3.6,
                              linewidth=1.1, color=COLOURS[model], label=WORDS[model])  # fmt: skip
            axis.set_title(f"{size} objects, {TITLES[ground]}", fontsize=9)
            axis.grid(axis="x", color="#dddddd", linewidth=0.6)
            axis.set_xlim(0, 102)
            for at in range(1, len(rungs), 2):
                axis.axhspan(at - 0.5, at + 0.5, color="#f5f5f5", zorder=0)
    axes[0][0].set_yticks(range(len(rungs)), rungs)
    axes[0][0].set_ylim(len(rungs) - 0.5, -0.5)
    for axis in axes[1]:
        axis.set_xlabel("right, per cent")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncols=len(models), frameon=False)
    figure.tight_layout(rect=(0, 0.035, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _published(plt: Any, told: Told, path: Path) -> None:
    """Draw the detector's lead over each other model, at each size."""
    words = [word for word in told["published"]["small"] if " − " in word]
    if not words:
        return
    figure, axis = plt.subplots(figsize=(8.4, 0.5 * len(words) + 1.1))
    shades = dict(zip(SIZES, ("#8d2f23", "#cc7a4d", "#e8c07d"), strict=True))
    for place, size in enumerate(SIZES):
        found = [
            (at, told["published"][size][word]) for at, word in enumerate(words) if word in told["published"][size]
        ]
        value = [100 * one["value"] for _, one in found]
        spread = [[100 * (one["value"] - one["low"]) for _, one in found],
                  [100 * (one["high"] - one["value"]) for _, one in found]]  # fmt: skip
        axis.errorbar(value, [at + (place - 1) * 0.22 for at, _ in found], xerr=spread, fmt="o", markersize=4,
                      color=shades[size], label=f"{size} objects")  # fmt: skip
    axis.axvline(0, color="#777777", linewidth=0.8)
    axis.set_yticks(range(len(words)), [word.removeprefix("detector − ") for word in words])
    axis.set_ylim(len(words) - 0.5, -0.5)
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.set_xlabel("points by which the detector is ahead, over another ground")
    axis.legend(frameon=False, loc="best")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def tables(told: Told) -> str:
    """Return all figures with their intervals, as Markdown."""
    lines = [f"{told['images']} images of each size and ground.", ""]
    for name, shown in told["accuracy"].items():
        models = list(shown["whole"])
        lines += [f"**Right, {name}**", "", f"| rung | {' | '.join(models)} |", "|---" * (len(models) + 1) + "|"]
        lines += [f"| {rung} | {' | '.join(_cell(one[model]) for model in models)} |" for rung, one in shown.items()]
        lines.append("")
    for size, by_model in told["contrasts"].items():
        models = list(by_model)
        lines += [f"**Contrasts, {size} objects**", "", f"| points | {' | '.join(models)} |",
                  "|---" * (len(models) + 1) + "|"]  # fmt: skip
        for word in by_model[models[0]]:
            lines.append(f"| {word} | {' | '.join(_cell(by_model[model][word], sign=True) for model in models)} |")
        lines.append("")
    words = list(told["published"]["small"])
    if words:
        lines += ["**One backbone as classifier and as detector, over another ground than home**", "",
                  f"| | {' | '.join(SIZES)} |", "|---" * (len(SIZES) + 1) + "|"]  # fmt: skip
        for word in words:
            each = [told["published"][size].get(word) for size in SIZES]
            cells = ["" if one is None else _cell(one, sign=" − " in word) for one in each]
            lines.append(f"| {word} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(found: Told, *, sign: bool = False) -> str:
    mark = "+" if sign else ""
    if found["low"] is None:
        return f"{100 * found['value']:{mark}.1f}"
    return f"{100 * found['value']:{mark}.1f} [{100 * found['low']:{mark}.1f}, {100 * found['high']:{mark}.1f}]"


if __name__ == "__main__":
    study = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(tables(study))
    draw(study, Path(sys.argv[2]))
