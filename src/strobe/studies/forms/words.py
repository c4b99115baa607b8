"""The sentences and tables of the forms of a model, for page and terminal."""

from strobe.core.codec import decode
from strobe.core.errors import printable
from strobe.metrics.negative_flips import MOVED
from strobe.report.view import Lines, View
from strobe.report.wording import NONE, join, measured, percent, plain_number, with_interval
from strobe.studies.forms.records import FlipCounts, Forms, FormScore

NAME = "forms"
TITLE = "What changes when it ships"
TERMS = (
    ("Form", "The same model in another file, runtime, precision or with other frames."),
    ("Negative flip", "A frame that the reference gets right and another form gets wrong. Positive: the other way."),
    ("Agreement", "The share of frames to which two forms give the same answer."),
)
_SHOWN = 5


def found(view: View) -> tuple[Forms, ...]:
    """Return the forms in the results."""
    records = (view.results.studies or {}).get(NAME, ())
    return tuple(decode(Forms, record, where=f"studies.{NAME}") for record in records)


def differs_text(one: FormScore) -> str:
    """Return what differs from the reference.

    >>> differs_text(FormScore(model="a"))
    'nothing that the facts state'
    """
    return "; ".join(printable(text, limit=160) for text in one.differs) or "nothing that the facts state"


def sentence(forms: Forms, one: FormScore) -> str:
    """Return what one form changes against the reference, in one or two sentences."""
    who, reference = printable(one.model, limit=60), printable(forms.reference, limit=60)
    pair, agreement = one.pair, one.agreement
    if agreement is None:
        lost, new, other = (pair.get(name) for name in ("objects_lost", "objects_found", "objects_relabelled"))
        parts = [
            f"{measured(value)} of {what}"
            for value, what in (
                (lost, f"the objects of {reference} are lost"),
                (new, "its own objects are new"),
                (other, "the objects that both find have another class"),
            )
            if value is not None
        ]
        return f"{who}: {join(parts)}." if parts else f"{who} and {reference} share no object."
    if agreement.value == 1:
        return f"{who} gives the same answer as {reference} on all {plain_number(agreement.n)} frames."
    text = f"{who} gives the same answer as {reference} on {measured(agreement)} of the frames."
    negative, positive = pair.get("negative_flips"), pair.get("positive_flips")
    if negative is None or positive is None:
        return text
    return f"{text} {measured(negative)} were right and are now wrong, {percent(positive)} the other way."


def form_lines(view: View, *, on_page: bool = False) -> list[Lines]:
    """Return, for each family, the table of its forms, and on the page the classes and sets with most flips."""
    out: list[Lines] = []
    for forms in found(view):
        out.append(_table(view, forms, on_page=on_page))
        if on_page:
            for form in forms.forms[1:]:
                has_labels = "negative_flips" in form.pair
                for title, rows in (("Which classes?", form.classes), ("Which sets?", form.sets)):
                    if rows:
                        out.append(_counts(f"{title} {printable(form.model, limit=60)}", rows, has_labels=has_labels))
    return out


def _table(view: View, forms: Forms, *, on_page: bool) -> Lines:
    every = forms.forms
    pairs = _columns(forms)
    own = [name for name in ("acc_pmk", "map_pmk", "flicker") if any(getattr(one, name) for one in every)]
    rows = []
    for index, one in enumerate(every):
        shown = [one.agreement, *(one.pair.get(name) for name in pairs)] if "changed" not in pairs else []
        shown = shown or [one.pair.get(name) for name in pairs]
        rows.append(
            [
                printable(one.model, limit=60),
                *("" if index == 0 else with_interval(value) for value in shown),
                *(with_interval(getattr(one, name)) for name in own),
                NONE if one.frames_per_second is None else f"{one.frames_per_second:.1f}",
                NONE if one.size is None else f"{one.size / 1e6:.1f}",
            ]
        )
    agreement = ["agreement"] if any(one.agreement for one in every) else []
    if not agreement:
        rows = [[row[0], *row[2:]] for row in rows]
    columns = ["form", *agreement, *pairs, *(view.words.metric(name) for name in own), "frames/s", "MB"]
    notes = [  # the page has what differs above the table
        sentence(forms, one) if on_page else f"{printable(one.model, limit=60)}: {differs_text(one)}"
        for one in every[1:]
    ]
    notes.append(
        f"% [95 % interval], paired with {printable(forms.reference, limit=60)} by frame; frames/s: forward passes "
        "alone; models of one command share the machine"
    )
    if any("objects_moved" in one.pair for one in every):
        notes.append(f"objects: boxes with a score of 0.5 or more; moved: the boxes overlap by less than {MOVED:g}")
    title = f"Forms of {printable(forms.reference, limit=60)}"
    return title, columns, rows, notes


def _columns(forms: Forms) -> list[str]:
    """Return the measures of the pair that the table shows, in their order."""
    wanted = (
        "negative_flips",
        "positive_flips",
        "objects_lost",
        "objects_found",
        "objects_relabelled",
        "objects_moved",
    )
    return [name for name in wanted if any(name in form.pair for form in forms.forms)]


def _counts(title: str, rows: tuple[FlipCounts, ...], *, has_labels: bool) -> Lines:
    columns = ["", "frames", *(["negative flips", "positive flips"] if has_labels else []), "changed"]
    cells = [
        [
            printable(row.name, limit=60),
            plain_number(row.frames),
            *([plain_number(row.negative), plain_number(row.positive)] if has_labels else []),
            plain_number(row.changed),
        ]
        for row in rows[:_SHOWN]
    ]
    rest = len(rows) - _SHOWN
    return title, columns, cells, [f"{rest} more: tables/form_classes.csv, tables/form_sets.csv"] if rest > 0 else []
