"""Measure images per second on a GPU, from frames on disk to stored predictions: ResNet-50, bf16, 224 px, 110 KB JPEGs.

    PYTHONPATH=src python benchmarks/predict_gpu.py                       # about four minutes PYTHONPATH=src python
    benchmarks/predict_gpu.py --parts device,exact  # only these parts PYTHONPATH=src python benchmarks/predict_gpu.py
    --device cpu --frames 64 --first 32 --packed 16 --batch 8  # a dry run

The script prints one JSON object with the rates of the bare forward, every stage alone, files in memory without the
engine, the engine end to end with the load of each stage, 1280×720 frames in strobe's own format, and a plain
DataLoader with PIL. It needs torch, torchvision, timm, pyarrow and Pillow, and downloads nothing.
"""

import argparse
import faulthandler
import json
import os
import platform
import resource
import shutil
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, cast

import numpy as np
import PIL
import torch
import torch.fx.experimental.optimization
from numpy.typing import NDArray

from gpu_alone import bare_forward, data_loader, from_memory, pool_alone, rate, say, stages_alone
from gpu_frames import make_frames, make_packed
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.labels import projection
from strobe.core.ports import Silent
from strobe.core.tasks import Task
from strobe.engine.decode_pool import DecodePool
from strobe.engine.engine import run_models
from strobe.engine.forward import Runner, Work
from strobe.engine.worker import EngineOptions, ShardWorker
from strobe.models.cores import quick_source
from strobe.models.exact_resize import SentPlan
from strobe.models.options import LoadOptions, ModelName
from strobe.models.timm import load
from strobe.models.torch_classifier import TorchClassifier
from strobe.store.frame_names import FrameNames
from strobe.store.media import MediaSource
from strobe.store.shards import KEY_FACTS, ModelShards

PARTS = ("bare", "alone", "memory", "device", "exact", "packed", "loader")


class Aloud(Silent):
    """Keeps the notes of a model while it is loaded."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)
        say(text)


# -- the engine ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Way:
    """The settings of one run of the engine."""

    on_device: bool = False
    processes: int = 0
    threads: int = 2
    chunk: int = 16
    shard: int = 2048
    in_flight: int = 2
    first: int | None = None
    sent: SentPlan | None = None


_TIMED: list[tuple[type, str, str]] = [
    (ShardWorker, "_read_files", "read files"),
    (TorchClassifier, "prepare_encoded", "decode on the device"),
    (DecodePool, "_read_chunk", "wait for processes"),
    (TorchClassifier, "_brought", "bring to the device"),
    (TorchClassifier, "_answer", "launch the forward"),
    (TorchClassifier, "forward", "forward, with bringing and waiting"),
    (Work, "forward", "forward, and project its scores"),
    (ModelShards, "write", "store"),
]


@contextmanager
def timed(found: dict[str, Any]) -> Iterator[None]:
    """While open, measure the load of each stage of the engine: concurrent threads, and cores."""
    busy: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    guard, kept = threading.Lock(), [(owner, name, getattr(owner, name)) for owner, name, _ in _TIMED]

    def around(inner: Any, label: str) -> Any:
        @wraps(inner)
        def outer(*given: Any, **named: Any) -> Any:
            begin, cpu = time.perf_counter(), time.thread_time()
            try:
                return inner(*given, **named)
            finally:
                with guard:
                    busy[label][0] += time.perf_counter() - begin
                    busy[label][1] += time.thread_time() - cpu

        return outer

    for owner, name, label in _TIMED:
        setattr(owner, name, around(getattr(owner, name), label))
    begin, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        took = time.perf_counter() - begin
        for owner, name, inner in kept:
            setattr(owner, name, inner)
        found["busy"] = {label: [round(wall / took, 2), round(cpu / took, 2)] for label, (wall, cpu) in busy.items()}
        found["cores of this process"] = round((time.process_time() - cpu) / took, 2)


def end_to_end(model: TorchClassifier, dataset: Dataset, way: Way) -> tuple[float, NDArray[np.float32], dict[str, Any]]:
    """Run the engine from frames on disk to predictions on disk. Returns images per second, scores and stage loads."""
    if way.sent is not None:
        model = copy(model)
        model.preparation = way.sent
    runner = Runner(name="resnet50", model=model, projection=projection("ilsvrc-2012", "imagenet-vid"))
    media = MediaSource(dataset)
    source = media if way.processes else quick_source(media)
    keys = [str(key) for key in dataset.frames.key]
    rows = np.arange(len(keys))[: way.first]
    about: dict[str, Any] = {}
    options = EngineOptions(
        shard_size=way.shard, in_flight=way.in_flight,
        threads=way.threads, processes=way.processes, chunk=way.chunk, on_device=way.on_device,
        ahead=max(8, 2 * way.processes, (2 if way.processes else 3) * model.spec.batch_size // way.chunk),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = ModelShards(
            Path(folder), "resnet50", facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
            task=Task.CLASSIFICATION, n_classes=30,
        )  # fmt: skip

        def work() -> int:
            outcomes = run_models(
                [runner], {"resnet50": store}, source, frame_names=keys, rows=rows, options=options,
                progress=Silent(),
            )  # fmt: skip
            if outcomes["resnet50"].error or outcomes["resnet50"].n_unreadable:
                raise SystemExit(f"the engine failed: {outcomes['resnet50']}")
            return outcomes["resnet50"].n_new

        with timed(about):
            found = rate(work)
        stored = store.read()
        if not stored.scored[rows].all():
            raise SystemExit("frames are missing from the store")
    return found, np.asarray(cast(ClassAnswers, stored).scores)[rows], about


def tried(
    model: TorchClassifier, dataset: Dataset, ways: Mapping[str, Way], *, times: int = 1, exact: bool = False
) -> dict[str, Any]:
    """Return each way's best rate over several runs, its load in that run, and whether all stored the same scores.

    With `exact`, also return whether they equal those of a plain loop.
    """
    out: dict[str, Any] = {}
    scores = []
    for name, way in ways.items():
        found = [end_to_end(model, dataset, way) for _ in range(times)]
        best = max(found, key=lambda one: one[0])
        scores.append(best[1])
        out[name] = {"images/s": best[0], **best[2]}
        say(f"{name}: {[one[0] for one in found]} {json.dumps(best[2])}")
    out["all the same scores"] = all(np.array_equal(one, scores[0][: len(one)]) for one in scores)
    if exact:
        out["as a plain loop"] = as_plain_loop(model, dataset, scores[0])
    return out


def as_plain_loop(model: TorchClassifier, dataset: Dataset, stored: NDArray[np.float32]) -> bool:
    """Return whether the scores of the first two batches equal, bit for bit, those of images prepared one by one."""
    rows = range(min(2 * model.spec.batch_size, len(dataset.frames)))
    source, map_, scores = MediaSource(dataset), projection("ilsvrc-2012", "imagenet-vid"), []
    for start in range(0, len(rows), model.spec.batch_size):
        some = rows[start : start + model.spec.batch_size]
        scores.append(map_.apply(model.forward([model.prepare(source.read(row)) for row in some])))
    return np.array_equal(np.concatenate(scores), stored[: len(rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--frames", type=int, default=98304)
    parser.add_argument("--root", type=Path, help="folder in which frames are kept for later runs")
    parser.add_argument("--packed", type=int, default=4096, help="number of 1280×720 frames in strobe's own format")
    parser.add_argument("--first", type=int, default=24576, help="number of frames for the slower parts")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated: " + ", ".join(PARTS))
    parser.add_argument("--out", type=Path, help="write the JSON object to this file instead of stdout")
    parser.add_argument(
        "--dump-after", type=int, default=0, help="print the stack of every thread after this many seconds"
    )
    options = parser.parse_args()
    parts = options.parts.split(",")
    if options.dump_after:
        faulthandler.dump_traceback_later(options.dump_after, exit=True)
    cuda = options.device == "cuda"
    result: dict[str, Any] = {
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(), "cpu_cores": os.cpu_count(),
        "torch": torch.__version__, "pillow": PIL.__version__, "frames": options.frames,
        "packed_frames": options.packed, "batch": options.batch, "processes": options.processes,
    }  # fmt: skip
    root = options.root or Path(tempfile.mkdtemp(prefix="strobe-gpu-"))
    torch.set_num_threads(1)  # as the predict workflow does
    try:
        measure(result, parts, options, root)
    finally:
        if options.root is None:
            shutil.rmtree(root, ignore_errors=True)
        result["peak_memory_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)
        text = json.dumps(result, default=float)
        print(text) if options.out is None else options.out.write_text(text)


def measure(result: dict[str, Any], parts: list[str], options: argparse.Namespace, root: Path) -> None:
    """Measure all parts one after the other, and add each to `result` when it is done."""
    cuda, batch = options.device == "cuda", options.batch
    dataset = make_frames(root / "jpeg", options.frames)
    say("frames made")

    def resnet(n: int, *, compile_: bool = False) -> TorchClassifier:
        aloud = Aloud()
        torch.manual_seed(0)
        precision: Any = "bfloat16" if cuda else "float32"
        made = load(ModelName("timm", "resnet50"), LoadOptions(
            device=options.device, batch_size=n, pretrained=False, precision=precision, compile=compile_,
            progress=aloud,
        ))  # fmt: skip
        if compile_:
            result.setdefault("compiling", []).append(aloud.said[-1])
        if not isinstance(made, TorchClassifier):
            raise SystemExit("timm:resnet50 is not a classifier")
        return made

    models = {"eager": resnet(batch)}
    if cuda:
        models["compiled"] = resnet(batch // 2, compile_=True)
    model = models["eager"]
    default = model.preparation or SentPlan(cast(Any, model.plan))

    def packed() -> dict[str, Any]:
        store = make_packed(root / "packed", options.packed)
        size = np.mean([path.stat().st_size for path in sorted((root / "packed/media").iterdir())[:64]])
        say(f"packed frames made, {size / 1000:.0f} KB each")
        return {"bytes": int(size)} | exact(model, store, default, options)

    work: dict[str, Callable[[], Any]] = {
        "bare": lambda: {name: bare_forward(one, rounds=40 if cuda else 1) for name, one in models.items()},
        "alone": lambda: stages_alone(model, dataset, n=4096, batch=batch),
        "memory": lambda: {
            name: from_memory(one, dataset, n=options.first, threads=3, lanes=2) for name, one in models.items() if cuda
        },
        "device": lambda: on_device(models, dataset, options),
        "exact": lambda: exact(model, dataset, default, options),
        "packed": packed,
        "loader": lambda: data_loader(model, dataset, n=8192, workers=min(16, os.cpu_count() or 1)),
    }
    for part in parts:
        try:
            result[part] = work[part]()
            say(f"{part}: {json.dumps(result[part])}"[:1500])
        except Exception:  # GPU time is limited, so measure the other parts anyway
            result[part] = traceback.format_exc()
            say(result[part])
        if options.out is not None:
            options.out.write_text(json.dumps(result, default=float))


def on_device(models: dict[str, TorchClassifier], dataset: Dataset, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the engine with JPEG files decoded on the device."""
    now = Way(on_device=options.device == "cuda", processes=options.processes)
    fewer = replace(now, first=options.first)
    end_to_end(models["eager"], dataset, fewer)  # warms the page cache
    return {name: tried(one, dataset, {"now": now, "fewer frames": fewer}, times=2) for name, one in models.items()}


def exact(model: TorchClassifier, dataset: Dataset, sent: SentPlan, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the exact way: processes alone, with copies to the device, the engine, and the gain from GPU resizing."""
    n = options.processes
    out: dict[str, Any] = {}
    out["alone"] = {
        name: pool_alone(model, dataset, plan, n=8192, processes=n, chunk=16, bring=bring)
        for name, plan, bring in (("decoded", sent, False), ("and resized on the device", sent, True))
    }
    say(json.dumps(out["alone"]))
    ways = {"now": Way(processes=n)}
    if options.first < len(dataset.frames):
        ways["fewer frames"] = Way(processes=n, first=options.first)
    if model.resizes:
        ways["resized by the processes"] = Way(processes=n, first=options.first, sent=replace(sent, on_device=False))
    return out | tried(model, dataset, ways, exact=True)


if __name__ == "__main__":
    main()
