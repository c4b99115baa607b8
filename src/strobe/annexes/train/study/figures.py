"""The figure that compares recipes."""

from dataclasses import replace

from strobe.annexes.train.study.records import Trainings
from strobe.core.estimate import Missing
from strobe.report.charts import ChartRow, Mark, Scale, dumbbell, row_chart
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import RIGHT, WRONG
from strobe.report.view import View
from strobe.report.wording import both_ends, extreme, is_known, percent, points, value_of


@question("trainings", "Which recipe reduces the drop?")
def trainings(view: View) -> Answer:
    """Return the figures of every recipe over its training runs: accuracy on anchors and on whole sets, and the
    difference.
    """
    rows = [one for one in view.results.added.get("trainings", ()) if is_known(one.acc_orig, one.acc_pmk, one.drop)]
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
