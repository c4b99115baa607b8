"""The plot of the forms of a model: what each form changes against the reference."""

from collections.abc import Sequence

from strobe.core.estimate import Missing
from strobe.report.charts import ChartRow, LegendKey, Mark, Scale, row_chart, side_by_side
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import GREY, RIGHT, WRONG
from strobe.report.view import View
from strobe.report.wording import extreme
from strobe.studies.forms.records import FormScore
from strobe.studies.forms.words import found, sentence

MOST_FORMS = 24

_MARKS = (
    ("negative_flips", "right → wrong (negative flips)", WRONG, "D"),
    ("positive_flips", "wrong → right", RIGHT, "o"),
    ("changed", "changed", GREY, "s"),
    ("objects_lost", "lost", WRONG, "D"),
    ("objects_found", "found", RIGHT, "o"),
    ("objects_relabelled", "relabelled", GREY, "s"),
)
"""The measures in a row: name, legend, colour and marker."""


@question("forms", "What does each form change?")
def forms_figure(view: View) -> Answer:
    """Return the flips of every form against its reference, one figure for each model with several forms."""
    every = found(view)
    if not every:
        return Missing("no model has several forms in this run.")
    numbers = range(1, len(every) + 1) if len(every) > 1 else [None]
    return [_figure(first, others, number) for number, (first, *others) in zip(numbers, every, strict=True)]


def _figure(first: FormScore, others: Sequence[FormScore], number: int | None) -> FigureContent:
    shown, rest = others[:MOST_FORMS], len(others) - MOST_FORMS
    names = {name for form in shown for name in form.pair}
    marks = [mark for mark in _MARKS if mark[0] in names]
    worst, *_ = extreme(others, lambda form: _value(form, marks[0][0]) if marks else 0.0, lambda form: form.model)
    height = 1.3 + 0.5 * len(shown)
    what = f"share of frames, against {first.model}" if "changed" in names else "share of objects"
    return FigureContent(
        sentence=sentence(worst),
        how="Answers of both forms to the same frames, with 95 % intervals over videos. Two forms with the same "
        "accuracy can still disagree on many frames." + (f" {rest} more forms: tables/forms.csv." if rest > 0 else ""),
        paint=row_chart(
            [ChartRow(label=form.model, marks=side_by_side(_marks(form, marks))) for form in shown],
            Scale(label=what, low=0),
            keys=[LegendKey(name=name, colour=colour, marker=marker) for _, name, colour, marker in marks],
        ),
        inches=(height, height + 0.4),
        choice="" if number is None else first.model,
        number=number,
    )


def _value(form: FormScore, name: str) -> float:
    return value if name in form.pair and (value := form.pair[name].value) is not None else -1.0


def _marks(form: FormScore, marks: Sequence[tuple[str, str, str, str]]) -> list[Mark]:
    return [Mark(value=form.pair.get(name), colour=colour, marker=marker) for name, _, colour, marker in marks]
