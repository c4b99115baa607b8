"""Run models over the frames of a dataset into a run folder. Runs can be resumed."""

from collections.abc import Sequence
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.ports import FrameSource, Progress
from strobe.engine.engine import PredictOutcome
from strobe.engine.prediction import run_requested
from strobe.engine.running import Running
from strobe.formats.bring import bring
from strobe.formats.prediction_files import FileOptions
from strobe.models.requested import RequestedModel, requested_models
from strobe.store.brought import Absent
from strobe.store.run_folder import Run


def predict(
    dataset: Dataset,
    models: Sequence[str | RequestedModel],
    out: Path,
    options: Running,
    progress: Progress,
    *,
    source: FrameSource | None = None,
    absent: Absent = "error",
) -> list[PredictOutcome]:
    """Run models over every frame of the dataset's sets, into the run folder `out`.

    `models` may contain globs, `@testbed`, prediction files and models that a program passes. Calling it again does
    only the missing work. Pass the dataset with all its candidates, because predictions do not depend on review, and
    smoothing uses rejected frames. With `stop_early`, only the sets that review kept are run. `absent` says how frames
    are treated that a file of boxes does not name.
    """
    requested, run = requested_models(models, trust=options.trust), Run(out)
    run.check(dataset)
    if options.stop_early:
        from strobe.engine.stopping import check_stopping

        check_stopping(dataset)
    files = [model for model in requested if model.is_brought]
    if files:
        with run.stage() as stage:
            bring(dataset, run, files, FileOptions(merge=options.merge, absent=absent), progress, stage=stage)
            names = [model.name for model in requested]
            run.record(dataset, path=dataset.root or Path(), changes={}, stage=stage, asked=names)
    others = [model for model in requested if not model.is_brought]
    ran = run_requested(dataset, others, run, options, progress, source=source)
    outcome_of = {outcome.name: outcome for outcome in ran}
    return [outcome_of.get(model.name) or PredictOutcome(name=model.name, ok=True) for model in requested]
