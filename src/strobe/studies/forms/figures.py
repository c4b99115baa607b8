"""The plot of the forms of a model: what each form changes against the reference."""

from collections.abc import Sequence

from strobe.core.estimate import Missing
from strobe.report.charts import ChartRow, LegendKey, Mark, Scale, row_chart, side_by_side
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import GREY, RIGHT, WRONG
from strobe.report.view import View
from strobe.report.wording import extreme
from strobe.studies.forms.records import Forms, FormScore
from strobe.studies.forms.words import found, sentence

MOST_FORMS = 24

_CLASSES = (
    ("negative_flips", "right → wrong (negative flips)", WRONG, "D"),
    ("positive_flips", "wrong → right", RIGHT, "o"),
    ("changed", "changed", GREY, "s"),
)
_OBJECTS = (
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
    return [_figure(forms, index if len(every) > 1 else None) for index, forms in enumerate(every, start=1)]


def _figure(forms: Forms, number: int | None) -> FigureContent:
    others = forms.forms[1:]
    shown, is_boxes = others[:MOST_FORMS], not any(one.agreement for one in others)
    marks = [mark for mark in (_OBJECTS if is_boxes else _CLASSES) if any(mark[0] in one.pair for one in shown)]
    worst, *_ = extreme(others, lambda one: _worst(one, [mark[0] for mark in marks]), lambda one: one.model)
    height = 1.3 + 0.5 * len(shown)
    rest = len(others) - len(shown)
    return FigureContent(
        sentence=sentence(forms, worst),
        how="Answers of both forms to the same frames, with 95 % intervals over videos. Two forms with the same "
        "accuracy can still disagree on many frames." + (f" {rest} more forms: tables/forms.csv." if rest else ""),
        paint=row_chart(
            [_row(one, marks) for one in shown],
            Scale(label="share of objects" if is_boxes else f"share of frames, against {forms.reference}", low=0),
            keys=[LegendKey(name=name, colour=colour, marker=marker) for _, name, colour, marker in marks],
        ),
        inches=(height, height + 0.4),
        choice=forms.reference if number is not None else "",
        number=number,
    )


def _worst(one: FormScore, names: Sequence[str]) -> float:
    return max((one.pair[name].value or 0.0 for name in names[:1] if name in one.pair), default=-1.0)


def _row(one: FormScore, marks: Sequence[tuple[str, str, str, str]]) -> ChartRow:
    points = [Mark(value=one.pair.get(name), colour=colour, marker=marker) for name, _, colour, marker in marks]
    return ChartRow(label=one.model, marks=side_by_side(points))
