"""Measure how much the background decides an answer, on rendered images (docs/annexes/backgrounds.md).

    PYTHONPATH=src python benchmarks/background_study.py OUT --images 240                        # a CPU
    PYTHONPATH=src python benchmarks/background_study.py OUT --images 6000 --device cuda --cores 16 --models MODELS

The same objects are rendered at three sizes, each on the usual background of its class and on another one. These six
folders differ in one property at a time. Each becomes a ladder (`strobe vary background`). The models are classifiers
trained with and without an informative background, and detectors with the same backbone. The script writes study.json
(accuracies with intervals, and contrasts paired by image), tables.md and two figures to OUT. MODELS is the output
folder of background_models.py; without it, the shipped models are used. Run the same command again to resume.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.annexes.backgrounds.workflow import VaryBackgroundOptions, vary_background
from strobe.core.estimate import Estimate
from strobe.core.files import make_folder, write_text
from strobe.core.ports import Progress, Silent
from strobe.engine.running import Running
from strobe.metrics.contrasts import paired_test
from strobe.metrics.intervals import clopper_pearson
from strobe.metrics.paired import paired_difference
from strobe.store import dataset_folder as folder
from strobe.store.run_folder import Run
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.workflows.predict import predict
from strobe.workflows.synthesize import synthesize

SIZES = {"small": (0.2, 0.3), "medium": (0.35, 0.5), "large": (0.6, 0.8)}
"""Diameters as shares of the image's side. The random draws are the same for each, so objects differ only in size."""

GROUNDS = {"home": 1.0, "away": -1.0}
SEED = 71
"""The first seed, which differs from those of all training images."""

RUNGS = (
    "whole", "zoom", "random", "crop-1", "crop-1.25", "crop-1.5", "crop-2", "tight", "grey", "blur", "plain", "same",
    "other", "object", "removed", "ground",
)  # fmt: skip
NAMES = ("ground", "object", "ground boxes", "object boxes")
"""Classifiers trained with and without an informative background, and detectors with the same backbone."""

Marks = dict[str, bool]
"""Whether a model is right on a rung, for each image that has the rung."""
Right = dict[str, dict[str, Marks]]
"""The same for each rung and model."""


class Talk(Silent):
    """Prints notes with the time since the start."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def note(self, text: str) -> None:
        print(f"{time.monotonic() - self._begin:6.1f} s  {text}", flush=True)


def models(made: Path | None) -> list[str]:
    """Return the models, as NAME=SPEC."""
    if made is None:
        return ["ground=strobe-ground", "object=strobe-object", "ground boxes=boxes:strobe-ground-boxes"]
    specs = []
    for name in NAMES:
        file = made / f"strobe-{name.replace(' ', '-')}.safetensors"
        if file.is_file():
            spec = f"boxes:strobe-net-boxes@{file}" if "boxes" in name else f"strobe-net-small@{file}"
            specs.append(f"{name}={spec}")
    return specs


def answered(args: argparse.Namespace, ground: str, size: str, say: Progress) -> Right:
    """Render the images of a background and a size, make their ladder, and run every model."""
    world = WorldOptions(
        size=64, frames=1, distractors=1, occluders=0, object_scale=SIZES[size], background_correlation=GROUNDS[ground]
    )
    name = f"{ground}-{size}"
    wanted = SyntheticOptions(world=world, videos=args.images, seed=SEED, name=name, masks=True)
    synthesize(args.out / "pictures" / name, wanted, progress=say, workers=args.cores)
    ladder, run = args.out / "ladders" / name, args.out / "runs" / name
    vary_background(args.out / "pictures" / name, ladder, VaryBackgroundOptions(name=name), progress=say)
    options = Running(device=args.device, batch_size=args.batch)
    failed = [one for one in predict(folder.read(ladder), models(args.models), run, options, say) if not one.ok]
    if failed:
        raise SystemExit(f"{failed[0].name}: {failed[0].error}")
    say.note(f"{name}: all models done")
    marks: Right = {}
    for model, by_rung in right_of(ladder, run).items():
        for rung, right in by_rung.items():
            marks.setdefault(rung, {})[model] = right
    return marks


def right_of(ladder: Path, run: Path) -> dict[str, dict[str, Marks]]:
    """Return whether every model is right, by model, rung (crops with their context) and image."""
    dataset = folder.read(ladder)
    sets, keys = dataset.sets, dataset.frames.key
    by_model: dict[str, dict[str, Marks]] = {}
    for held in Run(run).models_as_asked(dataset):
        right = dataset.right_rows(held.load().label)
        for row in range(len(sets.frame)):
            picture = str(sets.set_id[sets.set[row]]).rpartition("@")[0]
            key = str(keys[sets.frame[row]])
            rung = "whole" if sets.is_anchor[row] else key.removesuffix(picture).rstrip("/")
            by_model.setdefault(held.name, {}).setdefault(rung, {})[picture] = bool(right[row])
    return by_model


# -- figures with intervals ------------------------------------------------------------------------------------------


def share(right: Marks) -> Estimate:
    """Return the share of right answers with its interval. Each image is a separate source."""
    return clopper_pearson(sum(right.values()), len(right))


def gap(a: Marks, b: Marks) -> Estimate:
    """Return the accuracy of `a` minus that of `b` on images that have both, with the exact test's interval."""
    less = np.array([int(a[picture]) - int(b[picture]) for picture in a if picture in b])
    each = np.arange(len(less))
    p = paired_test(less, each).p
    return paired_difference(less, each, p=p, p_holm=p, pairs=1)


def contrasts(of: Mapping[tuple[str, str], Right], model: str, size: str) -> dict[str, Estimate]:
    """Return how changing one property changes a model's accuracy, in rendered images and along the ladder."""
    home, away = of["home", size], of["away", size]
    estimates = {"ground, rendered: away − home": gap(away["whole"][model], home["whole"][model])}
    if size != "large":
        large = of["home", "large"]["whole"][model]
        estimates["magnified, rendered: large − this, at home"] = gap(large, home["whole"][model])
        estimates["magnified, rendered: large − this, away"] = gap(
            of["away", "large"]["whole"][model], away["whole"][model]
        )
    pairs = {
        "ground greyed: grey − whole": ("grey", "whole"), "another's ground: other − whole": ("other", "whole"),
        "BG-Gap: same − other": ("same", "other"), "magnified without ground: tight − grey": ("tight", "grey"),
        "cropped: crop − whole": ("crop-1", "whole"), "ground at the crop's scale: crop − tight": ("crop-1", "tight"),
        "place: crop − zoom": ("crop-1", "zoom"),
    }  # fmt: skip
    for word, (first, second) in pairs.items():
        for where, right in (("home", home), ("away", away)):
            if first in right and second in right:
                estimates[f"{word}, {where}"] = gap(right[first][model], right[second][model])
    return estimates


def published(of: Mapping[tuple[str, str], Right], size: str) -> dict[str, Estimate]:
    """Return the published comparison on unusual backgrounds, and the same against crops and magnified objects."""
    away = of["away", size]
    if "ground boxes" not in away["whole"]:
        return {}
    plain, boxes = away["whole"]["ground"], away["whole"]["ground boxes"]
    estimates = {"classifier": share(plain), "detector as classifier": share(boxes)}
    estimates["detector − classifier"] = gap(boxes, plain)
    for word, rung in (
        ("classifier on oracle crops, context 1", "crop-1"), ("classifier on oracle crops, context 1.5", "crop-1.5"),
        ("classifier on oracle crops, context 2", "crop-2"), ("classifier on the centre magnified", "zoom"),
        ("classifier, ground greyed at the original scale", "grey"), ("classifier, box and mask", "tight"),
    ):  # fmt: skip
        if rung in away:
            estimates[word] = share(away[rung]["ground"])
            estimates[f"detector − {word}"] = gap(boxes, away[rung]["ground"])
    if size != "large":
        magnified = of["away", "large"]["whole"]["ground"]
        estimates["classifier, object rendered large"] = share(magnified)
        estimates["detector − classifier, object rendered large"] = gap(boxes, magnified)
    estimates["object classifier"] = share(away["whole"]["object"])
    estimates["detector − object classifier"] = gap(boxes, away["whole"]["object"])
    return estimates


def told(of: Mapping[tuple[str, str], Right], asked: Sequence[str], images: int) -> dict[str, Any]:
    """Return all results as plain JSON."""
    accuracy = {
        f"{ground} {size}": {rung: {name: _json(share(one)) for name, one in of[ground, size][rung].items()}
                             for rung in RUNGS if rung in of[ground, size]}
        for ground, size in of
    }  # fmt: skip
    return {
        "images": images,
        "models": list(asked),
        "accuracy": accuracy,
        "contrasts": {
            size: {
                name: {word: _json(one) for word, one in contrasts(of, name, size).items()}
                for name in of["home", size]["whole"]
            }
            for size in SIZES
        },
        "published": {
            size: {word: _json(one) for word, one in published(of, size).items()} for size in SIZES
        },
    }  # fmt: skip


def _json(found: Estimate) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}


def main() -> None:
    """Parse the options and run the study."""
    from background_figures import draw, sheet, tables

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=int, default=240, help="number of images per size and background")
    parser.add_argument("--models", type=Path, default=None, help="output folder of background_models.py")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--cores", type=int, default=1, help="number of processes that render")
    args = parser.parse_args()
    say = Talk()
    make_folder(args.out)
    of = {(ground, size): answered(args, ground, size, say) for size in SIZES for ground in GROUNDS}
    found = told(of, models(args.models), args.images)
    write_text(args.out / "study.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_text(args.out / "tables.md", tables(found))
    draw(found, args.out)
    sheet(SIZES, args.out / "background-world.jpg", seed=SEED)
    say.note(f"written: {args.out}")


if __name__ == "__main__":
    main()
