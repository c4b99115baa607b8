"""Connections to the database of a review, SQLite or PostgreSQL: one writer at a time, and concurrent readers."""

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

from strobe.annexes.web.review.schema import make_tables
from strobe.core.errors import StrobeError, printable
from strobe.core.late import require

Statement = tuple[str, Mapping[str, Any]]
"""A statement and its values."""

_ROOM_KB = 400_000

_LOCK = "SELECT pg_advisory_xact_lock(7263551902)"
"""The lock that every writer takes on PostgreSQL, so that the queue has a single writer as on SQLite."""

_IDLE_S = 1.0
"""A PostgreSQL connection idle for more seconds than this is tested before use: the server may have stopped."""


class Database:
    """Connections to one database: `write` transactions one at a time, `read` transactions concurrently."""

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
            try:
                self._quick = _opened(self._file)
            except sqlite3.Error as error:
                raise _unusable(self.shown, error) from error
            self._quick.row_factory = sqlite3.Row
        else:
            require("psycopg", what="a PostgreSQL store", extra="postgres")
            # BEGIN and the lock go in one message, because a round trip costs more than the query.
            begin = "BEGIN ISOLATION LEVEL READ COMMITTED"  # this transaction sees commits made while it waited
            self._writer = _postgres(self._url, f"{begin}; {_LOCK}")
            self._passing = _postgres(self._url, f"{begin}; SET LOCAL synchronous_commit = off; {_LOCK}")
            # A statement sees all earlier commits, inside or outside a transaction.
            self._reader = _postgres(self._url, "")
        try:
            with self._transaction(self._writer) as connection:
                _refuse_code(connection)
                make_tables(connection)
        except StrobeError:
            self.close()
            raise

    def tidy(self) -> None:
        """Vacuum and analyse PostgreSQL after a change to all tasks.

        Otherwise every claim skips up to a million dead rows until autovacuum runs.
        """
        if self._file is None:
            with self.read() as connection:  # VACUUM does not run in transactions
                execute(connection, "VACUUM (ANALYZE) tasks, latest, verdicts")

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Connection]:
        """Yield a transaction that may write: committed on exit, rolled back on an error. Writers queue.

        Writes that are not `durable` (a lease) survive a crash of the server but perhaps not a power cut. Votes survive
        both. If the database was replaced after it was opened, the write is refused, because its data would be lost.
        """
        self._expect_in_place()
        with self._transaction(self._writer if durable else self._passing) as connection:
            found = meta(connection, "secret")
            self._store = self._store or found
            if found != self._store:
                raise self._gone()
            yield connection
        # Checked again after the commit, so that an acknowledged vote is in the file that others open.
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
            f"the review database {self.shown} was removed or replaced while it was open, so no answers are stored; "
            "put it back, or restart the server"
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that only reads."""
        with self._transaction(self._reader) as connection:
            yield connection

    def row(self, statement: str, values: Mapping[str, str]) -> Mapping[str, Any] | None:
        """Return the single row of a statement in the current state. Every request starts with it.

        On SQLite it uses its own connection without a pool or transaction, which would take four fifths of the time.
        """
        record: Any
        if self._quick is None:
            with self.read() as connection:
                record = execute(connection, statement, values).first()
        else:
            try:
                with self._quick_lock:
                    record = self._quick.execute(statement, values).fetchone()
            except sqlite3.Error as error:
                raise _unusable(self.shown, error) from error
        return None if record is None else dict(record)

    def close(self) -> None:
        """Close the connections."""
        if self._quick is not None:
            self._quick.close()
        for engine in (self._writer, self._passing, self._reader):
            engine.dispose()


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        # The text may contain a password, so it is not repeated.
        raise StrobeError("<<db>>: expected postgresql://user@host/name or sqlite:///file") from error
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StrobeError(f"<<db>>: {printable(backend)} is not supported; use postgresql:// or sqlite:///")
    if not parsed.database or parsed.database == ":memory:":
        raise StrobeError("<<db>>: an SQLite store needs a file, e.g. sqlite:///review.sqlite")
    if not Path(parsed.database).absolute().parent.is_dir():
        raise StrobeError(f"<<db>>: the folder of {printable(parsed.database)} does not exist")
    if parsed.query:
        raise StrobeError("<<db>>: an SQLite store takes no options after its file")
    return parsed


def _place(file: Path) -> tuple[int, int] | None:
    """Return the identity of a file, or None if it is missing. The identity changes if the file is replaced."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _made(file: Path, shown: str) -> tuple[int, int] | None:
    """Return the identity of the database file. Create the file if it is missing."""
    try:
        if not file.exists():
            file.touch()
    except OSError as error:
        raise StrobeError(f"the review database {printable(shown)} cannot be created: {error.strerror}") from error
    if not file.is_file():
        raise StrobeError(f"the review database {printable(shown)} is not a file")
    return _place(file)


def _refuse_code(connection: Connection) -> None:
    """Raise if an SQLite file contains triggers or views, which would run with our statements."""
    if connection.dialect.name == "sqlite":
        found = execute(connection, "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')").value()
        if found is not None:
            raise StrobeError(
                f"the review database has a trigger or view ({printable(found)}), which strobe never creates"
            )


def _opened(file: Path) -> sqlite3.Connection:
    # mode=rw: a connection that opens after the file was removed must not create an empty file.
    return sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=20.0, check_same_thread=False)


def _sqlite(file: Path, begin: str, synchronous: str) -> Engine:
    engine = create_engine("sqlite://", creator=lambda: _opened(file), poolclass=QueuePool)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        # The driver's own transactions start too late, so this code sends BEGIN itself (see below).
        connection.isolation_level = None
        cursor = connection.cursor()
        # WAL: readers never wait. FULL: acknowledged votes survive a power cut, not only a crash.
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
    # One connection per server thread, because opening and closing another connection is the slowest operation.
    engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=10)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.autocommit = True
        # Prefer indexes, because the tables are in memory. Otherwise a few hundred leases are scanned once for each
        # held task.
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
                raise DisconnectionError from error  # the pool opens a new one

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
    """The result of a statement, read on demand: rows by column name, or the first column."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[dict[str, Any]]:
        result = getattr(self._cursor, "pgresult", None)  # psycopg's `description` is slow
        names = [column[0] for column in self._cursor.description] if result is None else _names(result)
        return (dict(zip(names, row, strict=True)) for row in self._cursor)

    @property
    def n_changed(self) -> int:
        """The number of changed rows."""
        return int(self._cursor.rowcount)

    def first(self) -> dict[str, Any] | None:
        """Return the first row, or None."""
        row = next(iter(self), None)
        self._cursor.close()  # frees SQLite's cursor, which may have more rows
        return row

    def values(self) -> Iterator[Any]:
        """Return the first column."""
        return (row[0] for row in self._cursor)

    def value(self) -> Any:
        """Return the first column of the first row, or None."""
        value = next(self.values(), None)
        self._cursor.close()
        return value


def _names(result: Any) -> list[str]:
    return [result.fname(place).decode() for place in range(result.nfields)]


def execute(
    connection: Connection, statement: str, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
) -> StatementResult:
    """Run one statement, or once per row for several rows of values. A list value expands `IN :name`.

    It calls the driver directly, because SQLAlchemy's overhead exceeds the run time of most statements here.
    """
    cursor = _raw(connection).cursor()
    _run(cursor, connection.dialect.name == "sqlite", statement, values)
    return StatementResult(cursor)


def execute_all(connection: Connection, statements: Iterable[Statement]) -> None:
    """Run statements in order and ignore their results. PostgreSQL receives all of them in one pipeline."""
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
        values = {**values, **{f"{name}_{index}": one for index, one in enumerate(value)}}
    cursor.execute(_spelled(statement, tuple((name, len(value)) for name, value in lists.items()), is_sqlite), values)


@lru_cache(maxsize=500)
def _spelled(statement: str, lists: tuple[tuple[str, int], ...], is_sqlite: bool) -> str:
    """Return a statement in the driver's syntax, with lists expanded and PostgreSQL's placeholders."""
    for name, n in lists:
        listed = ", ".join(f":{name}_{place}" for place in range(n)) or "SELECT '' WHERE 1 = 0"
        statement = re.sub(rf":{name}\b", f"({listed})", statement)
    return statement if is_sqlite else re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement)


def _raw(connection: Connection) -> Any:
    """Return the driver's own connection."""
    raw = connection.connection.driver_connection
    if raw is None:  # pragma: no cover (a connection that is open has one)
        raise StrobeError("the review database is not open")
    return raw


@contextmanager
def roomy(connection: Connection) -> Iterator[None]:
    """Give SQLite a large cache inside the block, because work on all tasks reads the file in random order."""
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
    """Insert many rows into an empty table. Its indexes are created afterwards, which is much faster."""
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
"""Select the indexes of a table except its primary key, with the statements that create them."""


def meta(connection: Connection, name: str) -> str | None:
    """Return a setting stored in the database."""
    value = execute(connection, "SELECT value FROM meta WHERE name = :name", {"name": name}).value()
    return None if value is None else str(value)


def set_meta(connection: Connection, name: str, value: str) -> None:
    """Store a setting in the database."""
    execute(
        connection,
        "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value",
        {"name": name, "value": value},
    )
