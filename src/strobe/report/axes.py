"""Charts for Python users, in the style of the report and on given or new axes."""

from collections.abc import Sequence
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.late import require
from strobe.report.drawing import Series, band, names_on_y, per_cent, shares, whisker, whole_numbers
from strobe.report.style import MUTED, colour_of, look, marker_of
from strobe.report.wording import is_known, short


def lines_on(axes: Any, name: str, points: Sequence[tuple[float, Estimate]], *, xlabel: str, ylabel: str) -> Any:
    """Plot one model's estimates against a number, with their intervals as a band. Each further call uses the next
    colour.

    Returns the axes. Without `ax`, new pyplot axes are created, so that a notebook shows the plot.
    """
    with look(10):
        axes = _new(inches=(6.4, 3.8)) if axes is None else axes
        known = [(x, estimate) for x, estimate in points if is_known(estimate)]
        place = len(axes.get_legend_handles_labels()[0])
        series = Series(name=name, place=place, x=[x for x, _ in known], y=[estimate for _, estimate in known])
        band(axes, series)
        axes.plot(
            series.x, [estimate.value for estimate in series.y], color=colour_of(place), marker=marker_of(place),
            markeredgecolor="none", label=short(printable(name), 40),
        )  # fmt: skip
        if len(known) == 1 and known[0][1].low is not None:  # no band without a second point
            (x, estimate), colour = known[0], colour_of(place)
            axes.plot([x, x], [estimate.low, estimate.high], color=colour, alpha=0.55, linewidth=1.4)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        whole_numbers(axes)
        axes.autoscale(enable=True, axis="y")  # the limits of an earlier line would clip this line
        axes.autoscale_view()
        shares(axes)
        per_cent(axes)
        axes.legend()
    return axes


def rows_on(axes: Any, names: Sequence[str], pairs: Sequence[tuple[Estimate, Estimate]], *, xlabel: str) -> Any:
    """Plot two estimates per class: on anchors (grey) and on whole sets. Returns the axes."""
    with look(10):
        axes = _new(inches=(6.4, 1.2 + 0.32 * len(names))) if axes is None else axes
        for row, (before, after) in enumerate(pairs):
            if is_known(before, after):
                axes.plot([before.value, after.value], [row, row], color=MUTED, linewidth=0.8, alpha=0.5, zorder=1)
            if is_known(before):
                axes.plot([before.value], [row], "o", color=MUTED, markersize=5, markeredgecolor="none", zorder=2)
            if is_known(after):
                whisker(axes, row, after, colour_of(0))
        names_on_y(axes, names)
        axes.set(xlabel=xlabel)
        per_cent(axes, which="x")
    return axes


def _new(*, inches: tuple[float, float]) -> Any:
    pyplot = require("matplotlib.pyplot", what="plot()", extra="report")
    figure, axes = pyplot.subplots(figsize=inches, layout="constrained", facecolor="white")
    del figure  # pyplot keeps the figure
    return axes
