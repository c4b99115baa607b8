"""Images per second on a GPU, frames on disk to stored predictions: ResNet-50, bf16, 224 px, 110 KB JPEG frames.

    PYTHONPATH=src python benchmarks/predict_gpu.py            # one command, under five minutes
    PYTHONPATH=src python benchmarks/predict_gpu.py --device cpu --frames 64 --batch 8 --quick   # a dry run

Prints one JSON object: the bare forward rate, the engine end to end for each way of decoding, a plain DataLoader + PIL
loop beside it, decoding alone, and the ratios. Needs torch, torchvision, timm, pyarrow, Pillow; nothing is downloaded.
"""

import argparse
import faulthandler
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow

from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import projection, space
from strobe.core.ports import Silent
from strobe.core.tables import NO_PTS, Frames, Labels, Sets, Videos, texts
from strobe.core.tasks import Task
from strobe.datasets.media import MediaSource
from strobe.models.cores import quick_source
from strobe.models.exact_resize import SentPlan
from strobe.models.options import LoadOptions, ModelName
from strobe.models.timm import load
from strobe.models.torch_classifier import TorchClassifier
from strobe.predict.decode_pool import DecodePool
from strobe.predict.decoding import DecodeOptions
from strobe.predict.engine import EngineOptions, run_models
from strobe.predict.forward import Runner
from strobe.runs.frames import FrameNames
from strobe.runs.shards import KEY_FACTS, ModelShards


def picture(rng: np.random.Generator, width: int = 500, height: int = 375) -> Pillow.Image:
    """A picture that compresses like a photograph: smooth shapes, texture, a little noise."""
    coarse = Pillow.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(
        (width, height), Pillow.Resampling.BICUBIC
    )
    fine = Pillow.fromarray(rng.integers(0, 256, (94, 125, 3), dtype=np.uint8)).resize(
        (width, height), Pillow.Resampling.BICUBIC
    )
    noise = rng.normal(0, 9, (height, width, 3))
    mixed = 0.75 * np.asarray(coarse, dtype=np.float64) + 0.25 * np.asarray(fine, dtype=np.float64) + noise
    return Pillow.fromarray(np.clip(mixed, 0, 255).astype(np.uint8))


def encoded(seed: int) -> bytes:
    """A JPEG of about 110 KB."""
    image, best = picture(np.random.default_rng(seed)), b""
    for quality in (97, 96, 95, 94, 93, 92, 90, 88, 85):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality)
        best = buffer.getvalue()
        if len(best) <= 115_000:
            break
    return best


def make_frames(root: Path, n: int, *, distinct: int) -> Dataset:
    """A dataset of n stored JPEG frames, `distinct` different pictures among them."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        files = list(pool.map(encoded, range(distinct)))
        (root / "media").mkdir(parents=True)
        list(pool.map(lambda row: (root / f"media/{row:06d}.jpg").write_bytes(files[row % distinct]), range(n)))
    rows, unknown, n_sets = np.arange(n), np.zeros(n, dtype=np.int64), n // 21 + 1
    return Dataset(
        info=DatasetInfo(name="benchmark", label_space=space("imagenet-vid"), k=10),
        videos=Videos(
            video_id=texts([f"{place:016x}" for place in range(n_sets)]),
            name=texts([str(place) for place in range(n_sets)]),
            fps_num=np.full(n_sets, 30), fps_den=np.ones(n_sets, dtype=np.int64), n_frames=np.full(n_sets, 21),
            path=texts([""] * n_sets), codec=texts([""] * n_sets),
        ),
        frames=Frames(
            video=rows // 21, index=rows % 21, key=texts([f"{row:06d}" for row in rows]), pts=np.full(n, NO_PTS),
            time_num=unknown, time_den=unknown, pict_type=texts([""] * n), width=np.full(n, 500),
            height=np.full(n, 375), sha256=texts([""] * n), media=texts([f"media/{row:06d}.jpg" for row in rows]),
        ),
        sets=Sets(
            set_id=texts(["all"]), set=np.zeros(n, dtype=np.int64), frame=rows, distance=rows.astype(float),
            is_anchor=rows == 0,
        ),
        labels=Labels(frame=rows, label=np.zeros(n, dtype=np.int64)),
        root=root,
    )  # fmt: skip


def rate(work: Callable[[], int], *, device: str) -> float:
    """Images a second of `work`, which says how many it did."""
    begin = time.perf_counter()
    n = work()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    print(f"{work.__qualname__.split('.')[0]}: {n} images in {seconds:.2f} s", file=sys.stderr)
    return n / seconds


def bare_forward(model: TorchClassifier, batch: int, *, device: str, rounds: int, compiled: bool) -> float:
    """The model alone on one resident batch, in the engine's own number type and memory order."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    pixels = torch.randn(batch, 3, 224, 224, device=device).to(memory_format=torch.channels_last)
    module: Any = torch.compile(model._module) if compiled else model._module

    def work() -> int:
        with torch.inference_mode(), torch.autocast(device, dtype=dtype, enabled=device == "cuda"):
            for _ in range(rounds):
                module(pixels)
        return rounds * batch

    work()
    return rate(work, device=device)


def end_to_end(
    model: TorchClassifier,
    dataset: Dataset,
    *,
    device: str,
    share: tuple[int, int],
    threads: int,
    shard: int,
    lanes: int = 4,
    sent: SentPlan | None = None,
) -> tuple[float, NDArray[np.float32]]:
    """The engine: frames on disk to predictions on disk, and those. With a plan to send, processes decode."""
    if sent:
        model = copy(model)
        model.preparation = sent
    runner = Runner(name="resnet50", model=model, projection=projection("ilsvrc-2012", "imagenet-vid"))
    media = MediaSource(dataset)
    source = media if sent else quick_source(media)
    keys = [str(key) for key in dataset.frames.key]

    with tempfile.TemporaryDirectory() as folder:
        store = ModelShards(
            Path(folder),
            "resnet50",
            facts=dict.fromkeys(KEY_FACTS, ""),
            frames=FrameNames(dataset),
            task=Task.CLASSIFICATION,
            n_classes=30,
        )
        decode = DecodeOptions(
            threads=threads,
            processes=threads if sent else 0,
            chunk=16,
            ahead=max(8, 3 * model.spec.batch_size // 16),
            device_share=share,
            device_lanes=lanes,
        )

        def work() -> int:
            outcomes = run_models(
                [runner], {"resnet50": store}, source, frame_names=keys, rows=np.arange(len(keys)),
                options=EngineOptions(shard_size=shard, decode=decode, in_flight=2 if device == "cuda" else 1),
                progress=Silent(),
            )  # fmt: skip
            if outcomes["resnet50"].error or outcomes["resnet50"].n_unreadable:
                raise SystemExit(f"the engine failed: {outcomes['resnet50']}")
            return outcomes["resnet50"].n_new

        found, stored = rate(work, device=device), store.read()
        if not stored.scored.all():
            raise SystemExit("frames are missing from the store")
    return found, np.asarray(cast(ClassAnswers, stored).scores)


class _Folder(torch.utils.data.Dataset):  # type: ignore[misc]  # torch is untyped here
    """What people write: PIL and torchvision transforms in DataLoader workers."""

    def __init__(self, paths: list[Path]) -> None:
        from torchvision import transforms

        self.paths = paths
        self.transform = transforms.Compose(
            [
                transforms.Resize(235, interpolation=transforms.InterpolationMode.BICUBIC),
                transforms.CenterCrop(224),
                transforms.ToTensor(),
                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> Any:
        with Pillow.open(self.paths[place]) as image:
            return self.transform(image.convert("RGB"))


def ways(model: TorchClassifier) -> dict[str, SentPlan]:
    """What is sent to processes that decode: a plan that resizes there, and the default on this device."""
    default = model.preparation
    if default is None:
        raise SystemExit("resnet50 is prepared by a function, not a plan")
    plain = replace(default, on_device=False)
    return {"processes": plain} | ({} if default == plain else {"processes, exact resize on the device": default})


def data_loader(model: TorchClassifier, dataset: Dataset, *, device: str, workers: int, batch: int) -> float:
    """A plain DataLoader + PIL loop, predictions collected in memory."""
    source = MediaSource(dataset)
    paths = [source.path(row) for row in range(len(dataset.frames))]
    loader = torch.utils.data.DataLoader(
        _Folder(paths), batch_size=batch, num_workers=workers, pin_memory=device == "cuda"
    )

    def work() -> int:
        with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            for pixels in loader:
                on_device = pixels.to(device, non_blocking=True).to(memory_format=torch.channels_last)
                model._module(on_device).float().cpu()
        return len(paths)

    return rate(work, device=device)


def decode_alone(
    model: TorchClassifier, dataset: Dataset, *, device: str, threads: int, batch: int
) -> dict[str, float]:
    """Decoding, resizing and cropping without the model: on threads, on processes, and on the device.

    `processes` resize too; `processes, exact resize on the device` leave that to the device, here without it.
    """
    source = quick_source(MediaSource(dataset))
    n = min(len(dataset.frames), 4096)
    out = {}

    def on_threads() -> int:
        with ThreadPoolExecutor(threads) as pool:
            chunks = [range(start, min(start + 16, n)) for start in range(0, n, 16)]
            list(pool.map(lambda rows: [model.prepare(source.read(row)) for row in rows] and None, chunks))
        return n

    out["threads"] = rate(on_threads, device=device)
    for name, sent in ways(model).items():
        pool = DecodePool(MediaSource(dataset), {"resnet50": sent}, processes=threads, chunk=16)

        def on_processes(pool: DecodePool = pool) -> int:
            with ThreadPoolExecutor(threads) as waiting:
                chunks = [range(start, min(start + 16, n)) for start in range(0, n, 16)]
                list(waiting.map(lambda rows: pool.read(rows, [["resnet50"]] * len(rows)) and None, chunks))
            return n

        on_processes()
        out[name] = rate(on_processes, device=device)
        pool.close()
    if device == "cuda":
        files = [source.read_encoded(row) or b"" for row in range(n)]

        def on_device() -> int:
            for start in range(0, n, batch):
                model.prepare_encoded(files[start : start + batch])
            return n

        on_device()
        out["device"] = rate(on_device, device=device)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--frames", type=int, default=24576)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--shard", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="no compiled forward, one share only")
    parser.add_argument("--dump-after", type=int, default=0, help="print where every thread is after so many seconds")
    options = parser.parse_args()
    if options.dump_after:
        faulthandler.dump_traceback_later(options.dump_after, exit=True)
    device, batch, threads = options.device, options.batch, options.threads
    precision: Any = "bfloat16" if device == "cuda" else "float32"
    options_ = LoadOptions(device=device, batch_size=batch, pretrained=False, precision=precision)
    model = load(ModelName("timm", "resnet50"), options_)
    root = Path(tempfile.mkdtemp(prefix="strobe-gpu-"))
    try:
        begin = time.perf_counter()
        dataset = make_frames(root, options.frames, distinct=min(options.frames, 512))
        size = np.mean([path.stat().st_size for path in sorted((root / "media").glob("*"))[:512]])
        result: dict[str, Any] = {
            "machine": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
            "cpu_cores": os.cpu_count(), "torch": torch.__version__, "frames": options.frames,
            "mean_jpeg_bytes": int(size), "batch": batch, "threads": threads, "shard": options.shard,
            "make_frames_s": round(time.perf_counter() - begin, 1),
        }  # fmt: skip
        rounds = 60 if device == "cuda" else 1
        result["bare_forward"] = bare_forward(model, batch, device=device, rounds=rounds, compiled=False)
        torch.set_num_threads(1)  # as the predict workflow does
        result["decode_alone"] = decode_alone(model, dataset, device=device, threads=threads, batch=batch)
        first = (1, 1) if device == "cuda" else (0, 1)
        end_to_end(model, dataset, device=device, share=first, threads=threads, shard=options.shard)  # warm the cache
        shares: dict[str, tuple[tuple[int, int], SentPlan | None]] = {"cpu, threads": ((0, 1), None)}
        shares |= {f"cpu, {name}": ((0, 1), sent) for name, sent in ways(model).items()}
        if device == "cuda":
            shares |= {"device": ((1, 1), None)}
            shares |= {} if options.quick else {"device and cpu, 7:1": ((7, 8), None)}
        result["end_to_end"], scores = {}, {}
        for name, (share, sent) in shares.items():
            found = []
            for _ in range(2 if device == "cuda" else 1):
                one, scores[name] = end_to_end(
                    model, dataset, device=device, share=share, threads=threads, shard=options.shard, sent=sent
                )
                found.append(one)
            result["end_to_end"][name] = max(found)
        exact = [name for name in scores if name.startswith("cpu")]
        result["exact_ways_agree"] = all(np.array_equal(scores[name], scores[exact[0]]) for name in exact)
        result["data_loader"] = data_loader(
            model, dataset, device=device, workers=min(16, os.cpu_count() or 1), batch=batch
        )
        best = max(result["end_to_end"].values())
        result["ratio_end_to_end_to_bare"] = best / result["bare_forward"]
        result["ratio_end_to_end_to_data_loader"] = best / result["data_loader"]
        if device == "cuda" and not options.quick:
            result["bare_forward_compiled"] = bare_forward(model, batch, device=device, rounds=rounds, compiled=True)
        print(json.dumps(result, indent=1, default=float))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
