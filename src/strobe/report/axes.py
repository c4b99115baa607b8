"""Charts for Python users, in the style of the report and on given or new axes."""

from collections.abc import Sequence
from typing import Any

from strobe.core.estimate import Estimate
from strobe.core.late import require
from strobe.report.charts import ChartRow, Mark, Scale, Span, put_mark, put_rows, set_unit
from strobe.report.charts_lines import line_through, put_line, shares, whole_numbers
from strobe.report.style import MUTED, colour_of, look, marker_of
from strobe.report.wording import is_known


def lines_on(axes: Any, name: str, points: Sequence[tuple[float, Estimate]], *, xlabel: str, ylabel: str) -> Any:
    """Plot one model's estimates against a number, with their intervals as a band. Each further call uses the next
    colour.

    Returns the axes. Without `ax`, new pyplot axes are created, so that a notebook shows the plot.
    """
    with look(10):
        axes = _new(inches=(6.4, 3.8)) if axes is None else axes
        place = len(axes.get_legend_handles_labels()[0])
        series = line_through(name, place, points)
        put_line(axes, series)
        if len(series.x) == 1:  # no band without a second point
            mark = Mark(value=series.y[0], colour=colour_of(place), marker=marker_of(place))
            put_mark(axes, series.x[0], mark, is_upright=True)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        whole_numbers(axes)
        axes.autoscale(enable=True, axis="y")  # the limits of an earlier line would clip this line
        axes.autoscale_view()
        shares(axes)
        set_unit(axes)
        axes.legend()
    return axes


def rows_on(axes: Any, names: Sequence[str], pairs: Sequence[tuple[Estimate, Estimate]], *, xlabel: str) -> Any:
    """Plot two estimates per class: on anchors (grey) and on whole sets. Returns the axes."""
    with look(10):
        axes = _new(inches=(6.4, 1.2 + 0.32 * len(names))) if axes is None else axes
        rows = [
            ChartRow(
                label=name,
                marks=(Mark(value=before.value, colour=MUTED, size=5), Mark(value=after)),
                span=Span(low=before.value, high=after.value, width=0.8) if is_known(before, after) else None,
            )
            for name, (before, after) in zip(names, pairs, strict=True)
        ]
        put_rows(axes, rows, Scale(label=xlabel))
    return axes


def _new(*, inches: tuple[float, float]) -> Any:
    pyplot = require("matplotlib.pyplot", what="plot()", extra="report")
    figure, axes = pyplot.subplots(figsize=inches, layout="constrained", facecolor="white")
    del figure  # pyplot keeps the figure
    return axes
