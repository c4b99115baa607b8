"""Who may use the store, where it lies, and how old ones are brought up to date."""

import sqlite3

import pytest
from sqlalchemy import text

from strobe.core.errors import InvalidValue, StrobeError
from strobe.review.conduct import ReviewSettings
from strobe.review.database import Database
from strobe.review.names import checked_name, checked_note
from strobe.review.people import People
from strobe.review.schema import MIGRATIONS, migrate
from strobe.review.store import Store


def test_people_keys_and_sessions(store):
    people = People(store)
    ann = people.add("Ann")
    assert people.add("Ann", "admin") == ann, "a known name keeps its role"
    key = people.new_key("Ann")
    assert people.by_key(key) == ann
    assert people.by_key(key[:-1]) is None
    secret = people.open_session(ann)
    assert People(store).by_session(secret) == ann, "sessions live through a restart"
    people.pause("Ann", paused=True)
    assert people.by_session(secret).paused
    people.revoke("Ann")
    assert people.by_session(secret) is None
    assert people.by_key(key) is None
    with pytest.raises(InvalidValue):
        people.pause("nobody", paused=True)
    with store.database.read() as connection:
        stored = str(connection.execute(text("SELECT * FROM access_keys")).all())
        stored += str(connection.execute(text("SELECT * FROM sessions")).all())
    assert key not in stored
    assert secret not in stored


@pytest.mark.parametrize("name", ["", " ", "<b>x</b>", "a\x00b", "a\nb", "x" * 41, "a\u202eb", '"; DROP', "-x", "a/b"])
def test_names_that_are_refused(name):
    with pytest.raises(InvalidValue, match="name: expected"):
        checked_name(name)


def test_notes():
    assert checked_note("1 < 2 <script>\nnext line") == "1 < 2 <script>\nnext line"
    for bad in ("\x00", "\x1b[31m", "x" * 1001, "\u202e"):
        with pytest.raises(InvalidValue, match="note: expected"):
            checked_note(bad)


def test_migrations_step_by_step_end_where_a_fresh_database_starts(database_url):
    later = {**MIGRATIONS, max(MIGRATIONS) + 1: ("ALTER TABLE verdicts ADD COLUMN mood TEXT NOT NULL DEFAULT ''",)}
    database = Database(database_url)
    with database.write() as connection:
        connection.execute(text("INSERT INTO meta (name, value) VALUES ('kept', 'yes')"))
        assert migrate(connection, later) == max(later)
        assert migrate(connection, later) == max(later)
        assert connection.execute(text("SELECT value FROM meta WHERE name = 'kept'")).scalar() == "yes"
        connection.execute(text("SELECT mood FROM verdicts"))
    database.close()
    with pytest.raises(StrobeError, match="newer than this strobe"):
        Database(database_url)


@pytest.mark.parametrize(
    "url", ["mysql://secret:pw@host/x", "not a url pw", "sqlite://", "sqlite:////no/such/folder/x.db", "oracle://pw"]
)
def test_bad_addresses_are_one_line_without_secrets(url):
    with pytest.raises(StrobeError) as caught:
        Database(url)
    assert "\n" not in str(caught.value)
    assert "pw" not in str(caught.value)


def test_a_server_that_is_not_there_is_one_line_without_the_password():
    with pytest.raises(StrobeError) as caught:
        Database("postgresql://someone:hunter2@127.0.0.1:1/nothing")
    assert "cannot be used" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_sqlite_is_durable_and_does_not_block_readers(tmp_path, small, clock):
    path = tmp_path / "review.sqlite"
    store = Store(f"sqlite:///{path}", clock=clock)
    store.prepare(small, ReviewSettings(controls=0))
    with store.database.write() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        with sqlite3.connect(path) as other:
            assert other.execute("SELECT count(*) FROM verdicts").fetchone() == (0,)
        other.close()
    store.close()
