"""The tables of flicker without labels."""

from collections.abc import Callable, Iterable, Mapping

from strobe.core.estimate import Missing
from strobe.report.tables import as_row, spread
from strobe.report.view import Row, Table, View
from strobe.studies.unlabelled.records import FlickerScore
from strobe.studies.unlabelled.records_links import LinkScore


def _each(view: View, rows: Callable[[FlickerScore], Iterable[Row]]) -> Table:
    models = {} if view.results.flicker is None else view.results.flicker.models
    return [{"model": name, **row} for name, model in models.items() for row in rows(model)]


def _spells(model: FlickerScore) -> Iterable[Row]:
    return () if isinstance(model.spells, Missing) else (as_row(model.spells),)


def _detectors(view: View, rows: Callable[[LinkScore], Iterable[Row]]) -> Table:
    found = view.results.flicker
    detectors = {} if found is None or found.detectors is None else found.detectors
    return [{"model": name, **row} for name, model in detectors.items() for row in rows(model)]


def _measures(model: FlickerScore | LinkScore) -> Row:
    """Return the declared measures of a model, with their intervals."""
    return {
        key: cell for name, measure in (model.measures or {}).items() for key, cell in spread(name, measure).items()
    }


def _figures(model: LinkScore) -> Row:
    """Return the measures of a detector, then the counts that have no measure."""
    row = _measures(model)
    return row | {f"n_{name}" if name in row else name: value for name, value in as_row(model).items()}


TABLES: Mapping[str, Callable[[View], Table]] = {
    "flicker": lambda view: _each(view, lambda model: [as_row(model) | _measures(model)]),
    "flicker_curve": lambda view: _each(view, lambda model: map(as_row, model.curve)),
    "flicker_time_curve": lambda view: _each(
        view, lambda m: map(as_row, () if isinstance(m.time_curve, Missing) else m.time_curve.points)
    ),
    "flicker_coarser": lambda view: _each(view, lambda model: map(as_row, model.coarser)),
    "flicker_spells": lambda view: _each(view, _spells),
    "flicker_videos": lambda view: _each(view, lambda model: map(as_row, model.videos)),
    "boxes": lambda view: _detectors(view, lambda model: [_figures(model)]),
    "box_videos": lambda view: _detectors(view, lambda model: map(as_row, model.videos)),
    "outages": lambda view: _detectors(view, lambda model: map(as_row, model.longest)),
    "alternations": lambda view: _each(view, lambda model: map(as_row, model.alternations)),
}
