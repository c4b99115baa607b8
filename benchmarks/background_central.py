"""The central experiment of the background paper, on rendered images: one backbone as classifier and as detector.

    PYTHONPATH=src python benchmarks/background_central.py OUT --size toy                               # a CPU
    PYTHONPATH=src python benchmarks/background_central.py OUT --size full --device cuda --cores 16

Two backbones of timm are trained from random weights as classifiers, on images of which nineteen in twenty show a class
on its usual background. Each classifier then becomes a detector on the same images (`strobe train detector -m
timm:NAME@FILE --head retinanet`), once with all weights trained and, with --frozen, once with a frozen backbone. All
models answer on images with the usual background (home) and with another one (away): the classifier on whole images,
on crops to the detector's box and on crops to the true box, and the detector by its most confident box. The script
writes central.json (the records of the study `backbones`) and tables.md (means over seeds) to OUT.
Run the same command again to resume.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from background_models import Talk, material
from background_study import GROUNDS, SEED, SIZES
from strobe.annexes.backgrounds.backbones.records import SharedBackbone
from strobe.annexes.backgrounds.workflow import VaryBackgroundOptions, vary_background
from strobe.annexes.train.classifiers import train
from strobe.annexes.train.detectors import train_detector
from strobe.core.codec import decode, encode
from strobe.core.estimate import Estimate
from strobe.core.files import make_folder, write_text
from strobe.core.ports import Progress
from strobe.engine.running import Running
from strobe.store import dataset_folder as folder
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.train.recipe import find
from strobe.workflows.options import TrainOptions
from strobe.workflows.predict import predict
from strobe.workflows.score import ScoreRunOptions, score_run
from strobe.workflows.synthesize import synthesize

HEAD = "retinanet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the experiment is: images to train on, how often each is seen, images per background and object size
    to answer on, and the shorter side of the input.
    """

    backbones: tuple[str, ...]
    seeds: int
    pictures: int
    held: int
    epochs: int
    detector_epochs: int
    images: int
    sizes: tuple[str, ...]
    image_size: int
    pyramid: int
    batch: int


ALL = {
    "toy": Size(
        backbones=("test_resnet", "mobilenetv3_small_050"), seeds=2, pictures=1_500, held=120, epochs=10,
        detector_epochs=8, images=240, sizes=("medium",), image_size=96, pyramid=32, batch=16,
    ),
    "full": Size(
        backbones=("resnet50", "efficientnet_b0"), seeds=3, pictures=12_000, held=1_200, epochs=20, detector_epochs=20,
        images=1_000, sizes=("small", "medium", "large"), image_size=224, pyramid=256, batch=32,
    ),
}  # fmt: skip


def trained(args: argparse.Namespace, size: Size, name: str, seed: int, say: Progress) -> tuple[str, dict[str, str]]:
    """Train a backbone as classifier and as detector, and return their specs."""
    pictures = material(args.out, "ground", size.pictures, cores=args.cores, say=say)
    held_out = material(args.out, "ground-held", size.held, cores=args.cores, say=say)
    place = args.out / "trainings" / f"{name}-{seed}"
    threads = 1 if args.device == "cpu" else None

    def options(*, from_scratch: bool) -> TrainOptions:
        return TrainOptions(
            seed=seed, device=args.device, evaluations=1, threads=threads, image_size=size.image_size,
            from_scratch=from_scratch,
        )  # fmt: skip

    usual = [f"batch={size.batch}", "optimiser=adamw", "learning_rate=1e-3", "weight_decay=0.05", "schedule=cosine"]
    recipe = find("stills", changes=[*usual, f"epochs={size.epochs}"], model=f"timm:{name}")
    start = options(from_scratch=True)
    classifier = train(recipe, pictures, f"timm:{name}", place / "classifier", start, say, held_out=held_out).model
    detectors = {}
    frozen = ["norms=frozen", "trainable_layers=0"]
    for kind, changes in {"detector": [], **({"frozen detector": frozen} if args.frozen else {})}.items():
        boxes = [*usual, f"epochs={size.detector_epochs}", f"head={HEAD}", f"pyramid={size.pyramid}", *changes]
        recipe = find("detector", changes=boxes, model=f"timm:{name}")
        out = place / kind.replace(" ", "-")
        done = train_detector(recipe, pictures, classifier, out, options(from_scratch=False), say, held_out=held_out)
        detectors[kind] = done.model
        say.note(f"{name}, seed {seed}, {kind}: mAP {done.history[-1].figures[0]:.3f}")
    return classifier, detectors


def answered(args: argparse.Namespace, size: Size, ground: str, scale: str, say: Progress) -> list[SharedBackbone]:
    """Render images of a background and an object size, run every trained model, and return the comparison."""
    world = WorldOptions(
        size=64, frames=1, distractors=1, occluders=0, object_scale=SIZES[scale], background_correlation=GROUNDS[ground]
    )
    name = f"{ground}-{scale}"
    wanted = SyntheticOptions(world=world, videos=size.images, seed=SEED, name=name, masks=True)
    synthesize(args.out / "images" / name, wanted, progress=say, workers=args.cores)
    # On a ladder, models get whole images and crops with the same fit.
    ladder, run = args.out / "ladders" / name, args.out / "runs" / name
    rungs = VaryBackgroundOptions(name=name, rungs=("crop",), context=(1.0,))
    vary_background(args.out / "images" / name, ladder, rungs, progress=say)
    options = Running(device=args.device)
    failed = [one for one in predict(folder.read(ladder), models(args, size, say), run, options, say) if not one.ok]
    if failed:
        raise SystemExit(f"{failed[0].name}: {failed[0].error}")
    results = score_run(run, ScoreRunOptions(), say).results
    say.note(f"{name}: all models done")
    return [decode(SharedBackbone, one, where="studies") for one in (results.studies or {})["backbones"]]


def models(args: argparse.Namespace, size: Size, say: Progress) -> list[str]:
    """Return every model as NAME=SPEC: each backbone and seed as classifier, as detector, and on detected crops."""
    out = []
    for seed in range(args.seeds or size.seeds):
        for name in size.backbones:
            classifier, detectors = trained(args, size, name, seed, say)
            out.append(f"{name} classifier~{seed}={classifier}")
            for kind, detector in detectors.items():
                out.append(f"{name} {kind}~{seed}=boxes:{detector}")
                out.append(f"{name} crop to the {kind}~{seed}=crop:{detector},context=1:{classifier}")
    return out


def table(found: dict[str, list[SharedBackbone]]) -> str:
    """Return the means over seeds as Markdown, with the lowest and the highest seed."""
    lines = [
        "| images, backbone | how it answers | right, % | minus classifier | detector minus this |",
        "|---|---|---|---|---|",
    ]
    for where, shared in found.items():
        for backbone in dict.fromkeys(one.backbone for one in shared):
            groups = [one for one in shared if one.backbone == backbone]
            for rows in zip(*(one.rows for one in groups), strict=True):
                model = rows[0].model.rpartition("~")[0].removeprefix(backbone.removeprefix("timm:")).strip()
                what = "crop to the true box" if rows[0].role == "oracle-crop" else model
                cells = [
                    _mean([getattr(row, key) for row in rows])
                    for key in ("accuracy", "over_classifier", "below_detector")
                ]
                lines.append(f"| {where}, {backbone} | {what} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean(values: Sequence[Estimate | None]) -> str:
    """Return the mean over seeds in per cent. With one seed, return its interval over images instead."""
    known = [100 * one.value for one in values if one is not None and one.value is not None]
    if not known:
        return ""
    if len(known) == 1 and values[0] is not None:
        return values[0].text()
    return f"{sum(known) / len(known):.1f} ({min(known):.1f} to {max(known):.1f})"


def main() -> None:
    """Parse the options and run the experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", choices=ALL, default="toy")
    parser.add_argument("--seeds", type=int, default=0, help="number of seeds, if not that of the size")
    parser.add_argument("--frozen", action="store_true", help="train a detector with a frozen backbone too")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cores", type=int, default=1, help="number of processes that render")
    args = parser.parse_args()
    size, say = ALL[args.size], Talk()
    make_folder(args.out)
    found = {
        f"{ground}, {scale}": answered(args, size, ground, scale, say) for scale in size.sizes for ground in GROUNDS
    }
    write_text(args.out / "central.json", json.dumps(encode(found), indent=1, ensure_ascii=False) + "\n")
    write_text(args.out / "tables.md", table(found))
    say.note(f"written: {args.out}")


if __name__ == "__main__":
    main()
