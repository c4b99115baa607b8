"""Frames per second of detectors on a GPU, frames on disk to stored boxes, beside their bare forward.

    PYTHONPATH=src python benchmarks/predict_gpu_detectors.py                    # one command, under three minutes
    PYTHONPATH=src python benchmarks/predict_gpu_detectors.py --device cpu --batch 2 --small   # a dry run

Prints one JSON object. For torchvision's Faster R-CNN and SSD and each frame size: the bare forward (images resident on
the device, the same batches), the engine as it was (decoding on threads and one forward at a time; on processes and two
at a time on one stream) and as it is, with other numbers of lanes beside it, each with its ratio to the bare forward;
and what the stages take alone. Weights are random, but for a bias that leaves a usual number of boxes. All run the same
weights and frames; `same` says whether the stored boxes are those of the first way to the bit. Rates are those after
the first batch: the processes start meanwhile (`start_s`). Needs torch, torchvision, pyarrow, Pillow; nothing is
downloaded.
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
from strobe.datasets.media import MediaSource
from strobe.models.cores import cores, quick_source
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.torchvision import TorchvisionDetector, load
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import AsDecoded
from strobe.predict.decode_pool import DecodePool
from strobe.predict.decoding import DecodeOptions
from strobe.predict.engine import EngineOptions, run_models
from strobe.predict.forward import Runner
from strobe.runs.frames import FrameNames
from strobe.runs.shards import KEY_FACTS, ModelShards

MODELS = ("fasterrcnn_resnet50_fpn", "ssd300_vgg16")
SIZES = ((500, 375), (1280, 720))
DISTINCT = 32
CANDIDATES = 300
"""So many scores a frame are to be above a detector's threshold, before overlapping boxes are suppressed."""
SPREAD = 2.0
"""The standard deviation of the class scores of one box, before softmax."""


class Before(TorchvisionDetector):
    """The adapter as it was: pageable memory, the default stream, three transfers for each image."""

    @classmethod
    def of(cls, model: TorchvisionDetector, *, lanes: int) -> "Before":
        """The same detector as it was; two shards at a time were two forwards at a time."""
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
        """A task of which only the first tick is kept."""
        yield self._tick

    def _tick(self, n: int) -> None:
        self.first = self.first or (time.perf_counter(), n)

    def note(self, text: str) -> None:
        """Nothing."""


def make_frames(root: Path, n: int, size_wh: tuple[int, int]) -> Dataset:
    """A dataset of n JPEG frames of one size, some dozen different images among them."""

    def encoded(seed: int) -> bytes:
        buffer = io.BytesIO()
        picture(np.random.default_rng(seed), *size_wh).save(buffer, "JPEG", quality=92)
        return buffer.getvalue()

    files = all_of(encoded, min(n, DISTINCT))
    return stored(root, n, files, [""] * len(files), ".jpg", size_wh)


def tame(model: TorchvisionDetector, images: Sequence[Image]) -> float:
    """Have about `CANDIDATES` class scores a frame pass the threshold; how many boxes a frame then has.

    Random weights are sure of everything or of nothing: no boxes at all, or so many that suppressing them is all the
    work. So the spread of class scores is set, and then how much more likely the background is.
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
    """How long `work` takes, the device's part included."""
    begin = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def bare(model: TorchvisionDetector, batches: list[Any], *, rounds: int, lanes: int = 1) -> float:
    """Images a second of the module alone on resident images, in `lanes` threads with a stream each."""
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
    """What a batch is made of: milliseconds in which the device works, and how many pieces of work it is given."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as told, torch.inference_mode():
        model.module(batch)
        torch.cuda.synchronize()
    work = [one for one in told.key_averages() if one.self_device_time_total > 0]
    return {"ms": sum(one.self_device_time_total for one in work) / 1000, "pieces": sum(one.count for one in work)}


def end_to_end(
    model: TorchvisionDetector, dataset: Dataset, n: int, *, processes: int, in_flight: int, shard: int
) -> tuple[dict[str, Any], BoxAnswers]:
    """The engine over the first n frames: its rate after the first batch, and over all; and the boxes."""
    size, space = model.spec.batch_size, dataset.info.label_space
    way = projection_between(model.spec.label_space, space)
    media = MediaSource(dataset)
    keys, watch = [str(key) for key in dataset.frames.key], Watch()
    with tempfile.TemporaryDirectory() as folder:
        store = ModelShards(
            Path(folder), "detector", facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(dataset),
            task=Task.DETECTION, n_classes=len(space), every_box=True,
        )  # fmt: skip
        chunk = max(1, min(16, size // 2))  # as the predict workflow has it
        decode = DecodeOptions(
            threads=max(2, cores()), processes=processes, chunk=chunk, ahead=max(8, 2 * processes, 2 * size // chunk)
        )
        begin = time.perf_counter()
        outcome = run_models(
            [Runner(name="detector", model=model, projection=way)], {"detector": store},
            media if processes else quick_source(media), frame_names=keys, rows=np.arange(n),
            options=EngineOptions(shard_size=shard, decode=decode, in_flight=in_flight), progress=watch,
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
    """Whether two answers are the same to the bit."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("frame", "label", "xyxy", "score", "state")
    )


def stages(
    model: TorchvisionDetector, dataset: Dataset, images: Sequence[Image], found: BoxAnswers
) -> dict[str, float]:
    """What each stage takes alone: frames a second decoded by processes, milliseconds a batch for the others."""
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
    """One detector on one dataset: bare, before, now."""
    source, size, device = MediaSource(dataset), model.spec.batch_size, model.device
    images = [source.read(row) for row in range(min(len(dataset.frames), 4 * size))]
    whole = len(images) // size
    result: dict[str, Any] = {"boxes_a_frame": tame(model, images[:size])}
    batches = [
        [torch.from_numpy(image.copy()).to(device).permute(2, 0, 1).float() / 255 for image in images[at : at + size]]
        for at in range(0, whole * size, size)
    ]
    bare(model, batches, rounds=whole)  # warm, and how many rounds make the seconds
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
    """Numbers with three figures, throughout."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0, help="about so long takes each measurement")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--within", type=float, default=600, help="no other case is begun after so many seconds")
    parser.add_argument("--quick", action="store_true", help="no other numbers of lanes")
    parser.add_argument("--small", action="store_true", help="a small network, small frames and few: a dry run")
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
                except Exception as error:  # time on such a machine is dear: the other cases are measured all the same
                    told = {"failed": repr(error)[:300]}
                result["cases"][f"{name} {size[0]}x{size[1]}"] = {"jpeg_kb": float(np.mean(files)) / 1000} | told
                took = f"{time.perf_counter() - begin:.0f} s"  # said as it comes: a lent machine may be taken away
                print(took, name, size, json.dumps(rounded(told)), file=sys.stderr, flush=True)
    result["took_s"] = time.perf_counter() - begin
    print(json.dumps(rounded(result)))


if __name__ == "__main__":
    main()
