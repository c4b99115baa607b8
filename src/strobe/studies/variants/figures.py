"""Figures for variants: accuracy by level and by rung, the mean and the worst case, searches, and contrasts."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.drawing import (
    Answer,
    FigureContent,
    in_points,
    legend_below,
    names_on_y,
    per_cent,
    question,
    whisker,
)
from strobe.report.style import GREY, INK, MUTED, RIGHT, WRONG, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import (
    is_known,
    is_sure,
    level_number,
    level_text,
    percent,
    plain_number,
    scale,
    short,
    value_of,
)
from strobe.studies.variants.records import Contrast, LevelScore, VariantFacts, VariantScore
from strobe.studies.variants.words import own_scale, plain_scores, searched_names, side

MOST_PANELS = 24
"""The largest number of variants with their own panel. The table has all variants."""

MOST_MODELS = 4
"""The largest number of models with their own sheet of panels or their own bars."""

_MOST_ROWS = 15

Panel = Callable[[Any], None]


# -- by level ----------------------------------------------------------------------------------------------------


@question("variant_levels", "How does accuracy fall with the level?")
def levels(view: View) -> Answer:
    """A sheet of small panels per model: accuracy at each level of a variant, and accuracy up to that level."""
    sheets = []
    shown = [one for one in view.variants.values() if one.ordered and one.variant not in searched_names(view)]
    shown.sort(key=lambda one: one.role == "control")
    for number, (model, result) in enumerate(view.drawn(view.classifiers, MOST_MODELS).items(), start=1):
        scores = plain_scores(view, result)
        kept = [one for one in shown if one.variant in scores and _known(scores[one.variant].levels)]
        if not kept:
            continue
        panels = [_level_panel(one, scores[one.variant]) for one in kept[:MOST_PANELS]]
        sheets.append(
            FigureContent(
                sentence=_levels_sentence(model, kept, scores),
                how="Dots: share of changed images that are right at the level. Diamonds, dashed: share of images that "
                "are right in the original and at every level so far. Grey line: accuracy on the original images. "
                "Panels with a grey background are controls, which count in no mean and no worst case.",
                paint=_sheet(panels, [_panel_name(one) for one in kept[:MOST_PANELS]], [_scale(one) for one in kept]),
                inches=_sheet_inches(len(panels)),
                choice=printable(model),
                number=number,
            )
        )
    return sheets or Missing("no variant has ordered levels.")


def _known(rows: Sequence[LevelScore]) -> bool:
    return any(is_known(one.at) for one in rows)


def _panel_name(one: VariantFacts) -> str:
    mark = ", control" if one.role == "control" else ""
    return f"{printable(one.variant)}{mark}"


def _level_panel(facts: VariantFacts, score: VariantScore) -> Panel:
    def paint(axes: Any) -> None:
        if facts.role == "control":
            axes.set_facecolor((0.5, 0.5, 0.5, 0.09))
        if is_known(score.acc_orig):
            axes.axhline(value_of(score.acc_orig), color=GREY, linewidth=1, zorder=1)
        _line(axes, [(one.level, one.at) for one in score.levels], RIGHT, "o", "at the level")
        _line(axes, [(one.level, one.upto) for one in score.levels], WRONG, "D", "up to it", dashed=True)
        _ticks(axes, facts)

    return paint


def _line(
    axes: Any, points_: Sequence[tuple[float, Estimate]], colour: str, marker: str, name: str, *, dashed: bool = False
) -> None:
    """Draw a line through the measured points. The line ends at a missing point."""
    kept = []
    for level, found in points_:
        if not is_known(found):
            break
        kept.append((level, found))
    if not kept:
        return
    x = [level for level, _ in kept]
    bounds = [(level, one.low, one.high) for level, one in kept if one.low is not None]
    if len(bounds) > 1 and not dashed:
        axes.fill_between(*zip(*bounds, strict=True), color=colour, alpha=0.11, linewidth=0)
    axes.plot(
        x, [value_of(one) for _, one in kept], color=colour, marker=marker, markersize=3.6 if dashed else 4.2,
        markeredgecolor="none", linewidth=1.5, linestyle=(0, (3, 2)) if dashed else "-", label=name, zorder=3,
    )  # fmt: skip


def _ticks(axes: Any, facts: VariantFacts) -> None:
    """Set ticks at the levels. On a geometric scale, the ticks are evenly spaced."""
    at = facts.levels
    grows = len(at) > 2 and at[0] > 0 and at[-1] / at[0] > 6 and _is_geometric(at)
    if grows:
        from matplotlib.ticker import FixedLocator, NullLocator

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(at))
        axes.xaxis.set_minor_locator(NullLocator())
    texts = [level_number(facts, level) for level in at]
    if any("/" in text for text in texts):  # the axis label gives the unit, 255ths
        texts = [text.removesuffix("/255") for text in texts]
    kept = range(len(at)) if sum(map(len, texts)) <= 16 else sorted({0, len(at) // 2, len(at) - 1})
    axes.set_xticks([at[place] for place in kept], [texts[place] for place in kept])
    if len(at) == 1:
        axes.set_xlim(at[0] - 0.5, at[0] + 0.5)
    axes.set_ylim(-0.03, 1.03)


def _scale(one: VariantFacts) -> str:
    """Return the scale as the label under a panel."""
    return "ε, 255ths" if any("/" in level_number(one, level) for level in one.levels) else scale(one)


def _is_geometric(at: Sequence[float]) -> bool:
    steps = [math.log(b / a) for a, b in pairwise(at)]
    return max(steps) - min(steps) < 0.35 * max(steps)


def _sheet(panels: Sequence[Panel], names: Sequence[str], labels: Sequence[str]) -> Callable[[Any, bool], None]:
    """Draw small panels with one y scale. Names are above each panel, and levels are below each column."""

    def paint(figure: Any, is_narrow: bool) -> None:
        n_columns = _columns(len(panels), is_narrow=is_narrow)
        n_rows = math.ceil(len(panels) / n_columns)
        grid = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
        every = [axes for row in grid for axes in row]
        same = len(set(labels)) == 1
        for place, (axes, panel) in enumerate(zip(every, panels, strict=False)):
            panel(axes)
            axes.set_title(short(names[place], 20 if n_columns > 2 else 24), fontsize=8.5, pad=4)
            per_cent(axes)
            axes.tick_params(labelsize=7.5)
            if not same or place + n_columns >= len(panels):
                axes.set_xlabel(labels[place], fontsize=8)
        for axes in every[len(panels) :]:
            axes.set_visible(False)
        handles, texts = every[0].get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside upper left", ncols=2, handlelength=2.2, borderaxespad=0.2)

    return paint


def _columns(n_panels: int, *, is_narrow: bool) -> int:
    return min(n_panels, 2 if is_narrow else 3 if n_panels in (3, 5, 6) else 4 if n_panels <= 8 else 5)


def _sheet_inches(n_panels: int) -> tuple[float, float]:
    rows = [math.ceil(n_panels / _columns(n_panels, is_narrow=narrow)) for narrow in (False, True)]
    each = 2.3 if n_panels <= 2 else 1.9 if n_panels <= 4 else 1.55
    return 0.7 + each * rows[0], 0.8 + max(each - 0.3, 1.45) * rows[1]


def _levels_sentence(model: str, kept: Sequence[VariantFacts], scores: dict[str, VariantScore]) -> str:
    last = [
        (one, scores[one.variant].levels[-1]) for one in kept
        if one.role == "same" and is_known(scores[one.variant].levels[-1].at)
    ]  # fmt: skip
    if not last:
        return f"{printable(model)}: no variant has an image at its highest level."
    worst, low = min(last, key=lambda pair: value_of(pair[1].at))
    text = f"The hardest variant for {printable(model)} is {printable(worst.variant)}"
    text += f": right on {percent(low.at)} at {level_text(worst, low.level)}"
    if len(last) > 1:
        best, high = max(last, key=lambda pair: value_of(pair[1].at))
        text += f". The easiest is {printable(best.variant)} ({percent(high.at)} at {level_text(best, high.level)})"
    more = ""
    if len(kept) > MOST_PANELS:
        more = f" The figure shows {MOST_PANELS} of {len(kept)} variants; tables/ has all."
    return f"{text}.{more}"


# -- by rung -----------------------------------------------------------------------------------------------------


@question("variant_rungs", "How accurate is each model on each variant?")
def rungs(view: View) -> Answer:
    """Bars for variants with unordered levels.

    The originals are on top, and the controls are separate at the bottom.
    """
    models = view.drawn(view.classifiers, MOST_MODELS)
    shown = [one for one in view.variants.values() if not one.ordered and one.variant not in searched_names(view)]
    shown.sort(key=lambda one: one.role == "control")
    places = [(one, level) for one in shown for level in range(len(one.levels))]
    scores = {name: plain_scores(view, result) for name, result in models.items()}
    places = [(one, level) for one, level in places if any(one.variant in mine for mine in scores.values())]
    if not places:
        return Missing("every variant has ordered levels.")
    rows: list[tuple[str, list[Estimate | None]]] = [
        ("original images", [result.acc_orig for result in models.values()])
    ]
    for one, level in places:
        name = f"{printable(one.variant)} {one.levels[level]:.3g}" if len(one.levels) > 1 else printable(one.variant)
        name += f" ({', '.join(_marks(one))})" if _marks(one) else ""
        cells = [mine[one.variant].levels[level].at if one.variant in mine else None for mine in scores.values()]
        rows.append((name, cells))
    n_same = 1 + sum(one.role == "same" for one, _ in places)

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        high = 0.8 / len(models)
        for y, (_, cells) in enumerate(rows):
            for place, cell in enumerate(cells):
                if cell is None or not is_known(cell):
                    continue
                at = y - 0.4 + (place + 0.5) * high
                pale = 0.35 if y >= n_same else 0.85
                axes.barh(at, value_of(cell), height=high * 0.86, color=colour_of(place), alpha=pale, zorder=2,
                          label=short(printable(list(models)[place]), 34) if y == 0 else None)  # fmt: skip
                if cell.low is not None:
                    axes.plot([cell.low, cell.high], [at, at], color=INK, linewidth=1, zorder=3)
        names_on_y(axes, [name for name, _ in rows], limit=24 if is_narrow else 40)
        if n_same < len(rows):
            axes.axhline(n_same - 0.5, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlim(0, 1.02)
        axes.set_xlabel("accuracy")
        per_cent(axes, which="x")
        if len(models) > 1:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=1 if is_narrow else 3, borderaxespad=0.2)

    first, result = next(iter(models.items()))
    mine = scores[first]
    known = [
        (one, value_of(mine[one.variant].levels[level].at)) for one, level in places
        if one.role == "same" and one.variant in mine and is_known(mine[one.variant].levels[level].at)
    ]  # fmt: skip
    text = f"{printable(first)} is right on {percent(result.acc_orig)} of the original images"
    if known:
        worst, low = min(known, key=lambda pair: pair[1])
        text += f" and on {percent(low)} under {printable(worst.variant)}, its hardest variant"
    height = 1.0 + len(rows) * max(0.34, 0.16 * len(models) + 0.1)
    return FigureContent(
        sentence=text + ".",
        how="Black lines are 95 % intervals. Paler bars below the dashed line are controls, which count in no mean and "
        "no worst case. “Estimated” variants use boxes or masks that a model estimated.",
        paint=paint,
        inches=(height, height + 0.2 * len(models)),
    )


def _marks(one: VariantFacts) -> list[str]:
    return (["control"] if one.role == "control" else []) + (["estimated"] if one.estimated else [])


# -- the mean and the worst --------------------------------------------------------------------------------------


@question("variant_means", "What is the accuracy on average and at worst?")
def means(view: View) -> Answer:
    """The mean over variants at each level, next to the worst case over variants up to that level."""
    if view.results.dataset.combine != "worst":
        return Missing("the variants share no scale, so a mean or a worst case over them has no meaning.")
    models = {name: one for name, one in view.drawn(view.classifiers).items() if one.means}
    if not models:
        return Missing("a mean needs at least two variants.")
    first = next(one for one in view.variants.values() if one.role == "same")
    n_same = sum(one.role == "same" for one in view.variants.values())

    def paint(figure: Any, is_narrow: bool) -> None:
        left, right = figure.subplots(2, 1, sharey=True) if is_narrow else figure.subplots(1, 2, sharey=True)
        for place, (name, one) in reversed(list(enumerate(models.items()))):
            look = {"color": colour_of(place), "marker": marker_of(place), "markeredgecolor": "none"}
            mean = [(row.level, row.at) for row in one.means or () if is_known(row.at)]
            worst = [(_level_of(first, row.k), row.acc) for row in one.curve if is_known(row.acc)]
            for axes, line in ((left, [(0.0, one.acc_orig), *mean]), (right, worst)):
                bounds = [(x, found.low, found.high) for x, found in line if found.low is not None]
                if len(models) <= 3 and len(bounds) > 1:
                    axes.fill_between(*zip(*bounds, strict=True), color=colour_of(place), alpha=0.11, linewidth=0)
                axes.plot([x for x, _ in line], [value_of(found) for _, found in line], **look,
                          label=short(printable(name), 34))  # fmt: skip
        titles = ((left, f"mean over {n_same}, at the level"), (right, f"worst of {n_same}, up to the level"))
        for axes, title in titles:
            axes.set_title(title)
            axes.set_xlabel(f"{scale(first)}; 0: original images")
            axes.set_xticks([0.0, *first.levels], ["0", *(level_number(first, level) for level in first.levels)])
            axes.set_ylim(-0.02, 1.02)
            per_cent(axes)
        legend_below(left, is_narrow=is_narrow)

    name, one = next(iter(models.items()))
    top = max(one.means or (), key=lambda row: row.level)
    where = level_text(first, top.level)
    text = f"At {where}, {printable(name)} is right on {percent(top.at)} on average over {top.at.n} variants."
    text += f" On {percent(one.acc_pmk)} of the images, it is right under all variants up to that level."
    return FigureContent(
        sentence=text + view.drawn_text(view.classifiers),
        how="In the mean, every variant has the same weight, as in ImageNet-C before normalisation. In the worst case, "
        "an image counts only if the model is right under every variant and at every level so far.",
        paint=paint,
        inches=(3.6, 6.0),
    )


def _level_of(one: VariantFacts, k: int) -> float:
    return 0.0 if k == 0 else one.levels[k - 1]


# -- searches ----------------------------------------------------------------------------------------------------


@question("search_survival", "How large a change does a search need?")
def survival(view: View) -> Answer:
    """A panel per search: the share of images without a finding so far, and the target's accuracy."""
    searches = [one for one in own_scale(view) if one.levels and is_known(one.levels[0].alive)]
    if not searches:
        return Missing("this data has no searches.")
    targets = {
        score.variant: score for model in view.classifiers.values() for score in model.variants or () if score.is_target
    }

    def panel(place: int) -> Panel:
        one = searches[place]

        def paint(axes: Any) -> None:
            score = targets.get(one.variant)
            _line(axes, [(row.level, row.alive) for row in one.levels], RIGHT, "o", "nothing found so far")
            if score is not None:
                _line(axes, [(row.level, row.upto) for row in score.levels], WRONG, "D", "target right, reloaded",
                      dashed=True)  # fmt: skip
            if is_known(one.median):
                axes.axvline(value_of(one.median), color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            _ticks(axes, view.variants[one.variant])

        return paint

    shown = range(min(len(searches), MOST_PANELS))
    facts = [view.variants[one.variant] for one in searches]
    parts = []
    for one in searches[:3]:
        ran = plain_number(one.found + one.censored)
        half = "fewer than half" if not is_known(one.median) else (
            f"median {level_text(view.variants[one.variant], value_of(one.median))}"
        )  # fmt: skip
        parts.append(f"{printable(one.variant)} succeeds on {plain_number(one.found)} of {ran} images ({half})")
    return FigureContent(
        sentence="; ".join(parts) + ("; the table has the others." if len(searches) > 3 else "."),
        how="Solid: share of images without a finding so far (Kaplan–Meier). A search without a finding is censored at "
        "the distance it tried. Dotted: the median. Dashed, if the target is in this run: its accuracy on the stored "
        "images, where a wrong original counts as wrong.",
        paint=_sheet(
            [panel(place) for place in shown], [one.variant for one in searches], [_scale(one) for one in facts]
        ),
        inches=_sheet_inches(len(shown)),
    )


# -- contrasts ---------------------------------------------------------------------------------------------------


def _contrasts(kind: str, view: View) -> Answer:
    every = [one for one in view.results.contrasts or () if one.of == kind]
    rows = [one for one in every if is_known(one.value)]
    if not rows:
        return Missing("this data has no such contrasts.")
    rows.sort(key=lambda one: (not is_sure(one), -_size(one)))
    shown, real = rows[:_MOST_ROWS], [one for one in every if is_sure(one)]
    ratio = rows[0].form == "ratio"
    text = f"{len(real)} of {len(every)} differences are significant after Holm’s correction (p < 0.05)."
    if len(rows) < len(every):
        text += f" {len(every) - len(rows)} have no value, because too many searches found nothing."
    if len(shown) < len(rows):
        text += f" The figure shows {len(shown)}, significant differences first; tables/contrasts.csv has all."
    sides = "First − second: to the right of zero, the first is right more often"
    if ratio:
        sides = "First ÷ second: to the right of 1, the first needs a larger change"
    height = 1.0 + 0.34 * len(shown)
    return FigureContent(
        sentence=text,
        how=f"{sides}. Values are paired by image, with 95 % intervals. Grey diamonds are not significant.",
        paint=_contrast_chart(view, shown, ratio=ratio),
        inches=(height, height + 0.22 * len(shown) + 0.3),
    )


def _size(row: Contrast) -> float:
    value = value_of(row.value)
    return abs(math.log(value)) if row.form == "ratio" and value > 0 else abs(value)


def _contrast_chart(view: View, rows: Sequence[Contrast], *, ratio: bool) -> Callable[[Any, bool], None]:
    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(1 if ratio else 0, color=GREY, linewidth=1, zorder=1)
        for y, row in enumerate(rows):
            real = is_sure(row)
            whisker(axes, y, row.value, RIGHT if real else GREY, marker="o" if real else "d")
        sign = "÷" if ratio else "−"
        limit = 15 if is_narrow else 26
        names = []
        for row in rows:
            name = f"{short(side(view, row.a), limit)} {sign} {short(side(view, row.b), limit)}"
            names.append(
                name + (f"{chr(10) if is_narrow else ', '}{short(printable(row.held), 24)}" if row.held else "")
            )
        axes.set_yticks(range(len(rows)), names)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        axes.spines["left"].set_visible(False)
        if ratio:
            axes.set_xlim(left=0)
            axes.set_xlabel("first ÷ second")
        else:
            axes.set_xlabel("first − second, points")
            in_points(axes)

    return paint


contrasts_variants = question("contrasts_variants", "Which variants differ?")(partial(_contrasts, "variants"))
contrasts_models = question("contrasts_models", "Which models differ, and on which variants?")(
    partial(_contrasts, "models")
)
contrasts_targets = question("contrasts_targets", "Which target needs larger changes?")(partial(_contrasts, "targets"))
