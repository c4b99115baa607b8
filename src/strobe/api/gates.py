"""`gate` and `history`: whether a model passes, and how checkpoints fared over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from strobe.analyses.gate import Gate, Limit
from strobe.analyses.history import History
from strobe.analyses.plan import ScoreOptions
from strobe.api.faces import html_table
from strobe.api.words import in_python, watching
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.report.gate import figure_of, gate_lines, in_short
from strobe.report.history import history_lines, history_rows, paint_history
from strobe.workflows.gate import GateRequest
from strobe.workflows.gate import gate as run_gate
from strobe.workflows.history import history as run_history

__all__ = ["Checkpoints", "Gated", "gate", "history"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Gated(Gate):
    """Whether a model passed (`passed`), and what each rule said (`checks`)."""

    def __repr__(self) -> str:
        return "\n".join(gate_lines(self))

    def _repr_html_(self) -> str:
        rows = [
            ["passed" if one.passed else "FAILED", one.limit.title, figure_of(one), one.verdict, one.sentence]
            for one in self.checks
        ]
        shown = in_short(self)
        notes = [] if shown.change is None else [shown.change.sentence()]
        caption = f"{shown.model}: {'passed' if self.passed else 'FAILED'}"
        return html_table(["", "rule", "figure", "verdict", ""], rows, caption=caption, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checkpoints(History):
    """Checkpoints over time: `steps` in order, `to_frame()`, `plot()`."""

    def __repr__(self) -> str:
        return "\n".join(history_lines(self))

    def _repr_html_(self) -> str:
        head, *rows = [cells for _, table in history_rows(self) for cells in table]
        return html_table(head, rows, caption=f"{self.dataset}, k = {self.k}", notes=["% [95 % interval]"])

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row for each step."""
        pandas = require("pandas", what="to_frame()", extra="frames")
        rows = [
            {
                "step": one.name, "line": one.line, "run": one.run, "model": one.model, "at": one.at,
                "orig": one.orig.value, "pmk": one.pmk.value, "pmk_low": one.pmk.low, "pmk_high": one.pmk.high,
                "drop": one.drop.value, "since": None if one.since is None else one.since.value,
                "clearly": one.clearly or "",
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
    against: str | Path | None = None,
    model: str | None = None,
    baseline: str | None = None,
    max_loss: Mapping[str, float] | None = None,
    min: Mapping[str, float] | None = None,
    max: Mapping[str, float] | None = None,
    fail_on: Literal["shown", "figure", "doubt"] = "shown",
    unsure: Literal["fail", "pass"] = "fail",
    k: int | None = None,
    videos: str | Path | None = None,
    allow_missing: bool = False,
    dataset: str | Path | None = None,
) -> Gated:
    """Hold a model of a run folder against limits: `max_loss={"acc_pmk": 1}` (points), `min={"acc_pmk": 50}` (%).

    The baseline is the model of the same name in the run `against`, or another model of the same run. `passed` is the
    verdict; `fail_on` and `unsure` say how sure one must be, as `strobe gate --help` does. `videos` is a file of video
    names to judge it on, or "all"; by default these are the videos that the run was scored on.
    """
    rules: tuple[tuple[Literal["max_loss", "min", "max"], Mapping[str, float] | None], ...] = (
        ("max_loss", max_loss), ("min", min), ("max", max),
    )  # fmt: skip
    limits = [
        Limit(kind=kind, measure=name, value=value) for kind, said in rules for name, value in (said or {}).items()
    ]
    request = GateRequest(
        limits=tuple(limits), model=model, against=None if against is None else Path(against), baseline=baseline,
        fail_on=fail_on, unsure=unsure, options=ScoreOptions(k=k), dataset=None if dataset is None else Path(dataset),
        subset=None if videos is None else Path(videos), allow_missing=allow_missing,
    )  # fmt: skip
    found = run_gate(Path(run), request, watching(False))
    return Gated(**{one.name: getattr(found, one.name) for one in fields(found)})


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
    """The models of several run folders on one dataset over time, each compared with the one before it.

    `videos` is a file of video names to judge them on, or "all"; by default the videos that the runs were scored on.
    """
    found = run_history(
        [Path(run) for run in runs], models=models, order=order, options=ScoreOptions(k=k),
        subset=None if videos is None else Path(videos), allow_missing=allow_missing,
        dataset_path=None if dataset is None else Path(dataset), progress=watching(progress),
    )  # fmt: skip
    return Checkpoints(**{one.name: getattr(found, one.name) for one in fields(found)})
