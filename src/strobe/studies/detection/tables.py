"""The tables of detectors."""

from collections.abc import Callable, Mapping

from strobe.analyses.measures import figures_of
from strobe.analyses.model_results import DetectionResult
from strobe.report.rows import Row, Table, as_row, each, spread
from strobe.report.view import View


def _detection(model: DetectionResult) -> Row:
    out: Row = {}
    for name, found in figures_of(model).items():
        out |= spread(name, found)
    return out


TABLES: Mapping[str, Callable[[View], Table]] = {
    "detection": lambda view: each(view.detectors, lambda model: [_detection(model)]),
    "detection_curve": lambda view: each(view.detectors, lambda model: map(as_row, model.curve)),
    "detection_per_class": lambda view: each(
        view.detectors, lambda model: (as_row(one, "label", "name", "small") for one in model.per_class)
    ),
    "detection_errors": lambda view: each(view.detectors, lambda model: [as_row(model.errors)]),
}
