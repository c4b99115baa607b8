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
    """Return the flips of every form against its reference."""
    forms = [form for _, *others in found(view) for form in others]
    if not forms:
        return Missing("no model has several forms in this run.")
    shown, rest = forms[:MOST_FORMS], len(forms) - MOST_FORMS
    marks = [mark for mark in _MARKS if any(mark[0] in form.pair for form in shown)]
    worst, *_ = extreme(forms, lambda form: _value(form, marks), lambda form: form.model)
    height = 1.3 + 0.5 * len(shown)
    return FigureContent(
        sentence=sentence(worst),
        how="Answers of both forms to the same frames, with 95 % intervals over videos. Two forms with the same "
        "accuracy can still disagree on many frames." + (f" {rest} more forms: tables/forms.csv." if rest > 0 else ""),
        paint=row_chart(
            [ChartRow(label=form.model, marks=side_by_side(_marks(form, marks))) for form in shown],
            Scale(label="share of frames or objects, against the reference", low=0),
            keys=[LegendKey(name=name, colour=colour, marker=marker) for _, name, colour, marker in marks],
        ),
        inches=(height, height + 0.4),
    )


Shape = tuple[str, str, str, str]


def _value(form: FormScore, marks: Sequence[Shape]) -> float:
    """Return the first figure of a form, or −1."""
    return next((form.pair[name].value or 0.0 for name, *_ in marks if name in form.pair), -1.0)


def _marks(form: FormScore, marks: Sequence[Shape]) -> list[Mark]:
    return [Mark(value=form.pair.get(name), colour=colour, marker=marker) for name, _, colour, marker in marks]
