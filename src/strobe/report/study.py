"""A study answers one question about a run. The report calls every study in turn and knows none by name.

`score` calls `collector`, which adds to the results. The code that writes the tables, the terminal output and the page
calls the other methods. Every method has a default that adds nothing, so a study defines only the parts it has.
docs/plugins.md has an example. `STUDIES` lists the studies; installed packages may add more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeVar

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


class Study:
    """One question about a run: its part of the results, and how the tables, the terminal and the page show it."""

    name: ClassVar[str]
    task: ClassVar[Task | None] = None
    """The task whose models this study scores, or None if the study only adds to the results of other studies.

    In a run without models of this task, the study scores nothing.
    """
    decides: ClassVar[int] = 0
    """The precedence: the study with the highest number gives the page's title, first sentence and terms."""
    tables: "ClassVar[Mapping[str, Callable[[View], Table]]]" = MappingProxyType({})
    """The tables by the name of their file. A table without rows is not written."""
    drawings: "ClassVar[Sequence[FigureSpec]]" = ()
    """All figures that the study can draw. Files of figures that a later report does not draw are removed."""
    scripts: ClassVar[Sequence[str]] = ()
    """Scripts of the page, each "package:file"."""
    needs_to_score: ClassVar[tuple[str, ...]] = ()
    """Attributes of `Scoring`, such as "dataset.variants". If all of them are empty, `collector` is not called."""
    needs_to_show: ClassVar[tuple[str, ...]] = ()
    """Attributes of `View`, such as "results.people". If all of them are empty, no method gets the view."""

    def applies(self, view: View) -> bool:
        """Return whether the study has anything to show for these results. If not, no other method gets the view."""
        return True

    def collector(self, scoring: "Scoring") -> "Collector | None":
        """Return the object that collects the study's results during scoring, or None if the study does not apply."""
        return None

    def lines(self, view: View) -> Sequence[Lines]:
        """Return the study's terminal tables."""
        return ()

    def notes(self, view: View, task: Task) -> Sequence[str]:
        """Return notes below a task's headline table in the terminal.

        A run without labels has no such table; use `lines` there.
        """
        return ()

    def lead(self, view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:
        """Return the first and second sentence of the page, or None if the study does not decide them.

        `models` are the scored models, the most robust first, or empty.
        """
        return None

    def question(self, view: View) -> str | None:
        """Return the question in the page's title."""
        return None

    def explanation(self, view: View) -> tuple[str, list[str]] | None:
        """Return the title and the paragraphs that explain the measurement."""
        return None

    def terms(self, view: View) -> list[tuple[str, str]] | None:
        """Return the terms of the page with their meaning, if the study decides what is measured."""
        return None

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return the figures for this data, by section of the page."""
        return ()

    def answers_of(self, view: View) -> Sequence[str]:
        """Return the models whose answers the chapter shows, in addition to the models of the gallery."""
        return ()

    def chapter(self, page: PageInput) -> Chapter | None:
        """Return the study's own chapter of the page, or None if it has none for this data."""
        return None

    def content(self, view: View) -> Mapping[str, object]:
        """Return further variables for the page's shared sections."""
        return {}


class StudyList(Registry[Study]):
    """The list of studies. It gives out a package's study in a wrapper that lets it add and not replace."""

    def _added(self, member: Study, plugin: Plugin) -> Study:
        from strobe.report.added_study import AddedStudy

        return AddedStudy(member, plugin, list(self.own_members().values()))


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
