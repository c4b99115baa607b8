"""Figures for a generator's searches, from coarse to fine: survival, ratio to the baseline, and preserved findings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from strobe.annexes.generators.study.words import ORDER, GranularityView, Key, PreservedFigures, granular, size_text
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import Mark, put_mark, set_unit, side_by_side
from strobe.report.charts_lines import Panel, line_legend, line_through, panel_rows, put_lines, small_multiples
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import GREY, MUTED, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import both_ends, is_known, join, percent, short, value_of

_NONE = "this data has no searches in a generator."

_TICKS: tuple[tuple[float, ...], ...] = (
    (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10),
    (0.1, 0.25, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 10, 20, 50),
    (0.01, 0.03, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128),
)
"""Round factors for a ratio. A wider range uses fewer factors."""


# -- the ratio -----------------------------------------------------------------------------------------------------


@question("granularity_ratio", "Which model needs larger changes?")
def granularity_ratio(view: View) -> Answer:
    """The ratio of other targets to the baseline at each granularity, for all findings and for preserved findings."""
    levels = granular(view)
    if levels is None or not levels.ratios:
        return Missing(_NONE if levels is None else "a ratio needs at least two targets.")
    names = levels.granularities
    sets: list[tuple[Any, PreservedFigures | None]] = [
        (levels.ratios, None),
        *((one.ratios, one) for one in levels.preserved),
    ]
    groups = [
        _Points(
            name=short(printable(target), 22) + (f", preserved ({_by(kept)})" if kept else ""),
            place=index + 1,
            values=[row and row.value for row in (ratios.get((name, target)) for name in names)],
            hollow=kept is not None,
        )
        for index, target in enumerate(levels.others)
        for ratios, kept in sets
    ]

    def paint(figure: Any, is_narrow: bool) -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        axes = figure.subplots()
        axes.set_yscale("log")
        axes.axhline(1, color=GREY, linewidth=1, zorder=1)
        _put_columns(axes, names, groups, is_narrow=is_narrow)
        for x, name in enumerate(names):
            if not any(is_known(row.value) for (at_name, _), row in levels.ratios.items() if at_name == name):
                axes.annotate("unknown", (x, 1), (0, 6), textcoords="offset points", ha="center", color=MUTED)
        known = [one for group in groups for one in group.values if one is not None]
        ends = [end for one in known for end in (one.low, one.value, one.high) if end is not None and end > 0]
        _round_ticks(axes, min([1.0, *ends]), max([1.0, *ends]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel(f"÷ {short(printable(levels.baseline), 24)}")
        line_legend(figure, [axes], is_narrow=is_narrow, where="upper")

    texts = []
    for target in levels.others:
        mine = [(name, levels.ratios[name, target]) for name in names if (name, target) in levels.ratios]
        ratios = [f"{value_of(row.value):.2f} ({name})" for name, row in mine if is_known(row.value)]
        if ratios:
            texts.append(f"{printable(target)} ÷ {printable(levels.baseline)}: {join(ratios)}")
    more = "".join(
        f" At {printable(name)}, {printable(target)}: {row.value.reason}."
        for name in names
        for target in levels.others
        if (row := levels.ratios.get((name, target))) is not None and row.value.value is None and row.value.reason
    )
    return FigureContent(
        sentence=("; ".join(texts) + "." if texts else "") + more,
        how=f"Above 1, fooling the model needs a larger change than fooling {printable(levels.baseline)}. Points are "
        "the median ratio of the two magnitudes over images, with 95 % intervals. A search without a finding counts as "
        "larger than the distance it tried. Hollow: only images whose findings for both models still show their class.",
        paint=paint,
        inches=(3.9, 4.4 + 0.25 * len(levels.others) * (1 + len(levels.preserved))),
    )


def _by(kept: PreservedFigures) -> str:
    return "people" if kept.by == "people" else "judge models"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Points:
    """The points of one target: a value for each granularity."""

    name: str
    place: int
    values: Sequence[Estimate | None]
    hollow: bool = False


def _put_columns(axes: Any, names: Sequence[str], groups: Sequence[_Points], *, is_narrow: bool) -> None:
    """Draw a column for each granularity, with the points of all groups side by side.

    A faint line connects the points of a group along the scale from coarse to fine.
    """
    scale = sum(name in ORDER[:5] for name in names)  # all layers together and single layers are not steps of a scale
    for group, moved in reversed(list(zip(groups, side_by_side([Mark(value=None)] * len(groups)), strict=True))):
        line = [(x, one) for x, one in enumerate(group.values) if one is not None and is_known(one)]
        colour, marker = colour_of(group.place), marker_of(group.place)
        axes.plot(
            [x + moved.at for x, _ in line if x < scale],
            [value_of(one) for x, one in line if x < scale],
            color=colour,
            linewidth=1.1,
            alpha=0.4,
            linestyle=(0, (2, 2)) if group.hollow else "-",
            zorder=1,
        )
        mark = Mark(value=None, colour=colour, marker=marker, hollow=group.hollow)
        for x, one in line:
            put_mark(axes, x + moved.at, replace(mark, value=one), is_upright=True)
        put_mark(axes, math.nan, replace(mark, value=math.nan), is_upright=True, name=group.name)
    axes.set_xticks(range(len(names)), [printable(name) for name in names])
    axes.set_xlim(-0.6, len(names) - 0.4)
    if is_narrow:
        axes.tick_params(axis="x", labelrotation=30)


def _round_ticks(axes: Any, low: float, high: float) -> None:
    """Set ticks at round factors, close enough together to read values."""
    from matplotlib.ticker import FixedLocator, NullLocator

    span = math.log(high / low)
    wide = _TICKS[0] if span < 0.7 else _TICKS[1] if span < 1.8 else _TICKS[2]
    pad = max(0.04 * span, 0.02)
    axes.set_ylim(low * math.exp(-pad), high * math.exp(pad))
    axes.yaxis.set_major_locator(FixedLocator([one for one in wide if low * 0.98 <= one <= high * 1.02]))
    axes.yaxis.set_minor_locator(NullLocator())


# -- survival ------------------------------------------------------------------------------------------------------


@question("granularity_curves", "How large a change does a search need?")
def granularity_curves(view: View) -> Answer:
    """The share of images without a finding so far, with a panel per granularity and a line per target."""
    levels = granular(view)
    if levels is None:
        return Missing(_NONE)
    names = levels.granularities
    kept = levels.preserved[0] if levels.preserved else None

    panels = [
        Panel(title=name, paint=partial(_curves, levels, kept, name), xlabel=_axis(levels, name)) for name in names
    ]
    wide, narrow = panel_rows(len(names), (3, 2))
    text = []
    for name in names:
        search, per = levels.searches.get((name, levels.baseline)), levels.scale((name, levels.baseline))
        if search is not None and is_known(search.median):
            text.append(f"{size_text(value_of(search.median) / per)} ({printable(name)})")
    who = printable(levels.baseline)
    return FigureContent(
        sentence=f"Against {who}, the median finding has magnitude {join(text)}."
        if text
        else f"At every granularity, fewer than half of the searches against {who} found something.",
        how="Share of images without a finding so far (Kaplan–Meier). A search without a finding is censored at the "
        "distance it tried. Magnitudes are in standard deviations per neuron (root mean square). Compare panels with "
        "care: one deviation can mean different things in different layers."
        + (f" Dashed: only findings that still show their class, judged by {kept.who}." if kept else ""),
        paint=small_multiples(panels, (3, 2)),
        inches=(0.8 + 2.1 * wide, 1.1 + 1.9 * narrow),
    )


def _axis(found: GranularityView, name: str) -> str:
    key = next(search for search in found.searches if search[0] == name)
    return "magnitude per neuron, std" if found.scale(key) != 1 else "magnitude, std"


def _curves(found: GranularityView, kept: PreservedFigures | None, name: str, axes: Any) -> None:
    axes.set_xscale("log")
    lines, again, moving = [], [], []
    for index, target in enumerate(found.targets):
        search = found.searches.get((name, target))
        if search is None:
            continue
        per = found.scale((name, target))
        line = line_through(target, index, [(row.level / per, row.alive) for row in search.levels])
        # At the end of a curve, where it is 0, the interval says nothing.
        ends = [y if value_of(y) > 0 else replace(y, low=None, high=None, reason="no image is left") for y in line.y]
        lines.append(replace(line, marker="", y=ends))
        moving += [x for x, y in zip(line.x, line.y, strict=True) if 0.005 < value_of(y) < 0.995]
        if kept is not None and (name, target) in kept.searches:
            rows = kept.searches[name, target].levels
            again.append(line_through("", index, [(row.level / per, row.alive) for row in rows], dashed=""))
    put_lines(axes, [*lines, *again], is_small=True)
    if moving:
        axes.set_xlim(min(moving) / 1.7, max(moving) * 1.7)
    axes.set_ylim(-0.02, 1.03)
    _decades(axes)
    set_unit(axes)


def _decades(axes: Any) -> None:
    """Set ticks at 1, 2 and 5 in each decade, as plain numbers and few enough to read."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = axes.get_xlim()
    span = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [digit * 10.0**power for power in span for digit in (1, 2, 5)]
    inside = [one for one in every if low <= one <= high]
    if len(inside) > 4:
        inside = [
            one
            for one in inside
            if math.isclose(math.log10(one) % 1, 0, abs_tol=1e-9) or math.isclose(math.log10(one) % 1, 1, abs_tol=1e-9)
        ] or inside[::2]
    axes.xaxis.set_major_locator(FixedLocator(inside))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


# -- preservation --------------------------------------------------------------------------------------------------


@question("granularity_kept", "Do the findings still show their class?")
def granularity_kept(view: View) -> Answer:
    """The share of preserved findings, by granularity and target, next to controls."""
    levels = granular(view)
    if levels is None or not levels.preserved:
        return Missing(_NONE if levels is None else "nobody judged the findings. Pass --judge MODEL, or ask people.")
    out = []
    for number, kept in enumerate(levels.preserved, start=1):
        ends = [(key, one) for key, one in kept.share.items() if is_known(one)]
        if not ends:
            continue
        (worst, low, _), (best, high, _) = both_ends(
            ends, lambda one: value_of(one[1]), lambda one: " against ".join(one[0])
        )
        text = f"Judged by {kept.who}, {percent(worst[1])} of the findings still show their class ({low})"
        text += f"; the same images unchanged: {percent(kept.before.get(worst[0]))}. This is the lowest share"
        if low != high:
            text += f"; the highest is {percent(best[1])} ({high})"
        text += "."
        out.append(
            FigureContent(
                sentence=text,
                how="Share of findings to which more than half of the judges give the class of the original image. If "
                "a finding no longer shows its class, the answer of the fooled model is not an error.",
                paint=partial(_paint_kept, levels, kept),
                inches=(3.4, 4.2),
                choice="people" if kept.by == "people" else "judges",
                number=number,
            )
        )
    return out or Missing("nobody judged the findings.")


def _paint_kept(levels: GranularityView, kept: PreservedFigures, figure: Any, is_narrow: bool) -> None:
    axes, names = figure.subplots(), levels.granularities
    for label, colour, of in (
        ("random direction of the same size", MUTED, kept.control),
        ("the same images, unchanged", GREY, kept.before),
    ):
        beside = [(x, one) for x, name in enumerate(names) if (one := _mean_of(of, name)) is not None]
        for x, one in beside:
            mark = Mark(value=one, colour=colour, marker="_", size=22)
            put_mark(axes, x, mark, is_upright=True, name=label if x == beside[0][0] else "")
    groups = [
        _Points(
            name=short(printable(target), 24), place=index, values=[kept.share.get((name, target)) for name in names]
        )
        for index, target in enumerate(levels.targets)
    ]
    _put_columns(axes, names, groups, is_narrow=is_narrow)
    axes.set_ylim(-0.02, 1.03)
    set_unit(axes)
    line_legend(figure, [axes], is_narrow=is_narrow, where="upper")


def _mean_of(found: Mapping[Key, Estimate], name: str) -> float | None:
    mine = [value_of(one) for (granularity, _), one in found.items() if granularity == name and is_known(one)]
    return sum(mine) / len(mine) if mine else None
