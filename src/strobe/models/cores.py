"""Share the machine's cores between models and the threads that decode for them."""

import ctypes
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from strobe.core.ports import FrameSource, Model

_ARENA_MAX = -8
"""The mallopt parameter for the maximum number of heaps."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([there, *_limits])


_limits: list[int] = []


def limit_cores(most: int) -> None:
    """Limit this process to this many cores from now on, for workers that share a machine."""
    _limits[:] = [most]


def cpu_lanes() -> int:
    """Return how many forwards run concurrently on a CPU.

    Several batches with few threads each are faster than one batch with all threads. If a core is busy with decoding or
    another program, it then delays only its own batch, not every layer of a shared batch.
    """
    return max(1, min(4, cores()))


def device_kind(device: str) -> str:
    """Return the device kind stored with answers: `cpu` or the GPU model, without the index of the GPU.

    >>> device_kind("cpu")
    'cpu'
    """
    kind = device.partition(":")[0]
    if kind != "cuda" or "torch" not in sys.modules:
        return kind
    import torch

    return f"cuda {torch.cuda.get_device_name(device)}"


def quick_source(source: FrameSource) -> FrameSource:
    """Return the source with JPEG frames decoded outside the interpreter's lock, if torch is already loaded."""
    if "torch" not in sys.modules or find_spec("torchvision") is None:
        return source
    from strobe.models.fast_jpeg import FastJpegSource

    return FastJpegSource(source)


@contextmanager
def sharing_cores(models: Iterable[Model], *, cores: int | None = None) -> Iterator[None]:
    """While the context is open, limit torch's threads per call, because forwards and preparation threads share the
    cores.

    `cores` is the number of cores to share; None means all.
    """
    if "torch" not in sys.modules:  # no model uses torch
        yield
        return
    import torch

    before = torch.get_num_threads()
    lanes = [model.lanes for model in models if model.device == "cpu"]
    # If all models run on other devices, the cores only prepare images, one image per thread.
    torch.set_num_threads(max(1, (cores or before) // max(lanes)) if lanes else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def keep_freed_memory(*, one_arena: bool) -> bool:
    """Ask glibc to keep large freed blocks for the next batch, once per process. Returns True on success.

    By default glibc maps and unmaps memory for every activation of a few megabytes, and the page faults cost as much
    time as the arithmetic. A batch of 32 images through efficientnet-lite0 took 32 ms per image by default, and 11 ms
    with the blocks kept. The arenas of later threads are too small for activations. With `one_arena`, these threads
    share the first thread's arena.
    """
    mmap_threshold, trim_threshold, limit = -3, -1, 1 << 30
    kept = _mallopt(mmap_threshold, limit) and _mallopt(trim_threshold, limit)
    return kept and (not one_arena or _mallopt(_ARENA_MAX, 1))


def share_one_heap(device: str) -> bool:
    """Make all future threads share the first thread's heap, if models will run on the CPU. Returns True on success.

    Call it when a strobe program starts, before it creates threads. glibc gives each of the first threads a heap, never
    removes a heap, and assigns the heaps in turn to later threads. Memory kept in one heap cannot be used by another.
    In a run over a video, separate heaps wasted 50 MB.
    """
    accelerated = any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"))
    return (device == "cpu" or (device == "auto" and not accelerated)) and _mallopt(_ARENA_MAX, 1)


def _mallopt(parameter: int, value: int) -> bool:
    return platform.libc_ver()[0] == "glibc" and bool(ctypes.CDLL(None).mallopt(parameter, value))
