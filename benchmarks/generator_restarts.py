"""Draw how the ratio of two models settles over the restarts of `strobe vary generator`.

    strobe vary generator OUT --generator strobe-gan-mnist -m standard=strobe-mnist -m robust=strobe-mnist-linf \
        --images 24 --restarts 6
    PYTHONPATH=src python benchmarks/generator_restarts.py OUT docs/images/generator-restarts.png
"""

import sys
from pathlib import Path

from strobe.core.late import require
from strobe.store import dataset_folder as folder

COLOURS = ("#777777", "#3b75af", "#479d77", "#c98a2b", "#b8451d")


def main() -> None:
    rows = folder.read(Path(sys.argv[1])).info.provenance["restarts"]
    pyplot = require("matplotlib.pyplot", what="the figure", extra="report")
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), dpi=130)
    for row, colour in zip(rows, COLOURS, strict=False):
        values = row["values"]
        axes.plot(range(len(values)), values, marker="o", ms=4, color=colour)
        end, above = (len(values) - 1, values[-1]), {"latent": -5, "coarse": 7, "middle": 1}.get(row["granularity"], 0)
        axes.annotate(row["granularity"], end, (8, above), textcoords="offset points", va="center", color=colour)
    axes.set(xlabel="restarts", ylabel=f"{rows[0]['of']} ÷ {rows[0]['over']}, median ratio", ylim=(0.8, None))
    axes.set_xlim(-0.1, len(rows[0]["values"]) - 0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    figure.tight_layout()
    figure.savefig(sys.argv[2])


if __name__ == "__main__":
    main()
