"""A study answers one question about a run. The report calls every study in turn and knows none by name.

`score` calls `collector`, which adds to the results. The code that writes the tables, the terminal output and the page
calls the other functions. Every function has a default that adds nothing, so a study defines only the parts it has.
docs/plugins.md has an example. `STUDIES` lists the studies; installed packages may add more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from strobe.analyses.model_results import ModelResult
from strobe.core.answers import Answers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.late import Plugin, Registry
from strobe.core.ports import FrameSource
from strobe.core.tasks import Task
from strobe.report.view import Lines, Table, View

if TYPE_CHECKING:
    from strobe.analyses.scoring import Collector, Scoring
    from strobe.report.drawing import Figure, FigureSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageInput:
    """The input of a chapter: the view, the dataset with its images and answers, and the figures of each section.

    `dataset` has the sets that models are scored on. `all_sets` also has the sets without a label.
    """

    view: View
    dataset: Dataset
    all_sets: Dataset
    source: FrameSource | None
    answers: Mapping[str, Answers]
    figures: Mapping[str, "list[list[Figure]]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFigures:
    """Figures for one section of the page. With `lists_missing`, the page explains why a figure could not be drawn."""

    section: str
    figures: "Sequence[FigureSpec]"
    lists_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A chapter of the page: its anchor, its title, its template, and the content that the template shows.

    `nav` is a shorter title for the navigation, if there is one. A template is a file of report/assets, or
    "package:file". The default template shows `content["intro"]`, the
    figures of the section with the chapter's name, and the tables in `content["tables"]`, each a `Lines`. `terms` are
    added to the page's glossary. `data` is passed to the page's scripts as JSON, by the id of its element.
    """

    name: str
    title: str
    nav: str = ""
    template: str = "study.html.j2"
    content: Mapping[str, object] = field(default_factory=dict)
    terms: Sequence[tuple[str, str]] = ()
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """One question about a run: its part of the results, and how the tables, the terminal and the page show it."""

    name: str
    task: Task | None = None
    """The task whose models this study scores, or None if the study only adds to the results of other studies.

    In a run without models of this task, the study scores nothing.
    """
    decides: int = 0
    """The precedence: the study with the highest number gives the page's title, first sentence and terms."""
    tables: Mapping[str, Callable[[View], Table]] = field(default_factory=dict)
    """The tables by the name of their file. A table without rows is not written."""
    drawings: "Sequence[FigureSpec]" = ()
    """All figures that the study can draw. Files of figures that a later report does not draw are removed."""
    scripts: Sequence[str] = ()
    """Scripts of the page, each "package:file"."""
    needs_to_score: tuple[str, ...] = ()
    """Attributes of `Scoring`, such as "dataset.variants". If all of them are empty, `collector` is not called."""
    needs_to_show: tuple[str, ...] = ()
    """Attributes of `View`, such as "results.people". If all of them are empty, no function gets the view."""
    applies: Callable[[View], bool] = lambda _: True
    """Whether the study has anything to show for these results. If not, no other function gets the view."""
    collector: "Callable[[Scoring], Collector | None]" = lambda _: None
    """The object that collects the study's results during scoring, or None if the study does not apply."""
    lines: Callable[[View], Sequence[Lines]] = lambda _: ()
    """The study's tables of text, for the terminal and the page."""
    notes: Callable[[View, Task], Sequence[str]] = lambda _view, _task: ()
    """Notes below a task's headline table in the terminal. A run without labels has no such table; use `lines` there.
    """
    lead: Callable[[View, Mapping[str, ModelResult]], tuple[str, str] | None] = lambda _view, _models: None
    """The first and second sentence of the page, or None if the study does not decide them.

    It gets the scored models, the most robust first, or no model.
    """
    question: Callable[[View], str | None] = lambda _: None
    """The question in the page's title."""
    explanation: Callable[[View], tuple[str, list[str]] | None] = lambda _: None
    """The title and the paragraphs that explain the measurement."""
    terms: Callable[[View], list[tuple[str, str]] | None] = lambda _: None
    """The terms of the page with their meaning, if the study decides what is measured."""
    figures: Callable[[View], Sequence[SectionFigures]] = lambda _: ()
    """The figures for this data, by section of the page."""
    answers_of: Callable[[View], Sequence[str]] = lambda _: ()
    """The models whose answers the chapter shows, in addition to the models of the gallery."""
    chapter: Callable[[PageInput], Chapter | None] = lambda _: None
    """The study's own chapter of the page, or None if it has none for this data."""
    content: Callable[[View], Mapping[str, object]] = lambda _: MappingProxyType({})
    """Further variables for the page's shared sections."""


class StudyList(Registry[Study]):
    """The list of studies. It gives out a package's study in a wrapper that lets it add and not replace."""

    def _added(self, member: Study, plugin: Plugin) -> Study:
        from strobe.report.added_study import added_study

        return added_study(member, plugin, list(self.own_members().values()))


STUDIES: Registry[Study] = StudyList(
    "studies",
    Study,
    "study",
    {
        "temporal": "strobe.studies.temporal.study:TEMPORAL",
        "unlabelled": "strobe.studies.unlabelled.study:UNLABELLED",
        "detection": "strobe.studies.detection.study:DETECTION",
        "noise": "strobe.studies.noise.study:NOISE",
        "remedies": "strobe.studies.remedies.study:REMEDIES",
        "forms": "strobe.studies.forms.study:FORMS",
        "review": "strobe.studies.review.study:REVIEW",
        "stills": "strobe.studies.stills.study:STILLS",
        "variants": "strobe.studies.variants.study:VARIANTS",
        "people": "strobe.studies.people.study:PEOPLE",
    },
)
"""Every study by name, in the order in which the terminal and the page show them."""


@cache
def studies() -> tuple[Study, ...]:
    """Return every study that can be imported. `STUDIES.problems()` has a line for each study that cannot."""
    return tuple(STUDIES.working().values())


def scoring_studies(scoring: "Scoring") -> "list[tuple[Study, Collector]]":
    """Return the studies that score these models on this dataset, each with its collector."""
    able = [study for study in studies() if study.task in (None, *scoring.tasks)]
    made = [(study, study.collector(scoring)) for study in able if _has(study, scoring, study.needs_to_score)]
    return [(study, collector) for study, collector in made if collector is not None]


def applying(view: View) -> list[Study]:
    """Return the studies that apply to these results."""
    return [study for study in studies() if _has(study, view, study.needs_to_show) and study.applies(view)]


def _has(study: Study, of: "Scoring | View", needs: Sequence[str]) -> bool:
    """Return whether one of the needed attributes is not empty, or whether a study needs none."""
    try:
        return not needs or any(attrgetter(path)(of) for path in needs)
    except AttributeError as error:
        raise StrobeError(f"study {study.name}: it needs an attribute that does not exist; {error}") from error


def decided(view: View, ask: Callable[[Study], T | None]) -> T | None:
    """Return the first answer that is not None, from the studies that apply, the highest precedence first."""
    ordered = sorted(applying(view), key=lambda study: -study.decides)
    return next((found for study in ordered if (found := ask(study)) is not None), None)


@cache
def tables() -> Mapping[str, Callable[[View], Table]]:
    """Return every table by the name of its file under `tables/`."""
    return {name: make for study in reversed(studies()) for name, make in study.tables.items()}
