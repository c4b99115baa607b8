"""Measure how scoring scales: time and memory for one model with 30 classes, from thousands to millions of frames.

    python benchmarks/growth.py FOLDER [--frames 21000,210000,2100000,10500000] [--keep] [--source OTHER/src]

The script makes datasets of ImageNet-Vid-Robust's shape (21 frames per set, one set per video) in FOLDER, without
images, and a run with one model's stored answers. Each step runs in a separate process, whose time and peak resident
memory are measured. `write` writes the tables and computes their digests; `score` is `strobe score RUN`. With --source,
the code of another checkout scores too, and the script compares both results.json. It exits with 1 if 10 million frames
take over two minutes or 2 GB to score, or if the results differ.
"""

import argparse
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np

from eval_time import python
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.tables import NO_PTS, Frames, Labels, Sets, Videos, texts

K, CLASSES, SHARD = 10, 30, 50_000
WIDTH = 2 * K + 1


def made(n_frames: int) -> Dataset:
    """Return the tables, like those of `strobe import --no-media`."""
    n_sets = n_frames // WIDTH
    n = n_sets * WIDTH
    video = np.repeat(np.arange(n_sets, dtype=np.int32), WIDTH)
    index = np.tile(np.arange(100, 100 + WIDTH), n_sets)
    nothing, zero = np.full(n, "", dtype=object), np.zeros(n, dtype=np.int64)
    empty = np.full(n_sets, "", dtype=object)
    return Dataset(
        info=DatasetInfo(
            name=f"growth-{n_frames}", k=K,
            label_space=LabelSpace.of_names("thirty", [f"class {number}" for number in range(CLASSES)]),
        ),
        videos=Videos(
            video_id=texts([hashlib.sha256(f"v{row}".encode()).hexdigest()[:16] for row in range(n_sets)]),
            name=texts([f"video_{row:07d}" for row in range(n_sets)]), fps_num=np.full(n_sets, 30),
            fps_den=np.full(n_sets, 1), n_frames=np.full(n_sets, 300), path=empty, codec=empty,
        ),
        frames=Frames(
            video=video, index=index, pts=np.full(n, NO_PTS), time_num=index, time_den=np.full(n, 30),
            key=texts([f"video_{row:07d}/{at:06d}.jpg" for row in range(n_sets) for at in range(100, 100 + WIDTH)]),
            pict_type=np.where(index % 12 == 0, "I", "P").astype(object), width=zero, height=zero, sha256=nothing,
            media=nothing,
        ),
        sets=Sets(
            set_id=texts([f"set_{row:07d}" for row in range(n_sets)]), set=video, frame=np.arange(n, dtype=np.int32),
            distance=(index - 100 - K).astype(np.float64), is_anchor=index == 100 + K,
        ),
        labels=Labels(
            frame=np.arange(n, dtype=np.int32),
            label=np.repeat(np.random.default_rng(0).integers(CLASSES, size=n_sets), WIDTH).astype(np.int32),
        ),
    )  # fmt: skip


def make_run(folder: Path, data: Path) -> None:
    """Write a run of one model like `strobe predict`, with answers in shards that are right nine times in ten."""
    from strobe.core.answers import ClassAnswers
    from strobe.core.tasks import Task
    from strobe.store.dataset_folder import read
    from strobe.store.frame_names import FrameNames
    from strobe.store.run_folder import Run
    from strobe.store.shards import ModelShards

    dataset = read(data)
    run, n = Run(folder), len(dataset.frames)
    run.record(dataset, path=data, changes={"models": {"model": {}}})
    space = dataset.info.label_space
    facts = {
        "weights": "none", "preprocessing": {}, "kind": "logits", "projection": {}, "merge": "max", "decode": "exact",
        "label_space": space.digest, "spec": {"kind": "logits", "label_space": space.to_json()},
    }  # fmt: skip
    names = FrameNames(dataset)
    shards = ModelShards(folder, "model", facts=facts, frames=names, task=Task.CLASSIFICATION, n_classes=CLASSES)
    shards.describe(facts)
    rng, truth = np.random.default_rng(1), np.empty(n, dtype=np.int64)
    truth[dataset.labels.frame] = dataset.labels.label
    for first in range(0, n, SHARD):
        rows = np.arange(first, min(first + SHARD, n))
        scores = rng.normal(size=(len(rows), CLASSES)).astype(np.float32)
        scores[np.arange(len(rows)), truth[rows]] += 4.5
        best, sure = scores.argmax(axis=1).astype(np.int32), scores.max(axis=1)
        own = {"own_label": best, "own_confidence": sure}
        shards.write(rows, ClassAnswers.from_scores("model", scores, kind="logits", **own))


def step(name: str, n: int, *arguments: str, source: Path | None = None) -> dict[str, float | int | str]:
    """Run Python with these arguments. Returns wall seconds, CPU seconds and peak memory in GB."""
    path = os.environ.get("PYTHONPATH", "")
    used = python(*arguments, environment={"PYTHONPATH": os.pathsep.join([str(source), path]) if source else path})
    peak = used.peak_mb * 1000 / 2**20
    print(f"{n:>12,} {name:12} {used.wall_s:7.1f} s, {used.cpu_s:7.1f} s CPU, {peak:.2f} GB", flush=True)
    return {"n": n, "step": name, "wall_s": used.wall_s, "processor_s": used.cpu_s, "peak_gb": peak}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", default="21000,210000,2100000,10500000")
    parser.add_argument("--keep", action="store_true", help="keep the files in FOLDER")
    parser.add_argument("--source", type=Path, help="src/ of another checkout, which scores first")
    parser.add_argument("--make", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        from strobe.store.dataset_folder import write

        write(made(arguments.make), arguments.folder)
        return 0
    rows, fine = [], True
    for n in map(int, arguments.frames.split(",")):
        data, run = arguments.folder / f"data-{n}", arguments.folder / f"run-{n}"
        if not run.is_dir():
            rows.append(step("write", n, __file__, str(data), "--make", str(n)))
            make_run(run, data)
        score = ("-m", "strobe", "score", str(run))
        if arguments.source:
            rows.append(step("score before", n, *score, source=arguments.source))
            before = (run / "results.json").read_bytes()
        rows.append(last := step("score", n, *score))
        if arguments.source and before != (run / "results.json").read_bytes():
            print(f"{n:>12,} results.json differs", flush=True)
            fine = False
        fine &= n < 10_000_000 or (float(last["wall_s"]) <= 120 and float(last["peak_gb"]) <= 2)
        if not arguments.keep:
            shutil.rmtree(data)
            shutil.rmtree(run)
    (arguments.folder / "growth.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
