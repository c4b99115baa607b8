"""Images per second of a training: strobe, timm's loader in a plain loop, and a bare step on a resident batch.

    PYTHONPATH=src python benchmarks/train_photos.py                                   # on a GPU, three minutes
    PYTHONPATH=src python benchmarks/train_photos.py --device cpu --parts handed --photos 1024 --batch 64   # two cores
    PYTHONPATH=src python benchmarks/train_photos.py --device cpu --model timm:test_resnet --side 64 --photos 192 \\
        --packed 24 --batch 16 --steps 6 --warm 2                                      # a dry run

`photos`: the recipe photos (random resized crops, mirrored) from JPEG files of 500×375. `finetune`: the recipe
finetune on packed frames of 1280×720, prepared once (the default) and read at every step (`--cache-gb 0`). `handed`:
photos read, cropped and handed over, without a network. timm's loop reads the same files with as many processes as
there are cores, decodes with Pillow and crops with the same filter; precision, optimiser and memory order are those of
strobe. Rates leave out the first `--warm` steps. The script prints one JSON object; a rate is in images per second.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image as Pillow
from torch.nn import functional

from gpu_frames import make_frames, make_packed
from strobe.annexes.train.classifiers import train
from strobe.core.dataset import Dataset
from strobe.core.ports import Silent
from strobe.core.tables import Sets, texts
from strobe.store.media import MediaSource
from strobe.train.draws import Schedule
from strobe.train.processes import Processes
from strobe.train.recipe import find
from strobe.train.sets import TrainingSets
from strobe.train.streaming import read_ahead
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material, TrainingJob

PARTS = ("bare", "timm", "photos", "handed", "finetune")
HELD, CLASSES = 64, 8


class Steps(Silent):
    """Keeps the time of every step of a training."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:  # noqa: ARG002 (the port's)
        def advance(count: int = 1) -> None:
            if label.endswith("steps"):
                self.times.append(time.perf_counter())
            elif label == "frames prepared":
                self.prepared += count

        self.prepared, begin = 0, time.perf_counter()
        yield advance
        if self.prepared:
            print(f"prepared {self.prepared / (time.perf_counter() - begin):.0f} frames/s", file=sys.stderr, flush=True)

    def rate(self, warm: int, batch: int) -> float:
        """Images per second after the first steps."""
        return round(batch * (len(self.times) - 1 - warm) / (self.times[-1] - self.times[warm]), 1)


class Peak:
    """The largest resident memory of this process and its children, in GB, sampled while open."""

    def __enter__(self) -> "Peak":
        self.gb, self._done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._done.wait(0.2):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.gb = max(self.gb, round(pages * page / 1e9, 2))


def sets_of(dataset: Dataset, *, first: int = 0, length: int = 1) -> Dataset:
    """The dataset with a set for each `length` frames, some classes in turn, and a digest of its own for each frame.

    `first` numbers the digests, so that two datasets of the same files are not taken for a leak.
    """
    rows = np.arange(len(dataset.frames) // length * length)
    owner, digests = rows // length, [f"{first + row:064x}" for row in range(len(dataset.frames))]
    if dataset.frames.sha256[0]:
        digests = dataset.frames.sha256.tolist()  # packed frames are checked against theirs
    middle = length // 2
    return replace(
        dataset,
        frames=replace(dataset.frames, sha256=texts(digests)),
        sets=Sets(
            set_id=texts([f"{number:08d}" for number in range(len(rows) // length)]), set=owner, frame=rows,
            distance=np.abs(rows % length - middle).astype(float), is_anchor=rows % length == middle,
        ),
        labels=replace(dataset.labels, label=np.arange(len(dataset.frames)) // length % CLASSES),
        videos=replace(dataset.videos, video_id=texts([f"{first + n:016x}" for n in range(len(dataset.videos))])),
    )  # fmt: skip


def options_of(args: argparse.Namespace, **more: Any) -> TrainOptions:
    """The options of a training."""
    return TrainOptions(
        device=args.device, image_size=args.side, from_scratch=True, evaluations=1, checkpoint_s=1e9, offline=True,
        **more,
    )  # fmt: skip


def trained(args: argparse.Namespace, recipe: str, dataset: Dataset, root: Path, **more: Any) -> dict[str, Any]:
    """Images per second of a training by a recipe, as the command runs it. `root` is a folder for its files."""
    steps, name = Steps(), f"{recipe}-{len(list(root.iterdir()))}"
    chosen = find(recipe, changes=[f"steps={args.steps}", f"batch={args.batch}"], model=args.model)
    held = sets_of(make_frames(root / "held", HELD), first=10**9)
    material, held_out = (Material(dataset=one, source=MediaSource(one)) for one in (dataset, held))
    with Peak() as peak:
        train(chosen, material, args.model, root / name, options_of(args, **more), steps, held_out=held_out)
    return {"images/s": steps.rate(args.warm, args.batch), "peak GB": peak.gb}


def module_of(args: argparse.Namespace) -> tuple[Any, Any]:
    """The network with random weights, channels last, and its optimiser, as strobe makes them."""
    import timm

    torch.manual_seed(0)
    more = {"img_size": args.side} if "vit" in args.model else {}
    module = timm.create_model(args.model.removeprefix("timm:"), num_classes=30, **more)
    module = module.to(args.device, memory_format=torch.channels_last).train()
    cuda = args.device.startswith("cuda")
    return module, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=cuda)


def loop(args: argparse.Namespace, batches: Iterable[tuple[Any, Any]]) -> float:
    """Images per second of a plain training loop, after the first steps."""
    module, optimiser = module_of(args)
    cuda, times = args.device.startswith("cuda"), []
    for pixels, label in batches:
        pixels = pixels.to(memory_format=torch.channels_last)
        with torch.autocast(args.device.partition(":")[0], dtype=torch.bfloat16, enabled=cuda):
            scores = module(pixels)
        functional.cross_entropy(scores.float(), label).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        times.append(time.perf_counter())
        if len(times) > args.steps:
            break
    if cuda:
        torch.cuda.synchronize()
        times[-1] = time.perf_counter()
    return float(round(args.batch * (len(times) - 1 - args.warm) / (times[-1] - times[args.warm]), 1))


def bare(args: argparse.Namespace) -> float:
    """Images per second of the step alone, on one resident batch."""
    pixels = torch.randn(args.batch, 3, args.side, args.side, device=args.device)
    batch = pixels.contiguous(memory_format=torch.channels_last), torch.arange(args.batch, device=args.device) % CLASSES
    return loop(args, (batch for _ in range(args.steps + 1)))


class Folder(torch.utils.data.Dataset):  # type: ignore[misc]  # torch is untyped here
    """The files for timm's loader."""

    def __init__(self, dataset: Dataset) -> None:
        source = MediaSource(dataset)
        self.paths = [source.path(row) for row in range(len(dataset.frames))]
        self.transform: Any = None

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> Any:
        with Pillow.open(self.paths[place]) as image:
            picture = image.convert("RGB")
        return (self.transform(picture) if self.transform else picture), place % CLASSES


def timm_loader(args: argparse.Namespace, dataset: Dataset) -> Any:
    """timm's loader for a training: random resized crops and mirroring, no other augmentation."""
    from timm.data import create_loader

    cuda = args.device.startswith("cuda")
    return create_loader(
        Folder(dataset), input_size=(3, args.side, args.side), batch_size=args.batch, is_training=True,
        use_prefetcher=cuda, scale=(0.08, 1.0), hflip=0.5, color_jitter=None, interpolation="bicubic",
        num_workers=args.workers, pin_memory=cuda, device=torch.device(args.device), persistent_workers=True,
    )  # fmt: skip


def endless(loader: Any) -> Iterator[Any]:
    """Epoch after epoch."""
    while True:
        yield from loader


def handed_by_timm(args: argparse.Namespace, dataset: Dataset) -> float:
    """Images per second that timm's loader hands over."""
    return _handed(args, (len(label) for _, label in endless(timm_loader(args, dataset))))


def handed_by_strobe(args: argparse.Namespace, dataset: Dataset) -> float:
    """Images per second that a training of strobe gets from its frames."""
    from strobe.models.plan import ImagePlan

    recipe = find("photos", changes=[f"batch={args.batch}", f"steps={args.steps + 1}"], model=args.model)
    material = Material(dataset=dataset, source=MediaSource(dataset))
    job = TrainingJob(recipe, material, None, args.model, Path(), options_of(args), Silent(), Processes(), args.device)
    side = (args.side, args.side)
    pixels, places = job.pixels(material, ImagePlan(size_hw=side, interpolation="bicubic"))
    sets = TrainingSets.of(dataset, np.arange(dataset.n_sets), places)
    schedule = Schedule(sets, recipe, seed=0, side_hw=side)

    def sizes() -> Iterator[int]:
        for number in range(schedule.steps):
            read_ahead(pixels, sets, schedule, number, Processes())
            draw = schedule.draw(number)
            yield len(pixels.take(sets.pixel[draw.rows], draw.crops))

    try:
        return _handed(args, sizes())
    finally:
        job.close()


def _handed(args: argparse.Namespace, sizes: Iterator[int]) -> float:
    times, counts = [], []
    for size in sizes:
        times.append(time.perf_counter())
        counts.append(size)
        if len(times) > args.steps:
            break
    return float(round(sum(counts[args.warm + 1 :]) / (times[-1] - times[args.warm]), 1))


def alternating(args: argparse.Namespace, dataset: Dataset) -> dict[str, Any]:
    """Both ways in alternating rounds, so that other programs affect both; the ratio is the median of the rounds."""
    found = [(handed_by_timm(args, dataset), handed_by_strobe(args, dataset)) for _ in range(args.rounds)]
    ratio = float(np.median([ours / theirs for theirs, ours in found]))
    return {"timm's loader": [one for one, _ in found], "strobe": [one for _, one in found], "ratio": round(ratio, 3)}


def main() -> None:
    """Parse the options, measure the parts and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="timm:resnet50")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--photos", type=int, default=24576)
    parser.add_argument("--packed", type=int, default=2048, help="number of 1280×720 frames in strobe's own format")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated: " + ", ".join(PARTS))
    parser.add_argument("--root", type=Path, help="folder in which frames are kept for later runs")
    parser.add_argument("--out", type=Path, help="a file for the JSON object as it grows")
    args = parser.parse_args()
    parts, cuda = args.parts.split(","), args.device.startswith("cuda")
    root = args.root or Path(tempfile.mkdtemp(prefix="strobe-train-"))
    runs = Path(tempfile.mkdtemp(prefix="strobe-runs-"))
    os.environ["STROBE_CACHE"] = str(runs / "cache")
    photos = sets_of(make_frames(root / "jpeg", args.photos))
    found: dict[str, Any] = {
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(), "cpu_cores": os.cpu_count(),
        "torch": torch.__version__, "model": args.model, "batch": args.batch, "photos": args.photos,
    }  # fmt: skip

    def finetuned() -> dict[str, Any]:
        packed = sets_of(make_packed(root / "packed", args.packed), first=10**8)
        return {
            "prepared once": trained(args, "finetune", packed, runs),
            "read at every step": trained(args, "finetune", packed, runs, cache_gb=1e-6),
        }

    work: dict[str, Callable[[], Any]] = {
        "bare": lambda: bare(args),
        "timm": lambda: loop(args, endless(timm_loader(args, photos))),
        "photos": lambda: trained(args, "photos", photos, runs, cache_gb=1e-6),
        "handed": lambda: alternating(args, photos),
        "finetune": finetuned,
    }
    for part in parts:
        found[part] = work[part]()
        print(f"{part}: {json.dumps(found[part])}", file=sys.stderr, flush=True)
        if args.out is not None:
            args.out.write_text(json.dumps(found))
    if {"photos", "timm", "bare"} <= found.keys():
        rate = found["photos"]["images/s"]
        found["photos over timm"] = round(rate / found["timm"], 3)
        found["photos over bare"] = round(rate / found["bare"], 3)
    if {"finetune", "bare"} <= found.keys():
        found["finetune over bare"] = round(found["finetune"]["prepared once"]["images/s"] / found["bare"], 3)
    found["peak GB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)
    shutil.rmtree(runs, ignore_errors=True)
    if args.root is None:
        shutil.rmtree(root, ignore_errors=True)
    if args.out is not None:
        args.out.write_text(json.dumps(found))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
