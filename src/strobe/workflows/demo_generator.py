"""The generator demo: coarse to fine changes against a standard and a robust classifier, with a report."""

from pathlib import Path

from strobe.analyses.plan import ScoreOptions
from strobe.core.files import make_folder
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.engine.prediction import PredictOptions
from strobe.models.options import LoadOptions
from strobe.workflows.evaluate import Evaluation, evaluate
from strobe.workflows.score import ScoreRunOptions
from strobe.workflows.vary_generator import VaryGeneratorOptions, vary_generator

GENERATOR = "strobe-gan-mnist"
"""The generator of digits.

A step of the other shipped generator takes five times as long, which is too slow on two cores.
"""

TARGETS = ("standard=strobe-mnist", "robust=strobe-mnist-linf")
JUDGE = "judge"


def demo_generator(
    out: Path,
    progress: Progress,
    *,
    images: int = 24,
    steps: int | None = None,
    granularity: tuple[str, ...] = (),
    device: str = "auto",
) -> Evaluation:
    """Search with the shipped generator against two shipped classifiers, let a third judge the findings, and report.

    Run it again to resume: finished searches and predictions are kept.
    """
    require("torch", what="strobe demo --generator", extra="models")
    make_folder(out)
    load = LoadOptions(device=device)
    wanted = VaryGeneratorOptions(images=images, steps=steps, granularity=granularity, name="strobe-demo-generator")
    vary_generator(out / "dataset", GENERATOR, TARGETS, wanted, load=load, progress=progress)
    return evaluate(
        out / "dataset",
        [*TARGETS, f"{JUDGE}=strobe-mnist-judge"],
        out / "run",
        prediction=PredictOptions(load=load),
        request=ScoreRunOptions(options=ScoreOptions(judges=(JUDGE,))),
        progress=progress,
    )
