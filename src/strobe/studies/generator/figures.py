"""Figures for a generator's searches, from coarse to fine: survival, ratio to the baseline, and preserved findings."""

import math
from collections.abc import Sequence
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.drawing import Answer, FigureContent, per_cent, question
from strobe.report.style import GREY, INK, MUTED, PAPER, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import is_known, join, percent, short, value_of
from strobe.studies.generator.words import ORDER, GranularityView, PreservedFigures, granular, size_text

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
    scale = sum(name in ORDER[:5] for name in names)  # all layers together and single layers are not steps of a scale

    def paint(figure: Any, is_narrow: bool) -> None:
        from matplotlib.ticker import FuncFormatter, NullFormatter

        axes = figure.subplots()
        axes.set_yscale("log")
        axes.axhline(1, color=INK, linewidth=1, zorder=1)
        many = len(levels.others) * (1 + len(levels.preserved))
        step = min(0.16, 0.7 / max(many, 1))
        ends = [1.0]
        for place, target in enumerate(levels.others):
            sets: list[tuple[Any, PreservedFigures | None]] = [
                (levels.ratios, None),
                *((one.ratios, one) for one in levels.preserved),
            ]
            for turn, (ratios, kept) in enumerate(sets):
                at = (place * len(sets) + turn - (many - 1) / 2) * step
                line = [(x + at, ratios[name, target].value) for x, name in enumerate(names)
                        if (name, target) in ratios and is_known(ratios[name, target].value)]  # fmt: skip
                label = short(printable(target), 22) + (f", preserved ({_by(kept)})" if kept else "")
                ends += _points(axes, line, place + 1, label, joined=scale, hollow=kept is not None)
        for x, name in enumerate(names):
            if not any(is_known(row.value) for (at_name, _), row in levels.ratios.items() if at_name == name):
                axes.annotate("unknown", (x, 1), (0, 6), textcoords="offset points", ha="center", color=MUTED)
        axes.set_xticks(range(len(names)), [printable(name) for name in names])
        if is_narrow:
            axes.tick_params(axis="x", labelrotation=30)
        axes.set_xlim(-0.6, len(names) - 0.4)
        _round_ticks(axes, min(ends), max(ends))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel(f"÷ {short(printable(levels.baseline), 24)}")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=1 if is_narrow else 2, borderaxespad=0.2,
                      handlelength=1.4)  # fmt: skip

    texts = []
    for target in levels.others:
        mine = [(name, levels.ratios[name, target]) for name in names if (name, target) in levels.ratios]
        ratios = [f"{value_of(row.value):.2f} ({name})" for name, row in mine if is_known(row.value)]
        if ratios:
            texts.append(f"{printable(target)} ÷ {printable(levels.baseline)}: {join(ratios)}")
    more = "".join(
        f" At {printable(name)}, {printable(target)}: {row.value.reason}."
        for name in names for target in levels.others
        if (row := levels.ratios.get((name, target))) is not None and row.value.value is None and row.value.reason
    )  # fmt: skip
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


def _points(
    axes: Any, line: Sequence[tuple[float, Estimate]], place: int, label: str, *, joined: int, hollow: bool = False
) -> list[float]:
    """Draw dots with their intervals, connect the first `joined` dots by a faint line, and return the drawn range."""
    colour, ends = colour_of(place), []
    for x, one in line:
        if one.low is not None and one.high is not None:
            axes.plot([x, x], [one.low, one.high], color=colour, linewidth=1.4, alpha=0.55, zorder=2)
            ends += [one.low, one.high]
        ends.append(value_of(one))
    row = [(x, value_of(one)) for x, one in line if round(x) < joined]
    axes.plot([x for x, _ in row], [y for _, y in row], color=colour, linewidth=1.1, alpha=0.4,
              linestyle=(0, (2, 2)) if hollow else "-", zorder=1)  # fmt: skip
    axes.plot([x for x, _ in line], [value_of(one) for _, one in line], linestyle="none", marker=marker_of(place),
              color=colour, markerfacecolor=PAPER if hollow else colour, markeredgecolor=colour, markersize=6,
              label=label, zorder=3)  # fmt: skip
    return [one for one in ends if one > 0]


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

    def paint(figure: Any, is_narrow: bool) -> None:
        columns = min(len(names), 2 if is_narrow else 3)
        grid = figure.subplots(math.ceil(len(names) / columns), columns, sharey=True, squeeze=False)
        every = [axes for row in grid for axes in row]
        for axes, name in zip(every, names, strict=False):
            _curves(axes, levels, kept, name)
            axes.set_title(printable(name))
            axes.tick_params(labelsize=8)
        for place, axes in enumerate(every):
            axes.set_visible(place < len(names))
            if place < len(names) <= place + columns:
                axes.set_xlabel(_axis(levels, names[place]), fontsize=8.5)
        handles, labels = every[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=1 if is_narrow else 3, borderaxespad=0.2)

    rows = math.ceil(len(names) / min(len(names), 3))
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
        paint=paint,
        inches=(0.8 + 2.1 * rows, 1.1 + 1.9 * math.ceil(len(names) / 2)),
    )


def _axis(found: GranularityView, name: str) -> str:
    key = next(one for one in found.searches if one[0] == name)
    return "magnitude per neuron, std" if found.scale(key) != 1 else "magnitude, std"


def _curves(axes: Any, found: GranularityView, kept: PreservedFigures | None, name: str) -> None:
    axes.set_xscale("log")
    low, high = [], []
    for place, target in enumerate(found.targets):
        search = found.searches.get((name, target))
        if search is None:
            continue
        per = found.scale((name, target))
        line = [(row.level / per, row.alive) for row in search.levels if is_known(row.alive)]
        bounds = [(x, one.low, one.high) for x, one in line if one.low is not None and value_of(one) > 0]
        if len(bounds) > 1 and len(found.targets) <= 3:
            axes.fill_between(*zip(*bounds, strict=True), color=colour_of(place), alpha=0.11, linewidth=0)
        axes.plot([x for x, _ in line], [value_of(one) for _, one in line], color=colour_of(place), linewidth=1.6,
                  label=short(printable(target), 26), zorder=3)  # fmt: skip
        if kept is not None and (name, target) in kept.searches:
            again = [(row.level / per, row.alive) for row in kept.searches[name, target].levels if is_known(row.alive)]
            axes.plot([x for x, _ in again], [value_of(one) for _, one in again], color=colour_of(place), linewidth=1.1,
                      linestyle=(0, (3, 2)), zorder=2)  # fmt: skip
        moving = [x for x, one in line if 0.005 < value_of(one) < 0.995]
        low += moving[:1]
        high += moving[-1:]
    if low:
        axes.set_xlim(min(low) / 1.7, max(high) * 1.7)
    axes.set_ylim(-0.02, 1.03)
    _decades(axes)
    per_cent(axes)


def _decades(axes: Any) -> None:
    """Set ticks at 1, 2 and 5 in each decade, as plain numbers and few enough to read."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = axes.get_xlim()
    span = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [digit * 10.0**power for power in span for digit in (1, 2, 5)]
    inside = [one for one in every if low <= one <= high]
    if len(inside) > 4:
        inside = [one for one in inside if math.isclose(math.log10(one) % 1, 0, abs_tol=1e-9)
                  or math.isclose(math.log10(one) % 1, 1, abs_tol=1e-9)] or inside[::2]  # fmt: skip
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
    names, out = levels.granularities, []
    scale = sum(name in ORDER[:5] for name in names)
    for number, kept in enumerate(levels.preserved, start=1):

        def paint(figure: Any, is_narrow: bool, kept: PreservedFigures = kept) -> None:
            axes = figure.subplots()
            step = min(0.18, 0.6 / len(levels.targets))
            if kept.anchors is not None and is_known(kept.anchors):
                axes.axhline(value_of(kept.anchors), color=GREY, linewidth=1, zorder=1, label="original images")
            for place, target in enumerate(levels.targets):
                at = (place - (len(levels.targets) - 1) / 2) * step
                line = [
                    (x + at, kept.share[name, target]) for x, name in enumerate(names) if (name, target) in kept.share
                ]
                _points(axes, line, place, short(printable(target), 24), joined=scale)
            random = [(x, one) for x, name in enumerate(names) if (one := _mean_control(kept, name)) is not None]
            if random:
                axes.plot([x for x, _ in random], [one for _, one in random], linestyle="none", marker="_",
                          markersize=22, color=MUTED, label="random direction of the same size", zorder=2)  # fmt: skip
            axes.set_xticks(range(len(names)), [printable(name) for name in names])
            if is_narrow:
                axes.tick_params(axis="x", labelrotation=30)
            axes.set_ylim(-0.02, 1.03)
            axes.set_xlim(-0.6, len(names) - 0.4)
            per_cent(axes)
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=1 if is_narrow else 3, borderaxespad=0.2)

        ends = [(key, one) for key, one in kept.share.items() if is_known(one)]
        if not ends:
            continue
        worst, best = (pick(ends, key=lambda one: value_of(one[1])) for pick in (min, max))
        text = f"Judged by {kept.who}, {percent(worst[1])} of the findings still show their class "
        text += f"({printable(worst[0][0])}, target {printable(worst[0][1])}). This is the lowest share"
        if value_of(best[1]) > value_of(worst[1]):
            text += f"; the highest is {percent(best[1])} ({printable(best[0][0])}, target {printable(best[0][1])})"
        text += "."
        out.append(
            FigureContent(
                sentence=text,
                how="Share of findings to which more than half of the judges give the class of the original image. If "
                "a finding no longer shows its class, the answer of the fooled model is not an error.",
                paint=paint,
                inches=(3.4, 4.2),
                choice="people" if kept.by == "people" else "judges",
                number=number,
            )
        )
    return out or Missing("nobody judged the findings.")


def _mean_control(kept: PreservedFigures, name: str) -> float | None:
    mine = [value_of(one) for (granularity, _), one in kept.control.items() if granularity == name and is_known(one)]
    return sum(mine) / len(mine) if mine else None
