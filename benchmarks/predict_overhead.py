"""What the engine costs over the bare model: frames on disk to scored predictions, over the forward alone.

    python benchmarks/predict_overhead.py [--frames 256] [--rounds 5]

In one run, alternating so that a busy machine hits all alike: the bare forward of efficientnet-lite0 on batches already
decoded and prepared; the same run side by side in the engine's lanes; the engine (decode, prepare, forward, store, read
back, score); and a plain serial loop that does the same one after the other. Prints one JSON object; the ratio to watch
is engine_over_bare (each at its best round), at most 1.15 on two cores. Top-1 of the engine is checked against a plain
loop without any of what makes it fast.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image as Pillow

from strobe.core.dataset import NO_PTS, Dataset, DatasetInfo, Frames, Labels, Sets, Videos, texts
from strobe.core.labels import projection, space
from strobe.core.ports import Silent
from strobe.core.predictions import Predictions
from strobe.datasets.media import MediaSource
from strobe.models.lite import load
from strobe.models.options import LoadOptions
from strobe.models.torch_classifier import cores, quick_source, sharing_cores
from strobe.predict.engine import EngineOptions, run_models
from strobe.predict.store import ModelStore
from strobe.predict.worker import DecodeOptions, Runner


def make_frames(root: Path, n: int) -> Dataset:
    """Frames of 640×360, JPEG, about 40 KB as video frames are; textured, so that classes differ."""
    rng = np.random.default_rng(0)
    (root / "media").mkdir(parents=True)
    for row in range(n):
        coarse = Pillow.fromarray(rng.integers(0, 256, (6, 10, 3), dtype=np.uint8))
        fine = Pillow.fromarray(rng.integers(0, 256, (90, 160, 3), dtype=np.uint8))
        size, how = (640, 360), Pillow.Resampling.BICUBIC
        mixed = 0.8 * np.asarray(coarse.resize(size, how), float) + 0.2 * np.asarray(fine.resize(size, how), float)
        Pillow.fromarray(mixed.astype(np.uint8)).save(root / f"media/{row:05d}.jpg", quality=84)
    rows, unknown, n_sets = np.arange(n), np.zeros(n, dtype=np.int64), (n + 20) // 21
    firsts = np.arange(n_sets) * 21
    return Dataset(
        info=DatasetInfo(name="benchmark", label_space=space("imagenet-vid"), k=21),
        videos=Videos(
            video_id=texts([f"{place:016x}" for place in range(n_sets)]),
            name=texts([str(place) for place in range(n_sets)]), fps_num=np.full(n_sets, 30),
            fps_den=np.ones(n_sets, dtype=np.int64), n_frames=np.full(n_sets, 21), path=texts([""] * n_sets),
            codec=texts([""] * n_sets),
        ),
        frames=Frames(
            video=rows // 21, index=rows % 21, key=texts([f"{row:05d}" for row in rows]), pts=np.full(n, NO_PTS),
            time_num=unknown, time_den=unknown, pict_type=texts([""] * n), width=np.full(n, 640),
            height=np.full(n, 360), sha256=texts([""] * n), media=texts([f"media/{row:05d}.jpg" for row in rows]),
        ),
        sets=Sets(
            set_id=texts([str(place) for place in range(n_sets)]), set=rows // 21, frame=rows,
            distance=(rows % 21).astype(float), is_anchor=np.isin(rows, firsts),
        ),
        labels=Labels(frame=rows, label=rows % 30),
        root=root,
    )  # fmt: skip


def plain_labels(model: Any, dataset: Dataset) -> np.ndarray:
    """Top-1 the plain way: whole image resized, then cropped; one image at a time; channels first."""
    module = model._module.to(memory_format=torch.contiguous_format)
    out = []
    for media in dataset.frames.media:
        picture = Pillow.open((dataset.root or Path()) / media).convert("RGB")
        width, height = model.plan.resized(*picture.size)
        left, top = round((width - 224) / 2), round((height - 224) / 2)
        picture = picture.resize((width, height), Pillow.Resampling.BICUBIC).crop((left, top, left + 224, top + 224))
        pixels = (torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].contiguous().float() - 127) / 128
        with torch.inference_mode():
            out.append(module(pixels).numpy()[0])
    model._module.to(memory_format=torch.channels_last)
    return np.asarray(projection("ilsvrc-2012", "imagenet-vid").apply(np.stack(out)).argmax(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--no-check", action="store_true", help="skip the comparison with the plain loop")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="strobe-overhead-"))
    model = load("efficientnet-lite0", None, LoadOptions(device="cpu", batch_size=options.batch))
    batch = model.spec.batch_size
    try:
        dataset = make_frames(root, options.frames)
        source, n = MediaSource(dataset), len(dataset.frames)
        prepared = [model.prepare(source.read(row)) for row in range(n)]
        batches = [prepared[start : start + batch] for start in range(0, n, batch)]
        runner = Runner(name="m", model=model, projection=projection("ilsvrc-2012", "imagenet-vid"))
        found: list[Predictions] = []

        def score(predictions: Predictions) -> float:
            return float(dataset.right_rows(predictions.label).mean())

        def bare() -> None:
            for part in batches:
                model.forward(part)

        def bare_in_lanes() -> None:
            with sharing_cores([model]), ThreadPoolExecutor(model.lanes) as pool:
                list(pool.map(model.forward, batches))

        def engine() -> None:
            with tempfile.TemporaryDirectory() as folder:
                keys = dataset.frame_ids()
                store = ModelStore(Path(folder), "m", key="0" * 16, frame_ids=keys, task="classification", n_classes=30)
                with sharing_cores([model]):
                    run_models(
                        [runner], {"m": store}, quick_source(MediaSource(dataset), [model]), frame_names=keys,
                        rows=np.arange(n),
                        options=EngineOptions(decode=DecodeOptions(threads=cores())), progress=Silent(),
                    )  # fmt: skip
                stored = store.read()
                if stored.scores is None or not stored.seen.all():
                    raise SystemExit("frames are missing from the store")
                predictions = Predictions.from_scores("m", stored.scores, kind="logits", scored=stored.seen)
                score(predictions)
                found.append(predictions)

        def serial() -> None:
            scores = []
            for start in range(0, n, batch):
                part = [model.prepare(source.read(row)) for row in range(start, min(start + batch, n))]
                scores.append(runner.projection.apply(model.forward(part)))
            score(Predictions.from_scores("m", np.concatenate(scores), kind="logits"))

        ways: dict[str, Callable[[], None]] = {
            "bare": bare,
            "bare_in_lanes": bare_in_lanes,
            "engine": engine,
            "serial": serial,
        }
        wall: dict[str, list[float]] = {name: [] for name in ways}
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        bare()  # warm up
        engine()
        for _ in range(options.rounds):
            for name, way in ways.items():
                begin, begin_cpu = time.perf_counter(), time.process_time()
                way()
                wall[name].append(time.perf_counter() - begin)
                cpu[name].append(time.process_time() - begin_cpu)
                print(f"{name}: {wall[name][-1] / n * 1e3:.2f} ms a frame", file=sys.stderr)
        ratios = [e / b for e, b in zip(wall["engine"], wall["bare"], strict=True)]
        result: dict[str, Any] = {
            "cores": cores(), "torch": torch.__version__, "frames": n, "batch": batch,
            "jpeg_bytes": int(np.mean([path.stat().st_size for path in (root / "media").iterdir()])),
            "load_average": os.getloadavg()[0],
            "ms_per_frame": {name: round(min(times) / n * 1e3, 3) for name, times in wall.items()},
            "cpu_ms_per_frame": {name: round(min(times) / n * 1e3, 3) for name, times in cpu.items()},
            "engine_over_bare": round(min(wall["engine"]) / min(wall["bare"]), 3),
            "engine_over_bare_median_of_rounds": round(statistics.median(ratios), 3),
            "engine_over_bare_in_lanes": round(min(wall["engine"]) / min(wall["bare_in_lanes"]), 3),
            "serial_over_bare": round(min(wall["serial"]) / min(wall["bare"]), 3),
        }  # fmt: skip
        if not options.no_check:
            result["same_top1_as_plain_loop"] = bool((plain_labels(model, dataset) == found[-1].label).all())
        print(json.dumps(result, indent=1))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
