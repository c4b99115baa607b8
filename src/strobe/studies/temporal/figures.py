"""Plots of accuracy: by k, by time, as a survival curve, and for pairs of models."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import ChartRow, Scale, row_chart, set_unit, sure_mark
from strobe.report.charts_lines import (
    Panel,
    Series,
    bands_text,
    line_chart,
    line_through,
    lines_of,
    panel_rows,
    put_lines,
    small_multiples,
    whole_numbers,
)
from strobe.report.drawing import Answer, FigureContent, question, why_none
from strobe.report.style import INK
from strobe.report.view import Subject, View
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
from strobe.studies.temporal.records import Smoothed

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


_METHODS = {
    "centred": ("centred window (looks ahead)", 0),
    "causal": ("causal window", 1),
    "ema": ("exponential average", 2),
    "centred vote": ("centred vote (looks ahead)", 0),
    "causal vote": ("causal vote", 1),
}


@question("smoothing", "Does smoothing over time help, and at what delay?")
def smoothing(view: View) -> Answer:
    """Perturbed accuracy against the delay that smoothing adds."""
    panels = [
        (model, rows)
        for model, one in view.drawn(view.classifiers, 6).items()
        if (rows := [row for row in one.smoothing if is_known(row.acc_pmk)])
    ]
    if not panels:
        return Missing(why_none(view, "smoothing", "these results have no smoothing."))

    wide, narrow = panel_rows(len(panels), (3, 1))
    return FigureContent(
        sentence=_sentence(*panels[0]),
        how=_how([row.method for _, rows in panels for row in rows], view.words),
        paint=small_multiples(
            [Panel(title=model, xlabel="delay, frames", paint=partial(_smoothed, rows)) for model, rows in panels],
            (3, 1),
            ylabel="acc_pmk",
            shared=(True, True),
            cut=True,
        ),
        inches=(0.9 + 2.7 * wide, 1.2 + 2.3 * narrow),
    )


def _smoothed(rows: Sequence[Smoothed], axes: Any) -> None:
    """Draw a line for each method. Every line starts without smoothing."""
    bare = [row for row in rows if row.method == "none"]
    for row in bare:
        axes.axhline(row.acc_pmk.value, color=INK, linewidth=1, linestyle=(0, (2, 2)), label="not smoothed")
    lines = []
    for method in dict.fromkeys(row.method for row in rows if row.method != "none"):
        used = [*bare, *(row for row in rows if row.method == method)]
        line = sorted(((row.delay_frames, row.acc_pmk) for row in used), key=lambda one: one[0])
        lines.append(line_through(*_METHODS.get(method, (method, 4)), line))
    put_lines(axes, lines, has_bands=False, is_small=True)
    whole_numbers(axes)
    set_unit(axes)


def _how(methods: Sequence[str], words: Subject) -> str:
    """Return how answers are smoothed: by probabilities, or by votes if a model gave only labels."""
    votes = any("vote" in method for method in methods)
    averages = any("vote" not in method and method != "none" for method in methods)
    what = "Probabilities are averaged" if averages else "Votes are counted"
    text = f"{what} over neighbouring frames"
    if words.reviewed != "none":
        text += ", including frames that reviewers rejected"
    if votes and averages:
        text += "; for models that gave only labels, votes are counted"
    return (
        f"{text}. A window that looks ahead must wait for future frames. The other methods use only past frames. Their "
        "delay is the mean age of these frames; for a causal window, it is half the window."
    )


def _sentence(model: str, rows: Sequence[Smoothed]) -> str:
    bare = next((row for row in rows if row.method == "none" or not row.delay_frames), rows[0])
    start = value_of(bare.acc_pmk)
    best: dict[str, Smoothed] = {}
    for row in rows:
        kind = "ahead" if "centred" in row.method else "past"
        if row.method != "none" and (kind not in best or value_of(row.acc_pmk) > value_of(best[kind].acc_pmk)):
            best[kind] = row
    if best and all(value_of(row.acc_pmk) <= start for row in best.values()):
        return f"Smoothing does not help {printable(model)}: no method exceeds its {percent(start)} without smoothing."
    parts = []
    if "ahead" in best:
        row = best["ahead"]
        frames = f"{row.delay_frames:g} frame" if row.delay_frames == 1 else f"{row.delay_frames:g} frames"
        parts.append(f"{percent(row.acc_pmk)} when looking ahead ({frames} of delay)")
    if "past" in best:
        parts.append(f"{percent(best['past'].acc_pmk)} with past frames only")
    if not parts:
        return f"{printable(model)} reaches {percent(start)}; no smoothing was tried."
    most = f"With the smoothing that is best on this data, it reaches {' and '.join(parts)}."
    return f"Without smoothing, {printable(model)} reaches {percent(start)}. {most}"
