"""Run the background ladder on real video with true masks, and test whether cropping reduces flicker
(docs/annexes/backgrounds.md).

    PYTHONPATH=src python benchmarks/background_davis.py CLIPS OUT [--model efficientnet-lite0] [--device cuda]

CLIPS contains DAVIS clips as `NAME/frames/*.jpg` and `NAME/masks/*.png`. Labels are those of ImageNet-Vid. The answers
of the bundled ILSVRC classifiers are projected to them by the published map (dog: 118 breeds; cattle: ox; car and
bicycle: their kinds). The mask and the box of bmx-trees include the rider. Each model sees full frames in two ways:
through its own preprocessing, which cuts off their sides, and squashed like the crops. Crops are compared with the
squashed frames. The script writes davis.json and davis.md to OUT. Four clips are only four sources, so the intervals
say little about other videos.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from background_study import right_of
from strobe.annexes.backgrounds.workflow import VaryBackgroundOptions, vary_background
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.files import make_folder, write_bytes, write_text
from strobe.core.labels import space
from strobe.core.png import png_bytes
from strobe.core.ports import Silent
from strobe.engine.running import Running
from strobe.store import dataset_folder as dataset_folder
from strobe.store.run_folder import Run
from strobe.workflows.predict import predict

CLIPS = {"dog": "dog", "cows": "cattle", "car-shadow": "car", "bmx-trees": "bicycle"}
K, EVERY, SIDE = 10, 5, 320
VIEWS = {
    "whole, the model's own way": "{}", "whole, squashed": "crop:truth,context=100:{}",
    "crop 2": "crop:truth,context=2:{}", "crop 1.5": "crop:truth,context=1.5:{}", "crop 1": "crop:truth,context=1:{}",
    "crop 1.5, padded": "crop:truth,context=1.5,fit=pad:{}",
}  # fmt: skip
"""The views of a frame that each model gets. A context of 100 is the full frame."""


class Talk(Silent):
    """Prints notes immediately."""

    def note(self, text: str) -> None:
        print(text, flush=True)


def prepare(source: Path, target: Path, most: int | None) -> Dataset:
    """Make a dataset folder of the clips: frames of 320 rows, the box of every mask, an anchor every five frames."""
    vid, builder = space("imagenet-vid"), DatasetBuilder()
    for name, label in CLIPS.items():
        if not (source / name).is_dir():
            continue
        place, rows = vid.names.index(label), []
        files = sorted((source / name / "frames").iterdir())[:most]
        video = builder.video(video_id=name, name=name, fps=Fraction(24), n_frames=len(files))
        for index, path in enumerate(files):
            key = f"{name}/{index:06d}.png"
            image, mask = _small(path, source / name / "masks" / f"{path.stem}.png")
            write_bytes(target / "media" / key, png_bytes(np.asarray(image)))
            write_bytes(target / "masks" / key, png_bytes(mask.astype(np.uint8) * 255))
            content = (target / "media" / key).read_bytes()
            row = builder.frame(
                video=video, index=index, key=key, pts=index, time_s=(index, 24), size_wh=image.size,
                sha256=hashlib.sha256(content).hexdigest(), media=f"media/{key}", labels=[place],
            )  # fmt: skip
            if mask.any():
                across, down = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
                box = (float(across[0]), float(down[0]), float(across[-1] + 1), float(down[-1] + 1))
                builder.box(frame=row, label=place, xyxy=box, track=0, crowd=False)
            rows.append(row)
        for anchor in range(K, len(rows) - K, EVERY):
            members = [(rows[anchor + step], float(step)) for step in range(-K, K + 1) if step]
            builder.set(set_id=f"{name}@{anchor}", anchor=rows[anchor], members=members)
    dataset = builder.build(DatasetInfo(name="davis", label_space=vid, k=K), with_boxes=True)
    dataset_folder.write(dataset, target, overwrite=True)
    return dataset


def _small(frame: Path, mask: Path) -> tuple[Image.Image, Any]:
    with Image.open(frame) as one, Image.open(mask) as other:
        image, held = one.convert("RGB"), other.convert("L")
    image.thumbnail((10_000, SIDE), Image.Resampling.BICUBIC)
    return image, np.asarray(held.resize(image.size, Image.Resampling.NEAREST)) > 127


def video(dataset: Dataset, run: Path, model: str, options: Running) -> Iterator[dict[str, Any]]:
    """Yield, for each view, the right anchors, the sets that hold, and the changes between neighbouring frames."""
    names = [f"{word}={view.format(model)}" for word, view in VIEWS.items()]
    predict(dataset, names, run, options, Talk())
    sets = dataset.sets
    starts = np.searchsorted(sets.set, np.arange(dataset.n_sets))
    clip = dataset.videos.name[dataset.video_of_set]
    used = np.unique(sets.frame)  # the last frames of a clip are in no set, so they have no answers
    frame_clip = dataset.videos.name[dataset.frames.video[used]]
    for held in Run(run).models_as_asked(dataset):
        label = held.load().label
        right = dataset.right_rows(label)
        sets_held, first = np.logical_and.reduceat(right, starts), right[sets.is_anchor]
        each = _frames_right(dataset, label)[used]
        for name in [*CLIPS, "all"]:
            chosen = np.ones(dataset.n_sets, bool) if name == "all" else clip == name
            if not chosen.any():
                continue
            pairs = [each[frame_clip == one] for one in CLIPS if name in ("all", one) and (frame_clip == one).any()]
            flips = sum(int((part[1:] != part[:-1]).sum()) for part in pairs)
            told = {"frames": sum(map(len, pairs)), "right": int(sum(part.sum() for part in pairs)), "flips": flips}
            counts = {
                "sets": int(chosen.sum()),
                "anchors": int(first[chosen].sum()),
                "held": int(sets_held[chosen].sum()),
            }
            yield {"model": model, "view": held.name, "clip": name, **counts, **told}


def _frames_right(dataset: Dataset, label: Any) -> Any:
    truth = np.full(len(dataset.frames), -1)
    truth[dataset.labels.frame] = dataset.labels.label
    return label == truth


def ladder(data: Path, out: Path, run: Path, model: str, options: Running) -> Iterator[dict[str, Any]]:
    """Yield the number of right anchors on each rung, for each clip."""
    vary_background(data, out, VaryBackgroundOptions(masks=data / "masks", name="davis-ladder"), progress=Talk())
    predict(dataset_folder.read(out), [model], run, options, Talk())
    for rung, right in right_of(out, run)[model].items():
        for clip in CLIPS:
            each = [one for picture, one in right.items() if picture.startswith(f"{clip}/")]
            if each:
                yield {"model": model, "clip": clip, "rung": rung, "n": len(each), "right": sum(each)}


def tables(told: dict[str, list[dict[str, Any]]]) -> str:
    """Return the results as Markdown."""
    lines = ["| model | view | clip | anchors right | sets held (pm-10) | frames right | changes between frames |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    lines += [
        f"| {one['model']} | {one['view']} | {one['clip']} | {one['anchors']} of {one['sets']} | "
        f"{one['held']} of {one['sets']} | {one['right']} of {one['frames']} | {one['flips']} |"
        for one in told["video"]
    ]
    for model in dict.fromkeys(one["model"] for one in told["ladder"]):
        rows = [one for one in told["ladder"] if one["model"] == model]
        rungs, clips = (list(dict.fromkeys(one[key] for one in rows)) for key in ("rung", "clip"))
        lines += ["", f"{model}, anchors right down the ladder", "", f"| rung | {' | '.join(clips)} | all |",
                  "|---" * (len(clips) + 2) + "|"]  # fmt: skip
        for rung in rungs:
            some = {one["clip"]: one for one in rows if one["rung"] == rung}
            cells = [f"{some[clip]['right']} of {some[clip]['n']}" if clip in some else "" for clip in clips]
            right, n = (sum(one[key] for one in some.values()) for key in ("right", "n"))
            lines.append(f"| {rung} | {' | '.join(cells)} | {right} of {n} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Parse the options and run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--most", type=int, default=None, help="maximum number of frames per clip")
    args = parser.parse_args()
    make_folder(args.out)
    data, options = args.out / "data", Running(device=args.device)
    if not (data / "dataset.json").is_file():
        prepare(args.clips, data, args.most)
    dataset = dataset_folder.read(data)
    results: dict[str, list[dict[str, Any]]] = {"video": [], "ladder": []}
    for model in args.model or ["efficientnet-lite0"]:
        results["ladder"] += ladder(data, args.out / "ladder", args.out / f"run-ladder-{model}", model, options)
        results["video"] += video(dataset, args.out / f"run-{model}", model, options)
        write_text(args.out / "davis.json", json.dumps(results, indent=1) + "\n")
        write_text(args.out / "davis.md", tables(results))


if __name__ == "__main__":
    main()
