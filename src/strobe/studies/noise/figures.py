"""The plot of noise next to the flips between neighbouring frames."""

from strobe.core.estimate import Missing
from strobe.report.charts import ChartRow, Mark, Scale, dumbbell_keys, row_chart, side_by_side
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import WRONG
from strobe.report.view import View
from strobe.report.wording import both_ends, is_known, percent, value_of
from strobe.studies.noise.records import NoiseScore
from strobe.studies.noise.words import noise_sentence

MOST_MODELS = 24


@question("noise", "How much flicker is the model's own noise?")
def noise(view: View) -> Answer:
    """Return noise and flips of each model, the model with the least noise first."""
    found = dict(sorted(view.results.noise.items(), key=lambda pair: (value_of(pair[1].noise), pair[0])))
    if not found:
        return Missing("no model was asked several times about a frame.")
    shown = dict(list(found.items())[:MOST_MODELS])
    height = 1.3 + 0.42 * len(shown)
    flips = any(is_known(one.flips) for one in shown.values())
    keys = dumbbell_keys("the same frame, asked twice (noise)", "a frame and the next one (flips)")
    label = "pairs of answers that differ"
    rest = len(found) - len(shown)
    return FigureContent(
        sentence=_sentence(found),
        how="Both figures use all answers to the same frames, with 95 % intervals over videos. If a model guesses, the "
        "two are equal." + (f" {rest} more models: tables/noise.csv." if rest else ""),
        paint=row_chart(
            [_row(name, one) for name, one in shown.items()], Scale(label=label, low=0), keys=keys if flips else ()
        ),
        inches=(height, height + 0.3),
    )


def _sentence(found: dict[str, NoiseScore]) -> str:
    if len(found) == 1:
        return noise_sentence(*next(iter(found.items())))
    ((_, least), low, tie), ((_, most), high, ties) = both_ends(
        found.items(), lambda pair: value_of(pair[1].noise), lambda pair: pair[0]
    )
    if low == high:
        return f"All {len(found)} models have the same noise ({percent(least.noise)})."
    return (
        f"Of {len(found)} models, {low} {'have' if tie else 'has'} the least noise ({percent(least.noise)}), and "
        f"{high} {'have' if ties else 'has'} the most ({percent(most.noise)})."
    )


def _row(name: str, one: NoiseScore) -> ChartRow:
    marks = [Mark(value=one.noise, size=7)]
    if is_known(one.flips):
        marks.append(Mark(value=one.flips, colour=WRONG, marker="D"))
    return ChartRow(label=name, marks=side_by_side(marks))
