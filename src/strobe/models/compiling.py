"""Compile a torch network for one batch size (`--compile`), measure its cost and gain, and record CUDA graphs."""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require

_TRIES = 5
"""The number of batches timed before and after compiling."""

Call = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled network, the seconds that compiling took, and the seconds per full batch before and after it."""

    call: Call
    took_s: float
    before_s: float
    after_s: float

    def text(self, n: int) -> str:
        """Return the cost of compiling, and the number of frames above which it pays off in batches of `n`.

        >>> Compiled(call=abs, took_s=30.0, before_s=0.02, after_s=0.01).text(100)
        'compiled in 30.0 s: a batch of 100 takes 10.0 ms instead of 20.0, so it pays off above 300,000 frames'
        """
        summary = f"compiled in {self.took_s:.1f} s: a batch of {n} takes {1000 * self.after_s:.1f} ms"
        if self.after_s >= self.before_s:
            return f"{summary} and took {1000 * self.before_s:.1f} before, so compiling does not pay off"
        pays = round(n * self.took_s / (self.before_s - self.after_s), -3)
        return f"{summary} instead of {1000 * self.before_s:.1f}, so it pays off above {pays:,.0f} frames"


class Recorded:
    """A CUDA graph of a full batch, recorded once and launched by a single call.

    Launching a network op by op holds the interpreter's lock for nearly as long as the device runs the network.
    Meanwhile the threads that read and decode wait for the lock.
    """

    def __init__(self, run: Call, sample: Any, stream: Any) -> None:
        torch = require("torch", what="<<compile>>", extra="models")
        self._input, self._graph = sample, torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run(sample)  # warm up, because one-time work must not be recorded
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._output = run(sample)

    def __call__(self, batch: Any) -> Any:
        """Return the batch's scores in the graph's own memory. The caller must copy them in the current stream."""
        self._input[: len(batch)].copy_(batch)
        self._graph.replay()
        return self._output[: len(batch)]


def compiled(call: Call, run: Callable[[Call], object]) -> Compiled:
    """Return the network compiled by torch. `run` calls its argument on a full batch and waits for the result.

    Raises ModelFailed if torch cannot compile the whole network, because torch would silently run the rest uncompiled.
    """
    torch = require("torch", what="<<compile>>", extra="models")
    limits = torch._dynamo.config  # by default torch compiles eight networks of a class and runs later ones uncompiled
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        if hasattr(limits, name):
            setattr(limits, name, max(getattr(limits, name), 1 << 12))
    before_s = _seconds(lambda: run(call))
    network = torch.compile(call, fullgraph=True, dynamic=False)
    begin = time.perf_counter()
    try:
        with _quiet():
            run(network)
    except Exception as error:  # compilers raise arbitrary exceptions
        reason = str(error).strip().partition("\n")[0]
        raise ModelFailed(f"torch cannot compile this network ({printable(reason, limit=160)})") from error
    took_s = time.perf_counter() - begin
    return Compiled(call=network, took_s=took_s, before_s=before_s, after_s=_seconds(lambda: run(network)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's warnings during compilation (such as a missing CUDA on a CPU). Errors still appear.

    Users who set TORCH_LOGS keep their output.
    """
    log = logging.getLogger("torch")
    before = log.level
    if before == logging.WARNING:  # torch's default
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _seconds(work: Callable[[], object]) -> float:
    """Return the smallest of a few timings, after two untimed runs."""
    timings = []
    for _ in range(2 + _TRIES):
        begin = time.perf_counter()
        work()
        timings.append(time.perf_counter() - begin)
    return min(timings[2:])
