"""The tables on the effect of review."""

from collections.abc import Callable, Iterator, Mapping

from strobe.analyses.model_results import ClassificationResult, Stage
from strobe.report.rows import Table, as_row, each
from strobe.report.view import View


def _stages(model: ClassificationResult) -> Iterator[tuple[str, Stage]]:
    impact = model.review_impact
    if impact is not None:
        yield from (("A", impact.a), ("B", impact.b), ("C", impact.c))


TABLES: Mapping[str, Callable[[View], Table]] = {
    "review_impact": lambda view: each(
        view.classifiers, lambda model: ({"stage": name, **as_row(stage)} for name, stage in _stages(model))
    ),
    "review_impact_offsets": lambda view: each(
        view.classifiers,
        lambda model: ({"stage": name, **as_row(one)} for name, stage in _stages(model) for one in stage.per_offset),
    ),
}
