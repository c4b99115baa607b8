"""The sentences and tables of the forms of a model, for page and terminal."""

from collections.abc import Sequence
from itertools import groupby

from strobe.analyses.measures import measures_of
from strobe.core.codec import decode
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.metrics.object_changes import MOVED
from strobe.report.view import Lines, View
from strobe.report.wording import NONE, join, measured, percent, plain_number, with_interval
from strobe.studies.forms.records import FormScore

NAME = "forms"
TITLE = "What changes when it ships"
TERMS = (
    ("Form", "The same model in another file, runtime, precision or with other frames."),
    ("Negative flip", "A frame that the reference gets right and another form gets wrong. Positive: the other way."),
)
_SHOWN = 5
_OWN = ("acc_pmk", "map_pmk", "flip_rate", "flicker")
_LOST = (
    ("objects_lost", "the objects of {} are lost"),
    ("objects_found", "its own objects are new"),
    ("objects_relabelled", "the objects that both find have another class"),
)


def found(view: View) -> list[list[FormScore]]:
    """Return the forms of each model in the results, the reference first."""
    records = (view.results.studies or {}).get(NAME, ())
    forms = [decode(FormScore, record, where=f"studies.{NAME}") for record in records]
    return [list(group) for _, group in groupby(forms, lambda form: form.reference)]


def differs_text(one: FormScore) -> str:
    """Return what differs from the reference.

    >>> differs_text(FormScore(reference="b", model="a"))
    'nothing that the facts state'
    """
    return "; ".join(printable(text, limit=160) for text in one.differs) or "nothing that the facts state"


def sentence(one: FormScore) -> str:
    """Return what one form changes against the reference, in one or two sentences."""
    name, reference, pair = printable(one.model, limit=60), printable(one.reference, limit=60), one.pair
    if (changed := pair.get("changed")) is None:
        parts = [f"{measured(pair[measure])} of {what.format(reference)}" for measure, what in _LOST if measure in pair]
        return f"{name}: {join(parts)}." if parts else f"{name} and {reference} share no object."
    if changed.value == 0:
        return f"{name} gives the same answer as {reference} on all {plain_number(changed.n)} frames."
    text = f"{name} gives another answer than {reference} on {measured(changed)} of the frames."
    negative, positive = pair.get("negative_flips"), pair.get("positive_flips")
    if negative is None or positive is None:
        return text
    return f"{text} {measured(negative)} were right and are now wrong, {percent(positive)} the other way."


def form_lines(view: View, *, on_page: bool = False) -> list[Lines]:
    """Return, for each model, the table of its forms, and on the page the classes and sets with most flips."""
    out: list[Lines] = []
    for first, *others in found(view):
        out.append(_table(view, first, others))
        out += [_counts(form) for form in others if on_page and form.flips]
    return out


def _table(view: View, first: FormScore, others: Sequence[FormScore]) -> Lines:
    every = [first, *others]
    names = [measure.name for measure in measures_of("forms") if measure.headline]
    pairs = [name for name in names if any(name in form.pair for form in others)]
    own = {name: {form.model: _own(view, form.model, name) for form in every} for name in _OWN}
    own = {name: figures for name, figures in own.items() if any(figures.values())}
    rows = [
        [
            printable(form.model, limit=60),
            *("" if form is first else with_interval(form.pair.get(name)) for name in pairs),
            *(with_interval(figures[form.model]) for figures in own.values()),
            NONE if form.frames_per_second is None else f"{form.frames_per_second:.1f}",
            NONE if form.size is None else f"{form.size / 1e6:.1f}",
        ]
        for form in every
    ]
    columns = ["form", *pairs, *map(view.words.metric, own), "frames/s", "MB"]
    reference = printable(first.model, limit=60)
    notes = [f"{sentence(form)} It differs in: {differs_text(form)}." for form in others]
    notes.append(
        f"% [95 % interval], paired with {reference} by frame; frames/s: forward passes alone; models of one command "
        "share the machine"
    )
    if "objects_moved" in pairs:
        notes.append(f"objects: boxes with a score of 0.5 or more; moved: the boxes overlap by less than {MOVED:g}")
    return f"Forms of {reference}", columns, rows, notes


def _own(view: View, model: str, name: str) -> Estimate | None:
    """Return a figure of the form itself, from the results of its task or from its flicker."""
    flicker = view.results.flicker
    places = [view.results.models.get(model), None if flicker is None else flicker.models.get(model)]
    return next((figure for place in places if isinstance(figure := getattr(place, name, None), Estimate)), None)


def _counts(form: FormScore) -> Lines:
    kinds = [kind for kind in ("negative", "positive") if f"{kind}_flips" in form.pair]
    rows = [counts for by in ("class", "set") for counts in [one for one in form.flips if one.by == by][:_SHOWN]]
    cells = [
        [
            f"{row.by} {printable(row.name, limit=60)}",
            *(plain_number(getattr(row, kind)) for kind in ("frames", *kinds, "changed")),
        ]
        for row in rows
    ]
    columns = ["", "frames", *(f"{kind} flips" for kind in kinds), "changed"]
    rest = len(form.flips) - len(rows)
    notes = [f"{rest} more: tables/form_flips.csv"] if rest > 0 else []
    return f"Which classes and sets? {printable(form.model, limit=60)}", columns, cells, notes
