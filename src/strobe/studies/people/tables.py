"""The tables of the names and boxes that people gave."""

from collections.abc import Callable, Iterable, Mapping

from strobe.core.codec import encode
from strobe.report.rows import Row, Table, as_row, spread
from strobe.report.view import View
from strobe.studies.people.records import PeopleScore, Times

__all__ = ["TABLES"]


def _people(view: View, rows: Callable[[PeopleScore], Iterable[Row]]) -> Table:
    """Return rows of the names that people gave to images; the first column is the kind of image."""
    scores = () if view.results.people is None else view.results.people.scores
    return [{"variant": one.variant, "condition": one.condition, **row} for one in scores for row in rows(one)]


def _named(score: PeopleScore) -> Row:
    return {**as_row(score, "variant", "condition"), **encode(score.said), **_times(score.seconds)}


def _times(found: Times) -> Row:
    return {
        **spread("seconds", found.median),
        "quartile_low": found.quartile_low,
        "quartile_high": found.quartile_high,
    }


TABLES: Mapping[str, Callable[[View], Table]] = {
    "people": lambda view: _people(view, lambda score: [_named(score)]),
    "people_each": lambda view: _people(
        view, lambda score: (as_row(one) | _times(one.seconds) for one in score.people)
    ),
    "people_models": lambda view: _people(view, lambda score: map(as_row, score.models)),
    "people_consistency": lambda view: _people(view, lambda score: map(as_row, score.pairs)),
    "people_confusion": lambda view: _people(view, lambda score: map(as_row, score.confusion)),
    "people_boxes": lambda view: [as_row(one) for one in (view.results.drawn.people if view.results.drawn else ())],
    "people_box_pairs": lambda view: [as_row(one) for one in (view.results.drawn.pairs if view.results.drawn else ())],
    "label_preservation": lambda view: [
        as_row(one) for one in (view.results.people.preservation if view.results.people else ())
    ],
}
