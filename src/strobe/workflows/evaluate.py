"""The main job: predict, score, report, in one command that does only what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strobe.analyses.per_set import ModelSets
from strobe.analyses.results import Results
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, UnknownName, printable, without_name
from strobe.core.locks import writes
from strobe.core.ports import Progress
from strobe.models.requested import RequestedModel, requested_models
from strobe.models.views import BoxesView
from strobe.report.loggers import check_logs, log_results
from strobe.runs.folder import Run
from strobe.workflows.bring import bring
from strobe.workflows.opening import Opened
from strobe.workflows.predict import PredictOptions, PredictOutcome, run_requested
from strobe.workflows.report import ReportOptions, report_run
from strobe.workflows.score import ScoreRunOptions, check_request, score_staged
from strobe.workflows.sources import frame_source
from strobe.workflows.stopping import check_stopping

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What came of it: the results, the report's path (None where it was not made, with the reason), failed models.

    `dataset` is what was scored, `sets` each model's word on every set. `left_out` says why models of earlier commands
    in the same run are not in the results.
    """

    results: Results
    dataset: Dataset
    sets: tuple[ModelSets, ...]
    report: Path | None
    no_report: str | None
    failed: tuple[PredictOutcome, ...]
    left_out: tuple[str, ...] = ()


@writes("run")
def evaluate(
    path: Path,
    models: Sequence[str | RequestedModel],
    run: Path,
    *,
    prediction: PredictOptions,
    request: ScoreRunOptions,
    progress: Progress,
    with_report: bool = True,
    show: tuple[str, ...] = (),
    change: tuple[str, str] | None = None,
    log: Sequence[str] = (),
) -> Evaluation:
    """Run or bring every model, score them all, write the report. A model that fails is reported, the rest go on.

    `show` names models that the report's figures and gallery show first, `change` two as before and after.
    `log` names where the figures go too: tensorboard[=FOLDER], wandb[=PROJECT].
    The run's models of earlier commands are scored too; one that an interrupted command left half-way is left out.
    Where people named the images there need be no model: they are reported alone.
    """
    place = Run(run)
    opened = Opened.of(path, subset=request.subset, run=place)
    if not models and not opened.dataset.names:
        raise StrobeError(
            "no model given: -m efficientnet-lite0, -m timm:resnet50.a1_in1k, -m preds:FILE; see strobe models"
        )
    check_logs(log)
    wanted = requested_models(models, trust=prediction.load.trust) if models else []
    check_request(request, opened)
    place.check(opened.candidates)
    place.judge_on(opened.subset)
    if prediction.stop_early:
        check_stopping(opened.dataset)
        if request.compare_review:
            raise StrobeError(
                "--stop-early and --compare-review: a comparison of stages needs every frame; leave one out"
            )
    if not place.exists:  # what lies in the run already is checked when the report is drawn
        asked_for = [("model to --show", name) for name in show]
        for what, name in [*asked_for, *(("model for --judge", name) for name in request.options.judges)]:
            if name not in (known := [one.name for one in wanted]):
                raise UnknownName(what, name, known)
    files = [one for one in wanted if one.is_brought]
    others = [one for one in wanted if not one.is_brought]
    if any(not isinstance(one.view, BoxesView) for one in others):
        frame_source(opened.candidates)  # no images, no run: said before anything is written
    with place.stage() as stage:
        bring(opened.dataset, place, files, request, progress, stage=stage)
        names = [one.name for one in wanted]
        fared = run_requested(
            opened.candidates, others, place, prediction, progress, asked_for=names, scored=opened.dataset,
            k=request.options.k, stage=stage,
        )  # fmt: skip
        failed = tuple(one for one in fared if not one.ok)
        if failed and len(failed) == len(wanted):
            first = without_name(failed[0].name, failed[0].error or "")
            which = "first " if len(failed) > 1 else ""
            raise StrobeError(f"no model could be run; {which}{printable(failed[0].name)}: {first}")
        scored = score_staged(
            place, stage, opened, request, progress, leave_out=[one.name for one in failed], skip_incomplete=True,
            skip_detectors=True, asked_for=names,
        )  # fmt: skip
    report, reason = None, None
    if with_report:
        try:
            report = report_run(run, ReportOptions(show=show, change=change), progress, opened=opened)
        except StrobeError as error:
            reason = str(error)
            (run / "report.html").unlink(missing_ok=True)  # an earlier one, which would pass for this one's
    try:
        log_results(log, scored.results, run, progress)
    except StrobeError as error:
        raise StrobeError(f"{error}; results and report are kept in {printable(run)}") from error
    return Evaluation(
        results=scored.results, dataset=opened.dataset, sets=scored.sets, report=report, no_report=reason,
        failed=failed, left_out=scored.left_out,
    )  # fmt: skip
