"""Perturbed against original accuracy: this run's models, the papers' points, and the fitted lines of both groups."""

import textwrap
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from strobe.analyses.model_results import ClassificationResult
from strobe.analyses.published import PapersLine, Reference, papers_line, references_for
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import set_unit
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import GREY, INK, MUTED, PAPER, colour_of, marker_of, name_points
from strobe.report.view import View
from strobe.report.wording import extreme, is_known, percent, points, short, value_of
from strobe.studies.temporal.records import TrendLine

Models = Mapping[str, ClassificationResult]


@question("trend", "Does a more accurate model flicker less?")
def trend(view: View) -> Answer:
    """acc_pmk against acc_orig, with y = x, the fitted line, and the papers' models in grey.

    Without a fit, the papers' line is drawn.
    """
    models = {
        name: classifier
        for name, classifier in view.classifiers.items()
        if is_known(classifier.acc_orig, classifier.acc_pmk)
    }
    if not models:
        return Missing("no model has both accuracies.")
    data, fitted = view.results.dataset, view.results.trend
    references = [] if view.variants else references_for(data.name, data.n_sets)
    fit = None if isinstance(fitted, Missing) else fitted.linear
    theirs = papers_line(data.name, data.k) if fit is None and not view.variants else None
    named = len(models) <= 4 and not _crowded(models)
    shown = {name: models[name] for name in view.drawn(view.classifiers) if name in models}

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        every = [value_of(found) for one in models.values() for found in one.headline[:2]]
        every += [value for reference in references for pair in reference.points for value in pair]
        ends = [
            end
            for one in shown.values()
            for found in one.headline[:2]
            for end in (found.low, found.high)
            if end is not None
        ]
        low = max(0.0, min([min(every) - 0.05, *(end - 0.01 for end in ends)]))
        low = low or -0.015  # leaves room for the whole marker of a model at zero
        high = min(1.0, max([max(every) + 0.04, *(end + 0.01 for end in ends)])) + 0.015
        axes.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            "no drop (y = x)",
            xy=(low + 0.04 * (high - low),) * 2,
            xytext=(0, 7),
            textcoords="offset points",
            color=MUTED,
            rotation=45,
            rotation_mode="anchor",
            transform_rotates_text=True,
            ha="left",
            va="bottom",
        )
        markers = ["D" if reference.same_data else "." for reference in references]
        for printed, marker in zip(references, markers, strict=True):
            gx, gy = zip(*printed.points, strict=True)
            dots = axes.scatter(
                gx,
                gy,
                s=26 if marker == "D" else 34,
                marker=marker,
                color=GREY,
                linewidths=0,
                zorder=2,
                label=_caption(printed, is_narrow),
            )
            name_points(
                dots,
                [
                    f"{point.model}: acc_orig {point.acc_orig:.1f}, acc_pmk {point.acc_pmk:.1f} (published, "
                    f"{printed.caption})"
                    for point in printed.table.points
                ],
            )
        if theirs is not None:
            line = [theirs.at(x) for x in (low, high)]
            axes.plot(
                [low, high],
                line,
                color=GREY,
                linewidth=1.6,
                zorder=1.5,
                label=textwrap.fill(theirs.caption, 40 if is_narrow else 22),
            )
        if fit is not None:
            line = [_fit_at(fit, x) for x in (low, high)]
            axes.plot([low, high], line, color=INK, linewidth=1.2, zorder=2, label=f"fit of\n{_fitted_to(view)} here")
        others = {model: one for model, one in models.items() if model not in shown}
        if others:
            dots = axes.scatter(
                [value_of(one.acc_orig) for one in others.values()],
                [value_of(one.acc_pmk) for one in others.values()],
                s=14,
                color=INK,
                alpha=0.55,
                linewidths=0,
                zorder=3,
                label=f"{len(others)} other models of this run",
            )
            name_points(
                dots,
                [
                    f"{printable(model)}: acc_orig {percent(one.acc_orig)}, acc_pmk {percent(one.acc_pmk)}"
                    for model, one in others.items()
                ],
            )
        for index, (model, one) in enumerate(shown.items()):
            (x, y, _), colour = one.headline, colour_of(index)
            axes.errorbar(
                [x.value],
                [y.value],
                xerr=_reach(x),
                yerr=_reach(y),
                fmt=marker_of(index),
                color=colour,
                markersize=7,
                elinewidth=1,
                ecolor=colour,
                alpha=0.95,
                markeredgecolor=PAPER,
                zorder=4,
                label=short(printable(model), 34) if is_narrow or not named else None,
            )
            if not is_narrow and named:
                right = value_of(x) > (low + high) / 2  # names near the right edge go to the left of their point
                above = value_of(y) < low + 0.08 * (high - low)  # names near the lower edge go above it
                axes.annotate(
                    short(printable(model), 22),
                    xy=(x.value, y.value),
                    textcoords="offset points",
                    color=colour,
                    xytext=(-8 if right else 8, 6 if above else -12),
                    ha="right" if right else "left",
                    fontweight="bold",
                    zorder=5,
                )
        axes.set(xlim=(low, high), ylim=(low, high), xlabel="acc_orig: right on the anchor")
        axes.set_ylabel(f"acc_pmk: right on the anchor and all {view.words.frames}")
        if view.variants:
            axes.set(xlabel="accuracy: right on the original", ylabel="worst: right under every variant, too")
        axes.set_aspect("equal", anchor="W")
        axes.grid(visible=True, axis="both")
        set_unit(axes, which="x")
        set_unit(axes)
        if axes.get_legend_handles_labels()[0]:
            where = "outside lower left" if is_narrow else "outside right upper"
            figure.legend(loc=where, handlelength=1.4, borderaxespad=0.2, labelspacing=0.9)

    ends = " with its 95 % intervals" if any(one.acc_pmk.low is not None for one in models.values()) else ""
    # On a phone, the legend is below the plot. The figure grows with the legend, so that the plot does not shrink.
    return FigureContent(
        sentence=_trend_sentence(view, models, fit) + _place(theirs, models),
        how=f"Each coloured point is a model of this run{ends}. Its distance below the dashed line is its drop."
        + (
            ""
            if view.variants
            else " Grey points are published models with k = 10, for orientation. They are never pooled with yours. "
            "Point at a grey point, or tap it, to see its name."
        )
        + ("" if theirs is None else " The grey line is fitted to the published models, not to yours."),
        paint=paint,
        inches=(5.2, 4.0 + 0.25 * (len(shown) + len(references))),
    )


def _crowded(models: Models) -> bool:
    """Return whether two points are so close that their names would overlap."""
    places = [(value_of(model.acc_orig), value_of(model.acc_pmk)) for model in models.values()]
    return any(abs(a[0] - b[0]) < 0.25 and abs(a[1] - b[1]) < 0.04 for a, b in combinations(places, 2))


def _caption(one: Reference, is_narrow: bool) -> str:
    return textwrap.fill(f"published models, {one.caption}", 40 if is_narrow else 22)


def _fit_at(fit: TrendLine, x: float) -> float:
    """Return the value of the line at a share. In results.json, both axes of the line are in points."""
    return fit.intercept / 100 + fit.slope * x


def _reach(found: Estimate) -> list[list[float]] | None:
    if found.low is None or found.high is None:
        return None
    return [[max(value_of(found) - found.low, 0.0)], [max(found.high - value_of(found), 0.0)]]


def _trend_sentence(view: View, models: Models, fit: TrendLine | None) -> str:
    words = view.words
    best, names, tie = extreme(models, lambda name: value_of(models[name].acc_orig), str)
    drops = {name: value_of(model.drop) for name, model in models.items() if is_known(model.drop)}
    accuracy, reach = percent(models[best].acc_orig), "to the worst variant" if view.variants else words.within
    text = f"{names} {'are' if tie else 'is'} the most accurate on the {words.anchors} ({accuracy})"
    if len(models) == 1:
        text = f"{printable(best)} is right on {accuracy} of the {words.anchors}"
    if len(drops) > 1 and len(set(drops.values())) == 1:
        text += f". All models have the same drop {reach} ({points(next(iter(drops.values())))})"
    elif len(drops) > 1:
        least, steady, several = extreme(drops, lambda name: drops[name], str, pick=min)
        verb = "have" if several else "has"
        same = f"and also {verb} the smallest drop" if steady == names else f"but {steady} {verb} the smallest drop"
        text += f", {same} {reach} ({points(drops[least])})"
    elif drops:
        text += f"; its drop {reach} is {points(drops[best])}" if best in drops else ""
    if fit is None:
        why = view.results.trend.reason
        return f"{text}. No line was fitted to this run: {why}." if why and len(models) > 1 else f"{text}."
    return (
        f"{text}. Along the line through {_fitted_to(view)}, one more point "
        f"of {'accuracy' if view.variants else 'acc_orig'} goes with "
        f"{fit.slope:.2f} points of {'accuracy under every variant' if view.variants else 'acc_pmk'}."
    )


def _fitted_to(view: View) -> str:
    found = view.results.trend
    return "the standard models" if isinstance(found, Missing) or found.fitted_to is None else found.fitted_to


def _place(theirs: PapersLine | None, models: Models) -> str:
    """Return the position of a single model relative to the papers' line of the same benchmark."""
    if theirs is None or len(models) > 1:
        return ""
    ((name, one),) = models.items()
    there = theirs.at(value_of(one.acc_orig))
    off = value_of(one.acc_pmk) - there
    where = "on it" if abs(off) < 0.0005 else f"{points(abs(off))} {'above' if off > 0 else 'below'} it"
    reach = (
        one.acc_pmk.low is not None and one.acc_pmk.high is not None and one.acc_pmk.low <= there <= one.acc_pmk.high
    )
    chance = "; its interval contains the line" if reach else ""
    return (
        f" The published line of this benchmark ({theirs.about}) predicts acc_pmk {percent(there)} for this acc_orig. "
        f"{printable(name)} is {where}{chance}{theirs.beyond(value_of(one.acc_orig))}."
    )
