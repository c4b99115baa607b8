"""Checkpoints over time: what each reached, and whether it is clearly better or worse than the one before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strobe.analyses.comparison import WHOLE_SETS, Comparison
from strobe.analyses.model_results import ModelResult
from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task
from strobe.metrics.paired import LEVEL

__all__ = ["History", "Step", "lines_of", "since_before", "step_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model of one run. `line` joins those that follow each other; `since` is its pmk less that of the one before.

    `clearly` says what the corrected test shows of that difference: better, worse, or nothing.
    """

    name: str
    line: str
    run: str
    model: str
    at: str
    task: Task
    orig: Estimate
    pmk: Estimate
    drop: Estimate
    since: Estimate | None = field(default=None, metadata=LEFT_OUT)
    clearly: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Every step, line by line, in the order of time; `subset` names the file of videos they were judged on, if any."""

    dataset: str
    n_sets: Count
    k: Count
    steps: tuple[Step, ...]
    subset: str | None = field(default=None, metadata=LEFT_OUT)

    def lines(self) -> dict[str, list[Step]]:
        """The steps by the line they belong to."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            found.setdefault(step.line, []).append(step)
        return found


def lines_of(places: Sequence[tuple[str, str]]) -> list[str]:
    """The line of each (run, model): by the model's name where one comes in several runs, else all are one line.

    >>> lines_of([("a", "net"), ("b", "net"), ("b", "other")])
    ['net', 'net', 'other']
    >>> lines_of([("a", "epoch1"), ("a", "epoch2")]), lines_of([("a", "net@1"), ("b", "net@2")])
    (['', ''], ['', ''])
    """
    names = [model for _, model in places]
    return names if len(set(names)) < len(names) else [""] * len(names)


def step_of(
    name: str, line: str, place: tuple[str, str, str], result: ModelResult, before: Mapping[str, Comparison]
) -> Step:
    """One step; `place` is run, model and time, `before` its comparisons with the step before by their first model."""
    run, model, at = place
    orig, pmk, drop = result.headline
    one = before.get(name)
    clearly = None
    if one is not None and one.p_holm is not None and one.p_holm < LEVEL:
        clearly = "better" if (one.difference.value or 0) > 0 else "worse"
    return Step(
        name=name, line=line, run=run, model=model, at=at, task=result.task, orig=orig, pmk=pmk, drop=drop,
        since=None if one is None else one.difference, clearly=clearly,
    )  # fmt: skip


def since_before(comparisons: Sequence[Comparison]) -> dict[str, Comparison]:
    """The comparisons about whole sets, by the later model."""
    return {one.a: one for one in comparisons if one.metric in WHOLE_SETS}
