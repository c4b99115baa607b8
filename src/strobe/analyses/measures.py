"""A measure is one declaration: its name, its meaning, and the column that it is computed from.

From the declaration follow its figure with an interval, results.json, the CSV files, the tables of the page and the
viewer, and its comparison, gate and history. `MEASURES` lists the families; CONTRIBUTING.md shows how to add one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar

from strobe.core.errors import expect
from strobe.core.estimate import Estimate, Missing
from strobe.core.late import Registry
from strobe.metrics.bootstrap import REPLICATES
from strobe.metrics.columns import Measured, estimate
from strobe.metrics.intervals import Interval, nothing

M = TypeVar("M")

Family = Literal["unlabelled", "boxes", "classification", "detection", "forms"]
"""What a column is computed from: a classifier's answers or a detector's boxes, without labels or with labels, or the
answers of two forms of a model."""

Unit = Literal["share", "per second", "per minute", "seconds per minute", "seconds", "frames", "pixels"]
"""The unit of a figure. A share is printed in per cent, and a difference of shares in points."""

SUFFIXES: Mapping[Unit, str] = {
    "share": " %",
    "per second": "/s",
    "per minute": "/min",
    "seconds per minute": " s/min",
    "seconds": " s",
    "frames": " frames",
    "pixels": " px",
}
"""A unit as it is printed behind a figure."""

Per = Literal["frames", "pairs", "sets", "objects"]
"""What a row is: the other answer on one frame changes one frame, two pairs, or one set."""


@dataclass(frozen=True, slots=True)
class Measure(Generic[M]):
    """A measure: its name, its meaning, and the function that returns a model's column.

    `read` returns the figure from a model's record in the results; without it, the figure is the field of this name, or
    the entry of the record's `measures`. `column` returns one number per row from a model's
    answers, or the reason why this model has none. `headline` puts the measure in the first table. The terminal's table
    has the first three measures and those that are `brief`. `more_is_worse` is true if a larger figure is worse. A
    `seldom` measure is omitted for a model that does not have it. The measure with the largest `lead` comes first,
    unless it is at its end for every model.
    """

    name: str
    meaning: str
    read: Callable[[M], Estimate] | None = None
    family: Family = "unlabelled"
    headline: bool = True
    seldom: bool = False
    more_is_worse: bool = False
    brief: bool = False
    unit: Unit = "share"
    per: Per = "sets"
    lead: int = 0
    column: Callable[[Any], Measured | Missing] | None = None

    def of(self, model: M) -> Estimate:
        """Return the figure from a model's record in the results."""
        if self.read is not None:
            return self.read(model)
        found = getattr(model, self.name, None)
        if not isinstance(found, Estimate):
            found = (getattr(model, "measures", None) or {}).get(self.name)
        return found or nothing(f"{self.name} was not measured")

    @property
    def scale(self) -> float:
        """The factor with which figures are printed: a share is printed in per cent."""
        return 100.0 if self.unit == "share" else 1.0

    @property
    def digits(self) -> int:
        """The digits after the decimal point with which figures are printed."""
        return 1 if self.unit == "share" else 2

    @property
    def suffix(self) -> str:
        """The unit as it is printed behind a figure."""
        return SUFFIXES[self.unit]

    def __post_init__(self) -> None:
        expect(self.meaning.endswith("."), f"Measure.meaning of {self.name}", "a sentence", self.meaning)


def measure(
    *,
    worse: Literal["more", "less"],
    family: Family = "unlabelled",
    unit: Unit = "share",
    per: Per = "sets",
    lead: int = 0,
    headline: bool = True,
    lacks: Callable[[Any], str | None] = lambda _: None,
) -> Callable[[Callable[[Any], Measured | Missing]], Measure[Any]]:
    """Declare the decorated function as a measure, which has its name and the first line of its docstring as meaning.

    The function takes a model's answers and returns a column. `lacks` returns why answers have no such column.
    """

    def declared(function: Callable[[Any], Measured | Missing]) -> Measure[Any]:
        def column(answers: Any) -> Measured | Missing:
            reason = lacks(answers)
            return function(answers) if reason is None else Missing(reason)

        return Measure(
            name=function.__name__,
            meaning=(function.__doc__ or ".").partition("\n")[0],
            family=family,
            headline=headline,
            more_is_worse=worse == "more",
            unit=unit,
            per=per,
            lead=lead,
            column=column,
        )

    return declared


MEASURES: Registry[tuple[Measure[Any], ...]] = Registry(
    "measures",
    tuple,
    "list of measures",
    {
        "unlabelled": "strobe.analyses.video_measures:MEASURES",
        "forms": "strobe.studies.forms.measures:MEASURES",
        "boxes": "strobe.analyses.box_measures:MEASURES",
    },
)
"""Lists of measures, in the order of the tables."""


@cache
def measures_of(family: Family) -> tuple[Measure[Any], ...]:
    """Return the declared measures of a family, in the order of the tables."""
    every = [member for members in MEASURES.working().values() for member in members if member.family == family]
    names = [one.name for one in every]
    expect(len(set(names)) == len(names), f"{family} measures", "each name once", names)
    return tuple(every)


def column_of(declared: Measure[Any], answers: Any) -> Measured | Missing:
    """Return the column of a measure for one model's answers, or the reason why there is none."""
    return Missing("it is no column") if declared.column is None else declared.column(answers)


def figure(
    declared: Measure[Any], answers: Any, *, replicates: int = REPLICATES, seed: int = 0, interval: Interval = "auto"
) -> Estimate:
    """Return the figure of a measure for one model's answers, with its interval over videos."""
    column = column_of(declared, answers)
    if isinstance(column, Missing):
        return nothing(column.reason)
    return estimate(column, replicates=replicates, seed=seed, interval=interval)
