"""Results as rows for spreadsheets: one table holds the rows of one list of records; and writing all tables."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from strobe.analyses.background_records import Isolated
from strobe.analyses.measures import figures_of
from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult, Stage, TypeSlice
from strobe.analyses.people_records import PeopleScore, Times
from strobe.analyses.results import Results
from strobe.analyses.variants_records import PreservedResults
from strobe.core.codec import LEFT_OUT, encode
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.files import write_text
from strobe.report.view import View

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["TABLES", "Cell", "Table", "as_csv", "cell", "spread", "write_tables"]

M = TypeVar("M", bound=ModelResult)
Cell = str | float | bool | None
Row = dict[str, Cell]
Table = list[Row]


def spread(prefix: str, found: Estimate) -> Row:
    """Return an estimate as columns; every number keeps its interval, n, count and method."""
    return {
        prefix: found.value,
        f"{prefix}_low": found.low,
        f"{prefix}_high": found.high,
        f"{prefix}_n": found.n,
        f"{prefix}_count": found.count,
        f"{prefix}_method": found.method,
    }


def _row(record: "DataclassInstance", *first: str) -> Row:
    """Return a record as columns: the `first` of its fields, then the others in order, without lists and records."""
    out: Row = {}
    for name, is_later in _names(type(record), first):
        value = getattr(record, name)
        if isinstance(value, Estimate):
            out |= spread(name, value)
        elif value is None:
            if not is_later:
                out[name] = None
        elif not (is_dataclass(value) or isinstance(value, tuple | Mapping)):
            out[name] = value
    return out


@cache
def _names(record: "type[DataclassInstance]", first: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Return the names of a record's fields in this order, and whether each is omitted if it is None."""
    later = {one.name: one.metadata == LEFT_OUT for one in fields(record)}
    return [(name, later[name]) for name in dict.fromkeys([*first, *later])]


def _each(models: Mapping[str, M], rows: Callable[[M], Iterable[Row]]) -> Table:
    return [{"model": name, **row} for name, model in models.items() for row in rows(model)]


def _headline(model: ClassificationResult) -> Row:
    out: Row = {"model_type": model.model_type}
    for name, found in figures_of(model).items():
        out |= spread(name, found)
    return out | {"unscored_frames": model.unscored.frames, "unscored_sets": model.unscored.sets}


def _frame_type(part: TypeSlice) -> Row:
    out = _row(part, "without", "n_sets", "members_dropped")
    out.pop("control", None)
    return out | {f"control_{key}": value for key, value in (encode(part.control) or {}).items()}


def _stages(model: ClassificationResult) -> Iterator[tuple[str, Stage]]:
    impact = model.review_impact
    if impact is not None:
        yield from (("A", impact.a), ("B", impact.b), ("C", impact.c))


def _detection(model: DetectionResult) -> Row:
    out: Row = {}
    for name, found in figures_of(model).items():
        out |= spread(name, found)
    return out


def _trainings(view: View) -> Iterator[Row]:
    for one in view.results.trainings or ():
        row: Row = {"recipe": one.name, "trainings": len(one.models)}
        for name in ("acc_orig", "acc_pmk", "drop"):
            row |= spread(name, getattr(one, name)) | {
                f"{name}_seeds_{key}": value for key, value in encode(getattr(one, f"{name}_spread")).items()
            }
        yield row


def _trend(view: View) -> Table:
    found = view.results.trend
    return [
        {"model": one.model, "model_type": one.model_type, "standard": one.standard, "in_fit": one.in_fit}
        | spread("linear", off.linear)
        | {"linear_verdict": off.linear.verdict}
        | spread("logit", off.logit)
        | {"logit_verdict": off.logit.verdict}
        for one in ([] if isinstance(found, Missing) else found.models)
        for off in (one.effective_robustness,)
    ]


def _variants(model: ClassificationResult) -> Iterator[Row]:
    for one in model.variants or ():
        first = _row(one, "variant", "is_target")
        yield from ({**first, **_row(level)} for level in one.levels)


def _ground(model: ClassificationResult, part: str) -> tuple[Any, ...]:
    """Return a list of a model's results on a ladder of backgrounds; empty if there is none."""
    return () if model.background is None else getattr(model.background, part) or ()


def _isolated(rows: Iterable[Isolated]) -> Row:
    out: Row = {}
    for one in rows:
        out |= spread(one.isolates.replace("-", "_"), one.value)
    return out


def _background(model: ClassificationResult) -> Iterator[Row]:
    if (found := model.background) is not None:
        out = {f"{key}_sensitivity": cell for key, cell in _row(found.sensitivity).items()}
        for name, best in (("zoom", found.zoom), ("zoom_wrong", found.zoom_wrong)):
            out |= {} if isinstance(best, Missing) else {f"{name}_{key}": cell for key, cell in _row(best).items()}
        yield out


def _by_area(model: ClassificationResult) -> Iterator[Row]:
    """Return a row for every bin and rung; the isolated effects of the bin are repeated in each."""
    for one in _ground(model, "by_area"):
        yield from (_row(one) | _row(rung) | _isolated(one.isolated) for rung in one.rungs)


def _searches(view: View) -> Iterator[Row]:
    for one in view.results.searches or ():
        first = _row(one)
        yield from ({**first, **{f"level_{key}": cell for key, cell in _row(level).items()}} for level in one.levels)


def _preserved(view: View, rows: Callable[[PreservedResults], Iterable[Row]]) -> Table:
    """Return rows of the figures with preserved findings only, with the judge in front."""
    return [{"by": one.by, **row} for one in view.results.preserved or () for row in rows(one)]


def _contrasts(view: View) -> Iterator[Row]:
    for one in view.results.contrasts or ():
        yield _row(one)


def _people(view: View, rows: Callable[[PeopleScore], Iterable[Row]]) -> Table:
    """Return rows of the names that people gave the images, with the kind of images in front."""
    scores = () if view.results.people is None else view.results.people.scores
    return [{"variant": one.variant, "condition": one.condition, **row} for one in scores for row in rows(one)]


def _named(score: PeopleScore) -> Row:
    return {**_row(score, "variant", "condition"), **encode(score.said), **_times(score.seconds)}


def _times(found: Times) -> Row:
    return {
        **spread("seconds", found.median),
        "quartile_low": found.quartile_low,
        "quartile_high": found.quartile_high,
    }


TABLES: dict[str, Callable[[View], Table]] = {
    "headline": lambda view: _each(view.classifiers, lambda model: [_headline(model)]),
    "curve": lambda view: _each(view.classifiers, lambda model: map(_row, model.curve)),
    "time_curve": lambda view: _each(
        view.classifiers, lambda m: map(_row, () if isinstance(m.time_curve, Missing) else m.time_curve.points)
    ),
    "per_class": lambda view: _each(view.classifiers, lambda model: map(_row, model.per_class)),
    # The model `all models` is the mean on common members.
    "per_offset": lambda view: (
        _each(view.classifiers, lambda model: map(_row, model.per_offset))
        + [{"model": "all models", **_row(one)} for one in view.results.offset_error_all_models]
    ),
    "smoothing": lambda view: _each(
        view.classifiers,
        lambda model: (_row(one, "method", "parameter", "delay_frames", "incomplete") for one in model.smoothing),
    ),
    "first_failure": lambda view: _each(view.classifiers, lambda model: map(_row, model.first_failure.survival)),
    "frame_types": lambda view: _each(view.classifiers, lambda model: map(_frame_type, model.frame_types)),
    "by_fps": lambda view: _each(view.classifiers, lambda model: map(_row, model.by_fps)),
    "by_hint": lambda view: _each(
        view.classifiers, lambda m: ({"hint": hint, **_row(one)} for hint, bins in m.by_hint.items() for one in bins)
    ),
    "comparison": lambda view: [_row(one) for one in view.results.comparison],
    "trend": _trend,
    "trainings": lambda view: list(_trainings(view)),
    "review_impact": lambda view: _each(
        view.classifiers, lambda model: ({"stage": name, **_row(stage)} for name, stage in _stages(model))
    ),
    "review_impact_offsets": lambda view: _each(
        view.classifiers,
        lambda model: ({"stage": name, **_row(one)} for name, stage in _stages(model) for one in stage.per_offset),
    ),
    # A row for every level; figures of the whole variant are repeated in each.
    "variants": lambda view: _each(view.classifiers, _variants),
    "all_classes": lambda view: _each(
        view.classifiers,
        lambda model: (
            ()
            if (of := model.all_classes) is None
            else ({"source": of.source, "n_own": of.n_own, "n_all": of.n_all, **_row(one)} for one in of.pictures)
        ),
    ),
    "variant_means": lambda view: _each(view.classifiers, lambda model: map(_row, model.means or ())),
    "searches": lambda view: list(_searches(view)),
    "searches_by_class": lambda view: [
        {"variant": one.variant, "target": one.target, **_row(row)}
        for one in view.results.searches or ()
        for row in one.by_class or ()
    ],
    "contrasts": lambda view: list(_contrasts(view)),
    "background": lambda view: _each(view.classifiers, _background),
    "background_coverage": lambda view: _each(view.classifiers, lambda model: map(_row, _ground(model, "covered"))),
    "background_area": lambda view: _each(view.classifiers, _by_area),
    "background_classes": lambda view: _each(
        view.classifiers, lambda model: (_row(one) | _isolated(one.isolated) for one in _ground(model, "per_class"))
    ),
    "preserved": lambda view: _preserved(view, lambda one: map(_row, one.still)),
    "preserved_labels": lambda view: _preserved(view, lambda one: map(_row, one.preservation)),
    "preserved_searches": lambda view: _preserved(view, lambda one: map(_row, one.searches)),
    "preserved_contrasts": lambda view: _preserved(view, lambda one: map(_row, one.contrasts)),
    "people": lambda view: _people(view, lambda score: [_named(score)]),
    "people_each": lambda view: _people(view, lambda score: (_row(one) | _times(one.seconds) for one in score.people)),
    "people_models": lambda view: _people(view, lambda score: map(_row, score.models)),
    "people_consistency": lambda view: _people(view, lambda score: map(_row, score.pairs)),
    "people_confusion": lambda view: _people(view, lambda score: map(_row, score.confusion)),
    "people_boxes": lambda view: [_row(one) for one in (view.results.drawn.people if view.results.drawn else ())],
    "people_box_pairs": lambda view: [_row(one) for one in (view.results.drawn.pairs if view.results.drawn else ())],
    "label_preservation": lambda view: [
        _row(one) for one in (view.results.people.preservation if view.results.people else ())
    ],
    "detection": lambda view: _each(view.detectors, lambda model: [_detection(model)]),
    "detection_curve": lambda view: _each(view.detectors, lambda model: map(_row, model.curve)),
    "detection_per_class": lambda view: _each(
        view.detectors, lambda model: (_row(one, "label", "name", "small") for one in model.per_class)
    ),
    "detection_errors": lambda view: _each(view.detectors, lambda model: [_row(model.errors)]),
}
"""Return every table by the name of its file under `tables/`."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Cell) -> Cell:
    """Return a cell as written to a CSV file."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(value, 6))
    return _text(value) if isinstance(value, str) else value


@lru_cache(4096)  # names and methods repeat very often
def _text(value: str) -> str:
    value = printable(value, limit=2000)
    return "'" + value if value.startswith(_FORMULA) else value  # a spreadsheet would run it as a formula


def as_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV that diffs well: six decimals, plain line ends, columns in order of first appearance.

    >>> as_csv([{"model": "a", "acc": 0.5}, {"model": "=cmd()", "acc": None}])
    "model,acc\\na,0.5\\n'=cmd(),\\n"
    """
    columns = list(dict.fromkeys(column for names in dict.fromkeys(map(tuple, rows)) for column in names))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    # The writer uses repr for floats and nothing for None, so most cells need no call of ours.
    writer.writerows(
        [round(one, 6) if type(one) is float else one if one is None else cell(one) for one in map(row.get, columns)]
        for row in rows
    )
    return out.getvalue()


def _with_unscored(results: Results, rows: Table) -> Table:
    """Return the rows with their model's unscored frames and sets, in every table if any model has some.

    The same applies to sets of the dataset that are scored for no model, in tables with models.
    """
    unscored = {name: model.unscored for name, model in results.models.items()}
    facts = results.dataset
    counts = {"unlabelled_sets": facts.unlabelled_sets, "sets_without_votes": facts.sets_without_votes}
    of_all = {name: count for name, count in counts.items() if count}
    own = any(found.sets for found in unscored.values())
    if not of_all and not own:
        return rows
    return [
        row | ({"unscored_frames": found.frames, "unscored_sets": found.sets} if own else {}) | of_all
        if (found := unscored.get(str(row.get("model"))))
        else row
        for row in rows
    ]


def _with_estimated(view: View, name: str, rows: Table) -> Table:
    """Return the rows of rungs with whether they use boxes or masks nobody drew, if any of them do.

    A row of several rungs records whether any rung of the ladder does.
    """
    guessed = {variant for variant, one in view.variants.items() if one.estimated}
    if not guessed or not name.startswith(("variants", "contrasts", "background")):
        return rows
    out = []
    for row in rows:
        sides = [row[key] for key in ("variant", "rung", "a", "b", "held") if key in row]
        out.append(row | {"estimated": not sides or any(side in guessed for side in sides)})
    return out


def write_tables(run: Path, results: Results) -> list[Path]:
    """Write every table that has rows to `run/tables/NAME.csv` and return the paths; remove tables without rows."""
    written, view = [], View(results=results)
    for name, make in TABLES.items():
        rows = _with_estimated(view, name, _with_unscored(results, make(view)))
        path = run / "tables" / f"{name}.csv"
        if rows:
            write_text(path, as_csv(rows))
            written.append(path)
        elif path.is_file():
            path.unlink()
    return written
