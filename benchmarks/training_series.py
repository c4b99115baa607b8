"""Train the series of recipes on the synthetic world, with several seeds at once on one GPU (docs/annexes/train.md).

    PYTHONPATH=src python benchmarks/training_series.py OUT --seeds 5 --workers 8 --minutes 7
    PYTHONPATH=src python benchmarks/training_series.py OUT --size toy --seeds 2 --workers 2 --device cpu   # a dry run
    PYTHONPATH=src python benchmarks/training_series.py OUT --draw docs/images   # figures and tables from the JSON

The script renders the clips on all cores and trains every recipe of `strobe demo --training` for every seed. It writes
OUT/ladder.json with the first wrong distance of every held-out set for every training (one character each, `-` if the
set holds). All figures can be made again from this file. No training starts after --minutes. Weights stay in --work.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.train.series import (
    RUNGS,
    SeriesJob,
    SeriesResult,
    jobs_of,
    material,
    size_named,
    train_one,
    train_series,
)  # fmt: skip
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.ports import Silent
from strobe.metrics.pmk import first_wrong
from strobe.models.plan import ImagePlan
from strobe.store import dataset_folder as dataset_folder
from strobe.synthetic.sets import ArraySource
from strobe.workflows.synthesize import rendered

SIGNS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Talk(Silent):
    """Prints notes with the time since the start."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def note(self, text: str) -> None:
        print(f"{time.monotonic() - self._begin:6.1f} s  {text}", flush=True)


def make_data(work: Path, size: Any, cores: int, talk: Talk) -> None:
    """Make both datasets once for all processes: tables in a folder each, and pixels in one array."""
    from strobe.models.strobe_net import plan_of
    from strobe.train.pixels import prepared

    for held in (False, True):
        path = work / ("held" if held else "training")
        if not (path / "frames.npy").is_file():
            made = rendered(size.data(held=held), workers=cores)
            dataset_folder.write(made.dataset, path, overwrite=True)
            np.save(path / "frames.npy", made.source().all())
        data = dataset_folder.read(path)
        talk.note(f"{data.n_sets} clips, {len(data.frames)} frames rendered: {path.name}")
        plan, rows = plan_of(size.world.size), np.unique(data.sets.frame)
        frames = ArraySource(np.load(path / "frames.npy", mmap_mode="r"))
        prepared(
            data, rows, partial(_prepare, plan, frames, rows), size_hw=plan.size_hw, facts=plan.to_json(),
            folder=Path(os.environ["STROBE_CACHE"]) / "frames", most_bytes=16 * 10**9,
        )  # fmt: skip


def _prepare(plan: ImagePlan, frames: ArraySource, rows: Any, table: NDArray[Any]) -> None:
    for place, row in enumerate(rows):
        table[place] = plan.prepare(frames.read(row))


def first_wrong_of(dataset: Dataset, label: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the first wrong distance of every set, k + 1 if it holds."""
    k = dataset.info.k
    wrong = ~dataset.right_rows(label)
    return first_wrong(wrong, dataset.sets.set, dataset.row_levels(), n_sets=dataset.n_sets, never=k + 1)


def train_and_answer(job: SeriesJob, *, until: float) -> SeriesResult:
    """Run one training and answer the held-out clips. Skipped after the deadline, or if its start is missing."""
    target = job.folder / "first_wrong.npy"
    starts = not job.rung.start or (job.out / f"{job.rung.start}~{job.seed}" / "model.safetensors").is_file()
    if not target.is_file() and (time.time() > until or not starts):
        return SeriesResult(job=job, acc_orig=float("nan"), acc_pmk=float("nan"), seconds=0.0, was_there=False)
    done = train_one(job)
    if not target.is_file():
        np.save(target, first_wrong_of(material(job.held, with_frames=True).dataset, answers(job)))
    return done


def answers(job: SeriesJob) -> NDArray[np.int64]:
    """Return the class of every held-out frame by the trained model, loaded from its file."""
    import torch

    from strobe.models.options import LoadOptions
    from strobe.models.registry import load_model
    from strobe.models.torch_classifier import TorchClassifier

    model = load_model(job.spec, LoadOptions(device=job.device))
    frames = np.load(job.held / "frames.npy", mmap_mode="r")
    if not isinstance(model, TorchClassifier):
        raise SystemExit(f"{printable(job.spec)}: not a torch classifier")
    found = []
    with torch.inference_mode():
        for start in range(0, len(frames), 2048):
            pixels = torch.from_numpy(np.array(frames[start : start + 2048])).to(model.device)
            scores = model.input_scores(pixels.permute(0, 3, 1, 2).float() / 255)
            found.append(scores.argmax(dim=1).cpu().numpy())
    return np.concatenate(found).astype(np.int64)


def run(args: argparse.Namespace) -> None:
    """Render, train, answer and write the JSON file."""
    import torch

    begin, talk, size = time.time(), Talk(), size_named(args.size)
    if args.then:
        size = replace(size, epochs=(size.epochs[0], args.then))
    cores = args.cores or os.cpu_count() or 1
    work = args.work or Path(tempfile.mkdtemp(prefix="ladder-"))
    os.environ["STROBE_CACHE"] = str(work / "cache")
    make_data(work, size, cores, talk)
    rendered_s = time.time() - begin
    first = SeriesJob(
        rung=RUNGS[0], seed=0, size=size, training=work / "training", held=work / "held", out=work / "models",
        device=args.device, evaluations=args.evaluations, frames=True,
    )  # fmt: skip
    jobs = jobs_of(first, seeds=args.seeds, only=args.only)
    until = begin + 60 * args.minutes
    done = train_series(jobs, workers=args.workers, progress=talk, work=partial(train_and_answer, until=until))
    args.out.mkdir(parents=True, exist_ok=True)
    k = (size.world.frames - 1) // 2
    content = {
        "size": args.size,
        "clips": [size.clips, size.held_clips],
        "k": k,
        "world": asdict(size.world),
        "model": size.model,
        "settings": {rung.name: list(size.settings(rung)) for rung in RUNGS},
        "machine": {
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu", "cores": cores,
            "torch": torch.__version__, "python": platform.python_version(), "workers": args.workers,
        },
        "seconds": {"rendering": round(rendered_s, 1), "all": round(time.time() - begin, 1)},
        "trainings": [told(one, k) for one in done if one.acc_orig == one.acc_orig],
        "left_out": [one.job.name for one in done if one.acc_orig != one.acc_orig],
    }  # fmt: skip
    (args.out / "ladder.json").write_text(json.dumps(content), encoding="utf-8")
    talk.note(f"{len(content['trainings'])} trainings, {len(content['left_out'])} skipped: {args.out / 'ladder.json'}")


def told(one: SeriesResult, k: int) -> dict[str, Any]:
    """Return one training as JSON."""
    history = json.loads((one.job.folder / "training.json").read_text(encoding="utf-8"))["history"]
    sets = np.load(one.job.folder / "first_wrong.npy")
    return {
        "rung": one.job.rung.name,
        "seed": one.job.seed,
        "seconds": round(one.seconds, 1),
        "history": [[round(point["epoch"], 2), point["acc_orig"], point["acc_pmk"]] for point in history],
        "first_wrong": "".join("-" if value > k else SIGNS[value] for value in sets.tolist()),
    }


def main() -> None:
    """Parse the options and run the series."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="full")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8, help="number of parallel trainings")
    parser.add_argument("--cores", type=int, help="number of processes that render; default: all cores")
    parser.add_argument("--only", nargs="*", default=(), help="only these recipes, by name")
    parser.add_argument(
        "--then", type=int, help="epochs of the recipes after stills, instead of the default of the size"
    )
    parser.add_argument("--minutes", type=float, default=8, help="start no training after this many minutes")
    parser.add_argument("--evaluations", type=int, default=4)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, help="folder for data and weights; default: a temporary folder")
    parser.add_argument("--draw", type=Path, help="only draw figures from OUT/ladder.json into this folder")
    args = parser.parse_args()
    if args.draw:
        from training_series_figures import draw

        draw(json.loads((args.out / "ladder.json").read_text(encoding="utf-8")), args.draw)
        return
    run(args)


if __name__ == "__main__":
    main()
