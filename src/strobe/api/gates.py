"""Judge a model against limits (`gate`, `plan_gate`), and compare checkpoints over time (`history`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from strobe.analyses.gate import Gate, Limit
from strobe.analyses.gate_plan import GatePlan
from strobe.analyses.history import History
from strobe.analyses.plan import ScoreOptions
from strobe.api.html_tables import html_table
from strobe.api.words import as_path, as_paths, in_python, several, watching
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.report.gate import changes_of, figure_of, gate_lines, in_short, plan_lines, verdict_of
from strobe.report.history import history_lines, history_notes, history_rows, history_table, paint_history
from strobe.workflows.gate import GateOptions
from strobe.workflows.gate import gate as run_gate
from strobe.workflows.gate import plan_gate as run_plan
from strobe.workflows.history import history as run_history


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Gated(Gate):
    """The result of `strobe.gate`: `passed` is the verdict (None: inconclusive), `checks` has each rule."""

    def __repr__(self) -> str:
        return "\n".join(gate_lines(self))

    def _repr_html_(self) -> str:
        rows = [[check.mark, check.title, figure_of(check), check.verdict, check.sentence] for check in self.checks]
        shown = in_short(self)
        notes = [*(shown.cautions or ()), *(change.sentence() for change in changes_of(shown))]
        caption = f"{shown.model}: {verdict_of(self)}"
        return html_table(["", "rule", "figure", "verdict", ""], rows, caption=caption, notes=notes)


class GatePlans(tuple[GatePlan, ...]):
    """The result of `strobe.plan_gate`: a tuple of GatePlan, one per limit. Its repr is a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(plan_lines(self))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checkpoints(History):
    """The result of `strobe.history`: `steps` has the checkpoints in order."""

    def __repr__(self) -> str:
        return "\n".join(history_lines(self))

    def _repr_html_(self) -> str:
        head, *rows = [cells for _, table in history_rows(self) for cells in table]
        notes = ["% [95 % interval]", *history_notes(self)]
        return html_table(head, rows, caption=f"{self.dataset}, k = {self.k}", notes=notes)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each step."""
        pandas = require("pandas", what="to_frame()", extra="frames")
        return pandas.DataFrame(history_table(self))

    def plot(self) -> Any:
        """Plot the steps on a new pyplot figure. Return its axes, or the axes of the last task if there are two."""
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
    against: str | Path | Sequence[str | Path] = (),
    model: str | None = None,
    baseline: str | Sequence[str] = (),
    max_loss: Mapping[str, float] | None = None,
    min: Mapping[str, float] | None = None,
    max: Mapping[str, float] | None = None,
    scope: Literal["these-clips", "this-recording", "other-videos"] = "these-clips",
    k: int | None = None,
    videos: str | Path | None = None,
    allow_missing: bool = False,
    dataset: str | Path | None = None,
    progress: bool | Progress = False,
) -> Gated:
    """Judge whether a model of a run folder stays within limits.

    By default, the verdict is about these clips: the figure decides, which is a fact about the clips of the run. About
    other videos, the 95 % interval over videos decides: "regression" if all of it is beyond the limit, "pass" if all of
    it is within the limit, else "inconclusive", with the number of videos that would decide. A rule is also
    inconclusive if its outcome depends on sets without predictions.

    Measures are named as in results.json. Shares are in per cent, and losses of shares in points. A detector has
    map_orig, map_pmk and drop, a classifier acc_orig, acc_pmk and drop. If sets have no label, a classifier has
    flicker, flip_rate, changes_per_second and more. Only `min` and `max` accept contrasts between variants, which are
    named by what they isolate (bg-gap, background, magnification) or by both sides (anchor-grey).

    Args:
        run: The run folder with the model.
        against: A run folder with a baseline, on the same dataset. A loss is measured against every baseline: pass the
            latest run and a fixed older run, so that small losses cannot add up unnoticed.
        model: The model to judge, if the run has several.
        baseline: A model to compare with. Default: the model of `against` with the same name, or its only model.
            Without `against`, name another model of the same run.
        max_loss: The largest loss against the baseline on the same sets, in points or in the unit of the measure:
            `{"acc_pmk": 1}`. For drop, flicker and others of which more is worse, the largest increase.
        min: The smallest value, in per cent or in the unit of the measure: `{"acc_pmk": 50}`.
        max: The largest value, in per cent or in the unit of the measure: `{"drop": 10}`.
        scope: What the verdict is about. these-clips: a fact about the clips of the run. this-recording: more video of
            the same scenes. other-videos: videos that were not seen, from the interval over at least six videos.
        k: The largest distance from the anchor. Default: the dataset's k.
        videos: A text file with the names of the videos to judge on, one per line, or the word all. Default: the videos
            that the run was scored on.
        allow_missing: Accept sets without predictions. A rule must then hold for every possible result on these sets.
        dataset: Where the dataset is now, if it was moved.
        progress: True shows a progress bar.

    Returns:
        The verdict (`passed`) and a check for each rule (`checks`).

    Raises:
        StrobeError: No limit is given, a measure or model is unknown, or the runs are not on the same dataset.

    >>> import tempfile, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     data = strobe.load_dataset(strobe.save_dataset(strobe.example_dataset(), f"{tmp}/data"))
    ...     answers = strobe.ClassAnswers.from_labels("always cat", [0] * len(data.frames))
    ...     evaluated = strobe.evaluate(data, answers, f"{tmp}/run", report=False)
    ...     strobe.gate(f"{tmp}/run", min={"acc_pmk": 90}).passed
    False
    """
    request = GateOptions(
        limits=(*_limits("max_loss", max_loss), *_limits("min", min), *_limits("max", max)),
        model=model,
        against=as_paths(against),
        baselines=several(baseline),
        scope=scope,
        options=ScoreOptions(k=k),
        dataset=as_path(dataset),
        subset=as_path(videos),
        allow_missing=allow_missing,
    )
    found = run_gate(Path(run), request, watching(progress))
    return Gated(**{field.name: getattr(found, field.name) for field in fields(found)})


@in_python
def plan_gate(
    max_loss: Mapping[str, float],
    *,
    churn: float | None = None,
    run: str | Path | None = None,
    against: str | Path | Sequence[str | Path] = (),
    model: str | None = None,
    baseline: str | Sequence[str] = (),
    k: int | None = None,
    videos: str | Path | None = None,
    dataset: str | Path | None = None,
    progress: bool | Progress = False,
) -> GatePlans:
    """Compute how many videos a limit on a loss needs.

    With that many videos, a model as good as the baseline fails in at most 5 % of cases. A model that loses twice the
    limit fails in at least 80 % of cases. The number depends on the churn: the share of sets that change between two
    equally good models.

    Args:
        max_loss: The largest loss by measure, in points.
        churn: The churn in per cent. Default: the churn between `run` and its baseline, or 10 without a run.
        run: A run folder to measure the churn on. The arguments below are as in `gate`.
        against: A run folder with the baseline.
        model: The model of `run`.
        baseline: The model to compare with.
        k: The largest distance from the anchor. Default: the dataset's k.
        videos: A text file of video names, or the word all.
        dataset: Where the dataset is now, if it was moved.
        progress: True shows a progress bar.

    Returns:
        A plan for each limit, with the number of `videos`.

    Raises:
        StrobeError: A measure is unknown, or the run has no baseline.

    >>> plan_gate({"acc_pmk": 2})[0].videos
    677
    """
    request = GateOptions(
        limits=_limits("max_loss", max_loss),
        model=model,
        against=as_paths(against),
        baselines=several(baseline),
        options=ScoreOptions(k=k),
        subset=as_path(videos),
        dataset=as_path(dataset),
    )
    share = None if churn is None else churn / 100
    return GatePlans(run_plan(as_path(run), request, watching(progress), churn=share))


def _limits(kind: Literal["max_loss", "min", "max"], rules: Mapping[str, float] | None) -> tuple[Limit, ...]:
    return tuple(Limit(kind=kind, measure=name, value=value) for name, value in (rules or {}).items())


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
    """Show checkpoints over time: compare the models of several run folders with earlier models on one dataset.

    If a model is in several runs, every model forms a line of its own. Otherwise all models form one line. Each step is
    compared with three earlier steps of its line on the same sets: the previous, the first and the best. The tests are
    exact and corrected for their number. If no set has a label, the steps are compared on the clips themselves.

    Args:
        runs: The run folders. All must be on one dataset.
        models: Show only this model. Default: all models.
        order: time: by the last prediction of each run. given: in the order of the run folders.
        k: The largest distance from the anchor. Default: the dataset's k.
        videos: A text file with the names of the videos to score on, one per line, or the word all. Default: the videos
            that the runs were scored on.
        allow_missing: Score the sets that have all predictions, instead of refusing incomplete predictions.
        dataset: Where the dataset is now, if it was moved.
        progress: True shows a progress bar.

    Returns:
        The steps in order.

    Raises:
        StrobeError: A run cannot be read, or the runs are on different datasets.

    >>> import tempfile, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     data = strobe.load_dataset(strobe.save_dataset(strobe.example_dataset(), f"{tmp}/data"))
    ...     for number, label in enumerate([0, 1]):
    ...         answers = strobe.ClassAnswers.from_labels("net", [label] * len(data.frames))
    ...         evaluated = strobe.evaluate(data, answers, f"{tmp}/run-{number}", report=False)
    ...     found = strobe.history(f"{tmp}/run-0", f"{tmp}/run-1", order="given")
    >>> [round(step.pmk.value, 3) for step in found.steps]
    [0.625, 0.375]
    """
    timeline = run_history(
        as_paths(runs),
        models=models,
        order=order,
        options=ScoreOptions(k=k),
        subset=as_path(videos),
        allow_missing=allow_missing,
        dataset_path=as_path(dataset),
        progress=watching(progress),
    )
    return Checkpoints(**{field.name: getattr(timeline, field.name) for field in fields(timeline)})
