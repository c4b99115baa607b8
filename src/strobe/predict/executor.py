"""Executors on this machine. A distributed executor only needs the same `map` method."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from strobe.core.errors import expect

__all__ = ["LocalExecutor"]

Shard = TypeVar("Shard")
Result = TypeVar("Result")


class LocalExecutor:
    """Runs shards in this process, one after another in the calling thread, or a few at once in threads.

    Use an `in_flight` of 1 on a CPU, because the model uses every core. Use an `in_flight` of 2 on a GPU, to keep the
    GPU busy while a shard ends.

    >>> sorted(LocalExecutor(in_flight=2).map(lambda number: number * number, range(4)))
    [0, 1, 4, 9]
    """

    def __init__(self, *, in_flight: int = 1) -> None:
        expect(in_flight >= 1, "in_flight", ">= 1", in_flight)
        self._in_flight = in_flight

    def map(self, function: Callable[[Shard], Result], shards: Iterable[Shard]) -> Iterator[Result]:
        """Yield results as they finish. A shard is taken from the iterable only when it can start."""
        if self._in_flight == 1:
            for shard in shards:
                yield function(shard)
            return
        pool = ThreadPoolExecutor(self._in_flight, thread_name_prefix="shard")
        running: deque[Future[Result]] = deque()
        try:
            for shard in shards:
                running.append(pool.submit(function, shard))
                if len(running) >= self._in_flight:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
