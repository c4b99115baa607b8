"""Figures for variants: accuracy by level and by rung, the mean and the worst case, searches, and contrasts."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import Bar, ChartRow, Scale, model_keys, row_chart, set_unit, sure_mark
from strobe.report.charts_lines import Panel, Series, line_through, lines_of, panel_rows, put_lines, small_multiples
from strobe.report.drawing import Answer, FigureContent, Paint, question
from strobe.report.style import GREY, MUTED, colour_of
from strobe.report.view import View
from strobe.report.wording import (
    both_ends,
    extreme,
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
from strobe.studies.variants.records import Contrast, LevelScore, Search, VariantFacts, VariantScore
from strobe.studies.variants.words import own_scale, plain_scores, searched_names, side

MOST_PANELS = 24
"""The largest number of variants with their own panel. The table has all variants."""

MOST_MODELS = 4
"""The largest number of models with their own sheet of panels or their own bars."""

_MOST_ROWS = 15


# -- by level ----------------------------------------------------------------------------------------------------


@question("variant_levels", "How does accuracy fall with the level?")
def levels(view: View) -> Answer:
    """A sheet of small panels per model: accuracy at each level of a variant, and accuracy up to that level."""
    sheets = []
    shown = [
        variant for variant in view.variants.values() if variant.ordered and variant.variant not in searched_names(view)
    ]
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
                paint=small_multiples(panels, _columns(len(panels))),
                inches=_sheet_inches(len(panels)),
                choice=printable(model),
                number=number,
            )
        )
    return sheets or Missing("no variant has ordered levels.")


def _known(rows: Sequence[LevelScore]) -> bool:
    return any(is_known(row.at) for row in rows)


def _level_panel(facts: VariantFacts, score: VariantScore) -> Panel:
    is_control = facts.role == "control"
    lines = [
        line_through("at the level", 0, _measured((level.level, level.at) for level in score.levels)),
        line_through("up to it", 1, _measured((level.level, level.upto) for level in score.levels), dashed="D"),
    ]

    def paint(axes: Any) -> None:
        if is_control:
            axes.set_facecolor((0.5, 0.5, 0.5, 0.09))
        if is_known(score.acc_orig):
            axes.axhline(value_of(score.acc_orig), color=GREY, linewidth=1, zorder=1)
        put_lines(axes, lines, is_small=True)
        _ticks(axes, facts)

    title = f"{printable(facts.variant)}{', control' if is_control else ''}"
    return Panel(title=title, paint=paint, xlabel=_scale(facts))


def _measured(points: Iterable[tuple[float, Estimate]]) -> Iterable[tuple[float, Estimate]]:
    """Return the points before the first that is missing, where a line ends."""
    return takewhile(lambda point: is_known(point[1]), points)


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
    set_unit(axes)


def _scale(one: VariantFacts) -> str:
    """Return the scale as the label under a panel."""
    return "ε, 255ths" if any("/" in level_number(one, level) for level in one.levels) else scale(one)


def _is_geometric(at: Sequence[float]) -> bool:
    steps = [math.log(b / a) for a, b in pairwise(at)]
    return max(steps) - min(steps) < 0.35 * max(steps)


def _columns(n_panels: int) -> tuple[int, int]:
    return 3 if n_panels in (3, 5, 6) else 4 if n_panels <= 8 else 5, 2


def _sheet_inches(n_panels: int) -> tuple[float, float]:
    wide, narrow = panel_rows(n_panels, _columns(n_panels))
    each = 2.3 if n_panels <= 2 else 1.9 if n_panels <= 4 else 1.55
    return 0.7 + each * wide, 0.8 + max(each - 0.3, 1.45) * narrow


def _levels_sentence(model: str, kept: Sequence[VariantFacts], scores: dict[str, VariantScore]) -> str:
    last = [
        (one, scores[one.variant].levels[-1]) for one in kept
        if one.role == "same" and is_known(scores[one.variant].levels[-1].at)
    ]  # fmt: skip
    if not last:
        return f"{printable(model)}: no variant has an image at its highest level."
    ((worst, low), hard, tie), ((best, high), easy, ties) = both_ends(
        last, lambda pair: value_of(pair[1].at), lambda pair: pair[0].variant
    )
    text = f"The hardest variant{'s' if tie else ''} for {printable(model)} {'are' if tie else 'is'} {hard}"
    text += f": right on {percent(low.at)} at {level_text(worst, low.level)}"
    if len(last) > 1:
        text += f". The easiest {'are' if ties else 'is'} {easy}"
        text += f" ({percent(high.at)} at {level_text(best, high.level)})"
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
    shown = [
        variant
        for variant in view.variants.values()
        if not variant.ordered and variant.variant not in searched_names(view)
    ]
    shown.sort(key=lambda one: one.role == "control")
    places = [(one, level) for one in shown for level in range(len(one.levels))]
    scores = {name: plain_scores(view, result) for name, result in models.items()}
    places = [(one, level) for one, level in places if any(one.variant in mine for mine in scores.values())]
    if not places:
        return Missing("every variant has ordered levels.")
    rows = [_bars("original images", [result.acc_orig for result in models.values()])]
    for one, level in places:
        name = f"{printable(one.variant)} {one.levels[level]:.3g}" if len(one.levels) > 1 else printable(one.variant)
        name += f" ({', '.join(_marks(one))})" if _marks(one) else ""
        cells = [mine[one.variant].levels[level].at if one.variant in mine else None for mine in scores.values()]
        rows.append(_bars(name, cells, is_pale=one.role == "control"))
    n_same = 1 + sum(one.role == "same" for one, _ in places)
    paint = row_chart(
        rows,
        Scale(label="accuracy", low=0, high=1.02),
        limits=(40, 24),
        keys=model_keys(models, "s"),
        rules=(n_same - 0.5,) if n_same < len(rows) else (),
    )

    first, result = next(iter(models.items()))
    mine = scores[first]
    known = [
        (one, value_of(mine[one.variant].levels[level].at)) for one, level in places
        if one.role == "same" and one.variant in mine and is_known(mine[one.variant].levels[level].at)
    ]  # fmt: skip
    text = f"{printable(first)} is right on {percent(result.acc_orig)} of the original images"
    if known:
        (_, low), names, tie = extreme(known, lambda pair: pair[1], lambda pair: pair[0].variant, pick=min)
        text += f" and on {percent(low)} under {names}, its hardest variant{'s' if tie else ''}"
    height = 1.0 + len(rows) * max(0.34, 0.16 * len(models) + 0.1)
    return FigureContent(
        sentence=text + ".",
        how="Black lines are 95 % intervals. Paler bars below the dashed line are controls, which count in no mean and "
        "no worst case. “Estimated” variants use boxes or masks that a model estimated.",
        paint=paint,
        inches=(height, height + 0.2 * len(models)),
    )


def _bars(label: str, cells: Sequence[Estimate | None], *, is_pale: bool = False) -> ChartRow:
    alpha = 0.35 if is_pale else 0.85
    bars = [Bar(value=cell, colour=colour_of(index), alpha=alpha) for index, cell in enumerate(cells)]
    return ChartRow(label=label, bars=bars)


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
    first = next(variant for variant in view.variants.values() if variant.role == "same")
    n_same = sum(variant.role == "same" for variant in view.variants.values())

    mean = lines_of(models, lambda one: [(0.0, one.acc_orig), *((row.level, row.at) for row in one.means or ())])
    worst = lines_of(models, lambda one: ((_level_of(first, row.k), row.acc) for row in one.curve))

    def drawn(lines: Sequence[Series], axes: Any) -> None:
        put_lines(axes, lines, is_small=True)
        axes.set_xticks([0.0, *first.levels], ["0", *(level_number(first, level) for level in first.levels)])
        axes.set_ylim(-0.02, 1.02)
        set_unit(axes)

    titles = (f"mean over {n_same}, at the level", mean), (f"worst of {n_same}, up to the level", worst)
    panels = [
        Panel(title=title, paint=partial(drawn, lines), xlabel=f"{scale(first)}; 0: original images")
        for title, lines in titles
    ]
    name, one = next(iter(models.items()))
    top = max(one.means or (), key=lambda row: row.level)
    where = level_text(first, top.level)
    text = f"At {where}, {printable(name)} is right on {percent(top.at)} on average over {top.at.n} variants."
    text += f" On {percent(one.acc_pmk)} of the images, it is right under all variants up to that level."
    return FigureContent(
        sentence=text + view.drawn_text(view.classifiers),
        how="In the mean, every variant has the same weight, as in ImageNet-C before normalisation. In the worst case, "
        "an image counts only if the model is right under every variant and at every level so far.",
        paint=small_multiples(panels, (2, 1)),
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

    def panel(one: Search) -> Panel:
        score, facts = targets.get(one.variant), view.variants[one.variant]
        alive = _measured((row.level, row.alive) for row in one.levels)
        lines = [line_through("nothing found so far", 0, alive)]
        if score is not None:
            upto = _measured((row.level, row.upto) for row in score.levels)
            lines.append(line_through("target right, reloaded", 1, upto, dashed="D"))

        def paint(axes: Any) -> None:
            put_lines(axes, lines, is_small=True)
            if is_known(one.median):
                axes.axvline(value_of(one.median), color=MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            _ticks(axes, facts)

        return Panel(title=printable(one.variant), paint=paint, xlabel=_scale(facts))

    panels = [panel(search) for search in searches[:MOST_PANELS]]
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
        paint=small_multiples(panels, _columns(len(panels))),
        inches=_sheet_inches(len(panels)),
    )


# -- contrasts ---------------------------------------------------------------------------------------------------


def _contrasts(kind: str, view: View) -> Answer:
    every = [contrast for contrast in view.results.contrasts or () if contrast.of == kind]
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


def _contrast_chart(view: View, rows: Sequence[Contrast], *, ratio: bool) -> Paint:
    chart = []
    for row in rows:
        wide, narrow = (
            f" {'÷' if ratio else '−'} ".join(short(side(view, one), limit) for one in (row.a, row.b))
            for limit in (26, 15)
        )
        held = short(printable(row.held), 24) if row.held else ""
        chart.append(
            ChartRow(
                label=f"{wide}, {held}" if held else wide,
                narrow=(narrow, held) if held else narrow,
                marks=(sure_mark(row.value, is_sure(row)),),
            )
        )
    scale = Scale(label="first ÷ second", unit="", low=0, zero=1)
    return row_chart(
        chart, scale if ratio else Scale(label="first − second, points", unit="points", zero=0), limits=(80, 34)
    )


contrasts_variants = question("contrasts_variants", "Which variants differ?")(partial(_contrasts, "variants"))
contrasts_models = question("contrasts_models", "Which models differ, and on which variants?")(
    partial(_contrasts, "models")
)
contrasts_targets = question("contrasts_targets", "Which target needs larger changes?")(partial(_contrasts, "targets"))
