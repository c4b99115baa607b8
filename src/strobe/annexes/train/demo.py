"""The training demo: all recipes on the synthetic world, with a report on clips that no training used."""

from collections.abc import Sequence
from pathlib import Path

from strobe.annexes.train.series import RUNGS, SeriesJob, jobs_of, size_named, train_series
from strobe.core.files import inside, make_folder
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.engine.running import Running
from strobe.models.cores import cores
from strobe.workflows.evaluate import Evaluation, evaluate
from strobe.workflows.score import ScoreRunOptions
from strobe.workflows.synthesize import synthesize

MOST_WORKERS, GPU_WORKERS = 4, 8
"""Number of parallel training runs: one per core on a CPU, and several on a GPU, because one small network leaves it
mostly idle.
"""


def demo_training(
    out: Path,
    progress: Progress,
    *,
    size: str = "small",
    seeds: int = 3,
    device: str = "auto",
    workers: int | None = None,
    only: Sequence[str] = (),
) -> Evaluation:
    """Render clips, train every recipe for every seed, and report on the held-out clips.

    `only` selects some recipes. Run it again to resume: clips, finished trainings, checkpoints and predictions are
    kept.
    """
    torch = require("torch", what="strobe demo --training", extra="models")
    series_size = size_named(size)
    on_gpu = device != "cpu" and torch.cuda.is_available()
    usable = cores()
    make_folder(out)
    training, held = inside(out, "training-clips"), inside(out, "dataset")
    for path, is_held in ((training, False), (held, True)):
        synthesize(path, series_size.data(held=is_held), progress=progress, workers=usable)
    first = SeriesJob(
        rung=RUNGS[0], seed=0, size=series_size, training=training, held=held, out=inside(out, "models"), device=device
    )
    jobs = jobs_of(first, seeds=seeds, only=only)
    at_once = workers or min(len(jobs), GPU_WORKERS if on_gpu else min(usable, MOST_WORKERS))
    train_series(jobs, workers=at_once, progress=progress)
    shown = [name for name in ("stills~0", "finetune~0", "pmk~0") if name in {job.name for job in jobs}]
    return evaluate(
        held,
        [f"{job.name}={job.spec}" for job in jobs],
        inside(out, "run"),
        prediction=Running(device=device),
        request=ScoreRunOptions(),
        progress=progress,
        show=tuple(shown),
        change=("stills~0", "pmk~0") if {"stills~0", "pmk~0"} <= set(shown) else None,
    )
