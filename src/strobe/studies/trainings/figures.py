"""The curves of a training run: the loss and the held-out figures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.core.files import write_bytes
from strobe.report.charts import ChartRow, Mark, Scale, dumbbell, row_chart, set_unit
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import INK, RIGHT, WRONG, colour_of, draw, marker_of
from strobe.report.view import View
from strobe.report.wording import both_ends, extreme, is_known, percent, points, value_of
from strobe.studies.trainings.records import Trainings


def curves(
    path: Path, rows: Sequence[tuple[float, float | None, tuple[float, ...]]], *, names: Sequence[str], title: str
) -> None:
    """Draw the points (epoch, loss, held-out figures) as a PNG: the loss on the left, the figures on the right."""

    def paint(figure: Any, is_narrow: bool) -> None:
        left, right = figure.subplots(2 if is_narrow else 1, 1 if is_narrow else 2)
        known = [(epoch, loss) for epoch, loss, _ in rows if loss is not None]
        if known:
            left.plot(*zip(*known, strict=True), color=INK, marker="o", markersize=3)
            left.set_ylim(0, 1.05 * max(loss for _, loss in known) or 1)
        left.set_title("training loss")
        epochs = [row[0] for row in rows]
        for place, name in enumerate(names):
            values = [row[2][place] for row in rows]
            right.plot(epochs, values, color=colour_of(place), marker=marker_of(place), markersize=4, label=name)
        right.set_ylim(0, 1)
        set_unit(right)
        right.set_title("on held-out clips")
        right.legend(loc="best")
        for axes in (left, right):
            axes.set_xlabel("epoch")
            axes.set_xlim(-0.02 * max(epochs), 1.02 * max(epochs))
        figure.suptitle(printable(title, limit=80), x=0.01, ha="left")

    write_bytes(path, draw("training", paint, wide=(8.4, 3.2), narrow=(4.2, 5.6)).png)


@question("trainings", "Which recipe reduces the drop?")
def trainings(view: View) -> Answer:
    """Return the figures of every recipe over its training runs: accuracy on anchors and on whole sets, and the
    difference.
    """
    rows = [one for one in view.results.trainings or () if is_known(one.acc_orig, one.acc_pmk, one.drop)]
    if not rows:
        return Missing("no recipe was trained several times.")
    most, names, tie = extreme(rows, lambda one: value_of(one.acc_pmk), lambda one: one.name)
    text = f"{names} {'hold' if tie else 'holds'} on the most sets: {percent(most.acc_pmk)}."
    text += "" if tie else f" It gets {percent(most.acc_orig)} of the anchors right."
    usable = [one for one in rows if value_of(one.acc_orig) >= 0.5 * max(value_of(row.acc_orig) for row in rows)]
    if len(usable) > 1:
        (least, low, _), (largest, high, _) = both_ends(usable, lambda one: value_of(one.drop), lambda one: one.name)
        text += f" Drops range from {points(least.drop)} ({low}) to {points(largest.drop)} ({high})"
        text += ", among recipes with at least half the accuracy of the best." if len(usable) < len(rows) else "."
    height = 0.9 + 0.42 * len(rows)
    label = "● acc_orig, ◆ acc_pmk"
    scale = Scale(label=f"{label} (k = {view.results.dataset.k})", narrow=label, low=0, high=1)
    return FigureContent(
        sentence=text,
        how="Means over the trainings of a recipe, with 95 % intervals over clips. The ticks above are the lowest and "
        "the highest training. A small drop is weak evidence if few anchors are right.",
        paint=row_chart([_row(one) for one in rows], scale),
        inches=(height, height + 0.2),
    )


def _row(one: Trainings) -> ChartRow:
    """Return the two means of a recipe, with its lowest and highest training as ticks above."""
    ends = dumbbell(one.name, one.acc_orig, one.acc_pmk)
    spreads = ((one.acc_orig_spread, RIGHT), (one.acc_pmk_spread, WRONG))
    ticks = [
        Mark(value=value, colour=colour, marker="|", at=-0.26)
        for spread, colour in spreads
        for value in (spread.low, spread.high)
    ]
    return replace(ends, marks=(*ticks, *ends.marks))
