"""Figures of the effect of review."""

from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.drawing import Answer, FigureContent, names_on_y, offset_chart, offset_lines, per_cent, question
from strobe.report.figures_classes import dumbbell
from strobe.report.view import View
from strobe.report.wording import is_known, percent, points, short, value_of


@question("review_impact", "How does review change the drop?")
def review_impact(view: View) -> Answer:
    """The effect of review: the drop for all candidates, for kept anchors, and for kept anchors with kept members."""
    impacts = {}
    for model, one in view.drawn(view.classifiers).items():
        if (impact := one.review_impact) is not None:
            stages = (("before review", impact.a), ("kept anchors, all frames", impact.b), ("after review", impact.c))
            if known := [(meaning, stage) for meaning, stage in stages if is_known(stage.drop)]:
                impacts[model] = known, impact.drop_difference
    if not impacts:
        return Missing("this needs a dataset with votes, scored with --compare-review.")
    flat = [(model, meaning, stage) for model, (rows, _) in list(impacts.items())[:4] for meaning, stage in rows]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for y, (_, _, stage) in enumerate(flat):
            dumbbell(axes, y, (stage.acc_orig, stage.acc_pmk), ("acc_orig", "acc_pmk"), zorder=2)
        cut = 12 if is_narrow else 20
        names = [(f"{short(printable(model), cut)}: " if len(impacts) > 1 else "") + text for model, text, _ in flat]
        names_on_y(axes, names, limit=46)
        axes.set_xlabel("accuracy")
        per_cent(axes, which="x")
        figure.legend(loc="outside upper left", ncols=2, borderaxespad=0.2)

    model, (rows, gap) = next(iter(impacts.items()))
    stage_text = {"kept anchors, all frames": "with the kept anchors and all their frames"}
    text = ", ".join(f"{points(stage.drop)} {stage_text.get(meaning, meaning)}" for meaning, stage in rows)
    height = 1.0 + 0.34 * len(flat)
    return FigureContent(
        sentence=f"The drop of {printable(model)} is {text}"
        + (f"; review accounts for {points(gap)}{_between(gap)}." if is_known(gap) else "."),
        how="In review, people removed wrong labels and frames that do not look like their anchor. Without review, "
        "some counted errors are not errors of the model.",
        paint=paint,
        inches=(height, height),
    )


def _between(gap: Estimate) -> str:
    """Return the interval of a difference in points, if it is known."""
    return "" if gap.low is None or gap.high is None else f" (95 %: {points(gap.low)} to {points(gap.high)})"


@question("review_offsets", "At which distance does review change the error?")
def review_offsets(view: View) -> Answer:
    """Error by offset before and after review."""
    drawn = view.drawn(view.classifiers).items()
    model, impact = next(((name, one.review_impact) for name, one in drawn if one.review_impact), ("", None))
    stages = {} if impact is None else {"after review": impact.c.per_offset, "before review": impact.a.per_offset}
    series = offset_lines(stages)[::-1]
    if len(series) < 2:
        return Missing("this needs a dataset with votes, scored with --compare-review.")

    before, after = (sum(value_of(one) for one in line.y) / len(line.y) for line in series)
    return FigureContent(
        sentence=f"On average over all offsets, the error of {printable(model)} is {percent(before)} before review and "
        f"{percent(after)} after it.",
        how="The average is not weighted. Review removes wrong labels and frames that do not look like their anchor.",
        paint=offset_chart(series, view.words),
        inches=(3.6, 3.8),
    )
