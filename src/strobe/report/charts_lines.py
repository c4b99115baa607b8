"""The chart kit's lines: estimates against a number, with bands, alone or as small multiples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.report.charts import Text, cut_lines, put_legend, set_unit
from strobe.report.drawing import Paint
from strobe.report.style import GREY, MUTED, colour_of, marker_of
from strobe.report.view import Subject
from strobe.report.wording import is_known, short, value_of
from strobe.studies.temporal.records import OffsetError

T = TypeVar("T")

MOST_BANDS = 2
"""The largest number of lines with a band. More bands would not be distinguishable."""

_EDGES = ((0, (5, 2)), (0, (1, 1.6)))
"""Dash styles for the edges of two bands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: a name, its rank (colour and marker), x values and estimates.

    `marker` and `colour` replace those of the rank; an empty marker is none. A dashed line has no band.
    """

    name: str
    place: int
    x: Sequence[float]
    y: Sequence[Estimate]
    marker: str | None = None
    colour: str = ""
    is_dashed: bool = False


def line_through(
    name: str, place: int, points: Iterable[tuple[float, Estimate | None]], *, dashed: str | None = None
) -> Series:
    """Return a line through the points that are known. A line with a marker `dashed` is dashed."""
    known = [(float(x), y) for x, y in points if y is not None and is_known(y)]
    return Series(
        name=name,
        place=place,
        x=[x for x, _ in known],
        y=[y for _, y in known],
        marker=dashed,
        is_dashed=dashed is not None,
    )


def lines_of(models: Mapping[str, T], points: Callable[[T], Iterable[tuple[float, Estimate | None]]]) -> list[Series]:
    """Return a line through the measured points of every model. Models without points are skipped."""
    found = [line_through(name, index, points(model)) for index, (name, model) in enumerate(models.items())]
    return [one for one in found if one.x]


def offset_lines(models: Mapping[str, Iterable[OffsetError]]) -> list[Series]:
    """Return the error against the signed distance from the anchor."""
    return lines_of(models, lambda rows: sorted(((row.offset, row.error) for row in rows), key=lambda one: one[0]))


def line_chart(
    series: Sequence[Series],
    xlabel: str,
    ylabel: str,
    *,
    steps: bool = False,
    whole: bool = True,
    cut: bool = True,
    behind: Sequence[Series] | None = None,
) -> Paint:
    """Draw lines against a growing quantity.

    `whole` puts x ticks at whole numbers, `cut` limits y to [0, 1], and `steps` draws steps without markers. The lines
    in `behind` are wide and grey.
    """

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for one in behind or ():
            axes.plot(one.x, [y.value for y in one.y], color=MUTED, linewidth=3, alpha=0.5, label=one.name)
        put_lines(axes, series, steps=steps)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if behind is not None:
            axes.axvline(0, color=GREY, linewidth=1, zorder=1)
            axes.set_ylim(bottom=0)
        elif cut:
            shares(axes)
        if whole:
            whole_numbers(axes)
        set_unit(axes)
        if is_narrow or len(series) > 6:
            line_legend(axes.figure, [axes], is_narrow=is_narrow)
        else:
            _end_labels(axes, series)

    return paint


def offset_chart(series: Sequence[Series], words: Subject, *, behind: Sequence[Series] = ()) -> Paint:
    """Draw the error against the signed distance, with a line at the anchor."""
    return line_chart(series, words.offset_label, "error", whole=words.is_video, behind=behind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of several small charts: its title, and the function that draws on its axes. Panels that share the label of
    their x axis have it only at the bottom.
    """

    title: Text
    paint: Callable[[Any], None]
    xlabel: str = ""


def small_multiples(
    panels: Sequence[Panel],
    columns: tuple[int, int],
    *,
    ylabel: str = "",
    shared: tuple[bool, bool] = (False, True),
) -> Paint:
    """Draw panels in a grid with one legend above. `columns` are the most columns, wide and narrow.

    `shared` is whether all panels have the same x axis and, in the same row, the same y axis.
    """

    def paint(figure: Any, is_narrow: bool) -> None:
        across = min(len(panels), columns[is_narrow])
        down = panel_rows(len(panels), columns)[is_narrow]
        grid = figure.subplots(down, across, sharex=shared[0], sharey=shared[1] and across > 1, squeeze=False)
        small = {"fontsize": 8.5} if across > (1 if is_narrow else 2) else {}
        limit = 36 if not small else 20 if across > 3 else 24
        every, labels = list(grid.flat), {panel.xlabel for panel in panels}
        for index, (axes, panel) in enumerate(zip(every, panels, strict=False)):
            panel.paint(axes)
            axes.set_title(cut_lines(panel.title, limit), **small)
            if small:
                axes.tick_params(labelsize=7.5)
            if len(labels) > 1 or index + across >= len(panels) or (across == 1 and not shared[0]):
                axes.set_xlabel(panel.xlabel or axes.get_xlabel(), **small)
            if ylabel and index % across == 0:
                axes.set_ylabel(ylabel)
        for axes in every[len(panels) :]:
            axes.set_visible(False)
        line_legend(figure, every, is_narrow=is_narrow, where="upper")

    return paint


def panel_rows(n_panels: int, columns: tuple[int, int]) -> tuple[int, int]:
    """Return the number of rows of small multiples, wide and narrow."""
    wide, narrow = (-(-n_panels // most) for most in columns)
    return wide, narrow


def put_lines(
    axes: Any, many: Sequence[Series], *, steps: bool = False, has_bands: bool = True, is_small: bool = False
) -> None:
    """Draw every series as a line with its band. The first is drawn last, on top."""
    banded = has_bands and sum(not one.is_dashed for one in many) <= MOST_BANDS
    for one in reversed(many):
        put_line(axes, one, steps=steps, has_band=banded and not one.is_dashed, is_small=is_small)


def put_line(axes: Any, one: Series, *, steps: bool = False, has_band: bool = True, is_small: bool = False) -> None:
    """Draw a line through estimates. Small lines are thinner, and their band has no edges."""
    colour = one.colour or colour_of(one.place)
    if has_band:
        _band(axes, one, colour, steps=steps, has_edges=not is_small)
    marker = "" if steps else marker_of(one.place) if one.marker is None else one.marker
    axes.plot(
        one.x,
        [value_of(y) for y in one.y],
        color=colour,
        marker=marker,
        markersize=4.2 if is_small or one.is_dashed else 5,
        markeredgecolor="none",
        linewidth=1.8 if not is_small else 1.2 if one.is_dashed else 1.5,
        linestyle=(0, (3, 2)) if one.is_dashed else "-",
        drawstyle="steps-post" if steps else "default",
        label=short(printable(one.name), 34) or None,
    )


def _band(axes: Any, one: Series, colour: str, *, steps: bool, has_edges: bool) -> None:
    """Draw the interval, if known, as a light band. Its edges have the line's colour and their own dash style.

    If several bands overlap, their dash styles distinguish them.
    """
    kept = [(x, e.low, e.high) for x, e in zip(one.x, one.y, strict=True) if e.low is not None]
    if len(kept) > 1:
        x, low, high = zip(*kept, strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.09, linewidth=0, step="post" if steps else None)
        dash, drawn = _EDGES[one.place % len(_EDGES)], "steps-post" if steps else "default"
        for edge in (low, high) if has_edges else ():
            axes.plot(x, edge, color=colour, linewidth=0.9, alpha=0.8, linestyle=dash, drawstyle=drawn)


def bands_text(series: Sequence[Series]) -> str:
    """Return a sentence that explains the bands of these lines, or that says where the intervals are.

    Return an empty text if there are no intervals.
    """
    if not any(one.low is not None for line in series for one in line.y):
        return ""
    if len(series) > MOST_BANDS:
        return f" With more than {MOST_BANDS} lines, the figure omits intervals; tables/ has them."
    return " Bands with dashed edges are 95 % intervals." if len(series) > 1 else " The band is the 95 % interval."


def shares(axes: Any) -> None:
    """Set y limits that exclude impossible shares. Without these limits, a flat line at 0 or 1 would extend the axis
    too far.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -0.012), min(high, 1.012))


def whole_numbers(axes: Any) -> None:
    """Set x ticks at whole numbers, because there is no quarter of a frame."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))


def line_legend(figure: Any, every: Sequence[Any], *, is_narrow: bool, where: str = "lower") -> None:
    """Draw a legend of the lines on these axes, each name once. The line drawn last is named first."""
    handles: dict[str, Any] = {}
    for axes in every:
        for handle in axes.get_legend_handles_labels()[0]:
            handles.setdefault(handle.get_label(), handle)
    put_legend(figure, list(handles.values())[::-1], is_narrow=is_narrow, where=where)


def _end_labels(axes: Any, series: Sequence[Series]) -> None:
    """Write names at the right ends of lines, and move them apart until none overlap."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.062
    placed: list[tuple[float, str, str]] = []
    for y, text, colour in sorted(
        (value_of(one.y[-1]), short(printable(one.name), 24), colour_of(one.place)) for one in series
    ):
        placed.append((max(y, placed[-1][0] + gap) if placed else y, text, colour))
    shift = max(placed[-1][0] - high, 0.0)
    for y, text, colour in placed:
        axes.annotate(
            text,
            xy=(1.0, y - shift),
            xycoords=("axes fraction", "data"),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            ha="left",
            color=colour,
            annotation_clip=False,
            fontweight="bold",
        )
