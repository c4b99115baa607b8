"""Measure frames per second of detectors on a GPU, from frames on disk to stored boxes, and of their bare forward.

    PYTHONPATH=src python benchmarks/predict_gpu_detectors.py                    # under three minutes
    PYTHONPATH=src python benchmarks/predict_gpu_detectors.py --device cpu --batch 2 --small   # a dry run

The script prints one JSON object, for torchvision's Faster R-CNN and SSD and each frame size. It contains the bare
forward (the same batches, resident on the device), the earlier engine (decoding on threads with one forward at a time,
and on processes with two forwards on one stream), the current engine, and other numbers of lanes. Each has its ratio to
the bare forward. It also contains the time of each stage alone. Weights are random, with a bias that leaves a typical
number of boxes. All variants run the same weights and frames. `same` is true if the stored boxes equal those of the
first variant, bit for bit. Rates exclude the first batch, during which the processes start (`start_s`). The script
needs torch, torchvision, pyarrow and Pillow, and downloads nothing.
"""

import argparse
import io
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from gpu_frames import all_of, picture, stored
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.ports import Image
from strobe.core.projections import projection_between
from strobe.core.records import Detections
from strobe.core.tasks import Task
from strobe.engine.decode_pool import DecodePool
from strobe.engine.engine import run_models
from strobe.engine.forward import Runner
from strobe.engine.worker import EngineOptions
from strobe.models.cores import cores, quick_source
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.torchvision import TorchvisionDetector, load
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import AsDecoded
from strobe.store.frame_names import FrameNames
from strobe.store.media import MediaSource
from strobe.store.shards import KEY_FACTS, ModelShards

MODELS = ("fasterrcnn_resnet50_fpn", "ssd300_vgg16")
SIZES = ((500, 375), (1280, 720))
DISTINCT = 32
CANDIDATES = 300
"""The target number of scores per frame above a detector's threshold, before suppression."""
SPREAD = 2.0
"""The standard deviation of the class scores of one box, before softmax."""


class Before(TorchvisionDetector):
    """The earlier adapter: pageable memory, the default stream, three transfers for each image."""

    @classmethod
    def of(cls, model: TorchvisionDetector, *, lanes: int) -> "Before":
        """Return the same detector with the earlier adapter."""
        made = cls(model.module, model.spec, device=model.device)
        made.lanes = lanes
        return made

    def _stream(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _same_size(self, prepared: list[Image]) -> Iterator[Detections]:
        pixels = torch.from_numpy(np.stack(prepared)).to(self.device)
        for one in self._module(list(pixels.permute(0, 3, 1, 2).float() / 255)):
            yield detections(*(one[key].float().cpu().numpy() for key in ("boxes", "labels", "scores")))


class Watch:
    """A Progress that remembers when the first frames were done."""

    def __init__(self) -> None:
        self.first: tuple[float, int] | None = None

    @contextmanager
    def task(self, label: str, total: int | None) -> Iterator[Callable[[int], None]]:  # noqa: ARG002 (the port has them)
        """Record only the first tick of a task."""
        yield self._tick

    def _tick(self, n: int) -> None:
        self.first = self.first or (time.perf_counter(), n)

    def note(self, text: str) -> None:
        """Nothing."""


def make_frames(root: Path, n: int, size_wh: tuple[int, int]) -> Dataset:
    """Make a dataset of n JPEG frames of one size with some dozen different images."""

    def encoded(seed: int) -> bytes:
        buffer = io.BytesIO()
        picture(np.random.default_rng(seed), *size_wh).save(buffer, "JPEG", quality=92)
        return buffer.getvalue()

    files = all_of(encoded, min(n, DISTINCT))
    return stored(root, n, files, [""] * len(files), ".jpg", size_wh)


def tame(model: TorchvisionDetector, images: Sequence[Image]) -> float:
    """Adjust weights so that about `CANDIDATES` class scores per frame pass the threshold. Returns boxes per frame.

    With random weights, either no box passes, or so many that suppression takes all the time. So the function sets the
    spread of the class scores, and then the bias of the background.
    """
    module: Any = model.module
    heads = getattr(module, "roi_heads", None)
    with torch.inference_mode():
        pixels = [torch.from_numpy(image.copy()).to(model.device).permute(2, 0, 1).float() / 255 for image in images]
        if heads is not None:
            layers, scores = [heads.box_predictor.cls_score], []
            hook = layers[0].register_forward_hook(lambda *told: scores.append(told[2]))
            module(pixels)
            hook.remove()
            logits, threshold = scores[0], heads.score_thresh
        else:
            layers = list(module.head.classification_head.module_list)
            features = list(module.backbone(module.transform(pixels)[0].tensors).values())
            logits, threshold = module.head(features)["cls_logits"].flatten(0, 1), module.score_thresh
        n_classes, low, high = logits.shape[-1], -50.0, 50.0
        factor = SPREAD / float(logits.std(dim=-1).mean())
        for _ in range(30):
            more = torch.zeros(n_classes, device=logits.device)
            more[0] = (low + high) / 2
            passing = int((torch.softmax(factor * logits + more, dim=-1)[:, 1:] > threshold).sum()) / len(images)
            low, high = (float(more[0]), high) if passing > CANDIDATES else (low, float(more[0]))
    with torch.no_grad():
        for layer in layers:
            layer.weight *= factor
            layer.bias *= factor
            layer.bias.view(-1, n_classes)[:, 0] += high
    return float(np.mean([len(one) for one in model.forward(images)]))


def seconds_of(work: Callable[[], object], *, device: str) -> float:
    """Return the seconds of `work`, including the device's part."""
    begin = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def bare(model: TorchvisionDetector, batches: list[Any], *, rounds: int, lanes: int = 1) -> float:
    """Return the images per second of the module alone on resident images, in `lanes` threads with separate streams."""
    device, size = model.device, len(batches[0])

    def one(place: int) -> None:
        with torch.inference_mode():
            model.module(batches[place % len(batches)])

    def lane(number: int) -> None:
        own = torch.cuda.stream(torch.cuda.Stream(device)) if lanes > 1 and device.startswith("cuda") else nullcontext()
        with own:
            for place in range(number, rounds, lanes):
                one(place)

    def work() -> None:
        if lanes == 1:
            lane(0)
            return
        with ThreadPoolExecutor(lanes) as pool:
            list(pool.map(lane, range(lanes)))

    seconds_of(lambda: one(0), device=device)
    return rounds * size / seconds_of(work, device=device)


def busy(model: TorchvisionDetector, batch: Any) -> dict[str, float]:
    """Return, for one batch, the milliseconds of device work and the number of launched operations."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as told, torch.inference_mode():
        model.module(batch)
        torch.cuda.synchronize()
    work = [one for one in told.key_averages() if one.self_device_time_total > 0]
    return {"ms": sum(one.self_device_time_total for one in work) / 1000, "pieces": sum(one.count for one in work)}


def end_to_end(
    model: TorchvisionDetector, dataset: Dataset, n: int, *, processes: int, in_flight: int, shard: int
) -> tuple[dict[str, Any], BoxAnswers]:
    """Run the engine on the first n frames. Returns its rate after the first batch and overall, and the boxes."""
    size, space = model.spec.batch_size, dataset.info.label_space
    way = projection_between(model.spec.label_space, space)
    media = MediaSource(dataset)
    keys, watch = [str(key) for key in dataset.frames.key], Watch()
    with tempfile.TemporaryDirectory() as folder:
        store = ModelShards(
            Path(folder), "detector", facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
            task=Task.DETECTION, n_classes=len(space), every_box=True,
        )  # fmt: skip
        chunk = max(1, min(16, size // 2))  # as in the predict workflow
        engine = EngineOptions(
            shard_size=shard,
            in_flight=in_flight,
            threads=max(2, cores()),
            processes=processes,
            chunk=chunk,
            ahead=max(8, 2 * processes, 2 * size // chunk),
        )
        begin = time.perf_counter()
        outcome = run_models(
            [Runner(name="detector", model=model, projection=way)], {"detector": store},
            media if processes else quick_source(media), frame_names=keys, rows=np.arange(n),
            options=engine, progress=watch,
        )["detector"]  # fmt: skip
        end = time.perf_counter()
        if outcome.error or outcome.n_unreadable or watch.first is None:
            raise SystemExit(f"the engine failed: {outcome}")
        found = cast(BoxAnswers, store.read(every_box=True))
    first, done = watch.first
    out = {
        "fps": (n - done) / (end - first), "start_s": first - begin, "whole_fps": n / (end - begin),
        "forwards_at_once": outcome.forward_s / (end - begin),
    }  # fmt: skip
    return out, found


def same(one: BoxAnswers, other: BoxAnswers) -> bool:
    """Return whether two answers are equal, bit for bit."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("frame", "label", "xyxy", "score", "state")
    )


def stages(
    model: TorchvisionDetector, dataset: Dataset, images: Sequence[Image], found: BoxAnswers
) -> dict[str, float]:
    """Measure each stage alone: frames per second for decoding, milliseconds per batch for the others."""
    n, size = min(len(dataset.frames), 20 * cores()), model.spec.batch_size
    plan = model.preparation or AsDecoded()
    pool = DecodePool(MediaSource(dataset), {"detector": plan}, processes=cores(), chunk=max(1, min(16, size // 2)))
    chunks = [list(range(start, min(start + size, n))) for start in range(0, n, size)]

    def decode() -> None:
        with ThreadPoolExecutor(cores()) as waiting:
            list(waiting.map(lambda rows: pool.read(rows, [["detector"]] * len(rows)) and None, chunks))

    decode()
    out = {"decode_alone_fps": n / seconds_of(decode, device="cpu")}
    pool.close()

    def to_device() -> None:
        for _ in range(10):
            model._on_device(images).permute(0, 3, 1, 2).float().div(255)

    to_device()
    out["to_device_ms"] = 100 * seconds_of(to_device, device=model.device)
    boxes = [found.xyxy[found.frame == place] for place in range(size)]

    def records() -> None:
        for _ in range(10):
            for one in boxes:
                detections(one, np.zeros(len(one)), np.linspace(1, 0, len(one)))

    out["records_ms"] = 100 * seconds_of(records, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        store = ModelShards(
            Path(folder), "detector", facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
            task=Task.DETECTION, n_classes=len(dataset.info.label_space),
        )  # fmt: skip
        write = seconds_of(lambda: store.write(np.arange(found.n_frames), found), device="cpu")
        out["store_ms"] = 1000 * write * size / found.n_frames
    return out


def case(model: TorchvisionDetector, dataset: Dataset, *, seconds: float, quick: bool) -> dict[str, Any]:
    """Measure one detector on one dataset: bare forward, earlier engine, current engine."""
    source, size, device = MediaSource(dataset), model.spec.batch_size, model.device
    images = [source.read(row) for row in range(min(len(dataset.frames), 4 * size))]
    whole = len(images) // size
    result: dict[str, Any] = {"boxes_a_frame": tame(model, images[:size])}
    batches = [
        [torch.from_numpy(image.copy()).to(device).permute(2, 0, 1).float() / 255 for image in images[at : at + size]]
        for at in range(0, whole * size, size)
    ]
    bare(model, batches, rounds=whole)  # warm-up, and an estimate of the rounds needed
    rounds = max(whole, int(seconds / 2 * bare(model, batches, rounds=whole) / size))
    result["bare_fps"] = {"1": bare(model, batches, rounds=rounds)}
    if not quick:
        result["bare_fps"]["2 at once"] = bare(model, batches, rounds=rounds, lanes=2)
    result["bare_fps"]["1 again"] = bare(model, batches, rounds=rounds)
    if device.startswith("cuda"):
        result["device_busy_a_batch"] = busy(model, batches[0])
    reference = max(result["bare_fps"]["1"], result["bare_fps"]["1 again"])
    n = min(len(dataset.frames), max(4, int(seconds * reference / size)) * size)
    processes, shard = cores(), -(-n // (4 * size)) * size
    threads_before = torch.get_num_threads()
    if device != "cpu":
        torch.set_num_threads(1)  # as the predict workflow does
    ways: dict[str, tuple[TorchvisionDetector, int, int]] = {
        "before: threads, one at a time": (Before.of(model, lanes=1), 0, 1),
        "before: processes, two at a time": (Before.of(model, lanes=2), processes, 2),
        f"now: processes, {model.lanes} lanes": (model, processes, 2),
    }
    for lanes in () if quick else (1, 2, 4):
        other = copy(model)
        other.lanes = lanes
        ways[f"{lanes} lanes"] = (other, processes, 2)
    result |= {"frames": n, "shard": shard, "ways": {}}
    first: BoxAnswers | None = None
    for name, (way, several, in_flight) in ways.items():
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        told, found = end_to_end(way, dataset, n, processes=several, in_flight=in_flight, shard=shard)
        first = first or found
        told["ratio"] = told["fps"] / reference
        if device.startswith("cuda"):
            told["device_gb"] = torch.cuda.max_memory_allocated() / 1e9
        result["ways"][name] = told | {"same": same(found, first)}
    if first is not None:
        result["alone"] = stages(model, dataset, images[:size], first)
    torch.set_num_threads(threads_before)
    return result


def rounded(value: Any) -> Any:
    """Return the value with all numbers rounded to three significant digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    """Measure all cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0, help="approximate seconds per measurement")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--within", type=float, default=600, help="start no further case after this many seconds")
    parser.add_argument("--quick", action="store_true", help="skip other numbers of lanes")
    parser.add_argument("--small", action="store_true", help="a dry run with a small network and few small frames")
    options = parser.parse_args()
    if options.small:
        options.models, options.seconds = f"fasterrcnn_mobilenet_v3_large_320_fpn,{MODELS[1]}", 0.1
        torch.set_num_threads(1)
    begin, device = time.perf_counter(), options.device
    result: dict[str, Any] = {
        "machine": torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine(),
        "cores": cores(), "torch": torch.__version__, "batch": options.batch, "cases": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="strobe-gpu-") as folder:
        for size in ((160, 120),) if options.small else SIZES:
            dataset = make_frames(Path(folder) / f"{size[0]}", 8 if options.small else 2048, size)
            files = [path.stat().st_size for path in sorted((Path(folder) / f"{size[0]}/media").glob("*"))[:DISTINCT]]
            for name in options.models.split(","):
                if time.perf_counter() - begin > options.within:
                    break
                torch.manual_seed(0)
                side = 96 if options.small and not name.startswith("ssd") else None
                options_ = LoadOptions(device=device, batch_size=options.batch, pretrained=False, image_size=side)
                model = load(ModelName("torchvision", name), options_)
                try:
                    told = case(model, dataset, seconds=options.seconds, quick=options.quick)
                except Exception as error:  # GPU time is limited, so measure the other cases anyway
                    told = {"failed": repr(error)[:300]}
                result["cases"][f"{name} {size[0]}x{size[1]}"] = {"jpeg_kb": float(np.mean(files)) / 1000} | told
                took = (
                    f"{time.perf_counter() - begin:.0f} s"  # printed immediately, because the machine may be taken away
                )
                print(took, name, size, json.dumps(rounded(told)), file=sys.stderr, flush=True)
    result["took_s"] = time.perf_counter() - begin
    print(json.dumps(rounded(result)))


if __name__ == "__main__":
    main()
