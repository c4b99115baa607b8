"""Measure the engine's overhead: from frames on disk to scored predictions, compared with the forward alone.

    python benchmarks/predict_overhead.py [--frames 384] [--rounds 7]
    python benchmarks/predict_overhead.py --own-video [VIDEO] [--frames 240] [--rounds 5]

The script measures efficientnet-lite0 in alternating rounds, so that load from other programs affects all variants:

- plain_bare, plain_serial: the model as its package returns it (channels first), on decoded batches, and in a plain
loop
  that reads, decodes with Pillow, resizes, predicts and scores one batch after the other;
- bare, serial: the same two with the engine's forward (channels last, freed memory kept);
- bare_in_lanes: that forward in parallel lanes, as in the engine;
- engine: from frames on disk to scored predictions: decode, prepare, forward, store, read back, score.

Every ratio is the median over the rounds of the ratio within a round. The script prints one JSON object. It compares
the engine's top-1 on every frame with the plain loop, one image at a time.

With `--own-video`, it builds a 1280×720 video (yours, or one made by the script) as packed files, as PNG and with
--reference. It runs the engine on each and compares it with the bare forward of the same round, in wall and CPU time.
The answers must be equal, bit for bit. It exits with 1 if packed frames take more than 1.5 times the bare forward.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image as Pillow

from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import projection, space
from strobe.core.ports import Silent
from strobe.core.tables import NO_PTS, Frames, Labels, Sets, Videos, texts
from strobe.core.tasks import Task
from strobe.engine.engine import run_models
from strobe.engine.forward import Runner
from strobe.engine.worker import EngineOptions
from strobe.models.cores import cores, quick_source, sharing_cores
from strobe.models.lite import load, weights_file
from strobe.models.options import LoadOptions, ModelName
from strobe.models.weights import load_into, read_state
from strobe.store.frame_names import FrameNames
from strobe.store.media import MediaSource
from strobe.store.shards import KEY_FACTS, ModelShards


def make_frames(root: Path, n: int) -> Dataset:
    """Make JPEG frames of 640×360 and about 40 KB, like video frames, with texture, so that answers differ."""
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


class Plain:
    """The model as its package returns it, in a separate process.

    It uses channels first, frees memory after every batch, decodes with Pillow and resizes the full image. The parent
    requests one variant at a time.
    """

    def __init__(self, root: Path, n: int, batch: int) -> None:
        command = [sys.executable, __file__, "--plain", str(root), "--frames", str(n), "--batch", str(batch)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.labels = np.array(self._answer())

    def seconds(self, way: str) -> float:
        """Return the seconds of a variant, measured in the child."""
        assert self._process.stdin is not None
        print(way, file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the plain process ended early")
        return json.loads(line)


def plain(root: Path, n: int, batch: int) -> None:
    """Run in the child: print the top-1 class of every frame, then run the requested variants."""
    from efficientnet_lite_pytorch import EfficientNet

    module = EfficientNet.from_name("efficientnet-lite0")
    load_into(module, read_state(weights_file("efficientnet-lite0")), path=root, model="efficientnet-lite0")
    module.eval()
    to_dataset = projection("ilsvrc-2012", "imagenet-vid")

    def read(row: int) -> torch.Tensor:
        picture = (
            Pillow.open(root / f"media/{row:05d}.jpg").convert("RGB").resize((455, 256), Pillow.Resampling.BICUBIC)
        )
        pixels = np.array(picture.crop((116, 16, 340, 240)))
        return (torch.from_numpy(pixels).permute(2, 0, 1).contiguous().float() - 127) / 128

    def forward(part: list[torch.Tensor]) -> Any:
        with torch.inference_mode():
            return module(torch.stack(part)).numpy()

    prepared = [read(row) for row in range(n)]
    batches = [prepared[start : start + batch] for start in range(0, n, batch)]

    def bare() -> None:
        for part in batches:
            forward(part)

    def serial() -> None:
        starts = range(0, n, batch)
        scores = [forward([read(row) for row in range(start, min(start + batch, n))]) for start in starts]
        to_dataset.apply(np.concatenate(scores)).argmax(axis=1)

    alone = np.concatenate([forward([one]) for one in prepared])
    print(json.dumps(to_dataset.apply(alone).argmax(axis=1).tolist()), flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        {"bare": bare, "serial": serial}[line.strip()]()
        print(time.perf_counter() - begin, flush=True)


LIMIT = 1.5
"""The limit for the engine on packed frames, as a multiple of the bare forward in wall time."""


def make_video(path: Path, n: int) -> None:
    """Write an H.264 clip of 1280×720 with a key frame every two seconds: a camera moves over a textured surface."""
    import av

    rng, how = np.random.default_rng(0), Pillow.Resampling.BICUBIC
    parts = [(40, 24, 0.6), (400, 240, 0.3), (1600, 960, 0.1)]
    ground = sum(
        share * np.asarray(Pillow.fromarray(rng.integers(0, 256, (h, w, 3), dtype=np.uint8)).resize((1600, 960), how))
        for w, h, share in parts
    )
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=30, options={"g": "60", "crf": "20", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        for number in range(n):
            x, y = round(160 + 150 * np.sin(number / 40)), round(120 + 110 * np.cos(number / 31))
            image = np.ascontiguousarray(np.asarray(ground, dtype=np.uint8)[y : y + 720, x : x + 1280])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def own_video(video: Path | None, n: int, rounds: int) -> int:
    """Build the video in three ways, run the engine on each and print its cost. Returns the exit code."""
    from strobe.build.options import AnchorOptions
    from strobe.core.ports import FrameSource
    from strobe.store.opening import frame_source
    from strobe.workflows.build import build
    from strobe.workflows.options import BuildOptions

    root = Path(tempfile.mkdtemp(prefix="strobe-own-video-"))
    model = load(ModelName("bundled", "efficientnet-lite0"), LoadOptions(device="cpu"))
    runner = Runner(name="m", model=model, projection=projection("ilsvrc-2012", "imagenet-vid"))
    try:
        if video is None:
            video = root / "clip.mp4"
            make_video(video, n)
        every = BuildOptions(label=("dog",), label_space="imagenet-vid", sampling=AnchorOptions(k=10, every=21))
        ways = {
            "packed": replace(every, store="zstd"),
            "png": replace(every, store="png"),
            "reference": replace(every, reference=True),
        }
        datasets = {name: build([video], root / name, how).dataset for name, how in ways.items()}
        rows = np.arange(min(n, len(datasets["packed"].frames)))
        source = MediaSource(datasets["packed"])
        prepared = [model.prepare(source.read(row)) for row in rows.tolist()]
        size = model.spec.batch_size
        batches = [prepared[start : start + size] for start in range(0, len(prepared), size)]
        found: dict[str, Any] = {}

        def bare() -> None:
            with sharing_cores([model]), ThreadPoolExecutor(model.lanes) as pool:
                list(pool.map(model.forward, batches))

        def engine(name: str) -> None:
            dataset = datasets[name]
            frames: FrameSource = quick_source(frame_source(dataset))
            with tempfile.TemporaryDirectory() as folder, sharing_cores([model]):
                store = ModelShards(
                    Path(folder), "m", facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
                    task=Task.CLASSIFICATION, n_classes=30,
                )  # fmt: skip
                chunk = 1 if name == "reference" else 4
                run_models(
                    [runner], {"m": store}, frames, frame_names=dataset.frames.key.tolist(), rows=rows,
                    options=EngineOptions(threads=cores(), chunk=chunk), progress=Silent(),
                )  # fmt: skip
                answers: Any = store.read()
                found[name] = answers.scores[rows]

        took: dict[str, list[tuple[float, float]]] = {name: [] for name in ("bare", *ways)}
        for round_ in range(rounds + 1):
            for name, times in took.items():
                begin = time.perf_counter(), time.process_time()
                bare() if name == "bare" else engine(name)
                if round_:  # the first round is a warm-up
                    times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
                    print(f"{name}: {times[-1][0] / len(rows) * 1e3:.2f} ms per frame", file=sys.stderr)
        same = all(np.array_equal(found["png"], one, equal_nan=True) for one in found.values())

        def of_bare(name: str, which: int) -> float:
            pairs = zip(took[name], took["bare"], strict=True)
            return round(statistics.median(one[which] / other[which] for one, other in pairs), 3)

        def a_frame(which: int) -> dict[str, float]:
            return {name: round(statistics.median(t[which] for t in took[name]) / len(rows) * 1e3, 2) for name in took}

        held = of_bare("packed", 0) <= LIMIT and same
        result = {
            "cores": cores(), "torch": torch.__version__, "frames": len(rows), "load_average": os.getloadavg()[0],
            "ms_per_frame": a_frame(0), "cpu_ms_per_frame": a_frame(1),
            "of_bare_clock": {name: of_bare(name, 0) for name in ways},
            "of_bare_cpu": {name: of_bare(name, 1) for name in ways},
            "kb_a_frame": {
                name: round(sum(path.stat().st_size for path in (root / name / "media").rglob("*.*")) / 1e3
                            / len(datasets[name].frames))
                for name in ("packed", "png")
            },
            "same_scores_to_the_bit": same, "limit": LIMIT, "within_limit": held,
        }  # fmt: skip
        print(json.dumps(result, indent=1))
        return 0 if held else 1
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--plain", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--own-video", type=Path, nargs="?", const=Path(), default=None, metavar="VIDEO")
    options = parser.parse_args()
    if options.own_video is not None:
        raise SystemExit(
            own_video(options.own_video if options.own_video.name else None, options.frames, options.rounds)
        )
    if options.plain:
        return plain(options.plain, options.frames, options.batch)
    root = Path(tempfile.mkdtemp(prefix="strobe-overhead-"))
    model = load(ModelName("bundled", "efficientnet-lite0"), LoadOptions(device="cpu", batch_size=options.batch))
    batch = model.spec.batch_size
    try:
        dataset = make_frames(root, options.frames)
        source, n = MediaSource(dataset), len(dataset.frames)
        prepared = [model.prepare(source.read(row)) for row in range(n)]
        batches = [prepared[start : start + batch] for start in range(0, n, batch)]
        runner = Runner(name="m", model=model, projection=projection("ilsvrc-2012", "imagenet-vid"))
        found: list[ClassAnswers] = []

        def score(predictions: ClassAnswers) -> float:
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
                store = ModelShards(
                    Path(folder),
                    "m",
                    facts=dict.fromkeys(KEY_FACTS, ""),
                    frames=FrameNames(dataset),
                    task=Task.CLASSIFICATION,
                    n_classes=30,
                )
                with sharing_cores([model]):
                    run_models(
                        [runner], {"m": store}, quick_source(MediaSource(dataset)), frame_names=keys,
                        rows=np.arange(n),
                        options=EngineOptions(threads=cores()), progress=Silent(),
                    )  # fmt: skip
                stored = store.read()
                if not isinstance(stored, ClassAnswers) or not stored.scored.all():
                    raise SystemExit("frames are missing from the store")
                predictions = stored
                score(predictions)
                found.append(predictions)

        def serial() -> None:
            scores = []
            for start in range(0, n, batch):
                part = [model.prepare(source.read(row)) for row in range(start, min(start + batch, n))]
                scores.append(runner.projection.apply(model.forward(part)))
            score(ClassAnswers.from_scores("m", np.concatenate(scores), kind="logits"))

        ways: dict[str, Callable[[], None]] = {
            "bare": bare,
            "engine": engine,
            "bare_in_lanes": bare_in_lanes,
            "serial": serial,
        }
        plain_ways = {"plain_bare": "bare", "plain_serial": "serial"}
        wall: dict[str, list[float]] = {name: [] for name in [*plain_ways, *ways]}
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        untouched = Plain(root, n, batch)
        bare()  # warm up
        engine()
        for _ in range(options.rounds):
            for name in wall:
                if name in plain_ways:
                    wall[name].append(untouched.seconds(plain_ways[name]))
                else:
                    begin, begin_cpu = time.perf_counter(), time.process_time()
                    ways[name]()
                    wall[name].append(time.perf_counter() - begin)
                    cpu[name].append(time.process_time() - begin_cpu)
                print(f"{name}: {wall[name][-1] / n * 1e3:.2f} ms per frame", file=sys.stderr)
        untouched.close()

        def ratio(one: str, other: str) -> float:
            return round(statistics.median(a / b for a, b in zip(wall[one], wall[other], strict=True)), 3)

        result: dict[str, Any] = {
            "cores": cores(), "torch": torch.__version__, "frames": n, "batch": batch,
            "jpeg_bytes": int(np.mean([path.stat().st_size for path in (root / "media").iterdir()])),
            "load_average": os.getloadavg()[0],
            "ms_per_frame": {name: round(statistics.median(times) / n * 1e3, 2) for name, times in wall.items()},
            "cpu_ms_per_frame": {name: round(statistics.median(times) / n * 1e3, 2) for name, times in cpu.items()},
            "engine_over_plain_bare": ratio("engine", "plain_bare"),
            "plain_serial_over_plain_bare": ratio("plain_serial", "plain_bare"),
            "engine_over_bare": ratio("engine", "bare"),
            "engine_over_bare_in_lanes": ratio("engine", "bare_in_lanes"),
            "serial_over_bare": ratio("serial", "bare"),
            "same_top1_as_plain_loop": bool((untouched.labels == found[-1].label).all()),
        }  # fmt: skip
        print(json.dumps(result, indent=1))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
