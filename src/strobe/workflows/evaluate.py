"""`strobe eval`: predict, score and report in one command that does only the missing work."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from strobe.analyses.results import Results
from strobe.analyses.scoring import ModelSets
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, UnknownName, expect, printable, without_name
from strobe.core.locks import writes
from strobe.core.ports import Progress
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.engine.engine import PredictOutcome
from strobe.engine.prediction import run_requested
from strobe.engine.running import Running
from strobe.formats.bring import bring
from strobe.models.grammar import BoxesView, RemedyView
from strobe.models.requested import RequestedModel, requested_models
from strobe.store.dataset_folder import is_dataset
from strobe.store.opening import Opened, frame_source
from strobe.store.run_folder import Run
from strobe.workflows.options import VideoOptions
from strobe.workflows.report import ReportOptions, report_run
from strobe.workflows.score import ScoreRunOptions, check_model, check_request, score_staged


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The outcome of an evaluation: results, the report's path (or None with the reason), and failed models.

    `dataset` is the scored dataset, and `sets` has each model's result on every set. `left_out` explains why models of
    earlier commands in the same run are not in the results. `skipped` has an error for each video that cannot be used.
    `asked` are the names of the requested models.
    """

    results: Results
    dataset: Dataset
    sets: tuple[ModelSets, ...]
    report: Path | None
    no_report: str | None
    failed: tuple[PredictOutcome, ...]
    left_out: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


def given_dataset(sources: Sequence[Path]) -> Path | None:
    """Return the dataset folder among the sources of a command, or None if the sources are videos.

    Raises StrobeError if a source is missing, if it is a folder without videos, or if a dataset is given with other
    sources.
    """
    expect(len(sources) > 0, "DATASET", "a dataset folder or videos", "none")
    for source in sources:
        if is_dataset(source):
            if len(sources) == 1:
                return source
            raise StrobeError(
                f"{printable(source)} is a dataset, which must be given alone; remove it, or remove the other paths"
            )
        if not source.exists():
            raise StrobeError(f"no such file or folder: {printable(source)}; give a dataset folder or videos")
        from strobe.workflows.videos import check_source

        check_source(source)
    return None


@writes("run")
def evaluate(
    sources: Path | Sequence[Path],
    models: Sequence[str | RequestedModel],
    run: Path,
    *,
    prediction: Running,
    request: ScoreRunOptions,
    progress: Progress,
    with_report: bool = True,
    show: tuple[str, ...] = (),
    change: tuple[str, str] | None = None,
    log: Sequence[str] = (),
    videos: VideoOptions = VideoOptions(),  # noqa: B008 (it is frozen)
) -> Evaluation:
    """Run or import every model, score all of them and write the report. If a model fails, the others continue.

    `sources` are one dataset folder, or videos without labels. Such videos become a dataset inside the run, with the
    options in `videos`. `show` names models that the figures and the gallery show first. `change` names the models
    before and after a change. `log` names further destinations of the figures: tensorboard[=FOLDER], wandb[=PROJECT].
    Models of earlier commands in the run are scored, too, except those that an interrupted command left incomplete. If
    people named the images, no model is needed.
    """
    sources = [sources] if isinstance(sources, Path) else sources
    place, path = Run(run), given_dataset(sources)
    skipped: tuple[str, ...] = ()
    opened = None if path is None else Opened.of(path, subset=request.subset, run=place)
    if not models and (opened is None or not opened.dataset.names):
        raise StrobeError(
            "no model given; use for example -m efficientnet-lite0, -m timm:resnet50.a1_in1k or -m preds:FILE "
            "(strobe models lists the names)"
        )
    if log:
        from strobe.report.loggers import check_logs

        check_logs(log)
    requested = requested_models(models, trust=prediction.trust) if models else []
    if opened is None:
        _check_shown(place, requested, show, request)
        _check_for_videos(request)
        from strobe.workflows.videos import dataset_of_videos

        made = dataset_of_videos(
            sources,
            place,
            requested,
            videos,
            k=request.options.k,
            prediction=prediction,
            brought=request,
            progress=progress,
        )
        requested, skipped = list(made.models), made.problems
        opened = Opened.of(made.path, subset=request.subset, run=place)
        request = replace(request, ignore_extra=True)  # the last frames of a video may be in no set
    elif videos.any:
        raise StrobeError(
            f"<<every>> and <<label_space>> are for videos, and {printable(path)} is a dataset; remove them"
        )
    check_request(request, opened)
    place.check(opened.candidates)
    place.judge_on(opened.subset)
    if prediction.stop_early:
        from strobe.engine.stopping import check_stopping

        check_stopping(opened.dataset)
        if request.compare_review:
            raise StrobeError(
                "<<compare_review>> needs every frame, which <<stop_early>> does not predict; remove one of the two "
                "options"
            )
    _check_shown(place, requested, show, request)
    files = [model for model in requested if model.is_brought]
    others = [model for model in requested if not model.is_brought]
    if any(not isinstance(model.view, BoxesView | RemedyView) for model in others):
        frame_source(opened.candidates)  # raises an error before anything is written if there are no images
    with place.stage() as stage:
        if files:
            bring(opened.dataset, place, files, request, progress, stage=stage)
        names = [model.name for model in requested]
        outcomes = run_requested(
            opened.candidates,
            others,
            place,
            prediction,
            progress,
            asked_for=names,
            scored=opened.dataset,
            k=request.options.k,
            stage=stage,
            check=partial(_check_scorable, opened.dataset, requested),
        )
        failed = tuple(model for model in outcomes if not model.ok)
        if failed and len(failed) == len(requested):
            first = without_name(failed[0].name, failed[0].error or "")
            which = "first " if len(failed) > 1 else ""
            raise StrobeError(f"no model could run; {which}{printable(failed[0].name)}: {first}")
        scored = score_staged(
            place,
            stage,
            opened,
            request,
            progress,
            leave_out=[model.name for model in failed],
            skip_incomplete=True,
            skip_detectors=True,
            asked_for=names,
        )
    report, reason = None, None
    if with_report:
        try:
            report = report_run(
                run, ReportOptions(show=show, change=change), progress, opened=opened, results=scored.results
            )
        except StrobeError as error:
            reason = str(error)
            (run / "report.html").unlink(missing_ok=True)  # an earlier report could be mistaken for the current one
    try:
        if log:
            from strobe.report.loggers import log_results

            log_results(log, scored.results, run, progress)
    except StrobeError as error:
        raise StrobeError(f"{error}; results and report are kept in {printable(run)}") from error
    return Evaluation(
        results=scored.results,
        dataset=opened.dataset,
        sets=scored.sets,
        report=report,
        no_report=reason,
        failed=failed,
        left_out=scored.left_out,
        skipped=skipped,
        asked=tuple(model.name for model in requested if not model.helper),
    )


def _check_shown(run: Run, requested: Sequence[RequestedModel], show: Sequence[str], request: ScoreRunOptions) -> None:
    """Raise an error if --show or --judge names a model that was not requested, before anything is written."""
    if run.exists:  # for an existing run, the report checks the names
        return
    asked_for = [("model to <<show>>", name) for name in show]
    for what, name in [*asked_for, *(("model for <<judge>>", name) for name in request.options.judges)]:
        if name not in (known := [model.name for model in requested]):
            raise UnknownName(what, name, known)


def _check_for_videos(request: ScoreRunOptions) -> None:
    """Raise an error for options that need more than videos, before a video is decoded."""
    options = {
        "<<compare_review>>": request.compare_review,
        "<<baseline>>": request.options.baseline,
        "<<judge>>": request.options.judges,
    }
    for option, given in options.items():
        if given:
            raise StrobeError(f"{option} needs a dataset, not videos without labels and votes; remove {option}")


def _check_scorable(
    dataset: Dataset, requested: Sequence[RequestedModel], model: RequestedModel, spec: ModelSpec
) -> None:
    """Raise an error for a model that cannot be scored, unless another model needs its boxes."""
    needed = {view.source for one in requested if (view := one.view) is not None}
    if not model.helper and not needed & {model.name, model.spec}:
        check_model(dataset, model.name, Task(spec.task))
