"""The generator demos: coarse to fine changes against a standard and a robust classifier, with a report."""

from pathlib import Path

from strobe.analyses.plan import ScoreOptions
from strobe.annexes.generators.workflow import VaryGeneratorOptions, vary_generator
from strobe.core.files import inside, make_folder
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.engine.running import Running
from strobe.models.options import LoadOptions
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.workflows.evaluate import Evaluation, evaluate
from strobe.workflows.score import ScoreRunOptions
from strobe.workflows.synthesize import synthesize

GENERATOR = "strobe-gan-mnist"
"""The generator of digits.

A step of the other shipped generator takes five times as long, which is too slow on two cores.
"""

TARGETS = ("standard=strobe-mnist", "robust=strobe-mnist-linf")
JUDGE = "judge"

AUTOENCODER = "strobe-ae"
WORLD_TARGETS = ("standard=strobe-world", "robust=strobe-world-linf")

PHOTO_WORLD = WorldOptions(
    size=64, frames=1, distractors=0, occluders=0, object_scale=(0.6, 0.85), motion=0.5, blur=0.0, noise=0.0
)
"""The world that the shipped autoencoder and its classifiers learned: one large object, nothing in front of it."""

_SEED = 51_002
"""The seed of the photos. The autoencoder was trained on photos of another seed."""


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
    vary_generator(inside(out, "dataset"), GENERATOR, TARGETS, wanted, load=load, progress=progress)
    return _evaluated(out, [*TARGETS, f"{JUDGE}=strobe-mnist-judge"], load, progress)


def demo_autoencoder(
    out: Path,
    progress: Progress,
    *,
    images: int = 12,
    photos: int = 60,
    steps: int | None = None,
    granularity: tuple[str, ...] = (),
    device: str = "auto",
) -> Evaluation:
    """Reconstruct rendered photos with the shipped autoencoder, search its activations, let a judge decide, and report.

    Run it again to resume: finished searches and predictions are kept.
    """
    require("torch", what="strobe demo --autoencoder", extra="models")
    make_folder(out)
    dataset, source = inside(out, "dataset"), inside(out, "photos")
    load, name = LoadOptions(device=device), "strobe-demo-autoencoder"
    rendered = SyntheticOptions(world=PHOTO_WORLD, videos=photos, seed=_SEED, name="strobe-demo-photos")
    synthesize(source, rendered, progress=progress)
    wanted = VaryGeneratorOptions(images=images, steps=steps, granularity=granularity, name=name)
    vary_generator(dataset, AUTOENCODER, WORLD_TARGETS, wanted, photos=source, load=load, progress=progress)
    return _evaluated(out, [*WORLD_TARGETS, f"{JUDGE}=strobe-world-judge"], load, progress)


def _evaluated(out: Path, models: list[str], load: LoadOptions, progress: Progress) -> Evaluation:
    return evaluate(
        inside(out, "dataset"),
        models,
        inside(out, "run"),
        prediction=Running.of(load),
        request=ScoreRunOptions(options=ScoreOptions(judges=(JUDGE,))),
        progress=progress,
    )
