"""Show which sets changed from one model to another: in words, as a table and as a figure."""

from collections.abc import Mapping

from strobe.analyses.comparison import WHOLE_SETS, Change, Comparison, change
from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.report.charts import Bar, strip
from strobe.report.charts_lines import bands_text, line_chart, lines_of
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import GREY, RIGHT, WRONG
from strobe.report.view import View
from strobe.report.wording import counted, is_known, p_text, plain_number, points, turned, value_of, with_interval


def find_change(view: View) -> Change | None:
    """Return the change that the page reports, or None if no pair was chosen or no comparison exists."""
    rows = _rows(view)
    whole = next((row for row in rows if row.metric in WHOLE_SETS), None)
    return change(whole, before=view.change[0]) if whole and view.change else None


def _rows(view: View) -> list[Comparison]:
    return [row for row in view.results.comparison if view.change and {row.a, row.b} == set(view.change)]


def change_content(view: View) -> Mapping[str, object] | None:
    """Return the chosen pair and its table: every measure for both models, with the difference and the p value of the
    paired test.

    Return None if no pair was chosen, or if every set is a single image.
    """
    pair_change = find_change(view)
    if pair_change is None or view.words.is_still:
        return None
    before, after = (view.results.models[name].headline for name in (pair_change.before, pair_change.after))
    rows = []
    for old, new, row in zip(before, after, _rows(view), strict=False):
        difference = row.difference if row.a == pair_change.after else turned(row.difference)
        figures = map(with_interval, (old, new, difference))
        rows.append([view.words.metric(row.metric), *figures, p_text(row.p_holm)])
    names = [printable(pair_change.before), printable(pair_change.after)]
    note = (
        f"Both models on the same {plain_number(pair_change.n_sets)} sets, in per cent. Differences are in points. "
        "Their intervals and p come from the paired test, corrected for the number of pairs (Holm). Where p is 1, the "
        "interval is simultaneous: it is at the level of all pairs together."
    )
    title = f"Before and after: {' → '.join(names)}"
    return {"change": pair_change, "table": (title, ["Measure", *names, "After − before", "p"], rows, [note])}


@question("before_after", "Which sets change?")
def before_after(view: View) -> Answer:
    """Show every set once, as held by both models, newly held, newly broken, or held by neither."""
    pair_change = find_change(view)
    if pair_change is None:
        return Missing("no two models were chosen as before and after.")
    held = _held(view, pair_change)
    parts = [
        Bar(note="held by both", value=held - pair_change.newly_broken, colour=RIGHT),
        Bar(note="newly held", value=pair_change.newly_held, colour=RIGHT, alpha=0.45),
        Bar(note="newly broken", value=pair_change.newly_broken, colour=WRONG),
        Bar(
            note="held by neither",
            value=max(pair_change.n_sets - held - pair_change.newly_held, 0),
            colour=GREY,
            alpha=0.55,
        ),
    ]
    net = pair_change.newly_held - pair_change.newly_broken
    gain = "as many sets as before" if not net else f"{counted(abs(net), 'set')} {'more' if net > 0 else 'fewer'}"
    held_means = "A set is held if the model is right on its anchor and on every other frame."
    if pair_change.detection:
        held_means = "A detector holds a set if AP is above 0 on the anchor and no frame has a lower AP."
    return FigureContent(
        sentence=f"{pair_change.sentence()} {printable(pair_change.after)} holds {gain}.",
        how=f"Every set is counted once. Newly held: only the second model holds it. Newly broken: only the first "
        f"model holds it. {held_means}",
        paint=strip(parts, "sets"),
        inches=(1.75, 2.5),
    )


@question("before_after_curve", "At which distance from the anchor does the second model gain?")
def before_after_curve(view: View) -> Answer:
    """Show the curves of the two models in a figure of their own if the page's other curves show more models."""
    pair_change = find_change(view)
    if pair_change is None or len(view.detectors if pair_change.detection else view.classifiers) < 3:
        return Missing("the other curves of the page already show the two models.")
    pair = (pair_change.before, pair_change.after)
    if pair_change.detection:
        boxes = {name: view.detectors[name] for name in pair}
        series = lines_of(boxes, lambda one: ((row.k, row.map) for row in one.curve))
    else:
        classes = {name: view.classifiers[name] for name in pair}
        series = lines_of(classes, lambda one: ((row.k, row.acc) for row in one.curve))
    if len(series) < 2:
        return Missing("one of the two models has no curve.")
    near, far = (value_of(series[1].y[place]) - value_of(series[0].y[place]) for place in (0, -1))
    who = printable(pair_change.after)
    return FigureContent(
        sentence=f"On the anchors, {who} {_gains(near)}; {view.words.within}, it {_gains(far)}.",
        how="Both models as k grows. A gain that appears only at large k is a gain in robustness. A gain of the same "
        "size at every k is a gain in accuracy." + bands_text(series),
        paint=line_chart(series, view.words.k_label, "map_pmk" if pair_change.detection else "acc_pmk"),
        inches=(3.8, 3.9),
    )


def _gains(gain: float) -> str:
    """Return a gain in words. A gain below a twentieth of a point counts as no gain."""
    if abs(gain) < 0.0005:
        return "gains nothing"
    return f"{'gains' if gain > 0 else 'loses'} {points(abs(gain))}"


def _held(view: View, found: Change) -> int:
    """Return the number of sets that the earlier model holds."""
    model = view.results.models[found.before]
    if found.detection:
        return sum(row.status == "holds" for row in getattr(model, "chosen_frames", ()))
    pmk = model.headline.pmk
    return round(value_of(pmk) * pmk.n) if is_known(pmk) else found.newly_broken
