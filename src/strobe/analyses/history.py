"""Figures of checkpoints over time, and whether a checkpoint is significantly better or worse than earlier ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strobe.analyses.clips import Difference
from strobe.analyses.comparison import WHOLE_SETS, Comparison
from strobe.analyses.measures import Measure, Unit
from strobe.analyses.model_results import ClassificationScore, DetectionScore, Headline
from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task
from strobe.metrics.intervals import nothing
from strobe.metrics.paired import LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipScore:
    """The figure of one model on the clips, in the measure that all steps are compared on."""

    model: str
    measure: Measure[Any]
    figure: Estimate
    task: Task = Task.CLASSIFICATION
    n_missing: int = 0


Score = ClassificationScore | DetectionScore | ClipScore


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One model of one run.

    `line` joins successive checkpoints; `since` is this checkpoint's pmk minus the pmk of the previous checkpoint.
    `since_first` is the difference from the first checkpoint of its line. `since_best` is the difference from the best
    earlier checkpoint, which `best` names. `clearly`, `clearly_first` and `clearly_best` are the outcomes of the
    corrected test: better, worse, or None. If no set has a label, `measure` names the measure without labels that the
    steps are compared on, `figure` is its value, and better and worse are facts about the clips of the runs. `unscored`
    is the number of sets that could not be scored for this checkpoint. `noise` is the share of pairs of answers to one
    frame that differ, if the model was asked several times.
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
    since_first: Estimate | None = field(default=None, metadata=LEFT_OUT)
    clearly_first: str | None = field(default=None, metadata=LEFT_OUT)
    since_best: Estimate | None = field(default=None, metadata=LEFT_OUT)
    clearly_best: str | None = field(default=None, metadata=LEFT_OUT)
    best: str | None = field(default=None, metadata=LEFT_OUT)
    unscored: Count | None = field(default=None, metadata=LEFT_OUT)
    measure: str | None = field(default=None, metadata=LEFT_OUT)
    unit: Unit | None = field(default=None, metadata=LEFT_OUT)
    figure: Estimate | None = field(default=None, metadata=LEFT_OUT)
    noise: Estimate | None = field(default=None, metadata=LEFT_OUT)

    @property
    def tested(self) -> Estimate:
        """The figure that is compared with earlier steps."""
        return self.pmk if self.figure is None else self.figure


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All steps, line by line, in order of time; `subset` names the file of the videos used, if any."""

    dataset: str
    n_sets: Count
    k: Count
    steps: tuple[HistoryStep, ...]
    subset: str | None = field(default=None, metadata=LEFT_OUT)
    unlabelled_sets: Count | None = field(default=None, metadata=LEFT_OUT)
    sets_without_votes: Count | None = field(default=None, metadata=LEFT_OUT)
    cautions: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)

    def lines(self) -> dict[str, list[HistoryStep]]:
        """The steps, grouped by line."""
        found: dict[str, list[HistoryStep]] = {}
        for step in self.steps:
            found.setdefault(step.line, []).append(step)
        return found


def lines_of(places: Sequence[tuple[str, str]]) -> list[str]:
    """Return the line of each (run, model).

    It is the model's name if a model occurs in several runs; otherwise all models are in one line.

    >>> lines_of([("a", "net"), ("b", "net"), ("b", "other")])
    ['net', 'net', 'other']
    >>> lines_of([("a", "epoch1"), ("a", "epoch2")]), lines_of([("a", "net@1"), ("b", "net@2")])
    (['', ''], ['', ''])
    """
    names = [model for _, model in places]
    return names if len(set(names)) < len(names) else [""] * len(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The names of the earlier steps that one step is compared with: the previous, the first, and the best step."""

    before: str
    first: str
    best: str


def earlier_of(scores: Sequence[Score]) -> dict[str, Earlier]:
    """Return, for each score except the first, the earlier scores to compare it with; ties go to the earliest."""
    earlier: dict[str, Earlier] = {}
    for index, score in enumerate(scores[1:], start=1):
        best = max(scores[:index], key=_goodness)  # the earliest of equals
        earlier[score.model] = Earlier(before=scores[index - 1].model, first=scores[0].model, best=best.model)
    return earlier


def _goodness(score: Score) -> float:
    if isinstance(score, ClipScore):
        value = score.figure.value
        return -float("inf") if value is None else -value if score.measure.more_is_worse else value
    value = score.headline[1].value
    return -1.0 if value is None else value


def with_earlier(scores: Sequence[Score]) -> list[tuple[Score, Score]]:
    """Return the distinct pairs of scores that a line is tested on, the later score first."""
    by_name = {score.model: score for score in scores}
    pairs = [(later, other) for later, one in earlier_of(scores).items() for other in (one.before, one.first, one.best)]
    return [(by_name[later], by_name[other]) for later, other in dict.fromkeys(pairs)]


def step_of(
    name: str,
    line: str,
    place: tuple[str, str, str],
    result: Score,
    earlier: Earlier | None,
    tested: Mapping[tuple[str, str], Comparison | Difference],
) -> HistoryStep:
    """Return one step. `place` is run, model and time; `tested` maps (later, earlier) model to their comparison."""
    run, model, at = place
    measure, none = None, nothing("no set has a label")
    if isinstance(result, ClipScore):
        measure, (orig, pmk, drop), unscored = result.measure, Headline(none, none, none), result.n_missing
    else:
        (orig, pmk, drop), unscored = result.headline, result.unscored.sets
    names = (None, None, None) if earlier is None else (earlier.before, earlier.first, earlier.best)
    found = [None if other is None else tested.get((name, other)) for other in names]
    (since, clearly), (since_first, clearly_first), (since_best, clearly_best) = map(_told, found)
    return HistoryStep(
        name=name,
        line=line,
        run=run,
        model=model,
        at=at,
        task=result.task,
        orig=orig,
        pmk=pmk,
        drop=drop,
        since=since,
        clearly=clearly,
        since_first=since_first,
        clearly_first=clearly_first,
        since_best=since_best,
        clearly_best=clearly_best,
        best=None if since_best is None else names[2],
        unscored=unscored or None,
        measure=None if measure is None else measure.name,
        unit=None if measure is None else measure.unit,
        figure=result.figure if isinstance(result, ClipScore) else None,
    )


def _told(comparison: Comparison | Difference | None) -> tuple[Estimate | None, str | None]:
    """Return the difference, and the outcome of its test or the fact about the clips."""
    if comparison is None:
        return None, None
    if isinstance(comparison, Difference):
        reason = comparison.reason or "a fact about these clips"
        alone = Estimate(value=comparison.change, low=None, high=None, n=comparison.n, reason=reason)
        word = comparison.verdict if comparison.verdict in ("better", "worse") else None
        return comparison.others or alone, word
    if comparison.p_holm is None or comparison.p_holm >= LEVEL:
        return comparison.difference, None
    return comparison.difference, "better" if (comparison.difference.value or 0) > 0 else "worse"


def tests_of(comparisons: Sequence[Comparison]) -> dict[tuple[str, str], Comparison]:
    """Return the comparisons on whole sets, with the later and the earlier model as key."""
    return {(comparison.a, comparison.b): comparison for comparison in comparisons if comparison.metric in WHOLE_SETS}
