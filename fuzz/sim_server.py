"""Review servers for the simulator: the real app on the real store, in this process, on a clock and a disk that fail.

Requests are ASGI calls. The server's threads are replaced by calls made at once, so that the order of everything is
drawn from the seed. A server dies by losing its connections; a power cut also loses what was not synced to the disk.
"""

import asyncio
import json
import random
import sqlite3
import subprocess
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.datasets import folder as folders
from strobe.datasets.media import MediaSource
from strobe.review import database, service
from strobe.review.app import Access, make_app
from strobe.review.conduct import ReviewOptions
from strobe.review.database import set_meta
from strobe.review.guard import RateLimit, ServerAddress
from strobe.review.store import Store

__all__ = ["ADMIN_KEY", "Broken", "Disk", "Machine", "Reply", "Server", "install"]

ADMIN_KEY = "the-admin-key-of-a-simulation"
_ADDRESS = ServerAddress.of("127.0.0.1", 8321)
_TURNS = 5000
"""More turns of the event loop than any request takes: one that takes more hangs."""


class Broken(Exception):
    """Something that is promised does not hold."""


class _AtOnce(Executor):
    """Runs what it is given before it returns: no thread decides what comes first."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Run it now."""
        done: Future[Any] = Future()
        try:
            done.set_result(function(*args, **named))
        except Exception as error:
            done.set_exception(error)
        return done


@dataclass(slots=True)
class Disk:
    """What is about to go wrong in the database, and how much of its log is surely on the disk.

    `kind` happens at the `after`-th statement or commit of the server at work: `full` (then `times` in all), or
    `kill` before it, or `kill-late` just after a commit.
    """

    kind: str = ""
    after: int = 0
    times: int = 0
    synced: int = 0
    at_work: "Server | None" = None

    def plan(self, kind: str, rng: random.Random) -> None:
        """Let this go wrong soon."""
        self.kind, self.after, self.times = kind, rng.randrange(1, 30), rng.randrange(1, 6)

    def heal(self) -> None:
        """Let nothing go wrong any more."""
        self.kind = ""

    def step(self, *, late: bool = False) -> None:
        """Count one statement or commit; raise where something goes wrong at it."""
        if not self.kind or self.at_work is None or late != (self.kind == "kill-late"):
            return None
        self.after -= 1
        if self.after > 0:
            return None
        if self.kind == "full":
            self.times -= 1
            if self.times < 0:
                return self.heal()
            raise sqlite3.OperationalError("database or disk is full")
        self.heal()
        self.at_work.dead = True
        raise sqlite3.OperationalError("killed")  # unwinds; what is not committed is rolled back, as after a kill


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered; a lost one is known to the simulator alone."""

    status: int
    body: dict[str, Any]
    cookie: str = ""


@dataclass(slots=True)
class Server:
    """One server process: its store, its app, and by how much its clock is wrong."""

    store: Store
    app: Any
    offset: float
    dead: bool = False

    def now(self) -> float:
        """The time by this server's clock."""
        return self.store.clock()


@dataclass(slots=True)
class Machine:
    """The machine of a simulation: a dataset folder, the store in it, up to two servers, a clock, a disk."""

    folder: Path
    rng: random.Random
    ask: str
    settings: ReviewOptions
    now: float = 1_800_000_000.0
    disk: Disk = field(default_factory=Disk)
    servers: list[Server | None] = field(default_factory=lambda: [None, None])

    @property
    def file(self) -> Path:
        """The store."""
        return self.folder / "review.sqlite"

    @property
    def wal(self) -> Path:
        """The store's write-ahead log."""
        return self.folder / "review.sqlite-wal"

    # -- starting and dying ------------------------------------------------------------------------------------------

    def start(self, place: int, *, offset: float) -> Server:
        """Start the server of that number."""

        def clock() -> float:
            return self.now + offset

        store = Store(f"sqlite:///{self.file}", ask=self.ask, clock=clock)
        try:
            with store.database.write() as connection:
                if database.meta(connection, "secret") is None:  # else names of tasks would be new in every replay
                    set_meta(connection, "secret", random.Random(str(self.settings)).randbytes(32).hex())
            self._watch(store)
            dataset: Dataset = folders.read(self.folder)
            store.prepare(dataset, self.settings, content=folders.content(self.folder))
            app = _app(dataset, store)
        except BaseException:
            store.close()
            raise
        server = Server(store=store, app=app, offset=offset)
        self.servers[place] = server
        return server

    def _watch(self, store: Store) -> None:
        """Count commits, and remember how much of the log each synced commit leaves on the disk."""
        for engine, syncs in ((store.database._writer, True), (store.database._passing, False)):
            dialect: Any = engine.dialect
            dialect.do_commit = self._commit(dialect.do_commit, syncs=syncs)

    def _commit(self, commit: Callable[[Any], None], *, syncs: bool) -> Callable[[Any], None]:
        def watched(connection: Any) -> None:
            self.disk.step()
            commit(connection)
            if syncs and self.wal.exists():
                self.disk.synced = self.wal.stat().st_size
            self.disk.step(late=True)

        return watched

    def stop(self, place: int) -> None:
        """Take a server away, dead or alive."""
        server = self.servers[place]
        self.servers[place] = None
        if server is not None:
            server.store.close()

    def power_cut(self) -> str:
        """Both servers die, and what was not synced is lost or torn; what was cut off is described."""
        aside = self.folder.parent / "at-the-cut"
        aside.mkdir()
        there = [path for path in (self.file, self.wal) if path.exists()]
        _copied(there, aside)
        for place in range(len(self.servers)):
            self.stop(place)  # the last one tidies the log away, which a power cut does not
        for path in (self.file, self.wal, self.folder / "review.sqlite-shm"):
            path.unlink(missing_ok=True)
        for path in there:
            (aside / path.name).rename(path)
        aside.rmdir()
        log = self.wal.read_bytes() if self.wal.exists() else b""
        loose = len(log) - self.disk.synced
        if loose <= 0:
            return "nothing loose"
        left = self.disk.synced + self.rng.randrange(loose)
        torn = log[:left] + (self.rng.randbytes(min(64, loose)) if self.rng.random() < 0.5 else b"")
        self.wal.write_bytes(torn)
        return f"{len(log) - left} of {loose} loose bytes lost"

    def copy_to(self, place: Path) -> None:
        """The dataset folder and its store as they are now, elsewhere."""
        _copied([self.folder], place.parent)
        (place / "review.sqlite-shm").unlink(missing_ok=True)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self, server: Server, method: str, path: str, body: Any = None, *, cookie: str = "", cut: int | None = None
    ) -> Reply | None:
        """One request; None where the server died under it or the connection dropped after `cut` turns."""
        content = b"" if body is None else json.dumps(body).encode()
        waiting = [{"type": "http.request", "body": content, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return waiting.pop() if waiting else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        self.disk.at_work = server
        task = asyncio.ensure_future(server.app(_scope(method, path, content, cookie), receive, send))
        turns = 0
        while not task.done() and not server.dead and turns != cut:
            await asyncio.sleep(0)
            turns += 1
            if turns > _TURNS:
                raise Broken(f"{method} {path} hangs")
        whole = task.done() and not server.dead
        task.cancel()
        with suppress(asyncio.CancelledError, StrobeError):
            await task
        for _ in range(20):  # what was begun goes on without the one who asked for it
            await asyncio.sleep(0)
        self.disk.at_work = None
        if not whole or server.dead:
            return None
        return _reply(sent)


def _copied(paths: list[Path], place: Path) -> None:
    """Copy by another process: where this one closes a file of the store, it gives up SQLite's locks on it."""
    if paths:
        subprocess.run(["cp", "-R", *map(str, paths), str(place)], check=True)


def _app(dataset: Dataset, store: Store) -> Any:
    """The app as it is served, without threads and without a limit on requests, which the real clock would decide."""
    with patch.object(service, "ThreadPoolExecutor", lambda *_args, **_named: _AtOnce()):
        access = Access(address=_ADDRESS, secret=b"of a simulation", admin_key=ADMIN_KEY, invited_only=True)
        app = make_app(dataset, store, MediaSource(dataset), access)
    for name in app._rates:
        app._rates[name] = RateLimit(per_s=1e9, burst=1e9)
    return app


def _scope(method: str, path: str, content: bytes, cookie: str) -> dict[str, Any]:
    where, _, query = path.partition("?")
    headers = {
        "host": "127.0.0.1:8321",
        "origin": _ADDRESS.url,
        "content-type": "application/json",
        "content-length": str(len(content)),
        "cookie": cookie,
    }
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items() if value],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8321),
    }


def _reply(sent: list[dict[str, Any]]) -> Reply:
    head = sent[0]
    body = b"".join(message.get("body", b"") for message in sent[1:])
    cookies = [value.decode() for name, value in head["headers"] if name == b"set-cookie"]
    is_json = any(name == b"content-type" and value.startswith(b"application/json") for name, value in head["headers"])
    return Reply(head["status"], json.loads(body) if is_json else {}, cookies[0].split(";")[0] if cookies else "")


def install(disk: Callable[[], Disk | None]) -> None:
    """Let every statement of a server count as a step of the disk that is in use."""
    module: Any = database
    run = module._run

    def counted(*args: Any) -> None:
        found = disk()
        if found is not None:
            found.step()
        run(*args)

    module._run = counted
