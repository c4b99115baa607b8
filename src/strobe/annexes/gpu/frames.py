"""Common parts of all sources of frames on a device: streams, and the check of pixels against the build's digests."""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from strobe.annexes.gpu.colour import Colour, rgb_of_nv12

_TAKING_TURNS = 2


def new_stream(device: str) -> Any:
    """Return a new stream of a CUDA device.

    The result is None for the CPU, where every call is complete when it returns.
    """
    if not device.startswith("cuda"):
        return None
    import torch

    return torch.cuda.Stream(device=device)


def memory_of(device: str) -> int:
    """Return the size of the device's memory in bytes; for the CPU, a small number."""
    if not device.startswith("cuda"):
        return 1 << 30
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)


@contextmanager
def in_stream(stream: Any) -> Iterator[None]:
    """Run this thread's torch operations in the stream, without gradients."""
    import torch

    with torch.inference_mode():
        if stream is None:
            yield
            return
        with torch.cuda.stream(stream):
            yield


def wait_for(stream: Any) -> None:
    """Sleep until the stream's work is done. By default a waiting thread keeps a core busy."""
    if stream is None:
        return
    import torch

    done = torch.cuda.Event(blocking=True)
    done.record(stream)
    done.synchronize()


class PixelDigests:
    """Computes the SHA-256 of frames (N, height, width, 3), on the device or on the CPU.

    The device computes many digests at once; the CPU uses a copy of the frames.

    On the device, the digests of a thousand frames take as long as the digest of one frame, so the frames of all
    threads are collected. Two threads take turns: while one thread waits for its digests, the other thread collects the
    next frames.
    """

    def __init__(self, device: str) -> None:
        self._on_device = device.startswith("cuda") and has_programs()
        self._asked: SimpleQueue[tuple[Any, Any, Future[list[str]]] | None] = SimpleQueue()
        self._turn = threading.Lock()
        self._device = device
        for number in range(_TAKING_TURNS if self._on_device else 0):
            threading.Thread(target=self._work, name=f"digest-{number}", daemon=True).start()

    def of(self, frames: Any) -> "Future[list[str]]":
        """Return the digests of contiguous frames that are computed in the current stream.

        Do not call it after `close`.
        """
        digests: Future[list[str]] = Future()
        if self._on_device and frames[0].numel() % 4 == 0:
            import torch

            ready = torch.cuda.current_stream(frames.device).record_event()
            self._asked.put((frames, ready, digests))
        else:
            pixels = frames.cpu().numpy()
            digests.set_result([hashlib.sha256(np.ascontiguousarray(frame).data).hexdigest() for frame in pixels])
        return digests

    def close(self) -> None:
        """End the threads."""
        for _ in range(_TAKING_TURNS if self._on_device else 0):
            self._asked.put(None)

    def _work(self) -> None:
        import torch

        from strobe.annexes.gpu.kernels import sha256

        stream = torch.cuda.Stream(device=self._device)
        while (some := self._collected()) is not None:
            try:
                with torch.inference_mode(), torch.cuda.stream(stream):
                    for _, ready, _ in some:
                        stream.wait_event(ready)
                    there = sha256([frames for frames, _, _ in some]).to("cpu", non_blocking=True)
                    wait_for(stream)
                digests = iter([words.astype(">u4").tobytes().hex() for words in there.numpy().view(np.uint32)])
                for frames, _, found in some:
                    found.set_result([next(digests) for _ in range(len(frames))])
            except Exception as error:
                for _, _, found in some:
                    found.set_exception(error)
            some.clear()  # release the frames' memory before waiting for the next frames

    def _collected(self) -> "list[tuple[Any, Any, Future[list[str]]]] | None":
        """Return all waiting frames, which are at least one batch; None when the threads end."""
        with self._turn:
            some = []
            first = self._asked.get()
            while first is not None:
                some.append(first)
                try:
                    first = self._asked.get_nowait()
                except Empty:
                    return some
            if some:  # put the end marker back into the queue for a later call
                self._asked.put(None)
                return some
        return None


@cache
def has_programs() -> bool:
    """Return whether the GPU programs compile on this machine and reproduce a known digest and a known colour."""
    import torch

    try:
        from strobe.annexes.gpu.kernels import convert, sha256

        known = torch.arange(240, dtype=torch.uint8, device="cuda").reshape(1, 240)
        digest = sha256([known]).cpu().numpy().view(np.uint32)[0].astype(">u4").tobytes().hex()
        planes = known[:, :24].reshape(1, 6, 4).contiguous()
        colour, out = Colour("bt709", full_range=False), torch.empty((1, 4, 4, 3), dtype=torch.uint8, device="cuda")
        luma = torch.tensor([planes.data_ptr()], device="cuda")
        convert(luma, luma + 16, 4, out, colour.coefficients())
        same = torch.equal(out, rgb_of_nv12(planes, colour))
    except Exception:  # torch is too old, or comes without a compiler
        return False
    return same and bool(digest == hashlib.sha256(bytes(range(240))).hexdigest())
