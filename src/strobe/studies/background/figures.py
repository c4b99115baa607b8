"""Figures for a ladder of backgrounds: rungs, isolated effects, context, object size, and pairs of models."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.variants import ANCHOR
from strobe.report.drawing import (
    Answer,
    FigureContent,
    Series,
    band,
    in_points,
    per_cent,
    question,
    whisker,
)
from strobe.report.style import GREY, INK, PAPER, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import ESTIMATED, is_known, is_sure, measured, percent, points, short, value_of
from strobe.studies.background.records import AreaBin
from strobe.studies.background.words import (
    ISOLATED,
    LadderView,
    RungView,
    covered_text,
    ladder,
    some_models,
    turned,
    verdict,
)
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

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        gap = min(0.2, 0.62 / len(rungs.models))
        for place, model in enumerate(rungs.models):
            whole_acc = rungs.models[model].acc_orig
            if is_known(whole_acc):
                axes.plot([value_of(whole_acc)] * 2, [-0.5, len(steps) - 0.5], color=colour_of(place), linewidth=0.9,
                          alpha=0.45, linestyle=(0, (2, 2)), zorder=1)  # fmt: skip
            for y, step in enumerate(steps):
                one = rungs.accuracy(model, step)
                if one is not None and is_known(one):
                    at = y + (place - (len(rungs.models) - 1) / 2) * gap
                    _point(axes, at, one, place, hollow=step.is_estimated, label=model if y == 0 else None)
        names = [f"{step.label}, {few}" if (few := rungs.fewer(step)) else step.label for step in steps]
        _rows(axes, names, limit=34 if is_narrow else 44)
        for line in (0.5, *((n_same - 0.5,) if n_same < len(steps) else ())):
            axes.axhline(line, color=GREY, linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("accuracy")
        per_cent(axes, which="x")
        _legend(figure, axes, len(rungs.models), is_narrow=is_narrow)

    parts = []
    for model in some_models(rungs):
        whole_acc = rungs.models[model].acc_orig
        known = [(step, one) for step in steps[1:] if not step.is_control
                 and (one := rungs.accuracy(model, step)) is not None and is_known(one)
                 and 2 * one.n >= whole_acc.n]  # fmt: skip
        if known and is_known(whole_acc):
            low = min(known, key=lambda row: value_of(row[1]))
            parts.append(
                f"{printable(model)} is right on {percent(whole_acc)} of the whole images. Its lowest accuracy is "
                f"{percent(low[1])}, on “{low[0].name}”."
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


def _point(axes: Any, y: float, one: Estimate, place: int, *, hollow: bool, label: str | None = None) -> None:
    colour = colour_of(place)
    if one.low is not None:
        axes.plot([one.low, one.high], [y, y], color=colour, linewidth=1.3, alpha=0.55, zorder=2)
    axes.plot([one.value], [y], linestyle="none", marker=marker_of(place), color=colour, markersize=5.4,
              markerfacecolor=PAPER if hollow else colour, markeredgecolor=colour, markeredgewidth=1.2, zorder=3,
              label=None if label is None else short(printable(label), 34))  # fmt: skip


def _rows(axes: Any, names: list[str], *, limit: int) -> None:
    axes.set_yticks(range(len(names)), [short(name, limit) for name in names])
    axes.tick_params(axis="y", labelcolor=INK, labelsize=8 if limit < 40 else 9.5)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.spines["left"].set_visible(False)


def _legend(figure: Any, axes: Any, n_models: int, *, is_narrow: bool) -> None:
    if n_models > 1:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=1 if is_narrow else 3, borderaxespad=0.2,
                      handlelength=1.2)  # fmt: skip


# -- isolated effects --------------------------------------------------------------------------------------------


@question("background_contrasts", "Is the effect due to background or magnification?")
def background_contrasts(view: View) -> Answer:
    """A row for every isolated effect, and a point for every model. Effects that are not significant are grey."""
    rungs = ladder(view)
    if rungs is None or not rungs.contrasts:
        return Missing(_NONE if rungs is None else "no two rungs differ in only one thing.")
    shown = rungs.isolated

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=INK, linewidth=1, zorder=1)
        gap = min(0.22, 0.66 / len(rungs.models))
        named: set[str] = set()
        for y, isolates in enumerate(shown):
            for place, model in enumerate(rungs.models):
                row = rungs.contrasts.get((model, isolates))
                if row is None:
                    continue
                at = y + (place - (len(rungs.models) - 1) / 2) * gap
                colour = colour_of(place)
                if row.value.low is not None:
                    axes.plot([row.value.low, row.value.high], [at, at], color=colour, linewidth=1.4, alpha=0.55)
                axes.plot([row.value.value], [at], linestyle="none", marker=marker_of(place), color=colour,
                          markersize=6, markeredgecolor=colour, markerfacecolor=colour if is_sure(row) else PAPER,
                          zorder=3)  # fmt: skip
                if model not in named:
                    named.add(model)
                    axes.plot([], [], linestyle="none", marker=marker_of(place), color=colour, markersize=6,
                              label=short(printable(model), 34))  # fmt: skip
        names = [f"{rungs.called(one)}\n{ISOLATED[one][1]}, n {rungs.n(one)}" for one in shown]
        _rows(axes, names, limit=60)
        axes.set_ylim(len(shown) - 0.45, -0.55)
        if is_narrow:
            axes.tick_params(axis="y", labelsize=7.5)
        axes.set_xlabel("points")
        in_points(axes)
        _legend(figure, axes, len(rungs.models), is_narrow=is_narrow)

    height = 1.0 + len(shown) * max(0.5, 0.17 * len(rungs.models) + 0.2)
    return FigureContent(
        sentence=" ".join(verdict(rungs, model) for model in some_models(rungs)),
        how="Each row is the difference between two rungs that differ in one thing, in points, on images that have "
        "both. Tests and 95 % intervals are corrected for the number of rows (Holm). Hollow points are not "
        "significant. “Cropping” is the usual comparison, which mixes background and magnification. Magnification "
        "enlarges the existing pixels; it adds no detail."
        + (f" {ESTIMATED} One side uses estimated boxes or masks." if rungs.has_estimates else ""),
        paint=paint,
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
    lines = []
    for place, model in enumerate(rungs.models):
        row = [(step.level or 0.0, one) for step in steps
               if (one := rungs.accuracy(model, step)) is not None and is_known(one)]  # fmt: skip
        if row:
            lines.append(Series(name=model, place=place, x=[x for x, _ in row], y=[one for _, one in row]))
    if not lines:
        return Missing("no crop has a prediction.")

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        end = max(x for line in lines for x in line.x)
        at = end + 0.22 * (end - 1)
        for line in lines:
            if len(lines) <= 3:
                band(axes, line)
            axes.plot(line.x, [one.value for one in line.y], color=colour_of(line.place), marker=marker_of(line.place),
                      markeredgecolor="none", label=short(printable(line.name), 34))  # fmt: skip
            whole = rungs.models[line.name].acc_orig
            if is_known(whole):
                x = at + 0.03 * (end - 1) * (line.place - (len(rungs.models) - 1) / 2)
                if whole.low is not None:
                    axes.plot([x, x], [whole.low, whole.high], color=colour_of(line.place), linewidth=1.3, alpha=0.55)
                axes.plot([x], [whole.value], marker=marker_of(line.place), color=colour_of(line.place), markersize=6,
                          markeredgecolor="none")  # fmt: skip
        levels = sorted({x for line in lines for x in line.x})
        axes.set_xticks([*levels, at], [*(f"{level:g}×" for level in levels), "whole"])
        axes.axvline((end + at) / 2, color=GREY, linewidth=0.8)
        axes.set_xlabel("width of the crop, in widths of the box")
        per_cent(axes)
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -0.02), min(high, 1.02))
        _legend(figure, axes, len(lines), is_narrow=is_narrow)

    parts = []
    for line in lines[: len(some_models(rungs))]:
        best = max(range(len(line.x)), key=lambda place: value_of(line.y[place]))
        parts.append(
            f"{printable(line.name)} goes from {percent(line.y[0])} ({line.x[0]:g}×) to {percent(line.y[-1])} "
            f"({line.x[-1]:g}×). Its best width is {line.x[best]:g}×; on whole images it reaches "
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
    bins = {name: one.background.by_area for name, one in rungs.models.items() if one.background}
    bins = {name: rows for name, rows in bins.items() if rows}
    if not bins:
        why = [one.background.reasons.get("by_area", "") for one in rungs.models.values() if one.background]
        return Missing(next((text for text in why if text), "no model was scored by object size."))
    place_of = {name: place for place, name in enumerate(rungs.models)}

    def value(row: AreaBin) -> Estimate | None:
        return next((one.value for one in row.isolated if one.isolates == main), None)

    def lines(of: Callable[[AreaBin], Estimate | None]) -> list[Series]:
        out = []
        for name, rows in bins.items():
            kept = [(place, one) for place, row in enumerate(rows) if (one := of(row)) is not None and is_known(one)]
            if kept:
                out.append(Series(name=name, place=place_of[name], x=[float(place) for place, _ in kept],
                                  y=[one for _, one in kept]))  # fmt: skip
        return out

    first = next(iter(bins.values()))
    whole = lines(lambda row: next(one.share for one in row.rungs if one.rung == ANCHOR))
    ground = lines(value) if main is not None else []
    panels = [("accuracy on whole images", whole, False)]
    if ground and main is not None:
        panels.append((f"{rungs.called(main)}, points", ground, True))

    def paint(figure: Any, is_narrow: bool) -> None:
        grid = figure.subplots(len(panels) if is_narrow else 1, 1 if is_narrow else len(panels), squeeze=False)
        every = [axes for row in grid for axes in row]
        for axes, (title, rows, is_gap) in zip(every, panels, strict=True):
            for line in rows:
                at = [x + 0.12 * (line.place - (len(rows) - 1) / 2) for x in line.x]
                for x, one in zip(at, line.y, strict=True):
                    if one.low is not None:
                        axes.plot([x, x], [one.low, one.high], color=colour_of(line.place), linewidth=1.1, alpha=0.5)
                axes.plot(at, [one.value for one in line.y], color=colour_of(line.place), marker=marker_of(line.place),
                          markeredgecolor="none", markersize=4.4, linewidth=1.3,
                          label=short(printable(line.name), 34))  # fmt: skip
            axes.set_title(title)
            ends = [f"{100 * row.high:.3g}" for row in first]
            step = 1 if len(ends) <= 6 else 2
            axes.set_xticks(range(0, len(ends), step), ends[::step])
            axes.set_xlabel("box, % of the image (upper edge of bin)")
            if is_gap:
                axes.axhline(0, color=INK, linewidth=1, zorder=1)
                in_points(axes, which="y")
            else:
                per_cent(axes)
        _legend(figure, every[0], len(bins), is_narrow=is_narrow)

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
        paint=paint,
        inches=(3.4, 2.7 * len(panels) + 0.2 * len(bins)),
    )


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
    rows = [one for one in view.results.contrasts or () if one.of == "models" and is_known(one.value)]
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
    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=INK, linewidth=1, zorder=1)
        for y, (_, row) in enumerate(rows):
            sure = is_sure(row)
            colour = colour_of(0 if value_of(row.value) > 0 else 1) if sure else GREY
            whisker(axes, y, row.value, colour, marker="o" if sure else "d")
        _rows(axes, [step.label for step, _ in rows], limit=34 if is_narrow else 44)
        axes.axhline(0.5, color=GREY, linewidth=0.8)
        axes.set_xlabel("first − second, points")
        in_points(axes)

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
        paint=paint,
        inches=(height, height + 0.3),
        choice=f"{printable(a)} − {printable(b)}",
        number=number,
    )
