"""Figures of the effect of review."""

from strobe.analyses.published import condition_rows
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import Scale, dumbbell, dumbbell_keys, row_chart
from strobe.report.charts_lines import offset_chart, offset_lines
from strobe.report.drawing import Answer, FigureContent, question
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
    printed = condition_rows("review", view.results.dataset.name)
    flat = [(model, meaning, stage) for model, (rows, _) in list(impacts.items())[:4] for meaning, stage in rows]
    names = [
        [(f"{short(printable(model), cut)}: " if len(impacts) > 1 else "") + text for model, text, _ in flat]
        for cut in (20, 12)
    ]
    chart = [
        dumbbell(wide, stage.acc_orig.value, stage.acc_pmk.value, narrow=narrow)
        for wide, narrow, (_, _, stage) in zip(*names, flat, strict=True)
    ]
    model, (rows, gap) = next(iter(impacts.items()))
    stage_text = {"kept anchors, all frames": "with the kept anchors and all their frames"}
    text = ", ".join(f"{points(stage.drop)} {stage_text.get(meaning, meaning)}" for meaning, stage in rows)
    chart += [
        dumbbell(f"published: {one.condition}", one.acc_orig / 100, one.acc_pm10 / 100, is_own=False) for one in printed
    ]
    height = 1.0 + 0.34 * len(chart)
    return FigureContent(
        sentence=f"The drop of {printable(model)} is {text}"
        + (f"; review accounts for {points(gap)}{_between(gap)}." if is_known(gap) else "."),
        how="In review, people removed wrong labels and frames that do not look like their anchor. Without review, "
        "some counted errors are not errors of the model."
        + (" Grey: the papers' fine-tuned ResNet-152, k = 10." if printed else ""),
        paint=row_chart(
            chart,
            Scale(label="accuracy"),
            limits=(46, 46),
            keys=dumbbell_keys("acc_orig", "acc_pmk"),
            rules=(len(flat) - 0.5,) if printed else (),
        ),
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
