"""Train the models of the background study: one small backbone as classifier and as detector, on two kinds of images.

    PYTHONPATH=src python benchmarks/background_models.py OUT                                # one thread of a CPU
    PYTHONPATH=src python benchmarks/background_models.py OUT --pictures 60000 --epochs 20 --device cuda

`ground` is trained on images of which nineteen in twenty show a class on its usual background. `object` is trained on
images whose background does not depend on the class. Recipe, number of images and backbone are the same. Each is
trained as classifier (`stills`) and as detector (`detector`). The script writes to OUT the weights in half precision,
the trainings' folders, and a JSON file with each model's accuracy on held-out images. Run the same command again to
resume. Several calls with --only share the rendered images.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from strobe.annexes.train.classifiers import train
from strobe.annexes.train.detectors import train_detector
from strobe.build.pool import worker_pool
from strobe.core.files import make_folder, replacing
from strobe.core.ports import Progress, Silent
from strobe.models.header import read_header, write_weights
from strobe.models.weights import read_state
from strobe.store import dataset_folder as dataset_folder
from strobe.synthetic.sets import ArraySource, SyntheticOptions, stored_clip, synthetic_dataset
from strobe.synthetic.world import WorldOptions
from strobe.train.recipe import find
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material, Trained

WORLD = WorldOptions(size=64, frames=1, distractors=1, occluders=0, object_scale=(0.2, 0.8))
"""Objects of every size, with at most one distractor next to them and no occlusion."""

CORRELATION = {"ground": 0.95, "object": 0.0}
SEEDS = {"ground": 61, "object": 62, "ground-held": 63, "object-held": 64}
"""Seeds of disjoint groups of images."""

MODELS = {
    "strobe-ground": ("ground", "strobe-net-small"), "strobe-object": ("object", "strobe-net-small"),
    "strobe-ground-boxes": ("ground", "strobe-net-boxes"), "strobe-object-boxes": ("object", "strobe-net-boxes"),
}  # fmt: skip
"""Each model: the images it is trained on, and its network."""


class Talk(Silent):
    """Prints notes with the time since the start."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def note(self, text: str) -> None:
        print(f"{time.monotonic() - self._begin:6.1f} s  {text}", flush=True)


def material(out: Path, part: str, count: int, *, cores: int, say: Progress) -> Material:
    """Render the images of a part once. Tables go to a folder, pixels to one array."""
    path = out / "pictures" / f"{part}-{count}"
    if not (path / "frames.npy").is_file():
        world = replace(WORLD, background_correlation=CORRELATION[part.partition("-")[0]])
        options = SyntheticOptions(world=world, videos=count, seed=SEEDS[part], name=f"strobe-{part}")
        with worker_pool(cores) as pool:
            clips = pool.map(partial(stored_clip, options, None), range(count), chunksize=32)
            made = synthetic_dataset(options, clips=clips)
        dataset_folder.write(made.dataset, path, overwrite=True)
        with replacing(path / "frames.npy") as temporary, temporary.open("wb") as file:
            np.save(file, made.source().all())
        say.note(f"{count} images rendered: {part}")
    frames = np.load(path / "frames.npy", mmap_mode="r")
    return Material(dataset=dataset_folder.read(path), source=ArraySource(frames))


def trained(name: str, args: argparse.Namespace, say: Progress) -> Trained:
    """Train one model. Both kinds see every image equally often."""
    part, network = MODELS[name]
    pictures = material(args.out, part, args.pictures, cores=args.cores, say=say)
    held_out = material(args.out, f"{part}-held", args.held, cores=args.cores, say=say)
    options = TrainOptions(
        seed=args.seed, device=args.device, evaluations=2, threads=1 if args.device == "cpu" else None,
        from_scratch=True,
    )  # fmt: skip
    where = args.out / "trainings" / name
    if network == "strobe-net-boxes":
        batch = 64
        changes = [f"batch={batch}", f"steps={args.epochs * args.pictures // batch}"]
        return train_detector(
            find("detector", changes=changes, model=network), pictures, network, where, options, say, held_out=held_out
        )
    changes = [f"epochs={args.epochs}", "batch=128"]
    return train(
        find("stills", changes=changes, model=network), pictures, network, where, options, say, held_out=held_out
    )


def halved(path: Path, out: Path) -> None:
    """Write the weights of a training in half precision, with its metadata."""
    header = read_header(path)
    if header is None:
        raise SystemExit(f"{path}: not a weights file of strobe train")
    state = {key: value for key, value in read_state(path).items() if not key.endswith("num_batches_tracked")}
    about = json.loads((path.parent / "training.json").read_text(encoding="utf-8"))
    told = {key: about[key] for key in ("name", "facts", "versions")}
    write_weights(out, state, label_space=header.label_space, plan=header.plan, training=told, half=True)


def main() -> None:
    """Parse the options and train the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", type=int, default=12_000)
    parser.add_argument("--held", type=int, default=1_200)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cores", type=int, default=1, help="number of processes that render")
    parser.add_argument("--only", action="append", choices=MODELS, default=[])
    args = parser.parse_args()
    say = Talk()
    make_folder(args.out)
    results: dict[str, Any] = {}
    for name in args.only or MODELS:
        done = trained(name, args, say)
        last = done.history[-1]
        halved(done.weights, args.out / f"{name}.safetensors")
        results[name] = {"step": last.step, "seconds": round(done.seconds, 1), "held out": last.acc_orig}
        say.note(f"{name}: {json.dumps(results[name])}")
        (args.out / f"{name}.json").write_text(json.dumps(results[name], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
