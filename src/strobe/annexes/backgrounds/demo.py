"""The background demo measures which of two classifiers relies on the background, and how much real classifiers rely on
it on photos.
"""

from dataclasses import dataclass
from pathlib import Path

from strobe.annexes.backgrounds.ladders import RUNGS
from strobe.annexes.backgrounds.workflow import VaryBackgroundOptions, vary_background
from strobe.core.errors import CannotDownload, MissingExtra, printable
from strobe.core.files import inside, make_folder
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.engine.running import Running
from strobe.formats.assets import PHOTOS, fetch
from strobe.formats.import_photos import PhotoFiles
from strobe.models.lite import weights_file
from strobe.models.options import LoadOptions
from strobe.store.bring_media import ImportOptions
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.workflows.demo import write_photo_labels
from strobe.workflows.evaluate import Evaluation, evaluate
from strobe.workflows.import_dataset import import_dataset
from strobe.workflows.score import ScoreRunOptions
from strobe.workflows.synthesize import synthesize

WORLD = WorldOptions(size=64, frames=1, distractors=1, occluders=0, object_scale=(0.2, 0.8), background_correlation=1.0)
"""A world in which every class has its own background, as in the training of the shipped classifiers."""

MODELS = ("strobe-ground", "strobe-object", "strobe-ground-boxes=boxes:strobe-ground-boxes")
"""A classifier trained on predictive backgrounds, one trained on uninformative backgrounds, and a detector."""

WHO = (
    "strobe-ground was trained on images whose background predicts the class, and strobe-object is the same network "
    "trained on images whose background does not predict it; strobe-ground-boxes is a detector with the backbone of "
    "strobe-ground, judged by the class of its most confident box"
)
"""A description of the models, for readers who have not read docs/annexes/backgrounds.md."""

PHOTO_MODELS = ("efficientnet-lite0", "efficientnet-lite2")
SEGMENTER = "u2netp"

_SEED = 73
"""A seed whose images differ from the training images of the classifiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundDemo:
    """The results of both parts. If `photos` is None, `why` is the reason."""

    world: Evaluation
    photos: Evaluation | None
    why: str = ""


def demo_background(
    out: Path, progress: Progress, *, images: int = 96, photos: bool = True, offline: bool = False, device: str = "auto"
) -> BackgroundDemo:
    """Make and report ladders of rendered images with true masks, and of photos with estimated masks.

    Running the same command again does only the missing work.
    """
    require("onnxruntime", what="strobe demo --background", extra="demo")
    make_folder(out)
    pictures, dataset, run = (inside(out, name) for name in ("pictures", "dataset", "run"))
    load = LoadOptions(device=device, offline=offline)
    wanted = SyntheticOptions(world=WORLD, videos=images, seed=_SEED, name="strobe-demo-background", masks=True)
    synthesize(pictures, wanted, progress=progress)
    vary_background(pictures, dataset, VaryBackgroundOptions(name="strobe-demo-background"), progress=progress)
    world = _asked(dataset, MODELS, run, load, progress)
    if not photos:
        return BackgroundDemo(world=world, photos=None, why="they were not requested")
    try:
        real = _photos(out, load, progress)
    except (CannotDownload, MissingExtra) as error:
        return BackgroundDemo(world=world, photos=None, why=printable(error))
    return BackgroundDemo(world=world, photos=real)


def _photos(out: Path, load: LoadOptions, progress: Progress) -> Evaluation:
    """Evaluate the demo's photos. Their masks are estimated, and all results that use them are marked as estimates."""
    for name in PHOTO_MODELS:
        weights_file(name)
    folder = fetch(PHOTOS, offline=load.offline, progress=progress)
    table = out / "photos.csv"
    write_photo_labels(folder, table)
    files = PhotoFiles(labels=table, label_space="ilsvrc-2012")
    import_dataset("photos", folder[0].parent, inside(out, "photos"), files=files, how=ImportOptions(progress=progress))
    # The twenty photos have nearly twenty classes, so most have no other photo of their class to get a background from.
    rungs = tuple(name for name in RUNGS if name != "same")
    wanted = VaryBackgroundOptions(segment=SEGMENTER, rungs=rungs, name="strobe-demo-photos")
    vary_background(inside(out, "photos"), inside(out, "photos-dataset"), wanted, load=load, progress=progress)
    return _asked(inside(out, "photos-dataset"), PHOTO_MODELS, inside(out, "photos-run"), load, progress)


def _asked(dataset: Path, models: tuple[str, ...], run: Path, load: LoadOptions, progress: Progress) -> Evaluation:
    return evaluate(dataset, models, run, prediction=Running.of(load), request=ScoreRunOptions(), progress=progress)
