"""Measure each stage of benchmarks/predict_gpu.py alone: forward, nvJPEG, decode processes, and a plain DataLoader."""

import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from PIL import Image as Pillow

from strobe.annexes.gpu.jpeg import DeviceResize
from strobe.core.dataset import Dataset
from strobe.engine.decode_pool import DecodePool
from strobe.models.exact_resize import SentPlan
from strobe.models.torch_classifier import TorchClassifier
from strobe.store.media import MediaSource

BEGIN = time.perf_counter()


def say(text: str) -> None:
    """Print a progress line with the seconds since the start."""
    print(f"[{time.perf_counter() - BEGIN:6.1f}] {text}", file=sys.stderr, flush=True)


def rate(work: Callable[[], int]) -> float:
    """Return the images per second of `work`, which returns its number of images."""
    begin = time.perf_counter()
    n = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return round(n / (time.perf_counter() - begin), 1)


def bare_forward(model: TorchClassifier, *, rounds: int) -> float:
    """Measure the model alone on one resident batch, in the engine's dtype and memory order."""
    n = model.spec.batch_size
    pixels = torch.randn(n, 3, 224, 224, device=model.device).to(memory_format=torch.channels_last)

    def work() -> int:
        with torch.inference_mode():
            for _ in range(rounds):
                model._scores(pixels)
        return rounds * n

    work()
    return rate(work)


def stages_alone(model: TorchClassifier, dataset: Dataset, *, n: int, batch: int) -> dict[str, float]:
    """Measure reading, decoding and resizing without the model, on the CPU's threads and on the device."""
    source = MediaSource(dataset)
    n, out = min(n, len(dataset.frames)), {}
    starts = range(0, n, batch)

    def read() -> int:
        for row in range(n):
            source.read_encoded(row)
        return n

    read()
    out["read files, one thread"] = rate(read)
    if not model.device.startswith("cuda"):
        return out
    files = [source.read_encoded(row) or b"" for row in range(n)]
    model.prepare_encoded(files[:batch])
    operation, place = torch.ops.image.decode_jpegs_cuda, torch.device("cuda")
    encoded = [torch.from_numpy(np.frombuffer(content, dtype=np.uint8)) for content in files]

    def nvjpeg(start: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            operation(encoded[start : start + batch], 3, place)
            torch.cuda.current_stream().synchronize()

    decoded = torch.stack(operation(encoded[:batch], 3, place))
    resized = DeviceResize(cast(Any, model.plan), device="cuda")

    def resize(_: int) -> None:
        resized(decoded)

    def both(start: int) -> None:
        model.prepare_encoded(files[start : start + batch])

    def all_of(work: Callable[[int], None], threads: int) -> int:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, starts))
        return n

    def measured(work: Callable[[int], None], threads: int) -> float:
        all_of(work, threads)  # the first call creates the decoder
        return rate(partial(all_of, work, threads))

    for threads in (1, 2, 3, 4):
        out[f"nvJPEG as torchvision calls it, {threads} threads"] = measured(nvjpeg, threads)
        out[f"nvJPEG as we do, and resize, {threads} threads"] = measured(both, threads)
    out["resize alone"] = measured(resize, 1)
    return out


def from_memory(model: TorchClassifier, dataset: Dataset, *, n: int, threads: int, lanes: int) -> float:
    """Measure decoding on the device without the engine: files in memory, some decode threads, the model in its lanes.

    It reads no files, projects nothing and stores nothing.
    """
    source, size = MediaSource(dataset), model.spec.batch_size
    files = [source.read_encoded(row) or b"" for row in range(min(4096, len(dataset.frames)))]
    starts = [start % len(files) for start in range(0, n, size)]

    def work() -> int:
        with ThreadPoolExecutor(threads) as decoders, ThreadPoolExecutor(lanes) as forwards:
            decoding: deque[Future[Any]] = deque()
            running: deque[Future[Any]] = deque()
            for start in [*starts, *([None] * threads)]:
                if start is not None:
                    decoding.append(decoders.submit(model.prepare_encoded, files[start : start + size]))
                if len(decoding) > threads or (start is None and decoding):
                    running.append(forwards.submit(model.forward, decoding.popleft().result()))
                if len(running) > lanes:
                    running.popleft().result()
            while decoding:
                model.forward(decoding.popleft().result())
        return len(starts) * size

    return rate(work)


def pool_alone(
    model: TorchClassifier, dataset: Dataset, sent: SentPlan, *, n: int, processes: int, chunk: int, bring: bool = False
) -> tuple[float, float]:
    """Return the images per second of decode processes, and the seconds until the first.

    `bring` copies to the device.
    """
    pool = DecodePool(MediaSource(dataset), {"m": sent}, processes=processes, chunk=chunk)
    n = min(n, len(dataset.frames))
    chunks = [range(start, min(start + chunk, n)) for start in range(0, n, chunk)]

    def one(rows: range) -> None:
        found = pool.read(rows, [["m"]] * len(rows))
        if bring:
            with torch.inference_mode(), model._stream():
                model._brought([values[0] for values in found])  # type: ignore[index]  # none failed

    def work() -> int:
        with ThreadPoolExecutor(processes) as waiting:
            list(waiting.map(one, chunks))
        return n

    begin = time.perf_counter()
    with ThreadPoolExecutor(processes) as waiting:
        list(waiting.map(one, [range(1)] * processes))
    started = time.perf_counter() - begin
    try:
        return rate(work), round(started, 2)
    finally:
        pool.close()


class _Folder(torch.utils.data.Dataset):  # type: ignore[misc]  # torch is untyped here
    """The common way: PIL and torchvision transforms in DataLoader workers."""

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


def data_loader(model: TorchClassifier, dataset: Dataset, *, n: int, workers: int) -> float:
    """Measure a plain DataLoader and PIL loop over the first n frames, with predictions kept in memory."""
    source = MediaSource(dataset)
    paths = [source.path(row) for row in range(min(n, len(dataset.frames)))]
    loader = torch.utils.data.DataLoader(
        _Folder(paths), batch_size=model.spec.batch_size, num_workers=workers, pin_memory=model.device == "cuda"
    )

    def work() -> int:
        with torch.inference_mode():
            for pixels in loader:
                on_device = pixels.to(model.device, non_blocking=True).to(memory_format=torch.channels_last)
                model._scores(on_device).cpu()
        return len(paths)

    return rate(work)
