"""A ladder of backgrounds: how much do models rely on the background?"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.annexes.backgrounds.ladders import KIND
from strobe.annexes.backgrounds.study.chapter import background_chapter
from strobe.annexes.backgrounds.study.figures import (
    background_area,
    background_context,
    background_contrasts,
    background_models,
    background_rungs,
)
from strobe.annexes.backgrounds.study.records import Isolated, ground_of
from strobe.annexes.backgrounds.study.words import (
    background_lead,
    covered_text,
    isolated_rows,
    ladder,
    rung_rows,
    verdict,
)
from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.tables import as_row, each, spread
from strobe.report.view import Lines, Row, Table, View
from strobe.studies.variants.tables import marked


def _ground(model: ClassificationResult, part: str) -> tuple[Any, ...]:
    """Return a list of a model's results on a ladder of backgrounds; it is empty if there are none."""
    return () if (ground := ground_of(model)) is None else getattr(ground, part) or ()


def _isolated(rows: Iterable[Isolated]) -> Row:
    out: Row = {}
    for row in rows:
        out |= spread(row.isolates.replace("-", "_"), row.value)
    return out


def _background(model: ClassificationResult) -> Iterator[Row]:
    if (ground := ground_of(model)) is not None:
        out = {f"{key}_sensitivity": cell for key, cell in as_row(ground.sensitivity).items()}
        for name, best in (("zoom", ground.zoom), ("zoom_wrong", ground.zoom_wrong)):
            out |= {} if isinstance(best, Missing) else {f"{name}_{key}": cell for key, cell in as_row(best).items()}
        yield out


def _by_area(model: ClassificationResult) -> Iterator[Row]:
    """Return a row for every bin and rung; every row repeats the isolated effects of the bin."""
    for one in _ground(model, "by_area"):
        yield from (as_row(one) | as_row(rung) | _isolated(one.isolated) for rung in one.rungs)


TABLES: Mapping[str, Callable[[View], Table]] = {
    "background": lambda view: marked(view, each(view.classifiers, _background)),
    "background_coverage": lambda view: marked(
        view, each(view.classifiers, lambda model: map(as_row, _ground(model, "covered")))
    ),
    "background_area": lambda view: marked(view, each(view.classifiers, _by_area)),
    "background_classes": lambda view: marked(
        view,
        each(
            view.classifiers,
            lambda model: (as_row(one) | _isolated(one.isolated) for one in _ground(model, "per_class")),
        ),
    ),
}


def ladder_lines(view: View) -> list[Lines]:
    """Return accuracy by rung of a ladder of backgrounds, and the isolated effects, with a column for every drawn
    model.
    """
    models = view.drawn(view.classifiers)
    if (rungs := ladder(view)) is None:
        return []
    names = [printable(model, limit=60) for model in models]
    notes = [
        "points [95 % interval]; * significant after Holm's correction",
        *(verdict(rungs, model) for model in models),
    ]
    notes += [text for text in [covered_text(rungs, *models)] if text]
    return [
        ("Accuracy by rung", ["rung", *names], list(rung_rows(rungs)), []),
        ("Isolated effects", ["difference", *names], list(isolated_rows(rungs)), notes),
    ]


FIGURES = (
    background_contrasts,
    background_rungs,
    background_context,
    background_models,
    background_area,
)


def _lead(view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
    """Return how much the models depend on the background."""
    found = ladder(view) if _has_classifiers(models) else None
    return None if found is None else background_lead(found, view)


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the figures of the ladder."""
    applies = view.results.models and ladder(view) is not None
    return [SectionFigures(section="background", figures=FIGURES)] if applies else ()


def _chapter(page: PageInput) -> Chapter | None:
    """Return the chapter on the ladder, with images."""
    content = background_chapter(page.dataset, ladder(page.view), page.source, page.answers)
    if content is None:
        return None
    return Chapter(name="background", title="Background", template=f"{__package__}:background.html.j2", content=content)


def _has_classifiers(models: Mapping[str, ModelResult]) -> bool:
    return any(isinstance(model, ClassificationResult) for model in models.values())


BACKGROUND = Study(
    name="background",
    decides=3,
    needs_to_show=("variants",),
    tables=TABLES,
    drawings=FIGURES,
    applies=lambda view: any(variant.fields.get("kind") == KIND for variant in view.variants.values()),
    lines=ladder_lines,
    lead=_lead,
    question=lambda view: None if ladder(view) is None else "how much do models rely on the background?",
    figures=_figures,
    chapter=_chapter,
)
"""Accuracy on every rung of the ladder, and the effects isolated by two rungs that differ in one respect."""
