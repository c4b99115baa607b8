"""`gate` and `history`: whether a model passes, and how checkpoints fared over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from strobe.analyses.gate import DEFAULT, FailOn, Gate, Limit, Unsure
from strobe.analyses.gate_plan import GatePlan
from strobe.analyses.history import History
from strobe.analyses.plan import ScoreOptions
from strobe.api.faces import html_table
from strobe.api.words import in_python, watching
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.report.gate import changes_of, figure_of, gate_lines, in_short, plan_lines
from strobe.report.history import history_lines, history_notes, history_rows, paint_history
from strobe.workflows.gate import GateOptions
from strobe.workflows.gate import gate as run_gate
from strobe.workflows.gate import plan_gate as run_plan
from strobe.workflows.history import history as run_history

__all__ = ["Checkpoints", "GatePlans", "Gated", "gate", "history", "plan_gate"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Gated(Gate):
    """Whether a model passed (`passed`), and what each rule said (`checks`)."""

    def __repr__(self) -> str:
        return "\n".join(gate_lines(self))

    def _repr_html_(self) -> str:
        rows = [
            ["passed" if one.passed else "FAILED", one.title, figure_of(one), one.verdict, one.sentence]
            for one in self.checks
        ]
        shown = in_short(self)
        notes = [*(shown.cautions or ()), *(one.sentence() for one in changes_of(shown))]
        caption = f"{shown.model}: {'passed' if self.passed else 'FAILED'}"
        return html_table(["", "rule", "figure", "verdict", ""], rows, caption=caption, notes=notes)


class GatePlans(tuple[GatePlan, ...]):
    """How many videos each limit takes: a tuple of GatePlan, which reads as tables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(plan_lines(self))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checkpoints(History):
    """Checkpoints over time: `steps` in order, `to_frame()`, `plot()`."""

    def __repr__(self) -> str:
        return "\n".join(history_lines(self))

    def _repr_html_(self) -> str:
        head, *rows = [cells for _, table in history_rows(self) for cells in table]
        notes = ["% [95 % interval]", *history_notes(self)]
        return html_table(head, rows, caption=f"{self.dataset}, k = {self.k}", notes=notes)

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row for each step."""
        pandas = require("pandas", what="to_frame()", extra="frames")
        rows = [
            {
                "step": one.name, "line": one.line, "run": one.run, "model": one.model, "at": one.at,
                "orig": one.orig.value, "pmk": one.pmk.value, "pmk_low": one.pmk.low, "pmk_high": one.pmk.high,
                "drop": one.drop.value, "since": None if one.since is None else one.since.value,
                "clearly": one.clearly or "",
                "since_first": None if one.since_first is None else one.since_first.value,
                "clearly_first": one.clearly_first or "",
                "since_best": None if one.since_best is None else one.since_best.value,
                "clearly_best": one.clearly_best or "", "best": one.best or "",
            }
            for one in self.steps
        ]  # fmt: skip
        return pandas.DataFrame(rows)

    def plot(self) -> Any:
        """Draw them on a new figure of pyplot's, and return its axes (of two tasks: the last one's)."""
        from strobe.report.style import look

        with look(10):
            pyplot = require("matplotlib.pyplot", what="plot()", extra="report")
            figure = pyplot.figure(figsize=(7.4, 3.6), layout="constrained", facecolor="white")
            paint_history(figure, self)
        return figure.axes[-1]


@in_python
def gate(
    run: str | Path,
    *,
    against: str | Path | Sequence[str | Path] | None = None,
    model: str | None = None,
    baseline: str | Sequence[str] | None = None,
    max_loss: Mapping[str, float] | None = None,
    min: Mapping[str, float] | None = None,
    max: Mapping[str, float] | None = None,
    fail_on: FailOn = DEFAULT,
    unsure: Unsure = "fail",
    k: int | None = None,
    videos: str | Path | None = None,
    allow_missing: bool = False,
    dataset: str | Path | None = None,
) -> Gated:
    """Hold a model of a run folder against limits: `max_loss={"acc_pmk": 1}` (points), `min={"acc_pmk": 50}` (%).

    The baseline is the model of the same name in the run `against`, or another model of the same run. Of several, a
    loss is held against each: give the last run and one that stays the same, so that small losses do not add up
    unseen. `passed` is the verdict; `fail_on` and `unsure` say how sure one must be, as `strobe gate --help` does.
    `videos` is a file of video names to judge it on, or "all"; by default these are the videos that the run was scored
    on.
    """
    rules: tuple[tuple[Literal["max_loss", "min", "max"], Mapping[str, float] | None], ...] = (
        ("max_loss", max_loss), ("min", min), ("max", max),
    )  # fmt: skip
    limits = [
        Limit(kind=kind, measure=name, value=value) for kind, said in rules for name, value in (said or {}).items()
    ]
    request = GateOptions(
        limits=tuple(limits), model=model, against=_paths(against),
        baselines=(baseline,) if isinstance(baseline, str) else tuple(baseline or ()),
        fail_on=fail_on, unsure=unsure, options=ScoreOptions(k=k), dataset=None if dataset is None else Path(dataset),
        subset=None if videos is None else Path(videos), allow_missing=allow_missing,
    )  # fmt: skip
    found = run_gate(Path(run), request, watching(False))
    return Gated(**{one.name: getattr(found, one.name) for one in fields(found)})


@in_python
def plan_gate(
    max_loss: Mapping[str, float],
    *,
    churn: float | None = None,
    run: str | Path | None = None,
    against: str | Path | None = None,
    model: str | None = None,
    baseline: str | None = None,
    k: int | None = None,
    videos: str | Path | None = None,
    dataset: str | Path | None = None,
) -> GatePlans:
    """How many videos a limit on a loss takes: equal models fail in at most 5 %, twice the limit in at least 80 %.

    It follows from how many sets change between two equally good models: `churn` in per cent (10 where nothing is
    given), or what a `run` and its baseline show, which are named as in `gate`.

    >>> plan_gate({"acc_pmk": 2})[0].videos
    677
    """
    limits = tuple(Limit(kind="max_loss", measure=name, value=value) for name, value in max_loss.items())
    request = GateOptions(
        limits=limits,
        model=model,
        against=() if against is None else (Path(against),),
        baselines=() if baseline is None else (baseline,),
        options=ScoreOptions(k=k),
        subset=None if videos is None else Path(videos),
        dataset=None if dataset is None else Path(dataset),
    )
    share = None if churn is None else churn / 100
    return GatePlans(run_plan(None if run is None else Path(run), request, watching(False), churn=share))


def _paths(given: str | Path | Sequence[str | Path] | None) -> tuple[Path, ...]:
    return (Path(given),) if isinstance(given, str | Path) else tuple(Path(one) for one in given or ())


@in_python
def history(
    *runs: str | Path,
    models: Sequence[str] = (),
    order: Literal["time", "given"] = "time",
    k: int | None = None,
    videos: str | Path | None = None,
    allow_missing: bool = False,
    dataset: str | Path | None = None,
    progress: bool | Progress = False,
) -> Checkpoints:
    """The models of several run folders on one dataset over time, each compared with those before it.

    These are the one before it, the first, and the best before it (`since`, `since_first`, `since_best` of a step).

    `videos` is a file of video names to judge them on, or "all"; by default the videos that the runs were scored on.
    """
    found = run_history(
        [Path(run) for run in runs], models=models, order=order, options=ScoreOptions(k=k),
        subset=None if videos is None else Path(videos), allow_missing=allow_missing,
        dataset_path=None if dataset is None else Path(dataset), progress=watching(progress),
    )  # fmt: skip
    return Checkpoints(**{one.name: getattr(found, one.name) for one in fields(found)})
