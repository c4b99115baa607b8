"""The main job: predict, score, report, in one command that does only what is missing."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strobe.analyses.results import Results
from strobe.core.errors import StrobeError, UnknownName, printable, without_name
from strobe.core.ports import Progress
from strobe.datasets import folder as dataset_folder
from strobe.workflows.predict import ModelRun, PredictOptions, predict, spelled_out
from strobe.workflows.report import ReportRequest, report_run
from strobe.workflows.runs import check_frames, open_dataset, record_run
from strobe.workflows.score import ScoreRequest, bring, check_request, score_run, split_name
from strobe.workflows.sources import frame_source

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What came of it: the results, the report's path (None where it was not made, with the reason), failed models.

    `left_out` says why models of earlier commands in the same run are not in the results.
    """

    results: Results
    report: Path | None
    no_report: str | None
    failed: tuple[ModelRun, ...]
    left_out: tuple[str, ...] = ()


def evaluate(
    path: Path,
    models: Sequence[str],
    run: Path,
    *,
    prediction: PredictOptions,
    request: ScoreRequest,
    progress: Progress,
    with_report: bool = True,
    show: tuple[str, ...] = (),
) -> Evaluation:
    """Run or bring every model, score them all, write the report. A model that fails is reported, the rest go on.

    `show` names models that the report's figures and gallery show first.
    The run's models of earlier commands are scored too; one that an interrupted command left half-way is left out.
    """
    if not models:
        raise StrobeError(
            "no model given: -m efficientnet-lite0, -m timm:resnet50.a1_in1k, -m preds:FILE; see strobe models"
        )
    candidates = dataset_folder.read(path)
    files = [text for text in models if split_name(text)[1].startswith("preds:")]
    others = [text for text in models if text not in files]
    dataset = open_dataset(path, subset=request.subset)
    check_request(request, candidates, dataset)
    check_frames(run, candidates)
    is_new = not run.exists()
    if is_new and not files:  # what is brought from files or lies in the run is checked when the report is drawn
        known = spelled_out(others)
        for name in show:
            if name not in known:
                raise UnknownName("model to --show", name, known)
    if others:
        frame_source(candidates)  # no images, no run: said before anything is written
    if files:
        bring(dataset, run, files, request, progress)
        record_run(run, candidates, path=path, changes={})
    runs = predict(candidates, others, run, prediction, progress) if others else []
    failed = tuple(one for one in runs if not one.ok)
    if failed and len(failed) == len(runs) and not files:
        if is_new and not any(run.rglob("*.parquet")):
            shutil.rmtree(run)  # nothing was predicted: leave no folder that is bound to this dataset
        first = without_name(failed[0].name, failed[0].error or "")
        raise StrobeError(f"no model could be run; first {printable(failed[0].name)}: {first}")
    scored = score_run(
        run, request, progress, dataset_path=path, leave_out=[one.name for one in failed], skip_incomplete=True
    )
    report, reason = None, "not asked for"
    if with_report:
        try:
            wanted = ReportRequest(dataset=path, subset=request.subset, show=show)
            report, reason = report_run(run, wanted, progress), ""
        except StrobeError as error:
            reason = str(error)
    return Evaluation(
        results=scored.results, report=report, no_report=reason or None, failed=failed, left_out=scored.left_out
    )
