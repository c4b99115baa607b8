"""Who may use the store, where it lies, and how old ones are brought up to date."""

import itertools
import os
import shutil
import sqlite3
from dataclasses import replace

import pytest
from sqlalchemy import text

from strobe.annexes.web.review import counters, database, leases, queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.database import Database
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.schema import VERSION
from strobe.annexes.web.review.sessions import Sessions
from strobe.annexes.web.review.store import Store
from strobe.core.annotators import checked_name, checked_note
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.records import Verdict
from strobe.core.user_secret import server_secret


@pytest.fixture
def cast_one(small):
    """Casts a vote of its own."""
    ids, numbers = small.frame_ids(), itertools.count()

    def cast(store):
        store.cast(
            [Verdict(verdict_id=f"v{next(numbers)}", annotator="ann", at="", stage="pair",
                     set_id="set0", frame_id=ids[0], decision="similar")]
        )  # fmt: skip

    return cast


def sessions_of(store, *, secret=b"ours", mode="invite"):
    return Sessions(People(store), secret=secret, mode=mode)


def test_people_keys_and_sessions(store):
    people = People(store)
    sessions = sessions_of(store)
    ann = people.add("Ann")
    assert people.add("Ann", "admin") == ann, "a known name keeps its role"
    key = sessions.new_key(ann)
    assert sessions.by_key(key) == ann
    assert sessions.by_key(key[:-1]) is None
    secret = sessions.open(ann)
    assert sessions_of(store).find(secret) == (ann, False), "sessions live through a restart"
    people.pause("Ann", paused=True)
    assert sessions.find(secret)[0].paused
    other = sessions_of(store)
    assert other.find(secret)[0].paused
    sessions.revoke("Ann")
    assert other.find(secret) == (None, False), "and on another server of the store at once"
    assert other.by_key(key) is None
    with pytest.raises(InvalidValue):
        people.pause("nobody", paused=True)
    with store.database.read() as connection:
        stored = str(connection.execute(text("SELECT * FROM access_keys")).all())
        stored += str(connection.execute(text("SELECT * FROM sessions")).all())
    assert key not in stored
    assert secret not in stored


def test_what_another_server_made_opens_nothing(store):
    ann = People(store).add("Ann")
    theirs = sessions_of(store, secret=b"theirs")
    secret, key = theirs.open(replace(ann, role="admin")), theirs.new_key(ann)
    assert theirs.find(secret)[0].role == "admin"
    assert sessions_of(store).find(secret) == (None, False)
    assert sessions_of(store).by_key(key) is None


@pytest.mark.parametrize(
    ("made", "now", "taken"),
    [("open", "token", False), ("open", "invite", False), ("token", "invite", False), ("invite", "token", True),
     ("token", "open", True), ("invite", "invite", True)],
)  # fmt: skip
def test_a_stricter_server_does_not_take_what_a_laxer_one_gave_out(store, made, now, taken):
    ann = People(store).add("Ann")
    before, after = sessions_of(store, mode=made), sessions_of(store, mode=now)
    assert (after.find(before.open(ann))[0] == ann) == taken
    assert (after.by_key(before.new_key(ann)) == ann) == taken


def test_an_edited_row_is_worthless(store):
    people = People(store)
    ann, bo = people.add("Ann"), people.add("Bo")
    sessions = sessions_of(store)
    secret, key, kept = sessions.open(ann), sessions.new_key(ann), sessions.open(bo)
    with store.database.write() as connection:
        connection.execute(text("UPDATE sessions SET role = 'admin' WHERE name = 'Ann'"))
        connection.execute(text("UPDATE annotators SET role = 'admin' WHERE name = 'Ann'"))
    assert sessions.find(secret)[0] is None
    assert sessions.by_key(key) is None
    assert sessions.find(kept)[0] == bo
    with store.database.write() as connection:
        connection.execute(text("UPDATE sessions SET created_at = '2999-01-01T00:00:00.000000Z' WHERE name = 'Bo'"))
    assert sessions.find(kept)[0] is None


def test_sessions_run_out(store, clock):
    sessions = sessions_of(store)
    ann = People(store).add("Ann")
    idle, used = sessions.open(ann), sessions.open(ann)
    begin = clock.now
    for day in range(29):
        clock.now = begin + day * 86_400
        person, is_stale = sessions.find(used)
        assert person == ann, day
        assert is_stale == (day > 0)
        sessions.touch(used)
        assert (sessions.find(idle)[0] == ann) == (day <= 7)
    clock.now = begin + 30.1 * 86_400
    sessions.touch(used)
    assert sessions.find(used)[0] is None, "in use, and ended all the same"
    sessions.open(ann)
    with store.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM sessions")).scalar() == 1, (
            "those that ran out are forgotten"
        )


def test_the_server_s_secret_is_this_user_s_alone(state_folder):
    made = server_secret()
    path = state_folder / "strobe" / "review.secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]
    assert server_secret() == made
    path.chmod(0o644)
    with pytest.raises(StrobeError, match="other users can read"):
        server_secret()
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(StrobeError, match="expected a secret"):
        server_secret()
    path.unlink()
    assert server_secret() != made


@pytest.mark.parametrize("name", ["", " ", "<b>x</b>", "a\x00b", "a\nb", "x" * 41, "a\u202eb", '"; DROP', "-x", "a/b"])
def test_names_that_are_refused(name):
    with pytest.raises(InvalidValue, match="name: expected"):
        checked_name(name)


def test_notes():
    assert checked_note("1 < 2 <script>\nnext line") == "1 < 2 <script>\nnext line"
    for bad in ("\x00", "\x1b[31m", "x" * 1001, "\u202e"):
        with pytest.raises(InvalidValue, match="note: expected"):
            checked_note(bad)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_database_of_another_version_is_refused(database_url, version):
    database = Database(database_url)
    with database.write() as connection:
        connection.execute(text(f"UPDATE schema_version SET version = {version}"))
    database.close()
    with pytest.raises(StrobeError, match=f"has version {version}, and this strobe supports only version {VERSION}"):
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
    store.prepare(small, ReviewOptions(controls=0))
    with store.database.write() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        with sqlite3.connect(path) as other:
            assert other.execute("SELECT count(*) FROM verdicts").fetchone() == (0,)
        other.close()
    store.close()


def test_a_removed_or_replaced_file_takes_nothing(tmp_path, small, clock, cast_one):
    path = tmp_path / "review.sqlite"
    store = Store(f"sqlite:///{path}", clock=clock)
    store.prepare(small, ReviewOptions(controls=0))
    cast_one(store)
    path.rename(tmp_path / "away")
    with pytest.raises(StrobeError, match="removed or replaced"):
        cast_one(store)
    with pytest.raises(StrobeError, match="removed or replaced"):
        queue.claim(store, "ann", tab="tab", want=3)
    assert not path.exists(), "no empty one is made in its place"
    shutil.copy(tmp_path / "away", path)
    with pytest.raises(StrobeError, match="removed or replaced"):
        cast_one(store)
    path.unlink()
    (tmp_path / "away").rename(path)
    cast_one(store)
    assert len(list(store.all())) == 2
    store.close()


def test_a_file_removed_between_the_vote_and_its_commit_is_not_acknowledged(
    tmp_path, small, clock, cast_one, monkeypatch
):
    path = tmp_path / "review.sqlite"
    store = Store(f"sqlite:///{path}", clock=clock)
    store.prepare(small, ReviewOptions(controls=0))
    follow = counters.follow
    monkeypatch.setattr(counters, "follow", lambda *args: (follow(*args), path.unlink()))
    with pytest.raises(StrobeError, match="removed or replaced"):
        cast_one(store)
    store.close()


def test_another_store_under_the_same_address_takes_nothing(store, small, cast_one):
    cast_one(store)
    with store.database.write() as connection:
        connection.execute(text("UPDATE meta SET value = 'of another store' WHERE name = 'secret'"))
    with pytest.raises(StrobeError, match="removed or replaced"):
        cast_one(store)


def test_lost_tables_take_nothing(store, cast_one):
    # The counts are lost first: those follow the vote itself, which must not be kept without them.
    for lost, match in (("own_counts", "own_counts"), ("verdicts", "verdicts")):
        with store.database.write() as connection:
            connection.execute(text(f"DROP TABLE {lost}"))
        with pytest.raises(StrobeError, match=f"cannot be used: .*{match}"):
            cast_one(store)
        if lost != "verdicts":
            assert list(store.all()) == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_postgresql_that_was_restarted_is_asked_again(store, cast_one, monkeypatch):
    def restarted():
        cast_one(store)
        leases.release(store, "ann", tab="tab")  # now there are connections of each kind
        with store.database.read() as connection:
            gone = (
                "SELECT pid, pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database()"
            )
            assert len(connection.execute(text(f"{gone} AND pid <> pg_backend_pid()")).all()) == 2

    monkeypatch.setattr(database, "_IDLE_S", 1e9)
    restarted()
    with pytest.raises(StrobeError, match="cannot be used"):
        cast_one(store)
    assert len(list(store.all())) == 1, "what was refused is not there"
    cast_one(store)
    monkeypatch.setattr(database, "_IDLE_S", -1.0)
    restarted()
    cast_one(store)
    assert queue.claim(store, "ann", tab="tab", want=3)
    assert len(list(store.all())) == 4


def test_everyone_who_ever_answered_is_named(store, small):
    frame = small.frame_ids()[0]
    said = ["bo", "Bo", "ärni", "Zoë", "a b", "bo2"]
    for number, who in enumerate(said * 2):
        store.append(
            Verdict(verdict_id=f"{number}", annotator=who, at=f"2026-01-{number + 1:02d}", stage="pair", set_id="set0",
                    frame_id=frame, decision="similar")
        )  # fmt: skip
    assert store.names() == sorted(said)


def test_a_store_that_brings_code_is_refused(tmp_path, small):
    path = tmp_path / "review.sqlite"
    Store(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER come_in AFTER INSERT ON sessions BEGIN UPDATE sessions SET role = 'admin'; END"
        )
    connection.close()
    with pytest.raises(StrobeError, match="trigger or view"):
        Store(f"sqlite:///{path}")


def test_a_pipe_or_a_link_in_the_store_s_place_is_refused(small, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StrobeError, match="is not a file"):
        Store(f"sqlite:///{tmp_path / 'pipe'}")
    (tmp_path / "private.sqlite").write_bytes(b"")
    (small.root / "review.sqlite").symlink_to(tmp_path / "private.sqlite")
    with pytest.raises(StrobeError, match="is a link"):
        review.status(small.root)
    assert (tmp_path / "private.sqlite").read_bytes() == b""
