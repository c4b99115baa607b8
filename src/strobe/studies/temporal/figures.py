"""Plots of accuracy: by k, by time, as a survival curve, and for pairs of models."""

from dataclasses import replace

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import ChartRow, Scale, row_chart, sure_mark
from strobe.report.charts_lines import (
    Series,
    bands_text,
    line_chart,
    lines_of,
)
from strobe.report.drawing import Answer, FigureContent, question, why_none
from strobe.report.view import View
from strobe.report.wording import (
    better_first,
    counted,
    extreme,
    is_known,
    is_sure,
    percent,
    plain_number,
    short,
    value_of,
)

_MOST_PAIRS = 15


@question("curve", "How fast does accuracy fall as the set grows?")
def curve(view: View) -> Answer:
    """Accuracy against k."""
    models, words = view.drawn(view.classifiers), view.words
    series = lines_of(models, lambda one: ((point.k, point.acc) for point in one.curve))
    if not series:
        return Missing(why_none(view, "curve", "these results have no accuracy by k."))

    first = series[0]
    start, end = value_of(first.y[0]), value_of(first.y[-1])
    half = next((x for x, e in zip(first.x, first.y, strict=True) if start - value_of(e) >= (start - end) / 2), None)
    reach = words.up_to(f"{first.x[-1]:.0f}")
    text = (
        f"{printable(first.name)} falls from {percent(start)} on the anchors to {percent(end)} on sets {reach}"
        if start > end
        else f"{printable(first.name)} stays at {percent(start)}, from the anchors alone to sets {reach}"
    )
    if start > end and half and half < first.x[-1]:
        text += f"; half of the loss occurs {words.up_to(f'{half:.0f}')}"
    return FigureContent(
        sentence=text + "." + view.drawn_text(view.classifiers),
        how="The curve starts at acc_orig (k = 0). It can only fall, because a larger set has more chances to fail."
        + bands_text(series),
        paint=line_chart(series, words.k_label, "acc_pmk"),
        inches=(4.0, 3.9),
    )


@question("time_curve", "How fast does accuracy fall with time?")
def time_curve(view: View) -> Answer:
    """Accuracy against milliseconds."""
    models = view.drawn(view.classifiers)
    curves = {name: model.time_curve for name, model in models.items()}
    series = lines_of(
        curves, lambda one: () if isinstance(one, Missing) else ((point.ms, point.acc) for point in one.points)
    )
    if not series:
        reasons = {one.reason for one in curves.values() if isinstance(one, Missing)} - {""}
        why = f" ({printable(sorted(reasons)[0])})" if reasons else ""
        return Missing(f"this data has no accuracy by time{why}.")

    first = series[0]
    start, end = value_of(first.y[0]), value_of(first.y[-1])
    moves = f"falls from {percent(start)} to {percent(end)}" if start > end else f"stays at {percent(start)}"
    n = first.y[0].n  # every point uses the same sets
    text = (
        f"Within {first.x[-1]:.0f} ms of the anchor, {printable(first.name)} {moves}. This uses the "
        f"{counted(n, 'set')} that extend that far on at least one side."
    )
    return FigureContent(
        sentence=text + view.drawn_text(view.classifiers),
        how="The same number of frames spans more time in a video with a low frame rate. On a time axis, different "
        "frame rates are comparable." + bands_text(series),
        paint=line_chart(series, "milliseconds on either side of the anchor", "accuracy", steps=True, whole=False),
        inches=(4.0, 3.9),
    )


@question("first_failure", "How long does a right answer last?")
def first_failure(view: View) -> Answer:
    """The distance from the anchor up to which answers stay right."""
    models, words = view.drawn(view.classifiers), view.words
    series = lines_of(models, lambda one: ((row.distance, row.alive) for row in one.first_failure.survival))
    if not series:
        return Missing(why_none(view, "first_failure", "no set has both a right anchor and another member."))

    started = [_from_one(line) for line in series]
    first = series[0]
    found = models[first.name].first_failure
    who = f"{printable(first.name)} has {counted(found.n, 'right anchor')}"
    lasts = "more than half of the answers stay right to the end"
    if found.median is not None:
        lasts = f"half of the answers fail {words.up_to(f'{found.median:.0f}')}"
    lost = f"In {plain_number(found.events)} of these sets, a frame is wrong; {lasts}"
    if not found.events:
        lost = "None of these sets has a wrong frame"
    return FigureContent(
        sentence=f"{who}. {lost}." + view.drawn_text(view.classifiers),
        how="Kaplan–Meier estimate over sets whose anchor is right, up to the first wrong frame on either side. A set "
        "that ends without a wrong frame is censored at its last frame." + bands_text(series),
        paint=line_chart(started, words.distance_label, "answers still right", steps=True, whole=words.is_video),
        inches=(3.8, 3.8),
    )


def _from_one(series: Series) -> Series:
    """Return the line that starts at the anchor, where every counted answer is right."""
    if series.x[0] == 0:
        return series
    estimate = Estimate(value=1.0, low=1.0, high=1.0, n=series.y[0].n)
    return replace(series, x=[0.0, *series.x], y=[estimate, *series.y])


@question("comparison", "Which differences between models are significant?")
def comparison(view: View) -> Answer:
    """The differences between models with their intervals."""
    rows = [row for row in view.results.comparison if is_known(row.difference) and not row.metric.startswith("map")]
    if not rows:
        few = len(view.classifiers) < 2
        return Missing("a comparison needs at least two models." if few else "no models were compared.")
    metric = "acc_orig" if view.words.is_still else "acc_pmk"
    wanted = [row for row in rows if row.metric == metric] or rows
    # The differences that the sentence below counts are drawn first, even if they are small.
    listed = view.listed(wanted, _MOST_PAIRS)
    shown = sorted(listed, key=lambda row: (not is_sure(row), -abs(value_of(row.difference))))[:_MOST_PAIRS]
    shown = [better_first(row) for row in shown]

    several = len({one.metric for one in shown}) > 1
    labels = [
        [
            f"{short(printable(row.a), limit)} − {short(printable(row.b), limit)}"
            + (f" ({row.metric})" if several else "")
            for row in shown
        ]
        for limit in (26, 15)
    ]
    chart = [
        ChartRow(label=wide, narrow=narrow, marks=(sure_mark(row.difference, is_sure(row)),))
        for wide, narrow, row in zip(*labels, shown, strict=True)
    ]
    sides = "first − second, points"
    scale = Scale(label=f"{view.words.metric(shown[0].metric)}: {sides}", narrow=sides, unit="points", zero=0)
    real = [row for row in wanted if is_sure(row)]
    pairs = f"{plain_number(len(wanted))} pairs differ"
    text = f"{plain_number(len(real)) if real else 'None'} of {pairs} significantly after Holm’s correction (p < 0.05)."
    if len(wanted) == 1:
        text = f"The two {'differ' if real else 'do not differ'} significantly (p < 0.05)."
    if real:
        top = extreme(real, lambda row: abs(value_of(row.difference)), str)[0]
        said = view.words.say(printable(top.sentence, limit=400), names=(top.a, top.b))
        text += f" {said}" if said else ""
    if len(shown) < len(wanted):
        part = f" of the {len(listed)} pairs of models shown" if len(listed) < len(wanted) else ""
        text += f" The figure shows {len(shown)}{part}, significant differences first; tables/ has all."
    height = 1.0 + 0.34 * len(shown)
    return FigureContent(
        sentence=text,
        how="To the right of zero, the first model is better. The test is paired: both models answer the same sets. "
        "Grey diamonds are not significant.",
        paint=row_chart(chart, scale, limits=(66, 34)),
        inches=(height, height + 0.3),
    )
