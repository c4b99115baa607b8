"""Shared parts of the figures: the question a figure answers, labels at line ends, axes in per cent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.style import GREY, INK, MUTED, Drawing, colour_of, draw, marker_of
from strobe.report.view import Subject, View
from strobe.report.wording import is_known, short, value_of
from strobe.studies.temporal.records import OffsetError

T = TypeVar("T")
Paint = Callable[[Any, bool], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureContent:
    """The sentence of a figure, and the function that paints the figure.

    `choice` names the model if the figure is about one model.

    `paint(figure, is_narrow)` draws on an empty figure. `inches` are the heights of the wide and the narrow version.
    Without `paint`, there is only the sentence.
    """

    sentence: str
    how: str
    paint: Paint | None
    inches: tuple[float, float]
    choice: str = ""
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the report: its sentence and its drawing, or the reason why there is no drawing."""

    name: str
    title: str
    sentence: str
    how: str = ""
    drawing: Drawing | None = None
    group: str = ""
    choice: str = ""


Answer = FigureContent | Missing | list[FigureContent]


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """A figure: its name (also the name of its file), the question above it, and the function that finds the answer in
    results.

    The answer is one figure, a figure for each model (`NAME_1`, …), or the reason why there is none.
    """

    name: str
    title: str
    answer: Callable[[View], Answer]

    def figures(self, view: View) -> list[Figure]:
        """Return the figures with their drawings; if there is no answer, the sentence gives the reason."""
        found = self.answer(view)
        if isinstance(found, Missing):
            why = found.reason[:1].upper() + found.reason[1:].rstrip(".") + "."
            return [Figure(name=self.name, title=self.title, sentence=why)]
        return [self._figure(one) for one in (found if isinstance(found, list) else [found])]

    def _figure(self, one: FigureContent) -> Figure:
        name = self.name if one.number is None else f"{self.name}_{one.number}"
        wide, narrow = one.inches
        drawing = None if one.paint is None else draw(name, one.paint, wide=(7.4, wide), narrow=(3.9, narrow))
        return Figure(
            name=name, title=self.title, sentence=one.sentence, how=one.how, drawing=drawing, group=self.name,
            choice=one.choice,
        )  # fmt: skip

    def owns(self, name: str) -> bool:
        """Return whether a figure of that name belongs to this question."""
        return name == self.name or (name.startswith(f"{self.name}_") and name[len(self.name) + 1 :].isdigit())


def question(name: str, title: str) -> Callable[[Callable[[View], Answer]], FigureSpec]:
    """Turn a function from a View to an answer into the question of that name, which the page lists in a chapter."""
    return lambda answer: FigureSpec(name, title, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line: a name, its rank (colour and marker), x values and estimates."""

    name: str
    place: int
    x: Sequence[float]
    y: Sequence[Estimate]


def lines_of(models: Mapping[str, T], points: Callable[[T], Iterable[tuple[float, Estimate]]]) -> list[Series]:
    """Return a line through the measured points of every model. Models without points are skipped."""
    out = []
    for place, (name, model) in enumerate(models.items()):
        kept = [(float(x), y) for x, y in points(model) if is_known(y)]
        if kept:
            out.append(Series(name=name, place=place, x=[x for x, _ in kept], y=[y for _, y in kept]))
    return out


def offset_lines(models: Mapping[str, Iterable[OffsetError]]) -> list[Series]:
    """Return the error against the signed distance from the anchor."""
    return lines_of(models, lambda rows: sorted(((row.offset, row.error) for row in rows), key=lambda one: one[0]))


def line_chart(
    series: Sequence[Series], xlabel: str, ylabel: str, *, steps: bool = False, whole: bool = True, cut: bool = True
) -> Paint:
    """Draw lines against a growing quantity.

    `whole` puts x ticks at whole numbers, `cut` limits y to [0, 1], and `steps` draws steps without markers.
    """

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        series_lines(axes, series, is_narrow=is_narrow, step=steps, markers=not steps)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if cut:
            shares(axes)
        if whole:
            whole_numbers(axes)
        per_cent(axes)

    return paint


def offset_chart(
    series: Sequence[Series], words: Subject, *, behind: Sequence[Series] = (), bands: bool = True
) -> Paint:
    """Draw the error against the signed distance. The lines in `behind` are wide and grey."""

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=GREY, linewidth=1)
        for mean in behind:
            axes.plot(mean.x, [one.value for one in mean.y], color=MUTED, linewidth=3, alpha=0.5, label=mean.name)
        series_lines(axes, series, is_narrow=is_narrow, bands=bands)
        axes.set_ylim(bottom=0)
        axes.set(xlabel=words.offset_label, ylabel="error")
        if words.is_video:
            whole_numbers(axes)
        per_cent(axes)

    return paint


def why_none(view: View, key: str, otherwise: str) -> str:
    """Return why a figure is omitted: the reason in the results, or a generic reason."""
    reasons = {one.reasons.get(key, "") for one in view.classifiers.values()} - {""}
    return printable(sorted(reasons)[0]) if reasons else otherwise


def names_below(figure: Any, n_models: int, *, is_narrow: bool) -> None:
    """Draw a legend under the figure if it shows several models."""
    if n_models > 1:
        figure.legend(loc="outside lower left", ncols=1 if is_narrow else 3, borderaxespad=0.2)


def per_cent(axes: Any, *, which: str = "y") -> None:
    """Set tick labels in per cent."""
    _hundredths(axes, which, " %")


def in_points(axes: Any, *, which: str = "x") -> None:
    """Set tick labels in percentage points for an axis of differences. The axis label gives the unit."""
    _hundredths(axes, which, "")


def _hundredths(axes: Any, which: str, unit: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.yaxis if which == "y" else axes.xaxis
    tight = which == "x" and axes.figure.get_figwidth() < 5
    axis.set_major_locator(MaxNLocator(nbins=4 if tight else 6, steps=[1, 2, 2.5, 5, 10]))

    def text(value: float, _: object) -> str:
        # Use as many digits as the steps need: 62.5 is neither 62 nor 63.
        ticks = [100 * float(tick) for tick in axis.get_majorticklocs()]
        digits = next((n for n in range(4) if all(abs(tick - round(tick, n)) < 1e-6 for tick in ticks)), 4)
        return f"{100 * value:.{digits}f}{unit}".replace("-", "−")

    axis.set_major_formatter(FuncFormatter(text))


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


MOST_BANDS = 3
"""The largest number of lines with a band. More bands would not be distinguishable."""


def bands_text(series: Sequence[Series]) -> str:
    """Return a sentence that explains the bands of these lines, or that says where the intervals are.

    Return an empty text if there are no intervals.
    """
    if not any(one.low is not None for line in series for one in line.y):
        return ""
    if len(series) > MOST_BANDS:
        return f" With more than {MOST_BANDS} lines, the figure omits intervals; tables/ has them."
    return " Bands with dashed edges are 95 % intervals." if len(series) > 1 else " The band is the 95 % interval."


_EDGES = ((0, (5, 2)), (0, (1, 1.6)), (0, (6, 2, 1, 2)))
"""Dash styles for the edges of three bands."""


def band(axes: Any, series: Series, *, step: bool = False) -> None:
    """Draw the interval, if known, as a light band. Its edges have the line's colour and their own dash style.

    If several bands overlap, their dash styles distinguish them.
    """
    kept = [(x, e.low, e.high) for x, e in zip(series.x, series.y, strict=True) if e.low is not None]
    if len(kept) > 1:
        x, low, high = zip(*kept, strict=True)
        how = {"step": "post"} if step else {}
        axes.fill_between(x, low, high, color=colour_of(series.place), alpha=0.09, linewidth=0, **how)
        dash, drawn = _EDGES[series.place % len(_EDGES)], "steps-post" if step else "default"
        for edge in (low, high):
            axes.plot(x, edge, color=colour_of(series.place), linewidth=0.9, alpha=0.8, linestyle=dash, drawstyle=drawn)


def series_lines(
    axes: Any, many: Sequence[Series], *, is_narrow: bool, step: bool = False, bands: bool = True, markers: bool = True
) -> None:
    """Draw every series as a line with its band. Names are at the line ends, or in a legend below if the figure is
    narrow or has many lines.
    """
    ends = []
    for series in reversed(many):  # the best is drawn last, on top
        if bands and len(many) <= MOST_BANDS:
            band(axes, series, step=step)
        axes.plot(
            series.x,
            [e.value for e in series.y],
            color=colour_of(series.place),
            marker=marker_of(series.place) if markers else None,
            markeredgecolor="none",
            drawstyle="steps-post" if step else "default",
            label=short(printable(series.name), 34),
        )
        ends.append((value_of(series.y[-1]), short(printable(series.name), 24), colour_of(series.place)))
    if is_narrow or len(many) > 6:
        legend_below(axes, is_narrow=is_narrow)
    else:
        end_labels(axes, ends)


def legend_below(axes: Any, *, is_narrow: bool) -> None:
    """Draw a legend under the axes, best model first."""
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(
        handles[::-1], labels[::-1], loc="outside lower left", ncols=1 if is_narrow else 2, handlelength=1.6,
        borderaxespad=0.2,
    )  # fmt: skip


def end_labels(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write names at the right ends of lines, and move them apart until none overlap."""
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


def whisker(axes: Any, y: float, found: Estimate, colour: str, *, marker: str = "o") -> None:
    """Draw one estimate as a point with a horizontal interval."""
    if found.low is not None:
        axes.plot([found.low, found.high], [y, y], color=colour, linewidth=1.4, alpha=0.55, zorder=2)
    axes.plot([found.value], [y], marker=marker, color=colour, markersize=6, markeredgecolor="none", zorder=3)


def names_on_y(axes: Any, names: Sequence[str], *, limit: int = 26) -> None:
    """Put categories on the y axis, with the first at the top and without a grid."""
    axes.set_yticks(range(len(names)), [short(printable(name), limit) for name in names])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.spines["left"].set_visible(False)
