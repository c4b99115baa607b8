"""The tables of flicker without labels."""

from collections.abc import Callable, Iterable, Mapping

from strobe.core.estimate import Missing
from strobe.report.tables import as_row
from strobe.report.view import Row, Table, View
from strobe.studies.unlabelled.records import FlickerScore
from strobe.studies.unlabelled.records_links import LinkScore


def _each(view: View, rows: Callable[[FlickerScore], Iterable[Row]]) -> Table:
    models = {} if view.results.flicker is None else view.results.flicker.models
    return [{"model": name, **row} for name, model in models.items() for row in rows(model)]


def _spells(model: FlickerScore) -> Iterable[Row]:
    return () if isinstance(model.spells, Missing) else (as_row(model.spells),)


def _links(view: View, rows: Callable[[LinkScore], Iterable[Row]]) -> Table:
    found = view.results.flicker
    detectors = {} if found is None or found.detectors is None else found.detectors
    return [{"model": name, **row} for name, model in detectors.items() for row in rows(model)]


TABLES: Mapping[str, Callable[[View], Table]] = {
    "flicker": lambda view: _each(view, lambda model: [as_row(model)]),
    "flicker_curve": lambda view: _each(view, lambda model: map(as_row, model.curve)),
    "flicker_time_curve": lambda view: _each(
        view, lambda m: map(as_row, () if isinstance(m.time_curve, Missing) else m.time_curve.points)
    ),
    "flicker_coarser": lambda view: _each(view, lambda model: map(as_row, model.coarser)),
    "flicker_spells": lambda view: _each(view, _spells),
    "flicker_videos": lambda view: _each(view, lambda model: map(as_row, model.videos)),
    "links": lambda view: _links(view, lambda model: [as_row(model) | as_row(model.shares)]),
    "links_by_length": lambda view: _links(
        view, lambda model: (as_row(one) | as_row(one.shares) for one in model.by_length)
    ),
    "link_videos": lambda view: _links(view, lambda model: map(as_row, model.videos)),
    "alternations": lambda view: _each(view, lambda model: map(as_row, model.alternations)),
}
