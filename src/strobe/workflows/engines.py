"""Where models run: here, or on the actors of a Ray cluster, which are sent a recipe and answer in Arrow."""

import os
import platform
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strobe.core.answers import Answers, State
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.late import require
from strobe.core.locks import Lock
from strobe.core.ports import FrameSource, Progress
from strobe.predict.engine import WorkerSpec
from strobe.predict.work import Shard, ShardResult
from strobe.runs.wire import answers_of, table_of
from strobe.workflows.ray_pool import RayPool
from strobe.workflows.worker_specs import DescribedModel, ModelDescriber, SpecWorker

__all__ = ["ExecutorOptions", "RemoteCluster", "away"]

_MOST_CORES = 4
"""Cores of an actor where nobody says how many: as many forwards as run side by side on a CPU."""

_KNOCK_S = 10.0
"""How long a cluster may take to open its door."""

_SETTINGS = b"\x04"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
"""How a conversation in HTTP/2 begins, which Ray speaks: both sides send their settings, even if there are none."""

_STORE_BYTES = 2**28
"""The object store of a Ray that is started for one command: answers pass through it, a few shards at a time."""

_QUIET = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what Ray would warn about otherwise
    "RAY_DEDUP_LOGS_SKIP_REGEX": r"[\s\S]",  # what it says of dead workers goes to stdout, where only results belong
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Settings that keep a Ray to itself, where nobody chose others; some are read when it is imported."""

_SILENT = {"log_to_driver": False, "logging_level": "error"}
"""What Ray is told on connecting: strobe's own lines say all there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """Where work is carried out: `local`, or `ray` at an address. Without one it is RAY_ADDRESS, else the cluster that
    `ray start` made this machine a node of, else a Ray of our own.

    `actors` at most, each with `cores` and so many `gpus`, which may be a part of one; None: what there is room for.
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
            raise StrobeError(f"{given} is for --engine ray")
        expect(self.actors is None or 1 <= self.actors <= 10_000, "actors", "1–10,000", self.actors)
        expect(self.cores is None or 1 <= self.cores <= 10_000, "actor cores", "1–10,000", self.cores)
        part_or_whole = not self.gpus or 1e-4 <= self.gpus <= 1 or (self.gpus > 1 and float(self.gpus).is_integer())
        expect(part_or_whole, "actor gpus", "a part of one (at least 0.0001), or whole ones", self.gpus)

    @classmethod
    def of(
        cls, text: str, *, actors: int | None = None, cores: int | None = None, gpus: float | None = None
    ) -> "ExecutorOptions":
        """As it is written: local, ray, ray=ADDRESS.

        >>> ExecutorOptions.of("ray=10.0.0.1:6379").address
        '10.0.0.1:6379'
        """
        name, mark, address = text.partition("=")
        known = name == "ray" or (name == "local" and not mark)
        expect(known and bool(mark) == bool(address), "engine", "local, ray or ray=ADDRESS", text)
        return cls(
            name=cast(Literal["local", "ray"], name), address=address or None, actors=actors, cores=cores, gpus=gpus
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCluster:
    """A cluster at hand: its actors, each with `cores`, and the kind of device all of them run models on."""

    pool: RayPool
    device: str

    @property
    def cores(self) -> int:
        """Cores of each actor."""
        return self.pool.cores

    def tell(self, recipes: Sequence[WorkerSpec]) -> dict[str, DescribedModel | str]:
        """What the one model of each recipe is, or why it cannot run, told by actors that load and keep them."""

        def given_up(recipe: WorkerSpec, why: str) -> tuple[str, str]:
            return next(iter(recipe.models)), f"Ray workers died again and again while loading it ({why})"

        return dict(self.pool.map(ModelDescriber(), recipes, given_up=given_up))

    def worker(self, recipe: WorkerSpec, *, n_classes: int, source: FrameSource) -> "OnActors":
        """What carries out shards there; answers are about so many classes, frames are those of the source."""
        return OnActors(self.pool, recipe, n_classes=n_classes, source=source)


@contextmanager
def away(
    engine: ExecutorOptions, device: str, say: Progress, *, held: Lock | None = None
) -> Iterator[RemoteCluster | None]:
    """The engine's cluster while open, None where it is this machine. `device` is the one that was asked for.

    `held` is the lock of the folder that is written to.
    """
    if engine.name == "local":
        yield None
        return
    if device not in ("auto", "cpu", "cuda"):
        raise StrobeError(f"--device {printable(device)} is a device of one machine; with --engine ray say cpu or cuda")
    if engine.gpus is not None and device == ("cpu" if engine.gpus else "cuda"):
        raise StrobeError(f"--actor-gpus {engine.gpus:g} and --device {device}: leave one out")
    with _connected(engine.address, say) as (ray, which):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = _room(engine, device, nodes)
        pool = RayPool(ray, actors=room.actors, cores=room.cores, gpus=room.gpus, say=say, held=held)
        share = f" and {room.gpus:g} GPU" if room.gpus else ""
        each = f"{room.cores} core(s){share} each"
        say.note(f"{which}: {len(nodes)} node(s); at most {room.actors} worker(s) with {each}")
        try:
            yield RemoteCluster(pool=pool, device="cuda" if room.gpus else "cpu")
        finally:
            pool.close()


@contextmanager
def _connected(address: str | None, say: Progress) -> Iterator[tuple[Any, str]]:
    """Ray, connected, and which one that is; a connection that was there before stays."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    ray = require("ray", what="--engine ray", extra="ray")
    if ray.is_initialized():
        if address not in (None, "auto", _at(ray)):
            raise StrobeError(
                f"--engine ray={printable(address)}: this program is connected to the Ray at {_at(ray)}; leave the "
                "address out, or call ray.shutdown() first"
            )
        yield ray, f"Ray at {_at(ray)} (this program's)"
        return
    asked = address or os.environ.get("RAY_ADDRESS")
    which = _join(ray, asked, "--engine ray" if address else "RAY_ADDRESS") if asked else _join_at_hand(ray, say)
    try:
        yield ray, which
    finally:
        ray.shutdown()


def _join(ray: Any, asked: str, whence: str) -> str:
    """Connect to the Ray that was asked for, and say which it is."""
    if asked == "local":
        return _start(ray)
    where, (host, _, port) = f"{whence}={printable(asked)}", asked.rpartition(":")
    if asked.startswith("ray://"):
        raise StrobeError(
            f"{where}: who writes the answers has to be a node of the cluster; run the command there (ray job submit, "
            "or a shell), with --engine ray"
        )
    if asked != "auto" and not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise StrobeError(f"{where}: expected HOST:PORT, local or auto")
    with _one_line(ray, where):
        if asked != "auto":
            _knock(asked)
        ray.init(address=asked, **_SILENT)
    return f"Ray at {_at(ray)} ({whence})"


def _join_at_hand(ray: Any, say: Progress) -> str:
    """Connect to the cluster this machine is a node of, else to a Ray of our own, and say which it is."""
    # Ray's own "auto" would also join what some other program started for itself, and ends when it likes.
    address = import_module("ray._private.services").find_bootstrap_address(None)
    if address is None:
        return _start(ray)
    try:
        _knock(address)
    except OSError as error:  # what `ray start` noted stays there when that Ray is killed
        say.note(f"the Ray that was last started here, at {address}, does not answer ({printable(error, limit=120)})")
        return _start(ray)
    with _one_line(ray, f"--engine ray (the cluster of this machine, {address}; RAY_ADDRESS=local starts another)"):
        ray.init(**_SILENT)
    return f"Ray at {_at(ray)} (of this machine; RAY_ADDRESS=local before the command starts one of its own)"


def _start(ray: Any) -> str:
    ray.init(address="local", include_dashboard=False, object_store_memory=_STORE_BYTES, **_SILENT)
    return "a Ray of this command's own, on this machine"


def _at(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)


@contextmanager
def _one_line(ray: Any, where: str) -> Iterator[None]:
    """What goes wrong while connecting, in one line; Ray's core would say it again and again on stderr."""
    stderr = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        ray.shutdown()  # of what was connected half-way
        said = str(error.__cause__ or error) or str(error.__context__)
        raise StrobeError(f"{where}: {_why_not(said, ray.__version__)}") from error
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _why_not(said: str, version: str) -> str:
    """Why there is no connection, in a few words out of Ray's many, and what to do."""
    versions = re.findall(r"(?:Ray|Python): *(\S+)", said) if "version mismatch" in said.lower() else []
    if len(versions) == 4:
        has, ours = (f"Ray {ray} and Python {python}" for ray, python in (versions[:2], versions[2:]))
        return f"the cluster has {has}, this machine {ours}; install the same versions on every machine"
    if "authenticat" in said.lower():
        return (
            "the cluster asks for its token, and none or another was sent; put it into ~/.ray/auth_token and set "
            "RAY_AUTH_MODE=token"
        )
    last = printable((said.strip().splitlines() or [""])[-1], limit=120)
    return (
        f"no Ray cluster answers there ({last}); see ray status there, and that it is Ray {version} as on this machine"
    )


def _knock(address: str) -> None:
    """Raise OSError where no Ray listens at HOST:PORT; Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S) as door,
        door.makefile("rb") as heard,
    ):
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        door.sendall(_GREETING)
        if heard.read(4)[3:] != _SETTINGS:
            raise OSError("who listens there is no Ray")


@dataclass(frozen=True, slots=True)
class _Room:
    """How many actors there can be, and what each of them has."""

    actors: int
    cores: int
    gpus: float


def _room(engine: ExecutorOptions, device: str, nodes: Sequence[Mapping[str, float]]) -> _Room:
    """The room of a cluster; one line where it has none and nobody says that more is to come."""
    has_gpu = any(node.get("GPU", 0) > 0 for node in nodes)
    on_gpu = device == "cuda" or (device == "auto" and (has_gpu if engine.gpus is None else engine.gpus > 0))
    gpus = (engine.gpus or 1.0) if on_gpu else 0.0
    fit = [node for node in nodes if node.get("CPU", 0) >= 1 and node.get("GPU", 0) >= gpus]

    def shares(node: Mapping[str, float]) -> int:
        """For how many actors the node has GPUs."""
        return int(node["GPU"] / gpus + 1e-6) if gpus else int(node["CPU"])

    usual = min((node["CPU"] // shares(node) for node in fit), default=1) if gpus else _MOST_CORES
    cores = engine.cores or max(1, int(min([usual, *(node["CPU"] for node in fit)])))
    n = sum(min(int(node["CPU"] // cores), shares(node)) for node in fit)
    if not n and engine.actors is None:
        share = f" and {gpus:g} GPU" if gpus else ""
        raise StrobeError(
            f"no node of the Ray cluster has {cores} core(s){share} for a worker; ask for less with --actor-cores and "
            "--actor-gpus, or say how many workers to wait for with --actors"
        )
    return _Room(engine.actors or n, cores, gpus)


# -- answers on their way ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _SentResult:
    """A ShardResult on its way: answers as tables by model."""

    tables: Mapping[str, pa.Table]
    failures: dict[str, str] = field(default_factory=dict)
    forward_s: dict[str, float] = field(default_factory=dict)
    made_on: dict[str, str] = field(default_factory=dict)
    machine: str = ""


class _ArrowWorker:
    """The worker of a recipe, whose answers are sent as Arrow."""

    def __init__(self, recipe: WorkerSpec) -> None:
        self._recipe = recipe
        self._worker: SpecWorker | None = None
        self.so_far = 0

    def open(self, before: object) -> None:
        """Load what it needs, before there is work, but for what the function `before` it told of and kept."""
        kept = before.kept if isinstance(before, ModelDescriber) else {}
        self._worker = SpecWorker(self._recipe, tick=self._count, kept=kept)
        self._worker.open()

    def close(self) -> None:
        """Let go of it."""
        if self._worker is not None:
            self._worker.close()

    def __call__(self, shard: Shard) -> _SentResult:
        """The shard's predictions."""
        self.so_far = 0
        found = cast(SpecWorker, self._worker)(shard)
        return _SentResult(
            tables={name: table_of(*part) for name, part in found.parts.items()},
            failures=found.failures, forward_s=found.forward_s, made_on=found.made_on, machine=platform.node(),
        )  # fmt: skip

    def _count(self, n: int) -> None:
        self.so_far += n


class OnActors:
    """Shards on the actors of a cluster: workers made from one recipe, whose answers come back as Arrow.

    Actors keep what they have loaded from one call to the next.
    """

    def __init__(self, pool: RayPool, recipe: WorkerSpec, *, n_classes: int, source: FrameSource) -> None:
        self._pool, self._n_classes, self._source = pool, n_classes, source
        self._sending = _ArrowWorker(recipe)

    def results(self, shards: Iterable[Shard], tick: Callable[[int], None]) -> Iterator[ShardResult]:
        """What comes of each shard, as it comes."""
        done = shown = 0

        def show(working_on: int) -> None:
            nonlocal shown
            new = done + working_on - shown  # less than none where a worker died half-way
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
        """Refuse what a machine could not read and this one can: it does not see all files, and would leave holes."""
        for place in np.flatnonzero(answers.state == State.UNREADABLE).tolist():
            try:
                self._source.read(int(rows[place]))
            except StrobeError:
                continue
            raise StrobeError(
                f"{printable(machine)} could not read a frame that can be read here "
                f"({printable(answers.reasons[place])}): every machine needs all files of the dataset under the same "
                "path; finished work is kept"
            )
