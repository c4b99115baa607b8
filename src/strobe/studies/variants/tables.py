"""The tables of data with variants: levels, means, searches, contrasts and preserved findings."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from strobe.analyses.model_results import ClassificationResult
from strobe.report.rows import Row, Table, as_row, each
from strobe.report.view import View
from strobe.studies.variants.records import PreservedResults

__all__ = ["TABLES", "with_estimated"]


def _variants(model: ClassificationResult) -> Iterator[Row]:
    for one in model.variants or ():
        first = as_row(one, "variant", "is_target")
        yield from ({**first, **as_row(level)} for level in one.levels)


def _searches(view: View) -> Iterator[Row]:
    for one in view.results.searches or ():
        first = as_row(one)
        yield from ({**first, **{f"level_{key}": cell for key, cell in as_row(level).items()}} for level in one.levels)


def _preserved(view: View, rows: Callable[[PreservedResults], Iterable[Row]]) -> Table:
    """Return rows of the figures with preserved findings only; the first column is the judge."""
    return [{"by": one.by, **row} for one in view.results.preserved or () for row in rows(one)]


def _contrasts(view: View) -> Iterator[Row]:
    for one in view.results.contrasts or ():
        yield as_row(one)


def with_estimated(made: Mapping[str, Callable[[View], Table]]) -> dict[str, Callable[[View], Table]]:
    """Return the tables. If the dataset has boxes or masks made by a model, a column marks the rows that use them.

    A row over several variants is marked if any variant of the dataset uses such boxes or masks.
    """

    def marked(make: Callable[[View], Table]) -> Callable[[View], Table]:
        return lambda view: _marked(view, make(view))

    return {name: marked(make) for name, make in made.items()}


def _marked(view: View, rows: Table) -> Table:
    guessed = {variant for variant, one in view.variants.items() if one.estimated}
    if not guessed:
        return rows
    out = []
    for row in rows:
        sides = [row[key] for key in ("variant", "rung", "a", "b", "held") if key in row]
        out.append(row | {"estimated": not sides or any(side in guessed for side in sides)})
    return out


TABLES: Mapping[str, Callable[[View], Table]] = {
    "variant_means": lambda view: each(view.classifiers, lambda model: map(as_row, model.means or ())),
    "searches": lambda view: list(_searches(view)),
    "searches_by_class": lambda view: [
        {"variant": one.variant, "target": one.target, **as_row(row)}
        for one in view.results.searches or ()
        for row in one.by_class or ()
    ],
    "preserved": lambda view: _preserved(view, lambda one: map(as_row, one.still)),
    "preserved_labels": lambda view: _preserved(view, lambda one: map(as_row, one.preservation)),
    "preserved_searches": lambda view: _preserved(view, lambda one: map(as_row, one.searches)),
    "preserved_contrasts": lambda view: _preserved(view, lambda one: map(as_row, one.contrasts)),
} | with_estimated(
    {
        # There is a row for every level, and every row repeats the figures of the whole variant.
        "variants": lambda view: each(view.classifiers, _variants),
        "contrasts": lambda view: list(_contrasts(view)),
    }
)
