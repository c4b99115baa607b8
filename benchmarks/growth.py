"""How scoring grows: one model, 30 classes, from thousands of frames to millions; time, memory and their exponents.

    python benchmarks/growth.py FOLDER [--frames 21000,210000,2100000] [--keep]

Datasets of ImageNet-Vid-Robust's shape (21 frames a set, one set a video) and a run with one model's stored answers are
made in FOLDER, column by column and without images; `strobe score RUN` then runs in a process of its own, of which time
and largest resident memory are read. Exit code 1 where 10 million frames take over two minutes or 2 GB.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strobe.core.labels import LabelSpace
from strobe.datasets.folder import read

K, CLASSES, SHARD = 10, 30, 50_000
WIDTH = 2 * K + 1


def digests(first: int, many: int) -> list[str]:
    return [hashlib.sha256(str(number).encode()).hexdigest() for number in range(first, first + many)]


def make_dataset(folder: Path, n_frames: int) -> None:
    """Tables in pieces of a million rows, so that making them needs little memory."""
    n_sets = n_frames // WIDTH
    folder.mkdir(parents=True)
    space = LabelSpace.of_names("thirty", [f"class {number}" for number in range(CLASSES)])
    videos = [hashlib.sha256(f"v{number}".encode()).hexdigest()[:16] for number in range(n_sets)]
    pq.write_table(
        pa.table(
            {
                "video_id": videos, "name": [f"video_{number:07d}" for number in range(n_sets)],
                "fps_num": pa.array(np.full(n_sets, 30)), "fps_den": pa.array(np.full(n_sets, 1)),
                "n_frames": pa.array(np.full(n_sets, 300)), "path": pa.nulls(n_sets, pa.string()),
                "codec": pa.nulls(n_sets, pa.string()),
            }
        ),
        folder / "videos.parquet", compression="zstd",
    )  # fmt: skip
    rng, step = np.random.default_rng(0), 50_000
    writers: dict[str, pq.ParquetWriter] = {}
    for first in range(0, n_sets, step):
        own = videos[first : first + step]
        n = len(own) * WIDTH
        video = np.repeat(np.arange(first, first + len(own)), WIDTH)
        index = np.tile(np.arange(100, 100 + WIDTH), len(own))
        ids = [f"{name}:{place}" for name in own for place in range(100, 100 + WIDTH)]
        keys = [f"video_{row:07d}/{place:06d}.jpg" for row, place in zip(video.tolist(), index.tolist(), strict=True)]
        label = np.repeat(rng.integers(CLASSES, size=len(own)), WIDTH)
        frames = {
            "frame_id": pa.array(ids), "video_id": pa.array(np.repeat(np.array(own, dtype=object), WIDTH)),
            "index": pa.array(index), "key": pa.array(keys), "pts": pa.array(index * 512),
            "time_num": pa.array(index), "time_den": pa.array(np.full(n, 30)),
            "pict_type": pa.array(np.where(index % 12 == 0, "I", "P").astype(object)),
            "width": pa.array(np.full(n, 1280)), "height": pa.array(np.full(n, 720)),
            "sha256": pa.array(digests(first * WIDTH, n)), "media": pa.array([f"media/{key}" for key in keys]),
        }  # fmt: skip
        sets = {
            "set_id": pa.array([f"set_{row:07d}" for row in video.tolist()]),
            "frame_id": pa.array(ids), "distance": pa.array((index - 100 - K).astype(np.float64)),
            "is_anchor": pa.array(index == 100 + K),
        }  # fmt: skip
        labels = {"frame_id": pa.array(ids), "label": pa.array(np.array(space.ids, dtype=object)[label])}
        for name, columns in (("frames", frames), ("sets", sets), ("labels", labels)):
            table = pa.table(columns)
            if name not in writers:
                writers[name] = pq.ParquetWriter(folder / f"{name}.parquet", table.schema, compression="zstd")
            writers[name].write_table(table)
    for writer in writers.values():
        writer.close()
    content = {
        "schema": 1, "name": f"growth-{n_frames}", "version": "1", "axis": "frame-offset", "k": K,
        "label_source": "frame", "reviewed": "none", "licence": "", "provenance": {},
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.parquet")},
        "label_space": space.to_json(),
    }  # fmt: skip
    (folder / "dataset.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def make_run(folder: Path, data: Path) -> None:
    """A run with one model's answers in shards, right nine times in ten, as `strobe predict` leaves it."""
    from strobe.core.answers import ClassAnswers
    from strobe.core.tasks import Task
    from strobe.runs.folder import Run
    from strobe.runs.frames import FrameNames
    from strobe.runs.shards import ModelShards

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


def scored(run: Path) -> tuple[float, float, float]:
    """Seconds of the wall and of the processor, and gigabytes at most, of `strobe score RUN` in its own process."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "strobe", "score", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def vouch(folder: Path, n_frames: int) -> None:
    """Write the digests into dataset.json, as `strobe import` does; from a million frames on, made-up ones.

    Working them out takes as long as importing does, and scoring only reads them.
    """
    from strobe.datasets import folder as folders

    if n_frames < 1_000_000:
        folders.write(read(folder), folder, overwrite=True)
        return
    path = folder / "dataset.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    made_up = hashlib.sha256(str(n_frames).encode()).hexdigest()
    content["checked"] = {"of": folders._digest_of(content), "digest": made_up, "frames_digest": made_up}
    path.write_text(json.dumps(content), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", default="21000,210000,2100000,10500000")
    parser.add_argument("--keep", action="store_true", help="leave what was made in FOLDER")
    arguments = parser.parse_args()
    rows, fine = [], True
    for n in map(int, arguments.frames.split(",")):
        data, run = arguments.folder / f"data-{n}", arguments.folder / f"run-{n}"
        if not run.is_dir():
            make_dataset(data, n)
            vouch(data, n)
            make_run(run, data)
        wall, processor, gigabytes = scored(run)
        rows.append({"frames": n, "wall_s": wall, "processor_s": processor, "peak_gb": gigabytes})
        print(f"{n:>12,} frames: {wall:7.1f} s, {processor:7.1f} s of the processor, {gigabytes:.2f} GB", flush=True)
        fine &= n < 10_000_000 or (wall <= 120 and gigabytes <= 2)
        if not arguments.keep:
            shutil.rmtree(data)
            shutil.rmtree(run)
    (arguments.folder / "growth.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
