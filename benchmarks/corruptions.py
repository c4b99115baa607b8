"""Our corruptions beside those of imagecorruptions-imaug: how much each changes a picture, severity by severity.

    python benchmarks/corruptions.py PHOTOS --oracle PYTHON [--json FILE] [--sheet FILE]

PYTHON is an interpreter that has imagecorruptions-imaug 1.1.5 (a throw-away environment of its own: it needs numba,
opencv and scikit-image). Photos are cut to their middle square and resized to 224 pixels. Printed is the mean absolute
change over all photos, of 0–1, theirs and ours, and ours in per cent of theirs. `--speed` prints pictures a second.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from strobe.vary.corruptions import CORRUPTIONS, SEVERITIES, corrupt

_THEIRS = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from imagecorruptions import corrupt
images, names, out, draws = np.load(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
np.random.seed(0)
change, first = {}, {}
for name in names:
    for severity in range(1, 6):
        made = [[corrupt(image, corruption_name=name, severity=severity) for image in images] for _ in range(draws)]
        change[f"{name} {severity}"] = float(np.abs(np.asarray(made, np.float64) - images).mean() / 255)
        first[f"{name} {severity}"] = made[0][0]
    print(name, file=sys.stderr)
json.dump(change, open(out + ".json", "w"))
np.savez(out + ".npz", **first)
"""


def square(path: Path, side: int) -> np.ndarray[Any, Any]:
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    short = min(picture.size)
    left, top = (picture.width - short) // 2, (picture.height - short) // 2
    return np.asarray(picture.crop((left, top, left + short, top + short)).resize((side, side)))


def ours(images: np.ndarray[Any, Any], draws: int) -> tuple[dict[str, float], dict[str, Any]]:
    change, first = {}, {}
    for name in CORRUPTIONS:
        for severity in SEVERITIES:
            made = [
                [
                    corrupt(image, name, severity, np.random.default_rng([draw, place]))
                    for place, image in enumerate(images)
                ]
                for draw in range(draws)
            ]
            change[f"{name} {severity}"] = float(np.abs(np.asarray(made, np.float64) - images).mean() / 255)
            first[f"{name} {severity}"] = made[0][0]
    return change, first


def theirs(images: np.ndarray[Any, Any], python: str, draws: int) -> tuple[dict[str, float], dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/in.npy", images)
        words = [python, "-c", _THEIRS, f"{folder}/in.npy", json.dumps(list(CORRUPTIONS)), f"{folder}/out", str(draws)]
        subprocess.run(words, check=True)
        found: dict[str, float] = json.loads(Path(f"{folder}/out.json").read_text())
        with np.load(f"{folder}/out.npz") as made:
            return found, dict(made)


def sheet(image: np.ndarray[Any, Any], rows: dict[str, Any], path: Path, *, cell: int = 84, columns: int = 2) -> None:
    """The picture and its five severities in a row for every corruption; theirs beside ours where there are both."""
    names, title = list(CORRUPTIONS), 13
    wide, high = cell * (1 + len(SEVERITIES) * len(rows)) + 12, cell + title + 4
    deep = -(-len(names) // columns)
    canvas = Image.new("RGB", (wide * columns - 12, high * deep), "white")
    pen = ImageDraw.Draw(canvas)
    for place, name in enumerate(names):
        left, top = wide * (place // deep), high * (place % deep)
        pen.text((left, top), name, fill="black")
        shown = [image, *(part[f"{name} {severity}"] for part in rows.values() for severity in SEVERITIES)]
        for n, pixels in enumerate(shown):
            canvas.paste(Image.fromarray(pixels).resize((cell - 2, cell - 2)), (left + cell * n, top + title))
    canvas.save(path, quality=82)


def speed(side: int) -> None:
    rng = np.random.default_rng(0)
    base = Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)).resize((side, side))
    image = np.asarray(base)
    for name in CORRUPTIONS:
        corrupt(image, name, 1, rng)  # what is imported late is imported now
        begin, count = time.process_time(), 0
        while time.process_time() - begin < 0.5:
            corrupt(image, name, 1 + count % 5, rng)
            count += 1
        print(f"{side} px {name:18} {count / (time.process_time() - begin):8.0f} pictures a second of one core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("photos", nargs="*", type=Path)
    parser.add_argument("--oracle")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.speed:
        speed(args.side)
        return
    images = np.stack([square(path, args.side) for path in args.photos])
    mine, pictures = ours(images, args.draws)
    rows = {"ours": pictures}
    other: dict[str, float] = {}
    if args.oracle:
        other, rows["theirs"] = theirs(images, args.oracle, args.draws)
    print("corruption         | " + " | ".join(f"{severity:^22}" for severity in SEVERITIES))
    for name in CORRUPTIONS:
        cells = []
        for severity in SEVERITIES:
            key = f"{name} {severity}"
            share = f"{other[key]:.4f} {mine[key]:.4f} {100 * mine[key] / other[key]:5.0f} %" if other else mine[key]
            cells.append(str(share))
        print(f"{name:18} | " + " | ".join(cells))
    if args.json:
        args.json.write_text(json.dumps({"ours": mine, "theirs": other, "photos": len(images)}, indent=1))
    if args.sheet:
        sheet(images[0], rows, args.sheet, columns=1 if args.oracle else 2)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
