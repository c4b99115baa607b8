"""Figures for a ladder of backgrounds: rungs, isolated effects, context, object size, and pairs of models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from strobe.annexes.backgrounds.study.records import AreaBin, ground_of
from strobe.annexes.backgrounds.study.words import (
    ISOLATED,
    LadderView,
    RungView,
    covered_text,
    ladder,
    some_models,
    verdict,
)
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.variants import ANCHOR
from strobe.report.charts import (
    ChartRow,
    Mark,
    Scale,
    Unit,
    model_keys,
    put_mark,
    row_chart,
    set_unit,
    side_by_side,
    sure_mark,
)
from strobe.report.charts_lines import Panel, Series, line_legend, line_through, put_lines, shares, small_multiples
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import GREY, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import ESTIMATED, extreme, is_known, is_sure, measured, percent, points, turned, value_of
from strobe.studies.variants.records import Contrast

_NONE = "this data has no ladder of backgrounds."

MOST_PAIRS = 6
"""The largest number of model pairs with their own figure. tables/contrasts.csv has all pairs."""

_DETECTOR = "boxes"
"""Model strings with this prefix are detectors whose boxes were converted to classes."""


def _estimated(found: LadderView) -> str:
    if not found.has_estimates:
        return ""
    return f" Hollow points marked {ESTIMATED} use estimated boxes or masks."


# -- by rung -----------------------------------------------------------------------------------------------------


@question("background_rungs", "How accurate is each model on each rung?")
def background_rungs(view: View) -> Answer:
    """A row for every rung, with a point for every model. A dotted line marks each model's accuracy on the whole
    images.
    """
    rungs = ladder(view)
    if rungs is None or not rungs.models:
        return Missing(_NONE)
    steps = [step for step in rungs.steps if any(_known(rungs, model, step) for model in rungs.models)]
    n_same = sum(not step.is_control for step in steps)

    names = [f"{step.label}, {few}" if (few := rungs.fewer(step)) else step.label for step in steps]
    rows = [
        ChartRow(
            label=name,
            marks=_model_marks([(rungs.accuracy(model, step), step.is_estimated) for model in rungs.models]),
        )
        for name, step in zip(names, steps, strict=True)
    ]
    whole = [(one.acc_orig.value, colour_of(index)) for index, one in enumerate(rungs.models.values())]
    scale = Scale(label="accuracy", low=-0.02, high=1.02, guides=[(x, colour) for x, colour in whole if x is not None])
    paint = row_chart(
        rows,
        scale,
        limits=(44, 34),
        keys=model_keys(rungs.models),
        rules=(0.5, *((n_same - 0.5,) if n_same < len(steps) else ())),
    )
    parts = []
    for model in some_models(rungs):
        whole_acc = rungs.models[model].acc_orig
        known = [(step, one) for step in steps[1:] if not step.is_control
                 and (one := rungs.accuracy(model, step)) is not None and is_known(one)
                 and 2 * one.n >= whole_acc.n]  # fmt: skip
        if known and is_known(whole_acc):
            low, hardest, _ = extreme(known, lambda row: value_of(row[1]), lambda row: f"“{row[0].name}”", pick=min)
            parts.append(
                f"{printable(model)} is right on {percent(whole_acc)} of the whole images. Its lowest accuracy is "
                f"{percent(low[1])}, on {hardest}."
            )
    height = 1.0 + len(steps) * max(0.3, 0.13 * len(rungs.models) + 0.1)
    return FigureContent(
        sentence=" ".join(parts) + view.drawn_text(view.classifiers),
        how="Points have 95 % intervals. Dotted lines: the same model on the whole images. Rungs below the second line "
        "are controls: a person would answer differently, or the scene is unchanged. A rung with its own n is missing "
        "for some images. Differences use only images that have both rungs." + _estimated(rungs),
        paint=paint,
        inches=(height, height + 0.22 * len(rungs.models)),
    )


def _known(found: LadderView, model: str, step: RungView) -> bool:
    one = found.accuracy(model, step)
    return one is not None and is_known(one)


def _model_marks(values: Sequence[tuple[Estimate | None, bool]]) -> list[Mark]:
    """Return a point for each model, in the order of the ranks. The second value is whether the point is hollow."""
    return side_by_side(
        [
            Mark(value=value, colour=colour_of(index), marker=marker_of(index), hollow=hollow)
            for index, (value, hollow) in enumerate(values)
        ]
    )


# -- isolated effects --------------------------------------------------------------------------------------------


@question("background_contrasts", "Is the effect due to background or magnification?")
def background_contrasts(view: View) -> Answer:
    """A row for every isolated effect, and a point for every model. Effects that are not significant are grey."""
    rungs = ladder(view)
    if rungs is None or not rungs.contrasts:
        return Missing(_NONE if rungs is None else "no two rungs differ in only one thing.")
    shown = rungs.isolated

    rows = []
    for isolates in shown:
        found = [rungs.contrasts.get((model, isolates)) for model in rungs.models]
        label = rungs.called(isolates), f"{ISOLATED[isolates][1]}, n {rungs.n(isolates)}"
        values = [(None, False) if row is None else (row.value, not is_sure(row)) for row in found]
        rows.append(ChartRow(label=label, marks=_model_marks(values)))
    scale = Scale(label="points", unit="points", zero=0)
    height = 1.0 + len(shown) * max(0.5, 0.17 * len(rungs.models) + 0.2)
    return FigureContent(
        sentence=" ".join(verdict(rungs, model) for model in some_models(rungs)),
        how="Each row is the difference between two rungs that differ in one thing, in points, on images that have "
        "both. Tests and 95 % intervals are corrected for the number of rows (Holm). Hollow points are not "
        "significant. “Cropping” is the usual comparison, which mixes background and magnification. Magnification "
        "enlarges the existing pixels; it adds no detail."
        + (f" {ESTIMATED} One side uses estimated boxes or masks." if rungs.has_estimates else ""),
        paint=row_chart(rows, scale, limits=(60, 60), keys=model_keys(rungs.models)),
        inches=(height, height + 0.25 * len(rungs.models)),
    )


# -- by context --------------------------------------------------------------------------------------------------


@question("background_context", "How much does context help?")
def background_context(view: View) -> Answer:
    """Accuracy on the box crop, by the crop's width relative to the box, and accuracy on the whole image."""
    rungs = ladder(view)
    steps = [] if rungs is None else [step for step in rungs.steps if step.facts and step.facts.axis == "context"]
    if rungs is None or len(steps) < 2:
        return Missing(_NONE if rungs is None else "the box was cropped at only one width.")
    lines = [
        line_through(model, index, [(step.level or 0.0, rungs.accuracy(model, step)) for step in steps])
        for index, model in enumerate(rungs.models)
    ]
    lines = [line for line in lines if line.x]
    if not lines:
        return Missing("no crop has a prediction.")

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        end = max(x for line in lines for x in line.x)
        at = end + 0.22 * (end - 1)
        put_lines(axes, lines)
        for line in lines:
            x = at + 0.03 * (end - 1) * (line.place - (len(rungs.models) - 1) / 2)
            mark = Mark(
                value=rungs.models[line.name].acc_orig, colour=colour_of(line.place), marker=marker_of(line.place)
            )
            put_mark(axes, x, mark, is_upright=True)
        levels = sorted({x for line in lines for x in line.x})
        axes.set_xticks([*levels, at], [*(f"{level:g}×" for level in levels), "whole"])
        axes.axvline((end + at) / 2, color=GREY, linewidth=0.8)
        axes.set_xlabel("width of the crop, in widths of the box")
        set_unit(axes)
        shares(axes)
        if len(lines) > 1:
            line_legend(figure, [axes], is_narrow=is_narrow)

    parts = []
    for line in lines[: len(some_models(rungs))]:
        widths = zip(line.x, line.y, strict=True)
        _, best, tie = extreme(widths, lambda pair: value_of(pair[1]), lambda pair: f"{pair[0]:g}×")
        parts.append(
            f"{printable(line.name)} goes from {percent(line.y[0])} ({line.x[0]:g}×) to {percent(line.y[-1])} "
            f"({line.x[-1]:g}×). Its best width{'s are' if tie else ' is'} {best}; on whole images it reaches "
            f"{percent(rungs.models[line.name].acc_orig)}."
        )
    return FigureContent(
        sentence=" ".join(parts),
        how="Wider crops of the same objects have more background and less magnification. Bands and bars are the 95 % "
        "interval of each point. The table of contrasts tests whether two points differ.",
        paint=paint,
        inches=(3.5, 4.0 + 0.2 * len(lines)),
    )


# -- by size -----------------------------------------------------------------------------------------------------


@question("background_area", "Does the background matter more for small objects?")
def background_area(view: View) -> Answer:
    """Accuracy on the whole image and the effect of the background, by the object's share of the image."""
    rungs = ladder(view)
    if rungs is None:
        return Missing(_NONE)
    main = rungs.main()
    bins = {name: found.by_area for name, one in rungs.models.items() if (found := ground_of(one))}
    bins = {name: rows for name, rows in bins.items() if rows}
    if not bins:
        why = [found.reasons.get("by_area", "") for model in rungs.models.values() if (found := ground_of(model))]
        return Missing(next((text for text in why if text), "no model was scored by object size."))
    place_of = {name: index for index, name in enumerate(rungs.models)}

    def value(row: AreaBin) -> Estimate | None:
        return next((one.value for one in row.isolated if one.isolates == main), None)

    def lines(of: Callable[[AreaBin], Estimate | None]) -> list[Series]:
        found = [
            line_through(name, place_of[name], [(index, of(row)) for index, row in enumerate(rows)])
            for name, rows in bins.items()
        ]
        return [line for line in found if line.x]

    first = next(iter(bins.values()))
    whole = lines(lambda row: next(rung.share for rung in row.rungs if rung.rung == ANCHOR))
    ground = lines(value) if main is not None else []
    panels = [_area_panel("accuracy on whole images", whole, first, "%")]
    if ground and main is not None:
        panels.append(_area_panel(f"{rungs.called(main)}, points", ground, first, "points"))

    parts = []
    for line in ground[: len(some_models(rungs))]:
        small, large = line.y[0], line.y[-1]
        text = f"{printable(line.name)}: {measured(small, 'points')} for the smallest objects, "
        text += f"{measured(large, 'points')} for the largest"
        parts.append(text + ("" if _apart(small, large) else " (intervals overlap)"))
    what = f"The effect “{rungs.called(main)}” by object size. " if main is not None and parts else ""
    sizes = f"{len(first)} bins of {min(row.n for row in first)} images or more"
    return FigureContent(
        sentence=what + ("; ".join(parts) + "." if parts else f"{sizes}, from small objects to large."),
        how=f"Images are grouped into {sizes}, by the share of the image that the object’s box covers. Bars are 95 % "
        "intervals, not corrected for the number of bins.",
        paint=small_multiples(panels, (2, 1), shared=(False, False)),
        inches=(3.4, 2.7 * len(panels) + 0.2 * len(bins)),
    )


def _area_panel(title: str, lines: Sequence[Series], bins: Sequence[AreaBin], unit: Unit) -> Panel:
    def paint(axes: Any) -> None:
        if unit == "points":
            axes.axhline(0, color=GREY, linewidth=1, zorder=1)
        moved = [replace(line, x=[x + 0.12 * (line.place - (len(lines) - 1) / 2) for x in line.x]) for line in lines]
        named = moved if len(lines) > 1 else [replace(line, name="") for line in moved]
        put_lines(axes, named, has_bands=False, is_small=True)
        for line in moved:
            for x, y in zip(line.x, line.y, strict=True):
                put_mark(axes, x, Mark(value=y, colour=colour_of(line.place), marker="none"), is_upright=True)
        ends = [f"{100 * row.high:.3g}" for row in bins]
        step = 1 if len(ends) <= 6 else 2
        axes.set_xticks(range(0, len(ends), step), ends[::step])
        set_unit(axes, unit)

    return Panel(title=title, paint=paint, xlabel="box, % of the image (upper edge of bin)")


def _apart(one: Estimate, two: Estimate) -> bool:
    """Return whether both estimates have an interval and the two intervals do not overlap."""
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return False
    return one.low > two.high or two.low > one.high


# -- two models --------------------------------------------------------------------------------------------------


@question("background_models", "Which model is ahead, rung by rung?")
def background_models(view: View) -> Answer:
    """The difference between two models on every rung, on the same images.

    Pairs of a detector and a classifier come first.
    """
    rungs = ladder(view)
    if rungs is None or len(rungs.models) < 2:
        return Missing(_NONE if rungs is None else "a comparison needs at least two models.")
    rows = [
        contrast for contrast in view.results.contrasts or () if contrast.of == "models" and is_known(contrast.value)
    ]
    known = {(one.a, one.b, one.held, one.level): one for one in rows}
    known |= {(one.b, one.a, one.held, one.level): replace(one, value=turned(one.value)) for one in rows}
    pairs = [(b, a) if _is_detector(b) and not _is_detector(a) else (a, b) for a, b in combinations(rungs.models, 2)]
    pairs.sort(key=lambda pair: _is_detector(pair[0]) == _is_detector(pair[1]))
    out = []
    for number, (a, b) in enumerate(pairs[:MOST_PAIRS], start=1):
        kept = [(step, row) for step in rungs.steps
                if (row := known.get((a, b, step.variant, step.level))) is not None]  # fmt: skip
        if kept:
            out.append(_pair(a, b, kept, number, covered=covered_text(rungs, a, b)))
    return out or Missing("no rung has answers of two models.")


def _is_detector(model: str) -> bool:
    return printable(model).startswith(_DETECTOR)


def _pair(a: str, b: str, rows: list[tuple[RungView, Contrast]], number: int, *, covered: str) -> FigureContent:
    chart = [
        ChartRow(
            label=step.label,
            marks=(sure_mark(row.value, is_sure(row), colour_of(0 if value_of(row.value) > 0 else 1)),),
        )
        for step, row in rows
    ]
    scale = Scale(label="first − second, points", unit="points", zero=0)
    ahead = [step for step, row in rows if is_sure(row) and value_of(row.value) > 0]
    behind = [step for step, row in rows if is_sure(row) and value_of(row.value) < 0]
    whole_row = next((row for step, row in rows if step.level is None), None)
    text = f"Neither model is significantly ahead on any of {len(rows)} rungs"
    if ahead or behind:
        counts = f"{len(ahead) or 'none'} of {len(rows)} rungs, {printable(b)} on {len(behind) or 'none'}"
        text = f"{printable(a)} is significantly ahead on {counts}"
    if whole_row is not None:
        first, second, value = (a, b, value_of(whole_row.value)) if value_of(whole_row.value) >= 0 else (
            b, a, -value_of(whole_row.value))  # fmt: skip
        chance = "" if is_sure(whole_row) else " (not significant)"
        text += f". On the whole images {printable(first)} leads {printable(second)} by {points(value)}{chance}"
    height = 0.9 + 0.29 * len(rows)
    return FigureContent(
        sentence=f"{text}. {covered}".rstrip(),
        how=f"{printable(a)} − {printable(b)} on the same images. Tests and 95 % intervals are corrected for the "
        "number of pairs and rungs (Holm). Grey diamonds are not significant.",
        paint=row_chart(chart, scale, limits=(44, 34), rules=(0.5,)),
        inches=(height, height + 0.3),
        choice=f"{printable(a)} − {printable(b)}",
        number=number,
    )
