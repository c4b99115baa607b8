"""What video without labels is worth: `strobe train agreement` against its start and against the same loss with labels.

    PYTHONPATH=src python benchmarks/train_agreement.py OUT --seeds 3                  # two CPU cores, minutes
    PYTHONPATH=src python benchmarks/train_agreement.py OUT --size study --workers 2   # as the first study, hours
    PYTHONPATH=src python benchmarks/train_agreement.py OUT --size full       # the same with strobe-net; needs a GPU

Three parts of the synthetic world: clips of which only the anchors are used, with labels (`stills` makes the start);
other clips without labels; held-out clips. For every seed: the start, `agreement` on the other clips (their labels are
removed), the same with the labelled anchors, and the ceiling, which is the worst and a random frame of the other clips
with their labels (`pmk-mixed` with constant, equal weights). Writes OUT/agreement-FIRST.json after every training. The
same command resumes.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from strobe.annexes.train.classifiers import train
from strobe.core.ports import Silent
from strobe.core.tables import Labels
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.train.recipe import find
from strobe.train.sets import HeldOut
from strobe.workflows.options import TrainOptions
from strobe.workflows.synthesize import rendered
from strobe.workflows.train_job import Material


@dataclass(frozen=True)
class Size:
    """The world, clips per part (labelled, unlabelled, held out), the network and the epochs (start, then)."""

    world: WorldOptions
    clips: tuple[int, int, int]
    model: str
    epochs: tuple[int, int]
    batch: int


SIZES = {
    "toy": Size(
        WorldOptions(size=32, frames=5, distractors=0, occluders=0), (36, 36, 24), "strobe-net-small", (2, 1), 12
    ),
    "small": Size(
        WorldOptions(size=32, frames=11, object_scale=(0.5, 0.75), distractors=0, lighting=0.6, texture_faithful=1.0),
        (800, 800, 300),
        "strobe-net-small",
        (30, 10),
        48,
    ),
    "study": Size(
        WorldOptions(size=64, object_scale=(0.3, 0.55)), (1742, 1743, 1729), "strobe-net-small", (150, 25), 64
    ),
    "full": Size(WorldOptions(size=64, object_scale=(0.3, 0.55)), (1742, 1743, 1729), "strobe-net", (40, 25), 128),
}
SEEDS = (0, 10_000, 30_000)
"""Seeds of the three parts, far from each other."""


def unlabelled(material: Material) -> Material:
    """Return the material without a single label."""
    nothing = np.zeros(0, dtype=material.dataset.labels.frame.dtype)
    labels = Labels(frame=nothing, label=nothing.astype(material.dataset.labels.label.dtype))
    return replace(material, dataset=replace(material.dataset, labels=labels))


def measured(model: str, held: Material, device: str) -> dict[str, float]:
    """Return acc_orig, acc_pmk and flicker of a trained model on the held-out clips, in per cent."""
    dataset, loaded = held.dataset, load_model(model, LoadOptions(device=device))
    rows = np.arange(len(dataset.frames))
    answers = [
        np.asarray(loaded.forward([loaded.prepare(held.source.read(int(row))) for row in part])).argmax(axis=1)
        for part in np.array_split(rows, max(1, len(rows) // 256))
    ]
    side = HeldOut.of(dataset, np.arange(dataset.n_sets), rows)
    predicted = np.concatenate(answers)[side.frames].astype(np.int64)
    orig, worst = side.accuracy(predicted)
    return {
        name: round(100 * value, 2)
        for name, value in (("acc_orig", orig), ("acc_pmk", worst), ("flicker", side.flicker(predicted)))
    }


def main() -> None:
    """Render the three parts and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed, for seeds in separate processes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--precision", default="auto", help="of all trainings; CUDA uses bfloat16 by default")
    parser.add_argument("--anchors", action="store_true", help="also train with the labelled anchors")
    args = parser.parse_args()
    size, first = SIZES[args.size], TrainOptions()
    made = [
        rendered(
            SyntheticOptions(world=size.world, videos=videos, seed=seed, name=f"part-{place}"), workers=args.workers
        )
        for place, (videos, seed) in enumerate(zip(size.clips, SEEDS, strict=True))
    ]
    anchors, other, held = (Material(dataset=one.dataset, source=one.source()) for one in made)
    same = [f"batch={size.batch}", "weight_decay=0.05"]
    then = [*same, "learning_rate=1e-3", f"epochs={size.epochs[1]}"]
    table: list[dict[str, Any]] = []
    for seed in range(args.first, args.first + args.seeds):
        options = replace(
            first,
            seed=seed,
            device=args.device,
            image_size=size.world.size,
            evaluations=1,
            threads=args.workers,
            precision=args.precision,
        )

        def go(
            name: str,
            recipe: str,
            changes: list[str],
            on: Material,
            model: str,
            seed: int = seed,
            options: TrainOptions = options,
            **more: Any,
        ) -> str:
            out = args.out / f"{name}~{seed}"
            done = train(find(recipe, changes=changes), on, model, out, options, Silent(), held_out=held, **more)
            row = {"training": name, "seed": seed, "seconds": round(done.seconds), **measured(done.model, held, "cpu")}
            table.append(row)
            print(row, flush=True)
            (args.out / f"agreement-{args.first}.json").write_text(
                json.dumps({"size": args.size, "rows": table}, indent=1)
            )
            return done.model

        start = go("start", "stills", [*same, f"epochs={size.epochs[0]}"], anchors, size.model)
        go("agreement", "agreement", then, unlabelled(other), start)
        go("labels", "pmk-mixed", [*then, "worst_weight=0.5", "ramp=0.0"], other, start)
        if args.anchors:
            go("agreement with anchors", "agreement", then, unlabelled(other), start, anchors=anchors)


if __name__ == "__main__":
    main()
