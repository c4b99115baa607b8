"""The tables of the forms of a model: a row per form, per class and per set."""

from collections.abc import Callable, Iterator, Mapping

from strobe.report.tables import as_row, spread
from strobe.report.view import Row, Table, View
from strobe.studies.forms.records import FlipCounts, FormScore
from strobe.studies.forms.words import found


def _forms(view: View) -> Iterator[Row]:
    for forms in found(view):
        names = list(dict.fromkeys(name for form in forms.forms for name in form.pair))
        for one in forms.forms:
            row: Row = {"reference": forms.reference, **as_row(one), "differs": "; ".join(one.differs)}
            for name in names:
                row |= spread(name, one.pair[name]) if name in one.pair else {}
            yield row


def _counts(view: View, of: Callable[[FormScore], tuple[FlipCounts, ...]]) -> Iterator[Row]:
    for forms in found(view):
        for form in forms.forms:
            for counts in of(form):
                yield {"reference": forms.reference, "model": form.model, **as_row(counts)}


TABLES: Mapping[str, Callable[[View], Table]] = {
    "forms": lambda view: list(_forms(view)),
    "form_classes": lambda view: list(_counts(view, lambda one: one.classes)),
    "form_sets": lambda view: list(_counts(view, lambda one: one.sets)),
}
