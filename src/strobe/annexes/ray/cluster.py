"""Run models on the actors of a Ray cluster, which receive a worker spec and answer in Arrow."""

import os
import platform
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strobe.annexes.ray.build import extract_away
from strobe.annexes.ray.pool import RayPool
from strobe.build.extract import ExtractJob, ExtractOutcome
from strobe.core.answers import Answers, State
from strobe.core.errors import StrobeError, printable, spelled
from strobe.core.late import require
from strobe.core.locks import Lock
from strobe.core.ports import FrameSource, Progress
from strobe.engine.forward import Shard, ShardResult
from strobe.engine.running import ExecutorOptions
from strobe.engine.worker_specs import DescribedModel, ModelDescriber, SpecWorker, WorkerSpec
from strobe.store.answer_tables import answers_of, table_of

_MOST_CORES = 4
"""Default cores per actor: the number of forward passes that run in parallel on a CPU."""

_KNOCK_S = 10.0
"""Seconds to wait for a connection to a cluster."""

_SETTINGS = b"\x04"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
"""The start of an HTTP/2 connection, as Ray opens it. Both sides send their settings, even if these are empty."""

_STORE_BYTES = 2**28
"""Object store size of a Ray started for one command, which only stores a few shards of answers at a time."""

_QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # avoids a warning from Ray
    "RAY_DEDUP_LOGS_SKIP_REGEX": r"[\s\S]",  # keeps messages on dead workers off stdout
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Environment variables that keep Ray local, unless the user set them. Ray reads some of them on import."""

_SILENT = {"log_to_driver": False, "logging_level": "error"}
"""Options for the connection. They silence Ray, because strobe prints its own messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayCluster:
    """A connected cluster: its actors, each with `cores`, and the kind of device on which they run models."""

    pool: RayPool
    device: str

    @property
    def cores(self) -> int:
        """Cores of each actor."""
        return self.pool.cores

    def tell(self, recipes: Sequence[WorkerSpec]) -> dict[str, DescribedModel | str]:
        """Return a description of the model of each worker spec, or an error if the model cannot run.

        Actors load the models and keep them.
        """

        def given_up(recipe: WorkerSpec, why: str) -> tuple[str, str]:
            return next(iter(recipe.models)), f"Ray workers died repeatedly while loading it ({why})"

        return dict(self.pool.map(ModelDescriber(), recipes, given_up=given_up))

    def worker(self, recipe: WorkerSpec, *, n_classes: int, source: FrameSource) -> "OnActors":
        """Return the worker that runs shards on the cluster.

        Answers have `n_classes` classes. The frames come from the source.
        """
        return OnActors(self.pool, recipe, n_classes=n_classes, source=source)

    def extract(self, jobs: Sequence[ExtractJob]) -> Iterator[ExtractOutcome]:
        """Yield the outcome of every video of a build."""
        return extract_away(jobs, self.pool)


@contextmanager
def ray_cluster(engine: ExecutorOptions, device: str, say: Progress, held: Lock | None) -> Iterator[RayCluster]:
    """Yield the connected cluster. The arguments are those of `engine.away`."""
    if device not in ("auto", "cpu", "cuda"):
        raise StrobeError(
            f"<<device={printable(device)}>> is a device of one machine; with <<engine=ray>>, use cpu or cuda"
        )
    if engine.gpus is not None and device == ("cpu" if engine.gpus else "cuda"):
        raise StrobeError(
            f"<<actor_gpus={engine.gpus:g}>> and <<device={device}>> contradict each other; remove one of them"
        )
    with _connected(engine.address, say) as (ray, which):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = _room(engine, device, nodes)
        pool = RayPool(ray, actors=room.actors, cores=room.cores, gpus=room.gpus, say=say, held=held)
        share = f" and {room.gpus:g} GPU" if room.gpus else ""
        each = f"{room.cores} core(s){share} each"
        say.note(f"{which}: {len(nodes)} node(s); at most {room.actors} worker(s) with {each}")
        try:
            yield RayCluster(pool=pool, device="cuda" if room.gpus else "cpu")
        finally:
            pool.close()


@contextmanager
def _connected(address: str | None, say: Progress) -> Iterator[tuple[Any, str]]:
    """Yield a connected Ray and its description. A connection that already exists stays open."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    ray = require("ray", what="<<engine=ray>>", extra="ray")
    if ray.is_initialized():
        if address not in (None, "auto", _at(ray)):
            raise StrobeError(
                f"<<engine=ray={printable(address)}>>: this program is already connected to the Ray at {_at(ray)}; "
                "remove the address, or call ray.shutdown() first"
            )
        yield ray, f"Ray at {_at(ray)} (this program's)"
        return
    asked = address or os.environ.get("RAY_ADDRESS")
    which = _join(ray, asked, is_option=address is not None) if asked else _join_at_hand(ray, say)
    try:
        yield ray, which
    finally:
        ray.shutdown()


def _join(ray: Any, address: str, *, is_option: bool) -> str:
    """Connect to the requested Ray and return its description."""
    if address == "local":
        return _start(ray)
    host, _, port = address.rpartition(":")
    where = f"<<engine=ray={printable(address)}>>" if is_option else f"RAY_ADDRESS={printable(address)}"
    if address.startswith("ray://"):
        raise StrobeError(
            f"{where}: strobe writes the answers and must run on a node of the cluster; run the command there (with "
            "ray job submit or in a shell) with <<engine=ray>>"
        )
    if address != "auto" and not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise StrobeError(f"{where}: expected HOST:PORT, local or auto")
    with _one_line(ray, where):
        if address != "auto":
            _knock(address)
        ray.init(address=address, **_SILENT)
    return f"Ray at {_at(ray)} ({spelled('<<engine=ray>>') if is_option else 'RAY_ADDRESS'})"


def _join_at_hand(ray: Any, say: Progress) -> str:
    """Connect to the cluster of this node, or start a local Ray if there is none, and return its description."""
    # Ray's "auto" would also join a private Ray of another program, which may stop at any time.
    address = import_module("ray._private.services").find_bootstrap_address(None)
    if address is None:
        return _start(ray)
    try:
        _knock(address)
    except OSError as error:  # the address file of `ray start` remains after that Ray is killed
        say.note(f"the Ray last started on this machine, at {address}, does not answer ({printable(error, limit=120)})")
        return _start(ray)
    with _one_line(ray, f"<<engine=ray>> (the cluster of this machine, {address}; RAY_ADDRESS=local starts another)"):
        ray.init(**_SILENT)
    return f"Ray at {_at(ray)} (of this machine; set RAY_ADDRESS=local to start a private Ray instead)"


def _start(ray: Any) -> str:
    ray.init(address="local", include_dashboard=False, object_store_memory=_STORE_BYTES, **_SILENT)
    return "a private Ray on this machine"


def _at(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)


@contextmanager
def _one_line(ray: Any, where: str) -> Iterator[None]:
    """Convert connection errors to one line, and silence Ray's core, which repeats them on stderr."""
    stderr = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        ray.shutdown()  # closes a partial connection
        said = str(error.__cause__ or error) or str(error.__context__)
        raise StrobeError(f"{where}: {_connection_error(said, ray.__version__)}") from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _connection_error(message: str, version: str) -> str:
    """Return why the connection failed and what to do, in one line."""
    versions = re.findall(r"(?:Ray|Python): *(\S+)", message) if "version mismatch" in message.lower() else []
    if len(versions) == 4:
        has, ours = (f"Ray {ray} and Python {python}" for ray, python in (versions[:2], versions[2:]))
        return f"the cluster has {has}, this machine {ours}; install the same versions on every machine"
    if "authenticat" in message.lower():
        return (
            "the cluster requires a token, and the token is missing or wrong; put it into ~/.ray/auth_token and set "
            "RAY_AUTH_MODE=token"
        )
    last = printable((message.strip().splitlines() or [""])[-1], limit=120)
    return (
        f"no Ray cluster answers there ({last}); check with ray status on that machine that the cluster runs Ray "
        f"{version} as here"
    )


def _knock(address: str) -> None:
    """Raise OSError if no Ray listens at HOST:PORT. Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S) as door,
        door.makefile("rb") as heard,
    ):
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        door.sendall(_GREETING)
        if heard.read(4)[3:] != _SETTINGS:
            raise OSError("the program that listens there is not Ray")


@dataclass(frozen=True, slots=True)
class _Room:
    """The number of actors that fit, and the resources of each."""

    actors: int
    cores: int
    gpus: float


def _room(engine: ExecutorOptions, device: str, nodes: Sequence[Mapping[str, float]]) -> _Room:
    """Return how many actors fit into a cluster. Raise a one-line error if none fits and `actors` is not given."""
    has_gpu = any(node.get("GPU", 0) > 0 for node in nodes)
    on_gpu = device == "cuda" or (device == "auto" and (has_gpu if engine.gpus is None else engine.gpus > 0))
    gpus = (engine.gpus or 1.0) if on_gpu else 0.0
    fit = [node for node in nodes if node.get("CPU", 0) >= 1 and node.get("GPU", 0) >= gpus]

    def shares(node: Mapping[str, float]) -> int:
        """Return how many actors fit on the GPUs of the node."""
        return int(node["GPU"] / gpus + 1e-6) if gpus else int(node["CPU"])

    usual = min((node["CPU"] // shares(node) for node in fit), default=1) if gpus else _MOST_CORES
    cores = engine.cores or max(1, int(min([usual, *(node["CPU"] for node in fit)])))
    n = sum(min(int(node["CPU"] // cores), shares(node)) for node in fit)
    if not n and engine.actors is None:
        share = f" and {gpus:g} GPU" if gpus else ""
        raise StrobeError(
            f"no node of the Ray cluster has {cores} core(s){share} for a worker; request less with <<actor_cores>> "
            "and <<actor_gpus>>, or wait for a number of workers with <<actors>>"
        )
    return _Room(engine.actors or n, cores, gpus)


# -- answers in transit --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentResult:
    """A ShardResult in transit: answers as tables by model."""

    tables: Mapping[str, pa.Table]
    failures: dict[str, str] = field(default_factory=dict)
    forward_s: dict[str, float] = field(default_factory=dict)
    made_on: dict[str, str] = field(default_factory=dict)
    machine: str = ""


class _ArrowWorker:
    """The worker of a worker spec, which sends its answers as Arrow tables."""

    def __init__(self, recipe: WorkerSpec) -> None:
        self._recipe = recipe
        self._worker: SpecWorker | None = None
        self.so_far = 0

    def open(self, before: object) -> None:
        """Load everything before the first item, except models that the previous function `before` has loaded."""
        kept = before.kept if isinstance(before, ModelDescriber) else {}
        self._worker = SpecWorker(self._recipe, tick=self._count, kept=kept)
        self._worker.open()

    def close(self) -> None:
        """Release the worker."""
        if self._worker is not None:
            self._worker.close()

    def __call__(self, shard: Shard) -> _SentResult:
        """Return the shard's predictions."""
        self.so_far = 0
        found = cast(SpecWorker, self._worker)(shard)
        return _SentResult(
            tables={name: table_of(*part) for name, part in found.parts.items()},
            failures=found.failures,
            forward_s=found.forward_s,
            made_on=found.made_on,
            machine=platform.node(),
        )

    def _count(self, n: int) -> None:
        self.so_far += n


class OnActors:
    """Runs shards on the actors of a cluster, which are workers of one spec and return answers as Arrow tables.

    Actors keep loaded models from one call to the next.
    """

    def __init__(self, pool: RayPool, recipe: WorkerSpec, *, n_classes: int, source: FrameSource) -> None:
        self._pool, self._n_classes, self._source = pool, n_classes, source
        self._sending = _ArrowWorker(recipe)

    def results(self, shards: Iterable[Shard], tick: Callable[[int], None]) -> Iterator[ShardResult]:
        """Yield the result of each shard as it arrives."""
        done = shown = 0

        def show(working_on: int) -> None:
            nonlocal shown
            new = done + working_on - shown  # negative if a worker died during an item
            if new > 0:
                tick(new)
                shown += new

        for sent in self._pool.map(self._sending, shards, watch=show):
            parts = {name: answers_of(table, n_classes=self._n_classes) for name, table in sent.tables.items()}
            for rows, answers in parts.values():
                self._check_read(rows, answers, sent.machine)
            done += sum(len(rows) for rows, _ in parts.values())
            show(0)
            yield ShardResult(parts=parts, failures=sent.failures, forward_s=sent.forward_s, made_on=sent.made_on)

    def _check_read(self, rows: NDArray[np.int64], answers: Answers, machine: str) -> None:
        """Raise an error if a node could not read a frame that this machine can read, because the node lacks files."""
        for place in np.flatnonzero(answers.state == State.UNREADABLE).tolist():
            try:
                self._source.read(int(rows[place]))
            except StrobeError:
                continue
            raise StrobeError(
                f"{printable(machine)} could not read a frame that this machine can read "
                f"({printable(answers.reasons[place])}); every machine needs all files of the dataset under the same "
                "path; finished work is kept"
            )
