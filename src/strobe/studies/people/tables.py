"""The tables of the names and boxes that people gave."""

from collections.abc import Callable, Iterable, Mapping

from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.report.tables import as_row, spread
from strobe.report.view import Lines, Row, Table, View
from strobe.report.wording import with_interval
from strobe.studies.people.records import PeopleScore, Times
from strobe.studies.people.words import asked, boxes_quality, kappa, people_notes, people_text, quality


def _people(view: View, rows: Callable[[PeopleScore], Iterable[Row]]) -> Table:
    """Return rows of the names that people gave to images; the first column is the kind of image."""
    scores = () if view.results.people is None else view.results.people.scores
    return [{"variant": score.variant, "condition": score.condition, **row} for score in scores for row in rows(score)]


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


_AHEAD = "people ahead: people's accuracy minus the model's, in points, on the images that both answered"


def people_lines(view: View) -> list[Lines]:
    """Return the names that people gave the images, the models for comparison, and the preserved changed images."""
    people = view.results.people
    if people is None:
        return []
    rows, kinds = [], asked(view)
    for what, one in kinds.items():
        of = "" if len(kinds) == 1 else f"{what}: "
        times = "—" if one.seconds.median.value is None else f"{one.seconds.median.value:.2f}"
        rows.append(
            [
                f"{of}{people_text(one.n_people)}",
                with_interval(one.accuracy),
                with_interval(one.majority),
                kappa(one.fleiss_kappa),
                kappa(one.consistency),
                times,
                "",
                str(one.n_pictures),
                str(one.n_answers),
            ]
        )
        rows += [
            [
                f"{of}{printable(model.model, limit=60)}",
                with_interval(model.accuracy),
                "—",
                "—",
                kappa(model.consistency),
                "—",
                with_interval(model.difference),
                str(model.accuracy.n),
                "—",
            ]
            for model in one.models
        ]
    columns = ["people or model", "accuracy", "majority", "Fleiss κ", "error consistency", "seconds"]
    columns += ["people ahead", "images", "answers"]
    notes = [quality(people), "error consistency: mean over pairs of people, or over people with the model", _AHEAD]
    notes += people_notes(view)
    out = [("People", columns, rows, notes)]
    if people.preservation:
        kept = [
            [
                f"{printable(one.variant)}{' (control)' if one.role == 'control' else ''}",
                str(one.n_pictures),
                with_interval(one.named),
                with_interval(one.kept),
                with_interval(one.lost),
            ]
            for one in people.preservation
        ]
        head = ["variant", "images", "named as the original", "by majority", "loss against originals"]
        out.append(("Do people still see the original class?", head, kept, []))
    return out


def box_lines(view: View) -> list[Lines]:
    """Return the results of drawing boxes: how many images each person kept, and the overlap with other people's
    boxes.
    """
    found, text = view.results.drawn, boxes_quality(view)
    if found is None or text is None:
        return []
    rows = [
        [
            printable(one.person, limit=60),
            str(one.n_pictures),
            str(one.kept),
            str(one.discarded),
            kappa(one.overlap),
            "—" if one.seconds is None else f"{one.seconds:.2f}",
        ]
        for one in found.people
    ]
    columns = ["person", "images", "kept", "discarded", "overlap (IoU)", "seconds"]
    return [("Boxes drawn by people", columns, rows, [text])]
