"""A torch network compiled for batches of one size (`--compile`), what that took and gains, and its work recorded."""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require

__all__ = ["Compiled", "Recorded", "compiled"]

_TRIES = 5
"""So many batches are timed, each way."""

Call = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled network, the seconds that took, and those of a full batch before and after."""

    call: Call
    took_s: float
    before_s: float
    after_s: float

    def text(self, n: int) -> str:
        """What it took, and from how many frames in batches of `n` on that pays.

        >>> Compiled(call=abs, took_s=30.0, before_s=0.02, after_s=0.01).text(100)
        'compiled in 30.0 s: a batch of 100 takes 10.0 ms instead of 20.0, so it pays from 300,000 frames on'
        """
        said = f"compiled in {self.took_s:.1f} s: a batch of {n} takes {1000 * self.after_s:.1f} ms"
        if self.after_s >= self.before_s:
            return f"{said}, before {1000 * self.before_s:.1f}: it does not pay here"
        pays = round(n * self.took_s / (self.before_s - self.after_s), -3)
        return f"{said} instead of {1000 * self.before_s:.1f}, so it pays from {pays:,.0f} frames on"


class Recorded:
    """What a CUDA device does for a full batch, recorded once and begun by one call from then on.

    To begin a network piece by piece takes the interpreter's lock nearly as long as the device takes for the whole, and
    the threads that read and decode wait for that lock.
    """

    def __init__(self, run: Call, sample: Any, stream: Any) -> None:
        torch = require("torch", what="--compile", extra="models")
        self._input, self._graph = sample, torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run(sample)  # what the first run makes is not of the recording
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._output = run(sample)

    def __call__(self, batch: Any) -> Any:
        """Scores of the batch, in the recording's own memory: to be copied in the same stream, which is the current."""
        self._input[: len(batch)].copy_(batch)
        self._graph.replay()
        return self._output[: len(batch)]


def compiled(call: Call, run: Callable[[Call], object]) -> Compiled:
    """The network compiled by torch; `run` puts a full batch through what it is given, and waits for it.

    ModelFailed where torch cannot compile it whole: where it gives up it would run the rest as it is, and not say so.
    """
    torch = require("torch", what="--compile", extra="models")
    limits = torch._dynamo.config  # by default eight networks of a class are compiled, and the ninth is run as it is
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        if hasattr(limits, name):
            setattr(limits, name, max(getattr(limits, name), 1 << 12))
    before_s = _seconds(lambda: run(call))
    made = torch.compile(call, fullgraph=True, dynamic=False)
    begin = time.perf_counter()
    try:
        with _quiet():
            run(made)
    except Exception as error:  # compilers raise whatever they like
        said = str(error).strip().partition("\n")[0]
        raise ModelFailed(f"torch cannot compile it ({printable(said, limit=160)})") from error
    took_s = time.perf_counter() - begin
    return Compiled(call=made, took_s=took_s, before_s=before_s, after_s=_seconds(lambda: run(made)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what torch warns of while it compiles (a CUDA that a CPU has no need of); errors are still said.

    Whoever asked for more with TORCH_LOGS gets it.
    """
    log = logging.getLogger("torch")
    before = log.level
    if before == logging.WARNING:  # torch's own choice
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _seconds(work: Callable[[], object]) -> float:
    """The least of a few tries, after two that nobody times."""
    taken = []
    for _ in range(2 + _TRIES):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return min(taken[2:])
