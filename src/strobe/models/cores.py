"""How models share the cores of a machine: with each other, and with the threads that decode for them."""

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

__all__ = [
    "cores",
    "cpu_lanes",
    "device_kind",
    "keep_freed_memory",
    "limit_cores",
    "quick_source",
    "share_one_heap",
    "sharing_cores",
]


_ARENA_MAX = -8
"""Of mallopt: how many heaps there may be."""


def cores() -> int:
    """The cores this process may use."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([there, *_limits])


_limits: list[int] = []


def limit_cores(most: int) -> None:
    """Have this process use no more than so many cores from now on: for workers that share a machine."""
    _limits[:] = [most]


def cpu_lanes() -> int:
    """How many forwards run side by side on a CPU.

    Several batches with few threads each beat one batch with all threads: nothing waits for the slowest thread of every
    layer, so a core that decodes a frame, or is taken by somebody else's work, holds up only its own batch.
    """
    return max(1, min(4, cores()))


def device_kind(device: str) -> str:
    """A device as its answers are marked: which kind it is, of a GPU its make too, and not which of several.

    >>> device_kind("cpu")
    'cpu'
    """
    kind = device.partition(":")[0]
    if kind != "cuda" or "torch" not in sys.modules:
        return kind
    import torch

    return f"cuda {torch.cuda.get_device_name(device)}"


def quick_source(source: FrameSource) -> FrameSource:
    """The source, its JPEG frames decoded outside the interpreter's lock where torch is at hand anyway."""
    if "torch" not in sys.modules or find_spec("torchvision") is None:
        return source
    from strobe.models.fast_jpeg import FastJpegSource

    return FastJpegSource(source)


@contextmanager
def sharing_cores(models: Iterable[Model], *, cores: int | None = None) -> Iterator[None]:
    """While open, torch uses few enough threads per call: forwards share the cores, and so do threads that prepare.

    `cores` is how many there are to share, where that is not all of them.
    """
    if "torch" not in sys.modules:  # none of the models runs on it
        yield
        return
    import torch

    before = torch.get_num_threads()
    lanes = [model.lanes for model in models if model.device == "cpu"]
    # With all models on other devices the cores only prepare images, one image to a thread.
    torch.set_num_threads(max(1, (cores or before) // max(lanes)) if lanes else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def keep_freed_memory(*, one_arena: bool) -> bool:
    """Ask glibc to keep large freed blocks for the next batch, once per process; True where that worked.

    By default every activation of some megabytes is mapped and unmapped anew, and the page faults cost as much as the
    arithmetic: a batch of 32 through efficientnet-lite0 took 32 ms an image so, and 11 ms with the blocks kept. Threads
    other than the first have arenas too small for activations; with `one_arena` they share the first one's.
    """
    mmap_threshold, trim_threshold, limit = -3, -1, 1 << 30
    kept = _mallopt(mmap_threshold, limit) and _mallopt(trim_threshold, limit)
    return kept and (not one_arena or _mallopt(_ARENA_MAX, 1))


def share_one_heap(device: str) -> bool:
    """Have all threads to come share the first one's heap, where models will run on the CPU; True where that worked.

    For a program of our own, before it has threads: glibc gives each of the first ones a heap, takes none away, and
    deals them out by turns to later threads. What is kept in one is of no use in another: 50 MB of a run over a video.
    """
    accelerated = any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"))
    return (device == "cpu" or (device == "auto" and not accelerated)) and _mallopt(_ARENA_MAX, 1)


def _mallopt(parameter: int, value: int) -> bool:
    return platform.libc_ver()[0] == "glibc" and bool(ctypes.CDLL(None).mallopt(parameter, value))
