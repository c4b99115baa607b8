"""Measure the memory and the scratch space of trainings on 100,000 frames of 1280×720.

    PYTHONPATH=src python benchmarks/train_streams.py WORK                      # 100,000 frames, 60 steps
    PYTHONPATH=src python benchmarks/train_streams.py WORK --frames 2000 --steps 8     # a dry run

The frames are JPEG files in the layout of ImageNet-Vid, made by repeating the frames of `--clips` (folders of JPEG
frames) as hard links. `strobe import imagenet-vid --all-frames` makes a set around every frame. Then each training runs
as a command of its own for a number of steps. The script samples the resident memory of its processes and the size of
its cache folder. It prints the peaks, and the largest memory of the first half and of the last third of the time.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from PIL import Image

from strobe.core.labels import space

LABELS = ("dog", "car", "bicycle", "domestic_cat")
LENGTH = 200
XML = (
    "<annotation><size><width>1280</width><height>720</height></size><object><trackid>0</trackid><name>{name}</name>"
    "<bndbox><xmax>{right}</xmax><xmin>{left}</xmin><ymax>600</ymax><ymin>100</ymin></bndbox></object></annotation>"
)
TRAININGS = {
    "finetune": ["finetune", "-m", "timm:test_resnet", "--image-size", "224", "--set", "batch=32"],
    "pmk": ["pmk", "-m", "timm:test_resnet", "--image-size", "224", "--set", "batch=16"],
    "crops": ["noise", "-m", "timm:test_resnet", "--image-size", "224", "--set", "batch=32", "--set", "crop_area=0.08"],
    "detector": ["detector", "-m", "torchvision:ssdlite320_mobilenet_v3_large", "--set", "batch=8"],
    "strobe-tiny": ["detector", "-m", "strobe-tiny", "--set", "batch=32"],
    "linear-probe": ["linear-probe", "-m", "timm:test_resnet", "--image-size", "224"],
}


def make_layout(root: Path, clips: list[Path], frames: int, *, first: int) -> None:
    """Write frames in the layout of ImageNet-Vid: hard links of resized frames, and their annotations.

    `first` is the number of the first video.
    """
    stills = root / "stills"
    stills.mkdir(parents=True)
    pictures: list[list[Path]] = []
    for number, clip in enumerate(clips):
        pictures.append([])
        for place, path in enumerate(sorted([*clip.glob("*.jpg"), *clip.glob("*.jpeg")])):
            pictures[-1].append(stills / f"{number}-{place}.jpg")
            Image.open(path).convert("RGB").resize((1280, 720)).save(pictures[-1][-1], quality=88)
    names = [space("imagenet-vid").ids[space("imagenet-vid").index(label)] for label in LABELS]
    for video in range(-(-frames // LENGTH)):
        cycle, folder = pictures[video % len(pictures)], f"val/ILSVRC2015_val_{first + video:08d}"
        for kind in ("Data", "Annotations"):
            (root / kind / "VID" / folder).mkdir(parents=True)
        for index in range(min(LENGTH, frames - video * LENGTH)):
            left = 100 + index
            text = XML.format(name=names[video % len(names)], left=left, right=left + 500)
            (root / "Annotations/VID" / folder / f"{index:06d}.xml").write_text(text)
            os.link(cycle[index % len(cycle)], root / "Data/VID" / folder / f"{index:06d}.JPEG")


def import_layout(root: Path, target: Path, *more: str) -> None:
    """Import the layout with a set around every frame."""
    words = ["import", "imagenet-vid", str(root), str(target), "--media", "link", "-q", *more]
    subprocess.run([sys.executable, "-m", "strobe", *words], check=True)


class Watch:
    """Samples the memory of a process and the size of a folder until it stops."""

    def __init__(self, pid: int, cache: Path) -> None:
        self.pid, self.cache, self._done = pid, cache, threading.Event()
        self.memory: list[tuple[float, float]] = []
        self.scratch = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._done.wait(0.2):
            try:
                resident = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * page
            except (OSError, IndexError):
                continue
            self.memory.append((time.monotonic(), resident / 1e9))
            files = [path for path in self.cache.rglob("*") if path.is_file()] if self.cache.exists() else []
            self.scratch = max(self.scratch, sum(path.stat().st_size for path in files))


def measured(work: Path, name: str, words: list[str], steps: int) -> dict[str, Any]:
    """Run one training for some steps. Returns its peaks."""
    cache = work / f"cache-{name}"
    command = [
        sys.executable, "-m", "strobe", "train", words[0], str(work / "training"), *words[1:],
        "--set", f"steps={steps}",
        "--held-out", str(work / "held"), "-o", str(work / f"out-{name}"), "--device", "cpu", "--from-scratch",
        "--evaluations", "1", "--json",
    ]  # fmt: skip
    begin = time.monotonic()
    env = {**os.environ, "STROBE_CACHE": str(cache)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = Watch(process.pid, cache)
    out, error = process.communicate()
    watch.stop()
    if process.returncode:
        return {"error": error.strip().splitlines()[-1] if error.strip() else process.returncode}
    values, history = [value for _, value in watch.memory], json.loads(out)["history"]
    return {
        "steps": history[-1]["step"],
        "seconds": round(time.monotonic() - begin),
        "peak_gb": round(max(values), 2),
        "first_half_gb": round(max(values[: len(values) // 2]), 2),
        "last_third_gb": round(max(values[2 * len(values) // 3 :]), 2),
        "scratch_mb": round(watch.scratch / 1e6, 1),
        "loss": history[-1]["loss"],
    }


def main() -> None:
    """Make the data, run the trainings and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--clips", type=Path, nargs="+", required=True, help="folders of JPEG frames; the last is held out"
    )
    parser.add_argument("--only", choices=[*TRAININGS], nargs="+")
    args = parser.parse_args()
    for name, clips, frames, more in (
        ("training", args.clips[:-1], args.frames, ["--all-frames"]),
        ("held", args.clips[-1:], 2 * LENGTH, ["--k", "2"]),
    ):
        if not (args.work / name / "dataset.json").is_file():
            begin = time.monotonic()
            make_layout(args.work / f"{name}-ilsvrc", clips, frames, first=0 if name == "training" else 10**6)
            import_layout(args.work / f"{name}-ilsvrc", args.work / name, *more)
            print(f"{name}: made in {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    found = {}
    for name in args.only or TRAININGS:
        found[name] = measured(args.work, name, TRAININGS[name], args.steps)
        print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    print(json.dumps({"frames": args.frames, "trainings": found}, indent=1))


if __name__ == "__main__":
    main()
