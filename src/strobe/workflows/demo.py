"""The demo: all steps of strobe on bundled real models, a real clip and real photos."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from strobe.build.options import AnchorOptions, CameraOptions
from strobe.core.dataset import Dataset, DatasetInfo, joined
from strobe.core.files import inside, make_folder, write_text
from strobe.core.labels import space
from strobe.core.late import require
from strobe.core.ports import Progress
from strobe.core.quoting import csv_text
from strobe.core.tables import texts
from strobe.engine.running import Running
from strobe.formats.assets import COCKATOO, PHOTOS, fetch
from strobe.models.lite import weights_file
from strobe.store import dataset_folder as dataset_folder
from strobe.workflows.build import build
from strobe.workflows.evaluate import Evaluation, evaluate
from strobe.workflows.options import BuildOptions, SimulateOptions
from strobe.workflows.score import ScoreRunOptions
from strobe.workflows.simulate import simulate

MODELS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")
"""Three real ImageNet classifiers whose weights are installed from the package index."""

_COCKATOO = "n01819313"
_CAMERA = CameraOptions(k=10, size=256, shift=0.05, zoom=0.08, roll=3.0, tilt=4.0, shake=0.008, h264_crf=28)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo. `offline` uses the downloads of an earlier demo.

    `every` is the distance, in frames, between two anchors of the clip.
    """

    offline: bool = False
    every: int = 21
    sets_per_photo: int = 2
    workers: int = 2
    models: tuple[str, ...] = MODELS


def photo_label(name: str) -> str:
    """Return the ILSVRC-2012 id of a demo photo, from the class number in its name.

    >>> photo_label("imagenet_16_251.jpg")
    'n02110341'
    """
    found = re.search(r"_(\d+)\.jpg$", name)
    return space("ilsvrc-2012").ids[int(found[1])] if found else ""


def write_photo_labels(photos: Sequence[Path], path: Path) -> None:
    """Write a CSV with the class of every demo photo."""
    write_text(path, csv_text(["file", "label"], ([photo.name, photo_label(photo.name)] for photo in photos)))


def demo(out: Path, options: DemoOptions, progress: Progress) -> Evaluation:
    """Download, build, simulate, predict, score and report. Running it again does only the missing work."""
    for package in ("av", "onnxruntime"):  # fail before the work starts if a package is missing
        require(package, what="the demo", extra="demo")
    for name in options.models:
        weights_file(name)
    dataset = demo_dataset(inside(out, "dataset"), options, progress)
    progress.note(f"{dataset.n_sets} sets, {len(dataset.frames)} frames; running {len(options.models)} models")
    return evaluate(
        inside(out, "dataset"),
        options.models,
        inside(out, "run"),
        prediction=Running(offline=options.offline),
        request=ScoreRunOptions(),
        progress=progress,
    )


def demo_dataset(target: Path, options: DemoOptions, progress: Progress) -> Dataset:
    """Make one dataset folder of the demo: anchors along the clip, and a simulated camera over the photos."""
    clip = fetch(COCKATOO, offline=options.offline, progress=progress)
    photos = fetch(PHOTOS, offline=options.offline, progress=progress)
    make_folder(target)
    write_photo_labels(photos, target / "photos.csv")
    built = build(
        clip,
        inside(target, "clip"),
        BuildOptions(
            sampling=AnchorOptions(k=10, every=options.every),
            label=(_COCKATOO,),
            label_space="ilsvrc-2012",
            reference=True,
            name="cockatoo",
            licence=COCKATOO.licence,
        ),
        progress=progress,
    ).dataset
    simulated = simulate(
        photos,
        inside(target, "photos"),
        SimulateOptions(
            camera=_CAMERA,
            labels=target / "photos.csv",
            label_space="ilsvrc-2012",
            name="photos",
            sets_per_photo=options.sets_per_photo,
            licence=PHOTOS.licence,
            workers=options.workers,
        ),
        progress=progress,
    ).dataset
    parts = [_moved(built, "clip"), _moved(simulated, "photos")]
    info = DatasetInfo(
        name="strobe-demo",
        label_space=space("ilsvrc-2012"),
        k=10,
        licence=f"clip: {COCKATOO.licence}; photos: {PHOTOS.licence}",
        provenance={"made_by": "strobe demo", "parts": ["cockatoo", "photos"]},
    )
    dataset = joined(parts, info=info, root=target)
    dataset_folder.write(dataset, target, overwrite=True)
    return dataset


def _moved(dataset: Dataset, below: str) -> Dataset:
    """Return the dataset with media paths relative to the parent folder.

    Hints stay. Boxes are dropped (the clip has none).
    """
    media = texts([f"{below}/{name}" if name else "" for name in dataset.frames.media])
    return replace(dataset, frames=replace(dataset.frames, media=media), boxes=None)
