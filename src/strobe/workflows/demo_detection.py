"""The detection demo: the shipped small detector on the synthetic world, with exact boxes and tracks."""

from pathlib import Path

from strobe.core.files import inside
from strobe.core.ports import Progress
from strobe.engine.running import Running
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import DETECTION_WORLD
from strobe.workflows.evaluate import Evaluation, evaluate
from strobe.workflows.score import ScoreRunOptions
from strobe.workflows.synthesize import synthesize

_SEED = 20_000
"""The seed of the clips, far from the seeds of the detector's training."""


def demo_detection(out: Path, progress: Progress) -> Evaluation:
    """Render clips, run strobe-tiny over them, score and report. Running it again does only the missing work."""
    synthesize(
        inside(out, "dataset"),
        SyntheticOptions(world=DETECTION_WORLD, videos=48, seed=_SEED, name="strobe-demo-detection"),
        progress=progress,
    )
    return evaluate(
        inside(out, "dataset"),
        ("strobe-tiny",),
        inside(out, "run"),
        prediction=Running(),
        request=ScoreRunOptions(),
        progress=progress,
    )
