"""The chart kit: rows of points with intervals, bars and strips, and the look of axes, names and legends.

A figure chooses its records and passes them to the kit. The kit alone knows how a chart looks, also on a phone
(`is_narrow`). Lines and small multiples are in `report/charts_lines.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.report.drawing import Paint
from strobe.report.style import GREY, INK, MUTED, PAPER, RIGHT, WRONG, colour_of, marker_of
from strobe.report.wording import plain_number, short

Text = str | tuple[str, ...]
"""A label: one line, or several."""

Unit = Literal["%", "points", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A point: an estimate with its interval, or a number. A value that is not known is not drawn.

    `at` moves the point down from the middle of its row. The markers `|` and `_` are ticks behind the points.
    """

    value: Estimate | float | None
    colour: str = RIGHT
    marker: str = "o"
    at: float = 0.0
    size: float = 6.0
    alpha: float | None = None
    hollow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A wide line behind the points of a row, from one number to another."""

    low: float | None
    high: float | None
    colour: str = GREY
    width: float = 2.6
    alpha: float = 0.6
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar from zero: an estimate, whose interval is a thin line, or a number. `note` is written at its end."""

    value: Estimate | float | None
    colour: str
    alpha: float = 1.0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """A row: its label, and what is drawn in it. `narrow` is the label on a phone, if it differs.

    Bars are below each other and share the height of the row. Points are at the row's middle, except those that
    `side_by_side` moved.
    """

    label: Text
    marks: Sequence[Mark] = ()
    bars: Sequence[Bar] = ()
    span: Span | None = None
    narrow: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The value axis of rows: its label (and that on a phone), its unit, and its ends.

    `zero` is a line that separates positive from negative values. `guides` are dotted lines: their values and colours.
    """

    label: str = ""
    narrow: str = ""
    unit: Unit = "%"
    low: float | None = None
    high: float | None = None
    zero: float | None = None
    guides: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendKey:
    """An entry of a legend: a name with its colour and marker."""

    name: str
    colour: str
    marker: str = "o"


def model_keys(names: Iterable[str], marker: str | None = None) -> list[LegendKey]:
    """Return the legend of several models, in the order of their ranks. A single model needs no legend."""
    found = [
        LegendKey(name=name, colour=colour_of(index), marker=marker or marker_of(index))
        for index, name in enumerate(names)
    ]
    return found if len(found) > 1 else []


def side_by_side(marks: Sequence[Mark]) -> list[Mark]:
    """Return the points of one row one below the other. Points without a value keep their place."""
    step = min(0.22, 0.72 / max(len(marks), 1))
    return [replace(mark, at=(index - (len(marks) - 1) / 2) * step) for index, mark in enumerate(marks)]


def sure_mark(value: Estimate, is_sure: bool, colour: str = RIGHT) -> Mark:
    """Return a difference as a point in colour, or as a grey diamond if it is not significant."""
    return Mark(value=value, colour=colour if is_sure else GREY, marker="o" if is_sure else "d")


def dumbbell(
    label: Text,
    orig: Estimate | float | None,
    worst: Estimate | float | None,
    *,
    alpha: float = 1.0,
    is_own: bool = True,
    narrow: Text = "",
) -> ChartRow:
    """Return a row with a dot, a diamond and a line between them. Rows that are not the run's own are grey."""
    blue, orange = (RIGHT, WRONG) if is_own else (GREY, GREY)
    dot = Mark(value=orig, colour=blue, alpha=alpha, size=7)
    marks = dot, Mark(value=worst, colour=orange, marker="D", alpha=alpha)
    span = Span(low=_number(worst), high=_number(orig), alpha=0.6 * alpha)
    return ChartRow(label=label, marks=marks, span=span, narrow=narrow)


def dumbbell_keys(orig: str, worst: str) -> tuple[LegendKey, LegendKey]:
    """Return the legend of dumbbells."""
    return LegendKey(name=orig, colour=RIGHT), LegendKey(name=worst, colour=WRONG, marker="D")


def row_chart(
    rows: Sequence[ChartRow],
    scale: Scale,
    *,
    limits: tuple[int, int] = (26, 26),
    keys: Sequence[LegendKey] = (),
    rules: Iterable[float] = (),
) -> Paint:
    """Draw rows, the first at the top. `limits` are the most characters of a label, wide and narrow.

    `rules` are the heights of dashed lines that separate groups of rows: 0.5 is below the first row.
    """

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        put_rows(axes, rows, scale, limit=limits[is_narrow], is_narrow=is_narrow)
        for y in rules:
            axes.axhline(y, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
        legend_above(figure, keys, is_narrow=is_narrow)

    return paint


def strip(parts: Sequence[Bar], xlabel: str) -> Paint:
    """Draw counts that add up to a whole as one bar. The legend gives the note and the count of each part."""

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        left = 0.0
        for part in parts:
            many = _number(part.value) or 0
            label = f"{part.note}: {plain_number(int(many))}"
            axes.barh(0, many, left=left, color=part.colour, alpha=part.alpha, height=0.6, label=label, linewidth=0)
            left += many
        axes.set(xlim=(0, left), ylim=(-0.45, 0.45), yticks=[], xlabel=xlabel)
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="x", labelcolor=INK)
        figure.legend(loc="outside lower left", ncols=2 if is_narrow else 4, borderaxespad=0.2, handlelength=1.1)

    return paint


def put_rows(axes: Any, rows: Sequence[ChartRow], scale: Scale, *, limit: int = 26, is_narrow: bool = False) -> None:
    """Draw rows on given axes, with their names and their scale, but without a legend."""
    if scale.zero is not None:
        axes.axvline(scale.zero, color=MUTED, linewidth=1, zorder=1)
    for value, colour in scale.guides:
        axes.axvline(value, color=colour, linewidth=1, linestyle=(0, (1, 2)), alpha=0.7, zorder=1)
    for y, row in enumerate(rows):
        if row.span is not None and row.span.low is not None:
            span = row.span
            axes.plot(
                [span.low, span.high],
                [y + span.at] * 2,
                color=span.colour,
                linewidth=span.width,
                alpha=span.alpha,
                solid_capstyle="butt",
                zorder=1,
            )
        _put_bars(axes, y, row.bars)
        for mark in row.marks:
            put_mark(axes, y + mark.at, mark)
    names_on_y(axes, [(is_narrow and row.narrow) or row.label for row in rows], limit=limit, is_narrow=is_narrow)
    low, high = axes.get_xlim()
    if scale.unit == "%":  # there is no room for impossible shares
        low, high = max(low, -0.02), min(high, 1.02)
    axes.set_xlim(low if scale.low is None else scale.low, high if scale.high is None else scale.high)
    axes.set_xlabel((is_narrow and scale.narrow) or scale.label)
    set_unit(axes, scale.unit, which="x")


def _put_bars(axes: Any, y: int, bars: Sequence[Bar]) -> None:
    tall = 0.8 / max(len(bars), 1)
    for index, bar in enumerate(bars):
        value, at = _number(bar.value), y + (index - (len(bars) - 1) / 2) * tall
        if value is None:
            continue
        axes.barh(at, value, height=tall * 0.86, color=bar.colour, alpha=bar.alpha, linewidth=0, zorder=2)
        if isinstance(bar.value, Estimate) and bar.value.low is not None:
            axes.plot([bar.value.low, bar.value.high], [at, at], color=INK, linewidth=1, zorder=3)
        if bar.note:
            axes.annotate(
                bar.note, (value, at), (4, 0), va="center", textcoords="offset points", color=MUTED, fontsize=8
            )


def put_mark(axes: Any, place: float, mark: Mark, *, is_upright: bool = False, name: str = "") -> None:
    """Draw a point with its interval at a height, or if upright, at a place of the x axis. A `name` is for a legend."""
    value, found = _number(mark.value), mark.value
    if value is None:
        return

    def plot(values: Sequence[float | None], **look: Any) -> None:
        places = [place] * len(values)
        axes.plot(*((places, values) if is_upright else (values, places)), color=mark.colour, **look)

    if isinstance(found, Estimate) and found.low is not None:
        plot([found.low, found.high], linewidth=1.4, alpha=0.55, zorder=2)
    is_tick = mark.marker in "|_"
    plot(
        [value],
        linestyle="none",
        marker=mark.marker,
        markersize=mark.size,
        alpha=mark.alpha,
        markerfacecolor=PAPER if mark.hollow else mark.colour,
        markeredgecolor=mark.colour if is_tick or mark.hollow else "none",
        markeredgewidth=1.4,
        zorder=1 if is_tick else 3,
        label=name or None,
    )


def _number(found: Estimate | float | None) -> float | None:
    return found.value if isinstance(found, Estimate) else found


def names_on_y(axes: Any, names: Sequence[Text], *, limit: int = 26, is_narrow: bool = False) -> None:
    """Put categories on the y axis, with the first at the top and without a grid. Long names on a phone are smaller."""
    texts = [cut_lines(name, limit) for name in names]
    axes.set_yticks(range(len(names)), texts)
    axes.tick_params(axis="y", labelcolor=INK)
    if is_narrow and max((len(line) for text in texts for line in text.split("\n")), default=0) > 24:
        axes.tick_params(axis="y", labelsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.spines["left"].set_visible(False)


def cut_lines(text: Text, limit: int) -> str:
    """Return a label as it is drawn: without control characters, and each line shortened in the middle."""
    return "\n".join(short(printable(line), limit) for line in ((text,) if isinstance(text, str) else text))


def legend_above(figure: Any, keys: Sequence[LegendKey], *, is_narrow: bool) -> None:
    """Draw a legend of markers above the figure, if there are entries."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=key.colour,
            marker=key.marker,
            linestyle="none",
            markeredgecolor=key.colour if key.marker in "|_" else "none",
            markeredgewidth=3,
            markersize=10 if key.marker in "|_" else 6,
            label=short(printable(key.name), 40),
        )
        for key in keys
    ]
    put_legend(figure, handles, is_narrow=is_narrow, where="upper", handle=1.2)


def put_legend(figure: Any, handles: Sequence[Any], *, is_narrow: bool, where: str, handle: float = 1.6) -> None:
    """Draw a legend outside the axes, with as many columns as its names leave room for.

    `where` is upper or lower, and `handle` is the length of the lines or markers in the legend.
    """
    if handles:
        longest = max(len(one.get_label()) for one in handles)
        columns = max(1, min(4, (40 if is_narrow else 84) // (longest + 5)))
        look = {"borderaxespad": 0.2, "handletextpad": 0.5, "handlelength": handle}
        figure.legend(handles=handles, loc=f"outside {where} left", ncols=columns, **look)


def set_unit(axes: Any, unit: Unit = "%", *, which: str = "y") -> None:
    """Set tick labels in per cent, or in percentage points for an axis of differences, whose label gives the unit."""
    if not unit:
        return
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.yaxis if which == "y" else axes.xaxis
    tight = which == "x" and axes.figure.get_figwidth() < 5
    axis.set_major_locator(MaxNLocator(nbins=4 if tight else 6, steps=[1, 2, 2.5, 5, 10]))

    def text(value: float, _: object) -> str:
        # Use as many digits as the steps need: 62.5 is neither 62 nor 63.
        ticks = [100 * float(tick) for tick in axis.get_majorticklocs()]
        digits = next((n for n in range(4) if all(abs(tick - round(tick, n)) < 1e-6 for tick in ticks)), 4)
        return f"{100 * value:.{digits}f}{' %' if unit == '%' else ''}".replace("-", "−")

    axis.set_major_formatter(FuncFormatter(text))
