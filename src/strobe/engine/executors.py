"""Where models run: on this machine, or on a Ray cluster, whose code is imported only if it is requested."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from strobe.core.errors import StrobeError, expect
from strobe.core.locks import Lock
from strobe.core.ports import Progress

if TYPE_CHECKING:
    from strobe.engine.ray_cluster import RemoteCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """Where work runs: `local`, or `ray` at an address. Without an address, Ray runs at RAY_ADDRESS, else on the
    cluster that `ray start` joined this machine to, else locally.

    `actors` is the largest number of actors, None for as many as fit. Each actor has `cores` and `gpus`. The number of
    `gpus` may be a fraction.
    """

    name: Literal["local", "ray"] = "local"
    address: str | None = None
    actors: int | None = None
    cores: int | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        of_ray = {"--actors": self.actors, "--actor-cores": self.cores, "--actor-gpus": self.gpus}
        given = next((flag for flag, value in of_ray.items() if value is not None), None)
        if self.name == "local" and given is not None:
            raise StrobeError(f"{given} only works with --engine ray")
        expect(self.actors is None or 1 <= self.actors <= 10_000, "actors", "1–10,000", self.actors)
        expect(self.cores is None or 1 <= self.cores <= 10_000, "actor cores", "1–10,000", self.cores)
        part_or_whole = not self.gpus or 1e-4 <= self.gpus <= 1 or (self.gpus > 1 and float(self.gpus).is_integer())
        expect(part_or_whole, "actor gpus", "a fraction of one GPU (at least 0.0001), or an integer", self.gpus)

    @classmethod
    def of(
        cls, text: str, *, actors: int | None = None, cores: int | None = None, gpus: float | None = None
    ) -> "ExecutorOptions":
        """Parse local, ray or ray=ADDRESS.

        >>> ExecutorOptions.of("ray=10.0.0.1:6379").address
        '10.0.0.1:6379'
        """
        name, mark, address = text.partition("=")
        known = name == "ray" or (name == "local" and not mark)
        expect(known and bool(mark) == bool(address), "engine", "local, ray or ray=ADDRESS", text)
        return cls(
            name=cast(Literal["local", "ray"], name), address=address or None, actors=actors, cores=cores, gpus=gpus
        )


@contextmanager
def away(
    engine: ExecutorOptions, device: str, say: Progress, *, held: Lock | None = None
) -> Iterator["RemoteCluster | None"]:
    """Yield the engine's cluster, or None for this machine.

    `device` is the requested device. `held` is the lock of the output folder.
    """
    if engine.name == "local":
        yield None
        return
    from strobe.engine.ray_cluster import ray_cluster

    with ray_cluster(engine, device, say, held=held) as cluster:
        yield cluster


_Item = TypeVar("_Item")


_Result = TypeVar("_Result")


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

    def map(self, function: Callable[[_Item], _Result], shards: Iterable[_Item]) -> Iterator[_Result]:
        """Yield results as they finish. A shard is taken from the iterable only when it can start."""
        if self._in_flight == 1:
            for shard in shards:
                yield function(shard)
            return
        pool = ThreadPoolExecutor(self._in_flight, thread_name_prefix="shard")
        running: deque[Future[_Result]] = deque()
        try:
            for shard in shards:
                running.append(pool.submit(function, shard))
                if len(running) >= self._in_flight:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
