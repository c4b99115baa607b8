"""Compare strobe's corruptions with imagecorruptions-imaug: how much each changes an image and a model's accuracy.

    python benchmarks/corruptions.py PHOTOS --oracle PYTHON [--model NAME] [--kind NAME] [--json FILE] [--sheet FILE]

PYTHON is an interpreter with imagecorruptions-imaug 1.1.5 (in a temporary environment, because it needs numba, opencv
and scikit-image). Photos are cropped to their centre square and resized to 224 pixels. The script prints the mean
absolute change over all photos (range 0–1) of both packages, and strobe's in per cent of the other's. `--model` also
prints the accuracy and the mean probability of the right class, for photos named like foolbox's,
`imagenet_PLACE_CLASS.jpg`. `--speed` prints images per second. Both use the five frost photographs of ImageNet-C; the
package itself uses a sixth. `--sheet docs/images/corruptions.jpg` without photos draws the sheet of the documentation,
of an image of the synthetic world.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from strobe.core.ports import Silent
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store.media import decode_image
from strobe.synthetic.world import World, WorldOptions
from strobe.vary.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from strobe.workflows.vary_corruption import frost_photographs

_THEIRS = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from imagecorruptions import corrupt
images, names, out, draws = np.load(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
drawn = np.random.randint
np.random.randint = lambda *a, **k: drawn(5) if a == (6,) and not k else drawn(*a, **k)
np.random.seed(0)
for name in names:
    made = [
        [[corrupt(image, corruption_name=name, severity=severity) for image in images] for _ in range(draws)]
        for severity in range(1, 6)
    ]
    np.save(f"{out}-{name}.npy", np.asarray(made).astype(np.uint8))
    print(name, file=sys.stderr)
"""
"""Program that makes images (severity, draw, photo, height, width, 3) of every kind with the other package."""

Array = np.ndarray[Any, Any]


def square(path: Path, side: int) -> Array:
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    short = min(picture.size)
    left, top = (picture.width - short) // 2, (picture.height - short) // 2
    return np.asarray(picture.crop((left, top, left + short, top + short)).resize((side, side)))


def ours(images: Array, kind: str, draws: int, panes: list[Array]) -> Array:
    """Return strobe's images (severity, draw, photo, height, width, 3) of one kind."""

    def one(image: Array, severity: int, draw: int, place: int) -> Array:
        rng = np.random.default_rng([draw, place])
        pane = panes[int(rng.integers(len(panes)))] if CORRUPTIONS[kind].has_pane else None
        return corrupt(image, kind, severity, rng, pane=pane)

    return np.array(
        [
            [[one(image, severity, draw, place) for place, image in enumerate(images)] for draw in range(draws)]
            for severity in SEVERITIES
        ]
    )


def theirs(images: Array, python: str, kinds: list[str], draws: int, folder: Path) -> None:
    """Write the other package's images of these kinds to a folder."""
    np.save(folder / "in.npy", images)
    words = [python, "-c", _THEIRS, str(folder / "in.npy"), json.dumps(kinds), str(folder / "out"), str(draws)]
    subprocess.run(words, check=True)


class Judge:
    """A model's accuracy, and the mean probability it gives to the right class."""

    def __init__(self, name: str, labels: list[int]) -> None:
        self._model: Any = load_model(name, LoadOptions(device="cpu"))
        self._labels = np.array(labels)

    def __call__(self, pictures: Array) -> tuple[float, float]:
        """Return both for images (draw, photo, height, width, 3)."""
        right, probability = [], []
        for draw in pictures:
            scores = np.asarray(self._model.forward([self._model.prepare_input(picture) for picture in draw]))
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            right.append(scores.argmax(axis=1) == self._labels)
            probability.append(shares[np.arange(len(shares)), self._labels])
        return float(np.mean(right)), float(np.mean(probability))


def sheet(image: Array, rows: dict[str, Any], path: Path, *, cell: int = 84, columns: int = 2) -> None:
    """Draw a row for every corruption: the image and its five severities, of both packages if available."""
    names, title = list(CORRUPTIONS), 13
    wide, high = cell * (1 + len(SEVERITIES) * len(rows)) + 12, cell + title + 4
    deep = -(-len(names) // columns)
    canvas = Image.new("RGB", (wide * columns - 12, high * deep), "white")
    pen = ImageDraw.Draw(canvas)
    for place, name in enumerate(names):
        left, top = wide * (place // deep), high * (place % deep)
        pen.text((left, top), name, fill="black")
        blank = np.full_like(image, 255)
        shown = [image, *(part.get(f"{name} {s}", blank) for part in rows.values() for s in SEVERITIES)]
        for n, pixels in enumerate(shown):
            canvas.paste(Image.fromarray(pixels).resize((cell - 2, cell - 2)), (left + cell * n, top + title))
    canvas.save(path, quality=82)


def speed(side: int) -> None:
    rng = np.random.default_rng(0)
    base = Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)).resize((side, side))
    image = np.asarray(base)
    for name in CORRUPTIONS:
        pane = np.asarray(base.resize((900, 600))) if CORRUPTIONS[name].has_pane else None
        corrupt(image, name, 1, rng, pane=pane)  # triggers late imports before timing
        begin, count = time.process_time(), 0
        while time.process_time() - begin < 0.5:
            corrupt(image, name, 1 + count % 5, rng, pane=pane)
            count += 1
        print(f"{side} px {name:18} {count / (time.process_time() - begin):8.0f} images per second on one core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", nargs="*", type=Path)
    parser.add_argument("--oracle")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--model", default="")
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.speed:
        speed(args.side)
        return
    world = World(WorldOptions(size=args.side, occluders=0))
    images = (
        np.stack([square(path, args.side) for path in args.photos])
        if args.photos
        else np.asarray(world.clip(2, label=0, background="leaves", offsets=(0,)).frames)
    )
    panes = [decode_image(content, name=Path(file)) for file, (_, content) in frost_photographs(Silent()).items()]
    kinds = list(dict.fromkeys(args.kind)) or list(CORRUPTIONS)
    shared = [kind for kind in kinds if kind not in ("glass_scatter", "frost_feathers", "fog_bank")]
    judge = Judge(args.model, [int(path.stem.split("_")[2]) for path in args.photos]) if args.model else None
    found: dict[str, dict[str, list[Any]]] = {"ours": {}, "theirs": {}}
    shown: dict[str, dict[str, Any]] = {"ours": {}}
    with tempfile.TemporaryDirectory() as name:
        if args.oracle:
            theirs(images, args.oracle, shared, args.draws, Path(name))
            shown["theirs"] = {}
        for kind in kinds:
            made = {"ours": ours(images, kind, args.draws, panes)}
            if args.oracle and kind in shared:
                made["theirs"] = np.load(Path(name) / f"out-{kind}.npy")
            for whose, pictures in made.items():
                change = [float(np.abs(one.astype(np.float64) - images).mean() / 255) for one in pictures]
                found[whose][kind] = [[value] for value in change]
                if judge is not None:
                    for row, one in zip(found[whose][kind], pictures, strict=True):
                        row.extend(judge(one))
                shown[whose] |= {f"{kind} {severity}": pictures[severity - 1][0][0] for severity in SEVERITIES}
                print(f"{kind:18} {whose:6} | " + " | ".join(_row(row) for row in found[whose][kind]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({**found, "photos": len(images), "draws": args.draws}, indent=1))
    if args.sheet:
        sheet(images[0], shown, args.sheet, columns=1 if args.oracle else 2)


def _row(row: list[float]) -> str:
    """Return the change at a severity, the accuracy in per cent and the probability, as text."""
    return f"{row[0]:.4f}" + (f" {100 * row[1]:5.1f} {row[2]:.3f}" if len(row) > 1 else "")


if __name__ == "__main__":
    main()
