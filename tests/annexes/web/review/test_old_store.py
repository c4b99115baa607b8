"""A store of any earlier schema (store_v1.json, stores/: the rows of each, as the code of its day wrote them) works."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from strobe.annexes.web.review import leases, queue
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.schema import MIGRATIONS, migrate
from strobe.annexes.web.review.sessions import Sessions
from strobe.annexes.web.review.store import Store
from strobe.core.records import Verdict

STORES = {
    1: Path(__file__).parent / "store_v1.json",
    **{number: Path(__file__).parent / "stores" / f"store_v{number}.json" for number in range(2, max(MIGRATIONS))},
}
OLD = json.loads((Path(__file__).parent / "store_v1.json").read_text(encoding="utf-8"))


def laid_down(url, version, tables):
    """A database of that version with these rows."""
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        earlier = {number: MIGRATIONS[number] for number in range(1, version + 1)}
        assert migrate(connection, earlier) == version
        for table, rows in tables.items():
            columns = list(rows[0])
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES (:{', :'.join(columns)})"
            connection.execute(text(statement), rows)
    engine.dispose()


@pytest.fixture(params=[1, 2])
def old_url(database_url, request):
    """A database of an earlier version with the old store's rows, on each kind of database."""
    laid_down(database_url, request.param, OLD["tables"])
    return database_url


def test_its_sessions_and_keys_are_worthless(old_url):
    store = Store(old_url)
    for mode in ("open", "token", "invite"):
        sessions = Sessions(People(store), secret=b"ours", mode=mode)
        assert sessions.find(OLD["session"]) == (None, False)
        assert sessions.by_key(OLD["key"]) is None
    store.close()


@pytest.mark.parametrize("version", sorted(STORES))
def test_a_store_of_every_version_goes_on(database_url, small, clock, version):
    """Every answer to every question stays, counts as before, and what an open page held is still taken."""
    old = json.loads(STORES[version].read_text(encoding="utf-8"))
    tables = old["tables"]
    laid_down(database_url, version, tables)
    progress = old["progress"] if version > 1 else {"pairs": old["progress"]}
    clock.now += 1_000_000
    for ask, by_person in progress.items():
        store = Store(database_url, ask=ask, clock=clock)
        table, key = store.question.log.table, store.question.log.key
        assert [store.question.log.id_of(one) for one in store.all()] == [row[key] for row in tables[table]]
        store.prepare(small, store.conduct().settings)
        assert len(list(store.all())) == len(tables[table])
        for who, before in by_person.items():
            now = asdict(queue.progress(store, who))
            renamed = {name.replace("pairs", "tasks"): count for name, count in before.items()}
            assert now == {**now, **renamed, "today": 0}, ask
        store.close()
    store = Store(database_url, clock=clock)
    store.prepare(small, store.conduct().settings)
    held = [(row["task_id"], row["annotator"]) for row in tables["leases"]]
    assert held
    for number, (task_id, who) in enumerate(held):
        task = store.task(task_id)
        kind = Verdict(
            verdict_id=f"held-{number}", annotator=who, at="", stage="pair", set_id=task.set_id,
            frame_id=task.frame_id, decision="similar",
        )  # fmt: skip
        (outcome,) = store.cast_each([[kind]], check=leases.expect_asked)
        assert outcome[0].fresh
    store.close()


def test_every_version_so_far_has_a_store_here():
    """A new migration needs the rows of a store of the version before it."""
    assert all(path.is_file() for path in STORES.values())
    for number, path in STORES.items():
        assert json.loads(path.read_text(encoding="utf-8")).get("version", 1) == number
