"""Connections to the database of a review, SQLite or PostgreSQL: writers one at a time, readers beside them."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from strobe.core.errors import StrobeError, printable
from strobe.core.late import require
from strobe.review.schema import migrate

__all__ = ["Database", "Statement", "StatementResult", "execute", "execute_all", "fill", "meta", "roomy", "set_meta"]

Statement = tuple[str, Mapping[str, Any]]
"""A statement and its values."""

_ROOM_KB = 400_000

_LOCK = "SELECT pg_advisory_xact_lock(7263551902)"
"""What every writer on PostgreSQL waits for, so that the queue has one writer there as SQLite has by itself."""

_IDLE_S = 1.0
"""A connection to PostgreSQL that lay longer than this is tried before it is used: the server may have gone away."""


class Database:
    """Connections to one database: `write` transactions one at a time, `read` transactions beside them."""

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        self.shown = self._url.render_as_string(hide_password=True)
        """The address without its password, for messages."""
        self._file: Path | None = None
        self._store: str | None = None
        self._quick: sqlite3.Connection | None = None
        self._quick_lock = Lock()
        if self._url.get_backend_name() == "sqlite":
            self._file = Path(str(self._url.database)).absolute()
            self._place = _made(self._file, self.shown)
            self._writer = _sqlite(self._file, "BEGIN IMMEDIATE", "FULL")
            self._passing = _sqlite(self._file, "BEGIN IMMEDIATE", "NORMAL")
            self._reader = _sqlite(self._file, "BEGIN", "FULL")
            self._quick = _opened(self._file)
            self._quick.row_factory = sqlite3.Row
        else:
            require("psycopg", what="a PostgreSQL store", extra="postgres")
            # Begun and locked with one message: every message costs more than what is asked in it.
            begin = "BEGIN ISOLATION LEVEL READ COMMITTED"  # what was committed while we waited is seen
            self._writer = _postgres(self._url, f"{begin}; {_LOCK}")
            self._passing = _postgres(self._url, f"{begin}; SET LOCAL synchronous_commit = off; {_LOCK}")
            # A statement sees what was committed before it, inside a transaction or outside.
            self._reader = _postgres(self._url, "")
        try:
            with self._transaction(self._writer) as connection:
                _refuse_code(connection)
                migrate(connection)
        except StrobeError:
            self.close()
            raise

    def tidy(self) -> None:
        """After work on all tasks: have PostgreSQL clear away the rows as they were, and look at the tables anew.

        Until its own housekeeping came by, every claim would step over a million of them.
        """
        if self._file is None:
            with self.read() as connection:  # VACUUM refuses transactions
                execute(connection, "VACUUM (ANALYZE) tasks, latest, verdicts")

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Connection]:
        """A transaction that may write: committed on leaving, rolled back on an error. Writers queue up.

        What is not `durable` (a lease) survives a crash of the server but perhaps not a power cut; votes always are.
        Where the database is no longer the one that was opened, nothing is taken: it could not be found again.
        """
        self._expect_in_place()
        with self._transaction(self._writer if durable else self._passing) as connection:
            found = meta(connection, "secret")
            self._store = self._store or found
            if found != self._store:
                raise self._gone()
            yield connection
        # Looked at again after the commit: whoever is told that a vote is kept can find it at the address.
        self._expect_in_place()

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        with _worded(self.shown, engine.dialect), engine.begin() as connection:
            yield connection

    def _expect_in_place(self) -> None:
        if self._file is not None and _place(self._file) != self._place:
            raise self._gone()

    def _gone(self) -> StrobeError:
        return StrobeError(
            f"the review database {self.shown} was removed or replaced while it was open, so nothing more is taken; "
            "put it back, or start again"
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that only reads."""
        with self._transaction(self._reader) as connection:
            yield connection

    def row(self, statement: str, values: Mapping[str, str]) -> Mapping[str, Any] | None:
        """The one row a statement finds, as it is now: what every request asks first.

        SQLite is asked on a connection of its own, without pool and transaction, which take four fifths of the time.
        """
        found: Any
        if self._quick is None:
            with self.read() as connection:
                found = execute(connection, statement, values).first()
        else:
            try:
                with self._quick_lock:
                    found = self._quick.execute(statement, values).fetchone()
            except sqlite3.Error as error:
                raise _unusable(self.shown, error) from error
        return None if found is None else dict(found)

    def close(self) -> None:
        """Give the connections back."""
        if self._quick is not None:
            self._quick.close()
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
    if parsed.query:
        raise StrobeError("--db: an SQLite store takes no options after its file")
    return parsed


def _place(file: Path) -> tuple[int, int] | None:
    """What a file is, whatever its name: where a file is removed or replaced, this differs."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _made(file: Path, shown: str) -> tuple[int, int] | None:
    """The place of the database's file, made where missing."""
    try:
        if not file.exists():
            file.touch()
    except OSError as error:
        raise StrobeError(f"the review database {printable(shown)} cannot be made: {error.strerror}") from error
    if not file.is_file():
        raise StrobeError(f"the review database {printable(shown)} is no file")
    return _place(file)


def _refuse_code(connection: Connection) -> None:
    """Raise where an SQLite file brings statements of its own, which would run with ours."""
    if connection.dialect.name == "sqlite":
        found = execute(connection, "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')").value()
        if found is not None:
            raise StrobeError(
                f"the review database holds a trigger or view ({printable(found)}), which strobe never makes"
            )


def _opened(file: Path) -> sqlite3.Connection:
    # rw: a connection opened after the file was removed must not make an empty one in its place.
    return sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=20.0, check_same_thread=False)


def _sqlite(file: Path, begin: str, synchronous: str) -> Engine:
    engine = create_engine("sqlite://", creator=lambda: _opened(file), poolclass=QueuePool)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        # The driver's own transactions start too late for us; from here on BEGIN is ours (see below).
        connection.isolation_level = None
        cursor = connection.cursor()
        # WAL: readers never wait. FULL: what was acknowledged survives a power cut, not only a crash.
        for pragma in (
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            "busy_timeout=20000",
            "foreign_keys=ON",
            "trusted_schema=OFF",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _postgres(url: URL, begin: str) -> Engine:
    # As many as the server has threads that ask: one more is opened and closed each time, which takes longest of all.
    engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=10)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.autocommit = True
        # What is asked lies in memory: otherwise a few hundred leases are gone through once for each task that is held.
        connection.execute("SET random_page_cost = 1.1")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        if begin:
            connection.exec_driver_sql(begin)

    @event.listens_for(engine, "checkin")
    def _laid_down(_connection: object, record: Any) -> None:
        record.info["since"] = monotonic()

    @event.listens_for(engine, "checkout")
    def _taken_up(connection: Any, record: Any, _proxy: object) -> None:
        if monotonic() - record.info.get("since", monotonic()) > _IDLE_S:
            try:
                connection.execute("SELECT 1")
            except engine.dialect.loaded_dbapi.Error as error:
                raise DisconnectionError from error  # the pool opens another

    return engine


@contextmanager
def _worded(shown: str, dialect: Dialect) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, dialect.loaded_dbapi.Error) as error:
        raise _unusable(shown, getattr(error, "orig", None) or error) from error


def _unusable(shown: str, error: BaseException) -> StrobeError:
    cause = str(error).strip().splitlines()[0]
    return StrobeError(f"the review database {printable(shown)} cannot be used: {printable(cause)}")


class StatementResult:
    """What a statement found, read as it is asked for: rows by the names of their columns, or their first column."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[dict[str, Any]]:
        result = getattr(self._cursor, "pgresult", None)  # psycopg takes long to describe a column whole
        names = [column[0] for column in self._cursor.description] if result is None else _names(result)
        return (dict(zip(names, row, strict=True)) for row in self._cursor)

    @property
    def n_changed(self) -> int:
        """How many rows were changed."""
        return int(self._cursor.rowcount)

    def first(self) -> dict[str, Any] | None:
        """The first row; None where there is none."""
        row = next(iter(self), None)
        self._cursor.close()  # SQLite is not to keep the place where the others would be read
        return row

    def values(self) -> Iterator[Any]:
        """The first column."""
        return (row[0] for row in self._cursor)

    def value(self) -> Any:
        """The first column of the first row; None where there is none."""
        value = next(self.values(), None)
        self._cursor.close()
        return value


def _names(result: Any) -> list[str]:
    return [result.fname(place).decode() for place in range(result.nfields)]


def execute(
    connection: Connection, statement: str, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
) -> StatementResult:
    """Run one statement; of several rows of values, once for each. A value that is a list stands for `IN :name`.

    By the driver itself: what SQLAlchemy does around each statement takes longer than most of ours.
    """
    cursor = _raw(connection).cursor()
    _run(cursor, connection.dialect.name == "sqlite", statement, values)
    return StatementResult(cursor)


def execute_all(connection: Connection, statements: Iterable[Statement]) -> None:
    """Run statements in turn whose results nobody asks for; PostgreSQL is sent all of them before it answers."""
    raw, is_sqlite = _raw(connection), connection.dialect.name == "sqlite"
    with nullcontext() if is_sqlite else raw.pipeline():
        for statement, values in statements:
            _run(raw.cursor(), is_sqlite, statement, values)


def _run(cursor: Any, is_sqlite: bool, statement: str, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    if not isinstance(values, Mapping):
        (cursor.executemany if values else cursor.execute)(_spelled(statement, (), is_sqlite), values)
        return
    lists = {name: value for name, value in values.items() if isinstance(value, list)}
    for name, value in lists.items():
        values = {**values, **{f"{name}_{place}": one for place, one in enumerate(value)}}
    cursor.execute(_spelled(statement, tuple((name, len(value)) for name, value in lists.items()), is_sqlite), values)


@lru_cache(maxsize=500)
def _spelled(statement: str, lists: tuple[tuple[str, int], ...], is_sqlite: bool) -> str:
    """A statement as the driver reads it: each list written out, and PostgreSQL's marks for values."""
    for name, n in lists:
        listed = ", ".join(f":{name}_{place}" for place in range(n)) or "SELECT '' WHERE 1 = 0"
        statement = re.sub(rf":{name}\b", f"({listed})", statement)
    return statement if is_sqlite else re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement)


def _raw(connection: Connection) -> Any:
    """The driver's own connection."""
    raw = connection.connection.driver_connection
    if raw is None:  # pragma: no cover (a connection that is open has one)
        raise StrobeError("the review database is not open")
    return raw


@contextmanager
def roomy(connection: Connection) -> Iterator[None]:
    """Let SQLite keep much of the file in memory for a while: work on all tasks jumps about in it."""
    if connection.dialect.name != "sqlite":
        yield
        return
    before = execute(connection, "PRAGMA cache_size").value()
    execute(connection, f"PRAGMA cache_size = -{_ROOM_KB}")
    try:
        yield
    finally:
        execute(connection, f"PRAGMA cache_size = {int(before)}")
        execute(connection, "PRAGMA shrink_memory")


def fill(connection: Connection, table: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Put many rows into an empty table: its indexes are made afterwards, which takes a fraction of keeping them."""
    raw, sqlite = _raw(connection), connection.dialect.name == "sqlite"
    kept = list(execute(connection, _INDEXES[connection.dialect.name], {"table": table}))
    for index in kept:
        execute(connection, f"DROP INDEX {index['name']}")
    listed = ", ".join(names)
    if sqlite:
        raw.executemany(f"INSERT INTO {table} ({listed}) VALUES ({', '.join('?' for _ in names)})", rows)
    else:
        with raw.cursor() as cursor, cursor.copy(f"COPY {table} ({listed}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    for index in kept:
        execute(connection, str(index["made"]))
    if not sqlite:
        execute(connection, f"ANALYZE {table}")


_INDEXES = {
    "sqlite": "SELECT name, sql AS made FROM sqlite_master WHERE type = 'index' AND tbl_name = :table "
    "AND sql IS NOT NULL",
    "postgresql": "SELECT indexname AS name, indexdef AS made FROM pg_indexes WHERE tablename = :table "
    "AND schemaname = current_schema() AND indexname <> :table || '_pkey'",
}
"""The indexes of a table but that of its key, and how each is made."""


def meta(connection: Connection, name: str) -> str | None:
    """A setting kept in the database."""
    value = execute(connection, "SELECT value FROM meta WHERE name = :name", {"name": name}).value()
    return None if value is None else str(value)


def set_meta(connection: Connection, name: str, value: str) -> None:
    """Keep a setting in the database."""
    execute(
        connection,
        "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value",
        {"name": name, "value": value},
    )
