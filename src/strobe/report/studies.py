"""The studies, in the order of the page. Installed packages may add more (docs/plugins.md)."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

from strobe.core.registry import Registry
from strobe.report.rows import Table
from strobe.report.study import Study
from strobe.report.view import View

T = TypeVar("T")

STUDIES: Registry[Study] = Registry(
    "strobe.studies",
    Study,
    "study",
    {
        "temporal": "strobe.studies.temporal.study:TEMPORAL",
        "unlabelled": "strobe.studies.unlabelled.study:UNLABELLED",
        "detection": "strobe.studies.detection.study:DETECTION",
        "trainings": "strobe.studies.trainings.study:TRAININGS",
        "review": "strobe.studies.review.study:REVIEW",
        "stills": "strobe.studies.stills.study:STILLS",
        "generator": "strobe.studies.generator.study:GENERATOR",
        "background": "strobe.studies.background.study:BACKGROUND",
        "variants": "strobe.studies.variants.study:VARIANTS",
        "people": "strobe.studies.people.study:PEOPLE",
    },
)
"""Every study by name, in the order of terminal and page."""


@cache
def studies() -> tuple[Study, ...]:
    """Return every study that can be imported. `STUDIES.problems()` has a line for each study that cannot."""
    return tuple(STUDIES.working().values())


def applying(view: View) -> list[Study]:
    """Return the studies that apply to these results."""
    return [study for study in studies() if study.applies(view)]


def decided(view: View, ask: Callable[[Study], T | None]) -> T | None:
    """Return the first answer that is not None, starting with the applying study of the highest precedence."""
    ordered = sorted(applying(view), key=lambda study: -study.decides)
    return next((found for study in ordered if (found := ask(study)) is not None), None)


@cache
def tables() -> Mapping[str, Callable[[View], Table]]:
    """Return every table by the name of its file under `tables/`. A plugin cannot replace a table of strobe's own."""
    return {name: make for study in reversed(studies()) for name, make in study.tables.items()}
