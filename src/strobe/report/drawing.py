"""What several figures share: the record of a figure, labels at line ends, axes in per cent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strobe.core.errors import printable
from strobe.report.style import GREY, INK, MUTED, Drawing, colour_of, marker_of
from strobe.report.wording import MOST_SHOWN, short

__all__ = [
    "MOST_LINES",
    "Figure",
    "Series",
    "band",
    "end_labels",
    "in_points",
    "legend_below",
    "missing",
    "per_cent",
    "series_lines",
    "shares",
    "whole_numbers",
]

Json = Mapping[str, Any]

MOST_LINES = MOST_SHOWN
"""Models drawn in colour in one figure; more turn into noise. The rest are in the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the report: what it shows for this data in words, and the drawing, or why there is none."""

    name: str
    title: str
    sentence: str
    how: str = ""
    drawing: Drawing | None = None
    group: str = ""
    choice: str = ""


def missing(name: str, title: str, why: str) -> Figure:
    """A figure that has no data: it is left out, and this says why."""
    return Figure(name=name, title=title, sentence=why[:1].upper() + why[1:].rstrip(".") + ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: a name, its place in the ranking (colour and marker), x values and estimates."""

    name: str
    place: int
    x: Sequence[float]
    y: Sequence[Json]


def per_cent(axes: Any, *, which: str = "y") -> None:
    """Tick labels in per cent."""
    _hundredths(axes, which, " %")


def in_points(axes: Any, *, which: str = "x") -> None:
    """Tick labels in percentage points: what is drawn is a difference, and the axis' label says so."""
    _hundredths(axes, which, "")


def _hundredths(axes: Any, which: str, unit: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.yaxis if which == "y" else axes.xaxis
    tight = which == "x" and axes.figure.get_figwidth() < 5
    axis.set_major_locator(MaxNLocator(nbins=4 if tight else 6, steps=[1, 2, 2.5, 5, 10]))

    def text(value: float, _: object) -> str:
        # As many digits as the steps need: 62.5 is not 62, nor 63.
        ticks = [100 * float(tick) for tick in axis.get_majorticklocs()]
        digits = next((n for n in range(4) if all(abs(tick - round(tick, n)) < 1e-6 for tick in ticks)), 4)
        return f"{100 * value:.{digits}f}{unit}".replace("-", "−")

    axis.set_major_formatter(FuncFormatter(text))


def shares(axes: Any) -> None:
    """Limits of y that leave out what no share can be, which a flat line at an end would otherwise draw."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -0.012), min(high, 1.012))


def whole_numbers(axes: Any) -> None:
    """Ticks of x at whole numbers: there is no quarter of a frame."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))


def band(axes: Any, series: Series, *, step: bool = False) -> None:
    """The interval as a light band, where there is one."""
    kept = [(x, e["low"], e["high"]) for x, e in zip(series.x, series.y, strict=True) if e.get("low") is not None]
    if len(kept) > 1:
        x, low, high = zip(*kept, strict=True)
        how = {"step": "post"} if step else {}
        axes.fill_between(x, low, high, color=colour_of(series.place), alpha=0.11, linewidth=0, **how)


def series_lines(
    axes: Any, many: Sequence[Series], *, is_narrow: bool, step: bool = False, bands: bool = True, markers: bool = True
) -> None:
    """Every series as a line with its band, named at its end (wide) or in a legend below (narrow, or many)."""
    ends = []
    for series in reversed(many):  # the best is drawn last, on top
        if bands and len(many) <= 3:
            band(axes, series, step=step)
        axes.plot(
            series.x,
            [e["value"] for e in series.y],
            color=colour_of(series.place),
            marker=marker_of(series.place) if markers else None,
            markeredgecolor="none",
            drawstyle="steps-post" if step else "default",
            label=short(printable(series.name), 34),
        )
        ends.append((float(series.y[-1]["value"]), short(printable(series.name), 24), colour_of(series.place)))
    if is_narrow or len(many) > 6:
        legend_below(axes, is_narrow=is_narrow)
    else:
        end_labels(axes, ends)


def legend_below(axes: Any, *, is_narrow: bool) -> None:
    """A legend under the axes, best model first."""
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(
        handles[::-1], labels[::-1], loc="outside lower left", ncols=1 if is_narrow else 2, handlelength=1.6,
        borderaxespad=0.2,
    )  # fmt: skip


def end_labels(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names at the right end of lines, pushed apart until none covers another."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.062
    placed: list[tuple[float, str, str]] = []
    for y, text, colour in sorted(ends):
        placed.append((max(y, placed[-1][0] + gap) if placed else y, text, colour))
    over = placed[-1][0] - high if placed else 0.0
    shift = max(over, 0.0)
    for y, text, colour in placed:
        axes.annotate(
            text, xy=(1.0, y - shift), xycoords=("axes fraction", "data"), xytext=(8, 0), textcoords="offset points",
            va="center", ha="left", color=colour, annotation_clip=False, fontweight="bold",
        )  # fmt: skip


def reference_line(axes: Any, text: str, *, x: float, y: float) -> None:
    """A quiet note inside the plot."""
    axes.annotate(text, xy=(x, y), xycoords="axes fraction", color=MUTED, ha="left", va="bottom")


def zero_line(axes: Any) -> None:
    """A line at zero for differences."""
    axes.axvline(0, color=GREY, linewidth=1, zorder=1)


def whisker(axes: Any, y: float, found: Json, colour: str, *, marker: str = "o", alpha: float = 1.0) -> None:
    """One estimate as a point with its interval, lying."""
    if found.get("low") is not None:
        axes.plot([found["low"], found["high"]], [y, y], color=colour, linewidth=1.4, alpha=0.55 * alpha, zorder=2)
    axes.plot([found["value"]], [y], marker=marker, color=colour, markersize=6, markeredgecolor="none", zorder=3)


def names_on_y(axes: Any, names: Sequence[str], *, limit: int = 26) -> None:
    """Categories down the y axis, first on top, no grid between them."""
    axes.set_yticks(range(len(names)), [short(printable(name), limit) for name in names])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.spines["left"].set_visible(False)
