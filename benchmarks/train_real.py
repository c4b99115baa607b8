"""Train efficientnet-lite0 on a few real clips, and measure pm-k accuracy on a held-out clip before and after.

    python benchmarks/train_real.py prepare CLIPS DATA      # CLIPS: the clips of shared/clips; needs av; DATA is 34 MB
    PYTHONPATH=src python benchmarks/train_real.py run DATA OUT [--epochs 5]      # a minute or two on a GPU

There are six clips of four classes of ImageNet-Vid: three of dogs, one each of a cow, a car and a bicycle. Each dog is
held out in turn, and the other five clips are the training data: `finetune` from the ILSVRC weights (with a new head
for the 30 classes), then `pmk`. The baseline is the ILSVRC model with the published projection. The results are in
OUT/real.json. Three held-out clips are too few for an interval.
"""

import argparse
import hashlib
import json
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import DatasetInfo
from strobe.core.labels import space
from strobe.core.ports import Silent
from strobe.store import dataset_folder as dataset_folder

K, EVERY, SIDE = 10, 5, 288
CLIPS = {
    "bulldog": ("bulldog/*.jpg", "dog"),
    "running-dog": ("dog.mp4", "dog"),
    "davis-dog": ("davis/dog/frames/*", "dog"),
    "cows": ("davis/cows/frames/*", "cattle"),
    "car-shadow": ("davis/car-shadow/frames/*", "car"),
    "bmx-trees": ("davis/bmx-trees/frames/*", "bicycle"),
}
DOGS = ("bulldog", "running-dog", "davis-dog")


def pictures(source: Path, pattern: str) -> list[Image.Image]:
    """Return the frames of a clip, from a video or a folder."""
    if pattern.endswith(".mp4"):
        import av

        with av.open(str(source / pattern)) as container:
            return [frame.to_image() for frame in container.decode(video=0)]
    return [Image.open(path).convert("RGB") for path in sorted(source.glob(pattern))]


def prepare(source: Path, target: Path, most: int | None) -> None:
    """Make a dataset folder of all clips, with small frames and an anchor every few frames."""
    vid, made, count = space("imagenet-vid"), DatasetBuilder(), 0
    for name, (pattern, label) in CLIPS.items():
        frames = pictures(source, pattern)[:most]
        video = made.video(video_id=name, name=name, fps=Fraction(30), n_frames=len(frames))
        (target / "media" / name).mkdir(parents=True, exist_ok=True)
        rows = []
        for index, image in enumerate(frames):
            key = f"{name}/{index:06d}.jpg"
            image.thumbnail((10_000, SIDE), Image.Resampling.BICUBIC)
            image.save(target / "media" / key, quality=92)
            content = (target / "media" / key).read_bytes()
            rows.append(made.frame(
                video=video, index=index, key=key, pts=index, time_s=(index, 30), size_wh=image.size,
                sha256=hashlib.sha256(content).hexdigest(), media=f"media/{key}", labels=[vid.names.index(label)],
            ))  # fmt: skip
        for anchor in range(K, len(rows) - K, EVERY):
            members = [(rows[anchor + step], float(step)) for step in range(-K, K + 1) if step]
            made.set(set_id=f"{name}@{anchor}", anchor=rows[anchor], members=members)
        count += len(rows)
    dataset_folder.write(made.build(DatasetInfo(name="real-clips", label_space=vid, k=K)), target, overwrite=True)
    print(f"{count} frames of {len(CLIPS)} clips in {target}")


def run(data: Path, out: Path, dogs: list[str], epochs: int, device: str) -> None:
    """Run every fold: train both stages and evaluate."""
    folds = {held: fold(data, out / held, held, epochs, device) for held in dogs}
    out.mkdir(parents=True, exist_ok=True)
    (out / "real.json").write_text(json.dumps({"epochs": epochs, "folds": folds}, indent=1), encoding="utf-8")
    for held, found in folds.items():
        for name, one in found["models"].items():
            print(f"{held:12s} {name:9s} {one['acc_orig']:6.1%} → {one['acc_pmk']:6.1%}  n = {one['n']}")


def fold(data: Path, out: Path, held: str, epochs: int, device: str) -> dict[str, Any]:
    """Run the fold of one held-out dog."""
    from strobe.annexes.train.classifiers import train
    from strobe.engine.running import Running
    from strobe.train.recipe import find
    from strobe.workflows.evaluate import evaluate
    from strobe.workflows.options import TrainOptions
    from strobe.workflows.score import ScoreRunOptions
    from strobe.workflows.train_job import Material

    whole = Material.of(data)
    training = replace(whole, dataset=whole.dataset.only_videos([name for name in CLIPS if name != held]))
    other = replace(whole, dataset=whole.dataset.only_videos([held]))
    options = TrainOptions(device=device, evaluations=2, precision="float32")
    begin, start, models = time.monotonic(), "efficientnet-lite0", {"before": "efficientnet-lite0"}
    for name, changes in (
        ("finetune", (f"epochs={epochs}", "batch=32", "schedule=cosine")),
        ("pmk", (f"epochs={epochs}", "batch=16", "learning_rate=1e-4")),
    ):
        done = train(find(name, changes=changes), training, start, out / name, options, Silent(), held_out=other)
        models[name] = start = done.model
    subset = out / "held-out.txt"
    subset.write_text(held, encoding="utf-8")
    found = evaluate(
        data, [f"{name}={spec}" for name, spec in models.items()], out / "run",
        prediction=Running(device=device), request=ScoreRunOptions(subset=subset),
        progress=Silent(), with_report=False,
    ).results  # fmt: skip
    told = {
        name: {"acc_orig": one.headline.orig.value, "acc_pmk": one.headline.pmk.value, "n": one.headline.orig.n}
        for name, one in found.models.items()
    }
    order = np.argsort([list(models).index(name) for name in told])
    pairs = [[row.a, row.b, row.only_a, row.only_b] for row in found.comparison if row.metric == "acc_pmk"]
    return {
        "models": {list(told)[place]: told[list(told)[place]] for place in order},
        "pairs": pairs,
        "training_sets": training.dataset.n_sets,
        "seconds": round(time.monotonic() - begin, 1),
    }


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["prepare", "run"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--frames", type=int, help="maximum number of frames per clip, for a dry run")
    parser.add_argument("--held", nargs="*", default=list(DOGS), choices=DOGS, help="the dogs to hold out")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    if args.verb == "prepare":
        prepare(args.source, args.target, args.frames)
    else:
        run(args.source, args.target, args.held, args.epochs, args.device)


if __name__ == "__main__":
    main()
