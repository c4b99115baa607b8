"""The vote store and the queue, on SQLite and on a real PostgreSQL; who may use a store, and where it lies."""

import itertools
import os
import shutil
import sqlite3
import threading
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from strobe.annexes.web.review import counters, database, leases, queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.database import Database
from strobe.annexes.web.review.log import Conflict
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.plan import plan
from strobe.annexes.web.review.schema import VERSION
from strobe.annexes.web.review.sessions import Sessions
from strobe.annexes.web.review.store import Store
from strobe.core.derivation import derive, is_clean
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.moments import timestamp
from strobe.core.records import Verdict
from strobe.core.user_secret import server_secret

_ids = count()


def vote(task, who, decision="similar", *, stage="pair", verdict_id=None, **fields):
    return Verdict(
        verdict_id=verdict_id or f"vote-{next(_ids)}",
        annotator=who,
        at="",
        stage="anchor" if task.kind == "anchor" else stage,
        set_id=task.set_id,
        frame_id=task.frame_id,
        decision=decision,
        **fields,
    )


def take(store, who, *, tab="tab", want=5):
    return [claimed.task for claimed in queue.claim(store, who, tab=tab, want=want)]


def finish(store, who, decide=lambda task: {}, *, tab="tab"):
    """Decide everything this person is given, as `decide` says; what they were given comes back."""
    seen = []
    while claimed := queue.claim(store, who, tab=tab, want=4):
        for one in claimed:
            store.cast([vote(one.task, who, stage=one.stage, **decide(one.task))])
            seen.append((one.stage, one.task.task_id))
    return seen


def test_a_vote_comes_back_as_it_was_cast(store):
    task = take(store, "ann")[0]
    cast = vote(
        task, "ann", "dissimilar", reason="blur", label_right=False, note="naïve <b>ü</b> '; DROP TABLE verdicts;--",
        seconds=1.25, page_version="7", labels=("n01", "n02"), bad_anchor=True,
    )  # fmt: skip
    (saved,) = store.cast([cast])
    assert saved.fresh
    assert list(store.all()) == [replace(cast, at=timestamp(store.clock()))]
    assert not store.append(saved.answer)


def test_a_replayed_vote_changes_nothing_and_another_content_is_refused(store):
    task = take(store, "ann")[0]
    cast = vote(task, "ann", verdict_id="once")
    assert [saved.fresh for saved in (*store.cast([cast]), *store.cast([cast]), *store.cast([cast]))] == [
        True, False, False,
    ]  # fmt: skip
    for changed in (replace(cast, decision="unsure"), replace(cast, annotator="bo"), replace(cast, note="x")):
        with pytest.raises(Conflict):
            store.cast([changed])
    assert len(list(store.all())) == 1


def test_votes_of_one_decision_are_kept_all_or_none(store):
    one, two = take(store, "ann", want=2)
    store.cast([vote(one, "ann", verdict_id="taken")])
    with pytest.raises(Conflict):
        store.cast([vote(two, "ann"), vote(two, "bo", verdict_id="taken")])
    assert len(list(store.all())) == 1


def test_time_never_runs_backwards(store, clock):
    one, two, three = take(store, "ann", want=3)
    first = store.cast([vote(one, "ann")])[0].answer.at
    clock.now -= 1000
    second = store.cast([vote(two, "ann"), vote(two, "bo")])
    third = store.cast([vote(three, "ann")])[0].answer.at
    assert first < second[0].answer.at < second[1].answer.at < third


def test_leases_are_returned_after_the_time_out(store, clock):
    first = take(store, "ann", want=12)
    assert take(store, "bo") == []
    clock.now += store.settings.lease_s + 1
    assert take(store, "bo", want=12) == first
    store.cast_each([[vote(first[0], "ann")]], check=leases.expect_asked)
    assert len(list(store.all())) == 1, "a vote that comes after its lease is still work done"


def test_two_tabs_of_one_person_get_different_pairs_and_share_the_rest(store):
    one = take(store, "ann", tab="one", want=8)
    two = take(store, "ann", tab="two", want=8)
    assert not {task.task_id for task in one} & {task.task_id for task in two[:4]}
    assert len({task.task_id for task in one + two}) == 12
    assert len(two) == 8, "when nothing new is left the second tab takes over what the first holds"


def test_round_one_gives_each_pair_to_one_person_and_no_round_two_without_doubt(store):
    seen = finish(store, "ann")
    assert len(seen) == len(set(seen)) == 12
    assert finish(store, "bo") == []
    assert queue.progress(store, "ann") == queue.ReviewProgress(
        tasks=12, tasks_open=0, anchors=0, anchors_open=0, verify=0, verify_mine=0, mine=12
    )


def test_round_two_shows_doubtful_pairs_to_everyone(store):
    doubtful = iter(["dissimilar", "unsure"])
    finish(store, "ann", lambda task: {"decision": next(doubtful, "similar")} if task.position < 2 else {})
    flagged = [claimed.task.position for claimed in queue.claim(store, "bo", tab="t", want=9)]
    assert sorted(flagged) == [0, 1]
    assert [v.annotator for v in store.all() if v.stage == "verify"] == ["ann", "ann"], "ann too, when she is through"
    for who in ("bo", "cy"):
        seen = finish(store, who)
        assert [stage for stage, _ in seen] == ["verify", "verify"]
        assert finish(store, who) == [], "each person once"


def test_label_stage_comes_before_the_pairs_of_its_set(database_url, small, clock):
    store = Store(database_url, clock=clock)
    store.prepare(small, ReviewOptions(labels=True, controls=0))
    first = queue.claim(store, "ann", tab="t", want=9)
    assert [claimed.stage for claimed in first] == ["anchor"] * 3
    store.cast([vote(first[0].task, "ann", labels=("n01", "n04"))])
    store.cast([vote(first[1].task, "ann", "dissimilar")])
    rest = queue.claim(store, "ann", tab="t", want=20)
    assert [claimed.stage for claimed in rest] == ["anchor", *["pair"] * 4]
    assert {claimed.task.set_id for claimed in rest[1:]} == {first[0].task.set_id}, "a bad anchor's pairs are not shown"
    store.close()


def test_controls_look_like_pairs_come_to_everyone_and_never_first(database_url, small, clock):
    store = Store(database_url, clock=clock)
    store.prepare(small, ReviewOptions(controls=0.5, votes=2))
    for who in ("ann", "bo"):
        seen = finish(store, who)
        kinds = [store.task(task_id).kind for _, task_id in seen]
        assert kinds.count("pair") == 12
        assert kinds.count("same") >= 1
        assert kinds.count("different") >= 1
        assert kinds[0] == "pair"
        assert {stage for stage, _ in seen} == {"pair"}
    store.close()


def test_joint_mode_records_each_members_vote(store):
    finish(store, "ann", lambda task: {"decision": "unsure"} if task.position < 3 else {})
    group = ["ann", "bo", "cy"]
    given = queue.claim_joint(store, group, want=9)
    assert len(given) == 3
    task = given[0].task
    store.cast([vote(task, who, "similar", stage="joint") for who in group])
    assert len(queue.claim_joint(store, group, want=9)) == 2
    assert len(queue.claim_joint(store, [*group, "di"], want=9)) == 3
    assert len([v for v in store.answers_on("task_id = :task", {"task": task.task_id}) if v.stage == "joint"]) == 3
    assert len(take(store, "bo", want=9)) == 2, "what was decided together is not asked again alone"


one_vote = st.tuples(
    st.sampled_from(["ann", "bo", "cy"]),
    st.integers(0, 11),
    st.sampled_from(["similar", "similar", "dissimilar", "unsure"]),
    st.sampled_from([True, True, False, None]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["pair", "verify"]),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(one_vote, max_size=25))
def test_the_queue_says_what_the_protocol_says(small, tmp_path_factory, drawn):
    """The counters kept vote by vote against the pure derivation and a plain reading of the rules of round two."""
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('queue') / 'review.sqlite'}")
    store.prepare(small, ReviewOptions(controls=0))
    tasks = sorted(
        (t for t in plan(small, secret=store.secret(), seed=0, controls=0) if t.kind == "pair"),
        key=lambda task: task.position,
    )
    for who, place, decision, right, bad, stage in drawn:
        store.cast([vote(tasks[place], who, decision, label_right=right, bad_anchor=bad, stage=stage)])
    votes = list(store.all())
    with store.database.read() as connection:
        rows = {row["task_id"]: row for row in connection.execute(text("SELECT * FROM tasks")).mappings()}
    store.close()
    if not votes:
        return
    derivation = derive(replace(small, verdicts=tuple(votes)))
    decided = zip(small.sets.set_id, derivation.kept_set, derivation.voted_set, strict=True)
    dropped = {str(name) for name, kept, seen in decided if seen and not kept}
    for task in tasks:
        row = rows[task.task_id]
        assert bool(row["held"]) == (task.set_id in dropped)
        first = {v.annotator: v for v in votes if v.stage == "pair" and v.frame_id == task.frame_id}
        everyone = {v.annotator: v for v in votes if v.frame_id == task.frame_id}
        assert bool(row["open1"]) == (not first and task.set_id not in dropped)
        doubtful = any(not is_clean(v) for v in first.values())
        accused = any(v.bad_anchor for v in everyone.values())
        assert bool(row["open2"]) == (doubtful and (task.set_id not in dropped or accused))


def test_a_store_belongs_to_one_dataset(store, helpers, tmp_path):
    other = helpers.make_dataset(tmp_path / "other", n_sets=2, images=False)
    with pytest.raises(StrobeError, match="belongs to another dataset"):
        store.prepare(other, ReviewOptions())


def test_many_threads_of_two_servers_claim_and_vote_without_meeting(store, database_url, small, clock):
    other = Store(database_url, clock=clock)
    other.prepare(small, store.settings)
    seen, errors = [], []

    def work(here, who):
        try:
            while tasks := take(here, who, want=2):
                for task in tasks:
                    here.cast([vote(task, who)])
                    seen.append(task.task_id)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=((store, other)[i % 2], f"p{i}")) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    other.close()
    assert errors == []
    assert len(seen) == len(set(seen)) == 12
    assert len(list(store.all())) == 12


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
