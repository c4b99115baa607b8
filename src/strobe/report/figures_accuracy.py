"""The figures of accuracy itself: against the original, against k and time, how long answers last, who is better."""

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

from strobe.analyses.comparison import Comparison
from strobe.analyses.model_results import ClassificationResult
from strobe.analyses.trend import TrendLine
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.drawing import (
    Answer,
    Finding,
    Series,
    in_points,
    line_chart,
    lines_of,
    names_on_y,
    per_cent,
    question,
    whisker,
)
from strobe.report.published import Reference, references_for
from strobe.report.style import GREY, INK, MUTED, PAPER, RIGHT, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import counted, is_known, is_sure, percent, plain_number, points, short, value_of

__all__ = ["comparison", "curve", "first_failure", "time_curve", "trend"]

Models = Mapping[str, ClassificationResult]

_MOST_PAIRS = 15


@question("trend", "Does a more accurate model flicker less?")
def trend(view: View) -> Answer:
    """Perturbed accuracy against original accuracy: y = x, the fit, and the papers' models in grey."""
    models = {name: one for name, one in view.classifiers.items() if is_known(one.acc_orig, one.acc_pmk)}
    if not models:
        return Missing("No model has both accuracies, so there is nothing to set against each other.")
    data, fitted = view.results.dataset, view.results.trend
    references = [] if view.variants else references_for(data.name, data.n_sets)
    fit = None if isinstance(fitted, Missing) else fitted.linear
    named = len(models) <= 4 and not _crowded(models)
    shown = {name: models[name] for name in view.drawn(view.classifiers) if name in models}

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        every = [value_of(found) for one in models.values() for found in one.headline[:2]]
        every += [value for one in references for pair in one.points for value in pair]
        ends = [end for one in shown.values() for found in one.headline[:2] for end in (found.low, found.high)
                if end is not None]  # fmt: skip
        low = max(0.0, min([min(every) - 0.05, *(end - 0.01 for end in ends)]))
        low = low or -0.015  # a model at nought keeps its whole marker
        high = min(1.0, max([max(every) + 0.04, *(end + 0.01 for end in ends)])) + 0.015
        axes.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            "no drop (y = x)", xy=(low + 0.04 * (high - low),) * 2, xytext=(0, 7), textcoords="offset points",
            color=MUTED, rotation=45, rotation_mode="anchor", transform_rotates_text=True, ha="left", va="bottom",
        )  # fmt: skip
        markers = ["D" if one.same_data else "." for one in references]
        for printed, marker in zip(references, markers, strict=True):
            gx, gy = zip(*printed.points, strict=True)
            axes.scatter(gx, gy, s=26 if marker == "D" else 34, marker=marker, color=GREY, linewidths=0, zorder=2,
                         label=_caption(printed, is_narrow))  # fmt: skip
        if fit is not None:
            line = [_fit_at(fit, x) for x in (low, high)]
            axes.plot([low, high], line, color=INK, linewidth=1.2, zorder=2, label="fit of the\nstandard models here")
        others = [one for model, one in models.items() if model not in shown]
        if others:
            axes.plot([one.acc_orig.value for one in others], [one.acc_pmk.value for one in others], ".", color=INK,
                      alpha=0.6, zorder=3, label=f"{len(others)} other models of this run")  # fmt: skip
        for place, (model, one) in enumerate(shown.items()):
            (x, y, _), colour = one.headline, colour_of(place)
            axes.errorbar(
                [x.value], [y.value], xerr=_reach(x), yerr=_reach(y), fmt=marker_of(place), color=colour,
                markersize=7, elinewidth=1, ecolor=colour, alpha=0.95, markeredgecolor=PAPER, zorder=4,
                label=short(printable(model), 34) if is_narrow or not named else None,
            )  # fmt: skip
            if not is_narrow and named:
                right = value_of(x) > (low + high) / 2  # names near the right edge go to the left of their point
                above = value_of(y) < low + 0.08 * (high - low)  # and near the lower one above it
                axes.annotate(
                    short(printable(model), 22), xy=(x.value, y.value), textcoords="offset points", color=colour,
                    xytext=(-8 if right else 8, 6 if above else -12), ha="right" if right else "left",
                    fontweight="bold", zorder=5,
                )  # fmt: skip
        axes.set(xlim=(low, high), ylim=(low, high), xlabel="acc_orig: right on the anchor")
        axes.set_ylabel(f"acc_pmk: right on the anchor and all {view.words.frames}")
        if view.variants:
            axes.set(xlabel="accuracy: right on the picture as it is", ylabel="worst: right under every variant, too")
        axes.set_aspect("equal", anchor="W")
        axes.grid(visible=True, axis="both")
        per_cent(axes, which="x")
        per_cent(axes)
        if axes.get_legend_handles_labels()[0]:
            where = "outside lower left" if is_narrow else "outside right upper"
            figure.legend(loc=where, handlelength=1.4, borderaxespad=0.2, labelspacing=0.9)

    # On a phone the legend lies below: the more it holds, the taller the figure, or the plot would shrink.
    return Finding(
        sentence=_trend_sentence(view, models, fit),
        how="Each coloured point is a model of this run with its 95 % intervals; the lower it lies under the dashed "
        "line, the more right answers it loses."
        + (
            ""
            if view.variants
            else " Grey: the papers' models, printed for k = 10, for orientation; they are never pooled with yours."
        ),
        paint=paint,
        inches=(5.2, 4.0 + 0.25 * (len(shown) + len(references))),
    )


def _crowded(models: Models) -> bool:
    """Whether two points lie so close that names beside them would cover each other."""
    places = [(value_of(one.acc_orig), value_of(one.acc_pmk)) for one in models.values()]
    return any(abs(a[0] - b[0]) < 0.25 and abs(a[1] - b[1]) < 0.04 for a, b in combinations(places, 2))


def _caption(one: Reference, is_narrow: bool) -> str:
    return textwrap.fill(f"papers’ models, {one.caption}", 40 if is_narrow else 22)


def _fit_at(fit: TrendLine, x: float) -> float:
    """The line at a share; results.json gives it in points on both axes."""
    return fit.intercept / 100 + fit.slope * x


def _reach(found: Estimate) -> list[list[float]] | None:
    if found.low is None or found.high is None:
        return None
    return [[max(value_of(found) - found.low, 0.0)], [max(found.high - value_of(found), 0.0)]]


def _trend_sentence(view: View, models: Models, fit: TrendLine | None) -> str:
    words = view.words
    under = "the worst" if view.variants else f"acc_pmk (k = {view.results.dataset.k})"
    best = max(models, key=lambda name: value_of(models[name].acc_orig))
    drops = {name: one.drop.value for name, one in models.items() if one.drop.value is not None}
    accuracy = percent(models[best].acc_orig)
    text = f"{printable(best)} is the most accurate on the {words.anchors} ({accuracy})"
    if len(models) == 1:
        text = f"{printable(best)} is right on {accuracy} of the {words.anchors}"
    if len(drops) > 1 and len(set(drops.values())) == 1:
        text += f"; all lose the same under {under} ({points(next(iter(drops.values())))})"
    elif len(drops) > 1:
        least = min(drops, key=lambda name: drops[name])
        same = "and also loses least" if least == best else f"but {printable(least)} loses least"
        text += f", {same} under {under} ({points(drops[least])})"
    elif drops:
        text += f" and loses {points(drops[best])} under {under}" if best in drops else ""
    if fit is None:
        why = view.results.trend.reason
        return f"{text}. No fit is drawn: {why}." if why else f"{text}."
    return (
        f"{text}. Along the fit, one more point of {'accuracy' if view.variants else 'acc_orig'} comes with "
        f"{fit.slope:.2f} points of {'accuracy under the worst' if view.variants else 'acc_pmk'}."
    )


@question("curve", "How fast does accuracy fall as the set grows?")
def curve(view: View) -> Answer:
    """Accuracy against k."""
    models, words = view.drawn(view.classifiers), view.words
    series = lines_of(models, lambda one: ((point.k, point.acc) for point in one.curve))
    if not series:
        return Missing("No accuracy for growing k was found in these results.")

    first = series[0]
    start, end = value_of(first.y[0]), value_of(first.y[-1])
    half = next((x for x, e in zip(first.x, first.y, strict=True) if start - value_of(e) >= (start - end) / 2), None)
    reach = words.up_to(f"{first.x[-1]:.0f}")
    text = (
        f"{printable(first.name)} starts at {percent(start)} on the anchors alone and is right on the whole set "
        f"{reach} in {percent(end)}"
        if start > end
        else f"{printable(first.name)} stays at {percent(start)}, from the anchors alone to the whole set {reach}"
    )
    if start > end and half:
        text += f"; half of the loss has happened {words.up_to(f'{half:.0f}')}"
    return Finding(
        sentence=text + "." + view.drawn_text(view.classifiers),
        how="The curve starts at acc_orig (k = 0) and can only fall: all that joins a set is one more chance to fail.",
        paint=line_chart(series, words.k_label, "acc_pmk"),
        inches=(4.0, 3.9),
    )


@question("time_curve", "The same, in milliseconds")
def time_curve(view: View) -> Answer:
    """Accuracy against milliseconds."""
    models = view.drawn(view.classifiers)
    curves = {name: one.time_curve for name, one in models.items()}
    series = lines_of(
        curves, lambda one: () if isinstance(one, Missing) else ((point.ms, point.acc) for point in one.points)
    )
    if not series:
        reasons = {one.reason for one in curves.values() if isinstance(one, Missing)} - {""}
        why = f" ({printable(sorted(reasons)[0])})" if reasons else ""
        return Missing(f"no accuracy against time is known for this data{why}.")

    first = series[0]
    start, end = value_of(first.y[0]), value_of(first.y[-1])
    moves = f"falls from {percent(start)} to {percent(end)}" if start > end else f"stays at {percent(start)}"
    n = first.y[0].n  # every point is of the same sets
    text = (
        f"Within {first.x[-1]:.0f} ms of the anchor {printable(first.name)} {moves}, over the {plain_number(n)} sets "
        "that reach that far."
    )
    return Finding(
        sentence=text + view.drawn_text(view.classifiers),
        how="The same number of frames lasts longer the slower the video; time makes different rates comparable.",
        paint=line_chart(series, "milliseconds on either side of the anchor", "accuracy", steps=True, whole=False),
        inches=(4.0, 3.9),
    )


@question("first_failure", "How long does a right answer last?")
def first_failure(view: View) -> Answer:
    """How far from the anchor right answers last."""
    models, words = view.drawn(view.classifiers), view.words
    series = lines_of(models, lambda one: ((row.distance, row.alive) for row in one.first_failure.survival))
    if not series:
        return Missing("no set has a right anchor and a member, so nothing can be followed.")

    started = [_from_one(line) for line in series]
    first = series[0]
    found = models[first.name].first_failure
    who = f"Of {counted(found.n, 'right anchor')} {printable(first.name)} loses"
    lasts = "more than half last to the end"
    if found.median is not None:
        lasts = f"half have failed {words.up_to(f'{found.median:.0f}')}"
    lost = f"{plain_number(found.events)} inside the set; {lasts}" if found.events else "none inside the set"
    return Finding(
        sentence=f"{who} {lost}." + view.drawn_text(view.classifiers),
        how="Kaplan–Meier: only sets whose anchor is right, counted until the first wrong frame on either side; a set "
        "that ends earlier counts as long as it was seen.",
        paint=line_chart(started, words.distance_label, "answers still right", steps=True, whole=words.is_video),
        inches=(3.8, 3.8),
    )


def _from_one(series: Series) -> Series:
    """The line from the anchor on, where every answer that counts is right."""
    if series.x[0] == 0:
        return series
    one = Estimate(value=1.0, low=1.0, high=1.0, n=series.y[0].n)
    return replace(series, x=[0.0, *series.x], y=[one, *series.y])


@question("comparison", "Which differences between models are real?")
def comparison(view: View) -> Answer:
    """Differences between models with their intervals."""
    rows = [row for row in view.results.comparison if is_known(row.difference) and not row.metric.startswith("map")]
    if not rows:
        few = len(view.classifiers) < 2
        return Missing("one model alone cannot be compared." if few else "nothing was compared.")
    metric = "acc_orig" if view.words.is_still else "acc_pmk"
    wanted = [row for row in rows if row.metric == metric] or rows
    # What the sentence below counts is drawn first, however small beside differences that could be chance.
    shown = sorted(wanted, key=lambda row: (not is_sure(row), -abs(value_of(row.difference))))[:_MOST_PAIRS]
    shown = [_better_first(row) for row in shown]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        axes.axvline(0, color=GREY, linewidth=1, zorder=1)
        for y, row in enumerate(shown):
            sure = is_sure(row)
            whisker(axes, y, row.difference, RIGHT if sure else GREY, marker="o" if sure else "d")
        limit = 15 if is_narrow else 26
        labels = [
            f"{short(printable(row.a), limit)} − {short(printable(row.b), limit)}"
            + (f" ({row.metric})" if len({one.metric for one in shown}) > 1 else "")
            for row in shown
        ]
        names_on_y(axes, labels, limit=34 if is_narrow else 66)
        what = view.words.metric(shown[0].metric)
        axes.set_xlabel("first − second, points" if is_narrow else f"{what}: first − second, points")
        in_points(axes)

    real = [row for row in wanted if is_sure(row)]
    text = f"{len(real)} of {len(wanted)} pairs differ beyond chance after Holm's correction (p < 0.05)."
    if real:
        top = max(real, key=lambda row: abs(value_of(row.difference)))
        text += f" {view.words.say(printable(top.sentence, limit=400))}" if top.sentence else ""
    if len(shown) < len(wanted):
        text += f" {len(shown)} are drawn, those beyond chance first; all are in tables/."
    height = 1.0 + 0.34 * len(shown)
    return Finding(
        sentence=text,
        how="Right of zero the first model is ahead. Paired: both models answer on the same sets; grey diamonds could "
        "be chance.",
        paint=paint,
        inches=(height, height + 0.3),
    )


def _better_first(row: Comparison) -> Comparison:
    """A pair beyond chance turned so that it reads as its sentence does: the model with more first."""
    found = row.difference
    if not is_sure(row) or value_of(found) >= 0:
        return row
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return replace(row, a=row.b, b=row.a, difference=replace(found, value=-value_of(found), low=low, high=high))
