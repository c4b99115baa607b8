"""The classes that lose the most: a dumbbell chart for each classifier and each detector."""

from collections.abc import Callable, Mapping, Sequence

from strobe.analyses.model_results import ClassAp, ClassScore, ModelResult
from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.report.charts import ChartRow, Mark, Scale, dumbbell, dumbbell_keys, row_chart
from strobe.report.drawing import Answer, FigureContent, Paint, question
from strobe.report.style import GREY, RIGHT
from strobe.report.view import View
from strobe.report.wording import both_ends, extreme, is_known, percent, points, value_of

MOST_CLASSES = 40
"""The largest number of classes in one figure. If there are more, the figure shows the classes that lose most."""

_LIMITS = (30, 20)
"""The most characters of a class's name, wide and narrow."""

Row = ClassScore | ClassAp


_HOW = (
    "The number of {unit}s is in brackets. Classes with fewer than 10 {unit}s are too small to rank. They come last, "
    "are paler and are marked *."
)


@question("per_class", "Which classes flicker?")
def per_class(view: View) -> Answer:
    """One chart per classifier: original and perturbed accuracy of every class."""
    how = _HOW.format(unit="set") + " A set counts in every class of its anchor."
    names = ("acc_orig", f"acc_pmk (k = {view.results.dataset.k})")
    if view.variants:
        how, names = _HOW.format(unit="image"), ("original images", "under every variant")
    charts = _losses(view.drawn(view.classifiers), names, "accuracy", how, _loses)
    return charts or Missing("no class has a scored set.")


def _losses(
    models: Mapping[str, ModelResult],
    names: tuple[str, str],
    xlabel: str,
    how: str,
    sentence: Callable[[str, Sequence[Row]], str],
) -> list[FigureContent]:
    """Return a chart per model with the classes that lose most."""
    findings = []
    for number, (model, data) in enumerate(models.items(), start=1):
        rows = [row for row in data.per_class if is_known(*row.headline[:2])]
        rows.sort(key=lambda row: (row.small, -value_of(row.headline.pmk), -value_of(row.headline.orig), row.name))
        if rows:
            kept, more = _readable(rows, "that lose most", key=_lost)
            findings.append(
                _finding(model, number, kept, sentence(model, rows) + more, how, _chart(kept, names, xlabel))
            )
    return findings


def _loses(model: str, rows: Sequence[Row]) -> str:
    worst, among, _, tie = _worst(rows)
    if _lost(worst) <= 0:
        return f"{printable(model)} has no drop{among or ' in any class'}."
    text = _most(model, rows) + ("" if tie else f" ({points(_lost(worst))}, n = {worst.headline.orig.n})")
    steady = sum(1 for row in rows if row.headline.orig.value == row.headline.pmk.value)
    return text + (f"; {steady} of {len(rows)} classes have no drop." if steady else ".")


@question("detection_class", "Which classes lose most?")
def detection_class(view: View) -> Answer:
    """One chart per detector: AP of every class on anchors and worst frames."""
    ends = ("ap_orig: anchors", f"ap_pmk: worst frames (k = {view.results.dataset.k})")
    how = _HOW.format(unit="anchor")
    charts = _losses(view.drawn(view.detectors), ends, "average precision", how, lambda *of: f"{_most(*of)}.")
    return charts or Missing("no class has an AP on both anchors and worst frames.")


@question("class_accuracy", "How accurate is each model by class?")
def class_accuracy(view: View) -> Answer:
    """One chart per model, for sets of a single image: the accuracy or AP of every class, with intervals."""
    findings = []
    models: list[tuple[str, Sequence[Row], str]] = [
        (name, one.per_class, "accuracy") for name, one in view.drawn(view.classifiers).items()
    ]
    models += [(name, one.per_class, "average precision") for name, one in view.drawn(view.detectors).items()]
    for number, (model, every, what) in enumerate(models, start=1):
        rows = [row for row in every if is_known(row.headline.orig)]
        rows.sort(key=lambda row: (row.small, -value_of(row.headline.orig), row.name))
        if rows:
            how = _HOW.format(unit="image") + " An image counts in every class it has."
            how += " Lines are 95 % intervals." if any(row.headline.orig.low is not None for row in rows) else ""
            kept, more = _readable(rows, "it gets right least often", key=lambda row: -value_of(row.headline.orig))
            findings.append(_finding(model, number, kept, _best_and_worst(model, rows) + more, how, _dots(kept, what)))
    return findings or Missing("no class has a scored image.")


def _readable(rows: Sequence[Row], which: str, *, key: Callable[[Row], float]) -> tuple[Sequence[Row], str]:
    """Return as many classes as fit, in the given order, and a sentence if some classes are omitted."""
    if len(rows) <= MOST_CLASSES:
        return rows, ""
    ranked = [row for row in rows if not row.small] or rows
    first = sorted(ranked, key=key, reverse=True)[:MOST_CLASSES]
    enough = ", among those with ten or more" if len(ranked) < len(rows) else ""
    text = f" The figure shows the {len(first)} of {len(rows)} classes {which}{enough}"
    return [row for row in rows if any(row is one for one in first)], f"{text}; all are in tables/."


def _best_and_worst(model: str, rows: Sequence[Row]) -> str:
    ranked = [row for row in rows if not row.small]
    if not ranked:
        every, none = (sum(row.headline.orig.value == value for row in rows) for value in (1, 0))
        counts = (
            f"{printable(model)} reaches 100 % on {every or 'none'} of {len(rows)} classes and 0 % on {none or 'none'}"
        )
        return f"Every class has fewer than ten images, too few to rank. {counts}."
    (worst, bottom, tie), (best, top, _) = both_ends(
        ranked, lambda row: value_of(row.headline.orig), lambda row: row.name or row.label
    )
    if top == bottom:
        return f"{printable(model)} scores the same on every class: {percent(best.headline.orig)}."
    among = ", among classes with ten images or more" if len(ranked) < len(rows) else ""
    ends = [f"{names} ({percent(row.headline.orig)}" for names, row in ((top, best), (bottom, worst))]
    n = "" if tie else f", n = {worst.headline.orig.n}"
    return f"{printable(model)} does best on {ends[0]}) and worst on {ends[1]}{n}){among}."


def _dots(rows: Sequence[Row], xlabel: str) -> Paint:
    marks = [Mark(value=row.headline.orig, colour=GREY if row.small else RIGHT) for row in rows]
    chart = [ChartRow(label=_label(row), marks=(mark,)) for row, mark in zip(rows, marks, strict=True)]
    return row_chart(chart, _scale(xlabel), limits=_LIMITS)


def _label(row: Row) -> str:
    return f"{row.name or row.label} ({row.headline.orig.n}{'*' if row.small else ''})"


def _scale(xlabel: str) -> Scale:
    return Scale(label=xlabel, low=-0.02, high=1.02)


def _finding(model: str, number: int, rows: Sequence[Row], sentence: str, how: str, paint: Paint) -> FigureContent:
    height = 0.9 + 0.27 * len(rows)
    return FigureContent(sentence=sentence, how=how, paint=paint, inches=(height, height), choice=model, number=number)


def _chart(rows: Sequence[Row], names: tuple[str, str], xlabel: str) -> Paint:
    """Draw a dumbbell per class. Small classes are paler."""
    chart = [
        dumbbell(_label(row), *(one.value for one in row.headline[:2]), alpha=0.5 if row.small else 1.0) for row in rows
    ]
    return row_chart(chart, _scale(xlabel), limits=_LIMITS, keys=dumbbell_keys(*names))


def _lost(row: Row) -> float:
    return value_of(row.headline.orig) - value_of(row.headline.pmk)


def _worst(rows: Sequence[Row]) -> tuple[Row, str, str, bool]:
    """Return the class that loses the most, the classes from which it was chosen, its name, and whether others tie.

    Classes with enough sets to rank are preferred.
    """
    ranked = [row for row in rows if not row.small] or rows
    worst, names, tie = extreme(ranked, _lost, lambda row: row.name or row.label)
    return worst, " among classes with ten sets or more" if len(ranked) < len(rows) else "", names, tie


def _most(model: str, rows: Sequence[Row]) -> str:
    """Return a sentence on the class where a model loses most.

    If there is only one class, or if the classes are too small to rank, the sentence ranks nothing.
    """
    worst, among, name, tie = _worst(rows)
    orig, pmk, _ = worst.headline
    ends = f"{points(_lost(worst))} each" if tie else f"from {percent(orig)} to {percent(pmk)}"
    if len(rows) == 1:
        return f"{printable(model)} goes {ends} on {name}, the only class"
    if all(row.small for row in rows):
        return f"Every class is too small to rank (n < 10). {printable(model)} loses most on {name}: {ends}"
    return f"{printable(model)} loses most on {name}{among}: {ends}"
