"""Review servers for the simulator: the real app and store in this process, with a clock and a disk that fail.

Requests are ASGI calls. The server's threads are replaced by immediate calls, so that the seed determines the order of
all events. A killed server loses its connections. A power cut also loses data that was not synced to the disk.
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

from strobe.annexes.web.guard import RateLimit, ServerAddress
from strobe.annexes.web.review import database, service
from strobe.annexes.web.review.app import make_app
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.database import set_meta
from strobe.annexes.web.review.service import Access
from strobe.annexes.web.review.store import Store
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folders
from strobe.store.media import MediaSource

__all__ = ["ADMIN_KEY", "Broken", "Disk", "Machine", "Reply", "Server", "install"]

ADMIN_KEY = "the-admin-key-of-a-simulation"
_ADDRESS = ServerAddress.of("127.0.0.1", 8321)
_TURNS = 5000
"""A request that takes more turns of the event loop counts as hung."""


class Broken(Exception):
    """Raised when a rule is broken."""


class _AtOnce(Executor):
    """Runs each function immediately, so that threads do not affect the order."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Call the function and return a finished future."""
        done: Future[Any] = Future()
        try:
            done.set_result(function(*args, **named))
        except Exception as error:
            done.set_exception(error)
        return done


@dataclass(slots=True)
class Disk:
    """The next fault of the database, and the part of its log that is synced to the disk.

    The fault `kind` happens at the `after`-th statement or commit of the active server. It is `full` (the disk is full,
    `times` times), `kill` (before the statement) or `kill-late` (just after a commit).
    """

    kind: str = ""
    after: int = 0
    times: int = 0
    synced: int = 0
    at_work: "Server | None" = None

    def plan(self, kind: str, rng: random.Random) -> None:
        """Plan a fault for one of the next steps."""
        self.kind, self.after, self.times = kind, rng.randrange(1, 30), rng.randrange(1, 6)

    def heal(self) -> None:
        """Cancel the planned fault."""
        self.kind = ""

    def step(self, *, late: bool = False) -> None:
        """Count one statement or commit, and raise the planned fault if it is due."""
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
        raise sqlite3.OperationalError("killed")  # uncommitted changes are rolled back, as after a kill


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's reply. If it is lost, only the simulator knows it."""

    status: int
    body: dict[str, Any]
    cookie: str = ""


@dataclass(slots=True)
class Server:
    """One server process: its store, its app, and the offset of its clock."""

    store: Store
    app: Any
    offset: float
    dead: bool = False

    def now(self) -> float:
        """The time by this server's clock."""
        return self.store.clock()


@dataclass(slots=True)
class Machine:
    """The machine of a simulation: a dataset folder, the store in it, up to two servers, a clock and a disk."""

    folder: Path
    rng: random.Random
    ask: str
    settings: ReviewOptions
    now: float = 1_800_000_000.0
    disk: Disk = field(default_factory=Disk)
    servers: list[Server | None] = field(default_factory=lambda: [None, None])

    @property
    def file(self) -> Path:
        """The file of the store."""
        return self.folder / "review.sqlite"

    @property
    def wal(self) -> Path:
        """The store's write-ahead log."""
        return self.folder / "review.sqlite-wal"

    # -- starting and dying ------------------------------------------------------------------------------------------

    def start(self, place: int, *, offset: float) -> Server:
        """Start the server with that number."""

        def clock() -> float:
            return self.now + offset

        store = Store(f"sqlite:///{self.file}", ask=self.ask, clock=clock)
        try:
            with store.database.write() as connection:
                if (
                    database.meta(connection, "secret") is None
                ):  # a fixed secret gives the same task names in every replay
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
        """Count commits, and record the length of the log at each synced commit."""
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
        """Remove a server, whether it runs or not."""
        server = self.servers[place]
        self.servers[place] = None
        if server is not None:
            server.store.close()

    def power_cut(self) -> str:
        """Stop both servers and truncate unsynced data. Returns a description of the loss."""
        aside = self.folder.parent / "at-the-cut"
        aside.mkdir()
        there = [path for path in (self.file, self.wal) if path.exists()]
        _copied(there, aside)
        for place in range(len(self.servers)):
            self.stop(place)  # the last server to close removes the log, but a power cut would not
        for path in (self.file, self.wal, self.folder / "review.sqlite-shm"):
            path.unlink(missing_ok=True)
        for path in there:
            (aside / path.name).rename(path)
        aside.rmdir()
        log = self.wal.read_bytes() if self.wal.exists() else b""
        loose = len(log) - self.disk.synced
        if loose <= 0:
            return "no unsynced data"
        left = self.disk.synced + self.rng.randrange(loose)
        torn = log[:left] + (self.rng.randbytes(min(64, loose)) if self.rng.random() < 0.5 else b"")
        self.wal.write_bytes(torn)
        return f"{len(log) - left} of {loose} unsynced bytes lost"

    def copy_to(self, place: Path) -> None:
        """Copy the dataset folder and its store to another place."""
        _copied([self.folder], place.parent)
        (place / "review.sqlite-shm").unlink(missing_ok=True)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self, server: Server, method: str, path: str, body: Any = None, *, cookie: str = "", cut: int | None = None
    ) -> Reply | None:
        """Send one request. Returns None if the server died, or if the connection dropped after `cut` turns."""
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
        completed = task.done() and not server.dead
        task.cancel()
        with suppress(asyncio.CancelledError, StrobeError):
            await task
        for _ in range(20):  # the server finishes work that it started for a lost connection
            await asyncio.sleep(0)
        self.disk.at_work = None
        if not completed or server.dead:
            return None
        return _reply(sent)


def _copied(paths: list[Path], place: Path) -> None:
    """Copy in another process, because closing a file of the store here would release SQLite's locks on it."""
    if paths:
        subprocess.run(["cp", "-R", *map(str, paths), str(place)], check=True)


def _app(dataset: Dataset, store: Store) -> Any:
    """Return the app as it is served, but without threads and without the rate limit, which uses the real clock."""
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
    """Count every statement of a server as a step of the current disk."""
    module: Any = database
    run = module._run

    def counted(*args: Any) -> None:
        found = disk()
        if found is not None:
            found.step()
        run(*args)

    module._run = counted
