"""The database: one schema for SQLite and PostgreSQL, reached by numbered migrations from the first version on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from strobe.core.errors import StrobeError, printable
from strobe.core.late import require

__all__ = ["MIGRATIONS", "Database", "migrate"]

_LOCK = 7_263_551_902
"""The PostgreSQL advisory lock every writer takes, so that the queue has one writer there as SQLite has by itself."""

MIGRATIONS: Mapping[int, tuple[str, ...]] = {
    1: (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        """CREATE TABLE annotators (
            name TEXT PRIMARY KEY, role TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL)""",
        "CREATE TABLE access_keys (hash TEXT PRIMARY KEY, name TEXT NOT NULL, created_at TEXT NOT NULL)",
        """CREATE TABLE sessions (
            hash TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, created_at TEXT NOT NULL)""",
        """CREATE TABLE tasks (
            task_id TEXT PRIMARY KEY, kind TEXT NOT NULL, position INTEGER NOT NULL, set_id TEXT NOT NULL,
            frame_id TEXT NOT NULL, votes INTEGER NOT NULL DEFAULT 0, flags INTEGER NOT NULL DEFAULT 0,
            voters INTEGER NOT NULL DEFAULT 0, bads INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0,
            open1 INTEGER NOT NULL DEFAULT 0, open2 INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX tasks_round_one ON tasks (kind, open1, position)",
        "CREATE INDEX tasks_round_two ON tasks (open2, position)",
        "CREATE INDEX tasks_of_pair ON tasks (set_id, frame_id)",
        """CREATE TABLE verdicts (
            seq {serial}, verdict_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
            stage TEXT NOT NULL, set_id TEXT NOT NULL, frame_id TEXT NOT NULL, task_id TEXT NOT NULL,
            decision TEXT NOT NULL, label_right INTEGER, reason TEXT NOT NULL, bad_anchor INTEGER NOT NULL,
            labels TEXT NOT NULL, note TEXT NOT NULL, seconds DOUBLE PRECISION, page_version TEXT NOT NULL)""",
        "CREATE INDEX verdicts_of_annotator ON verdicts (annotator, seq)",
        "CREATE INDEX verdicts_by_time ON verdicts (at)",
        "CREATE INDEX verdicts_of_task ON verdicts (task_id)",
        """CREATE TABLE latest (
            task_id TEXT NOT NULL, annotator TEXT NOT NULL, round INTEGER NOT NULL, at TEXT NOT NULL,
            verdict_id TEXT NOT NULL, clean INTEGER NOT NULL, bad INTEGER NOT NULL,
            PRIMARY KEY (task_id, annotator, round))""",
        "CREATE INDEX latest_of_annotator ON latest (annotator, round)",
        """CREATE TABLE leases (
            task_id TEXT NOT NULL, annotator TEXT NOT NULL, tab TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (task_id, annotator))""",
        "CREATE INDEX leases_of_annotator ON leases (annotator, expires)",
    ),
}
"""Each version's statements, run in order and never edited afterwards: a change of the schema is a new number."""

_SERIAL = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}


def migrate(connection: Connection, migrations: Mapping[int, tuple[str, ...]] = MIGRATIONS) -> int:
    """Bring the database to the newest version; the version comes back. A newer database is refused."""
    connection.execute(text("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)"))
    have = connection.execute(text("SELECT max(version) FROM schema_version")).scalar() or 0
    newest = max(migrations)
    if have > newest:
        raise StrobeError(
            f"the review database is of version {have}, newer than this strobe ({newest}); upgrade strobe"
        )
    for version in range(have + 1, newest + 1):
        for statement in migrations[version]:
            connection.execute(text(statement.replace("{serial}", _SERIAL[connection.dialect.name])))
        connection.execute(text("INSERT INTO schema_version (version) VALUES (:version)"), {"version": version})
    return newest


class Database:
    """Connections to one database: `write` transactions one at a time, `read` transactions beside them."""

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        self.shown = self._url.render_as_string(hide_password=True)
        """The address without its password, for messages."""
        if self._url.get_backend_name() == "sqlite":
            self._writer = _sqlite(self._url, "BEGIN IMMEDIATE", "FULL")
            self._passing = _sqlite(self._url, "BEGIN IMMEDIATE", "NORMAL")
            self._reader = _sqlite(self._url, "BEGIN", "FULL")
        else:
            require("psycopg", what="a PostgreSQL store", extra="postgres")
            self._writer = create_engine(self._url, pool_pre_ping=True, pool_size=2)
            self._reader = self._passing = self._writer
        try:
            with self.write() as connection:
                migrate(connection)
        except StrobeError:
            self.close()
            raise

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Connection]:
        """A transaction that may write: committed on leaving, rolled back on an error. Writers queue up.

        What is not `durable` (a lease) survives a crash of the server but perhaps not a power cut; votes always are.
        """
        with _worded(self.shown), (self._writer if durable else self._passing).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
                if not durable:
                    connection.execute(text("SET LOCAL synchronous_commit = off"))
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with _worded(self.shown), self._reader.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give the connections back."""
        for engine in (self._writer, self._passing, self._reader):
            engine.dispose()


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        # The text may hold a password, so it is not repeated.
        raise StrobeError("--db: expected postgresql://user@host/name or sqlite:///file") from error
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StrobeError(f"--db: {printable(backend)} is not supported; use postgresql:// or sqlite:///")
    if not parsed.database or parsed.database == ":memory:":
        raise StrobeError("--db: an SQLite store needs a file, e.g. sqlite:///review.sqlite")
    if not Path(parsed.database).absolute().parent.is_dir():
        raise StrobeError(f"--db: the folder of {printable(parsed.database)} does not exist")
    return parsed


def _sqlite(url: URL, begin: str, synchronous: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": 20.0, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def _connected(connection: object, _record: object) -> None:
        # The driver's own transactions start too late for us; from here on BEGIN is ours (see below).
        connection.isolation_level = None  # type: ignore[attr-defined]
        cursor = connection.cursor()  # type: ignore[attr-defined]
        # WAL: readers never wait. FULL: what was acknowledged survives a power cut, not only a crash.
        for pragma in ("journal_mode=WAL", f"synchronous={synchronous}", "busy_timeout=20000", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


@contextmanager
def _worded(shown: str) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StrobeError(f"the review database {printable(shown)} cannot be used: {printable(cause)}") from error
