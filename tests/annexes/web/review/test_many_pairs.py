"""A review of many pairs: what is asked of the store costs what it touches, and what is counted is what is there."""

import random
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import text

from strobe.annexes.web.review import leases, queue, tally
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.question import question_named
from strobe.annexes.web.review.questions import QUESTIONS
from strobe.annexes.web.review.store import Store
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folders

PEOPLE = ("Ann", "Bo", "Cy")


def vote(number, task, who, *, stage="pair", decision="similar", **fields):
    return Verdict(
        verdict_id=f"v{number}", annotator=who, at="", stage="anchor" if task.kind == "anchor" else stage,
        set_id=task.set_id, frame_id=task.frame_id, decision=decision, **fields,
    )  # fmt: skip


def kept(store):
    """The counts as they are kept, without those that came to nothing."""
    with store.database.read() as connection:
        rows = [
            tuple(row)
            for table in ("counts", "own_counts")
            for row in connection.execute(text(f"SELECT * FROM {table}"))
        ]
    return sorted(row for row in rows if any(value for value in row if isinstance(value, int)))


def counted(store):
    """The same counted anew."""
    with store.database.write() as connection:
        kins = getattr(store.question, "mixed", False)
        tally.renew(connection, store.settings, store.question.name, kins=kins)
    return kept(store)


@pytest.mark.parametrize(
    "chosen",
    [
        {"votes": 2, "controls": 0.3},
        {"votes": 1, "labels": True, "controls": 0},
        {"votes": 2, "labels": True, "at_once": "set"},
    ],
    ids=["twice", "labels", "labels by set"],
)
def test_what_is_kept_is_what_is_counted(database_url, small, clock, chosen):
    store = Store(database_url, clock=clock)
    store.prepare(small, ReviewOptions(**chosen))
    rng = random.Random(7)
    number = 0
    for _ in range(25):
        who = rng.choice(PEOPLE)
        past = [task for _, _, task in store.history(who, limit=3)]
        for claimed in queue.claim(store, who, tab="tab", want=rng.randint(1, 3)):
            if rng.random() < 0.3:
                continue
            number += 1
            bad, doubtful = rng.random() < 0.1, rng.random() < 0.3
            fields = {"decision": "dissimilar", "reason": "blur"} if doubtful else {}
            if claimed.stage == "anchor":
                fields = {"decision": "dissimilar" if bad else "similar", "labels": ("n01",)}
            elif bad:
                fields = {"decision": "dissimilar", "bad_anchor": True}
            store.cast([vote(number, claimed.task, who, stage=claimed.stage, **fields)])
        for task in past[:1]:  # they change their mind
            number += 1
            store.cast([vote(number, task, who)])
    found = kept(store)
    assert found == counted(store)
    votes = list(store.all())
    progress = {who: queue.progress(store, who, since="2000") for who in PEOPLE}
    store.prepare(small, store.settings)
    assert kept(store) == found, "as made anew from the votes"
    for who in PEOPLE:
        assert queue.progress(store, who, since="2000") == progress[who]
        assert progress[who].mine == len({(v.set_id, v.frame_id, v.stage == "anchor", v.stage in ("verify", "joint"))
                                          for v in votes if v.annotator == who})  # fmt: skip
    store.close()


def test_names_are_counted_by_kin(database_url, small, clock):
    from strobe.core.people import NameAnswer

    store = Store(database_url, ask="name", clock=clock)
    store.prepare(small, ReviewOptions(practice=0, controls=0))
    for number, who in enumerate(PEOPLE * 2):
        for claimed in queue.claim(store, who, tab="tab", want=1):
            answer = NameAnswer(
                answer_id=f"a{number}", annotator=who, at="", frame_id=claimed.task.frame_id, said="none"
            )
            store.cast([answer])
        found = kept(store)
        assert found == counted(store)
        with store.database.read() as connection:
            whole = tally.whole_counts(connection, "name")
            every = "SELECT count(DISTINCT kin) FROM tasks WHERE question = 'name' AND open1 = 1"
            assert whole[tally.KIN]["open1"] == connection.execute(text(every)).scalar()
    store.close()


class Watched:
    """A store on SQLite whose statements are looked at."""

    def __init__(self, url, small, clock, settings):
        self.store = Store(url, clock=clock)
        self.store.prepare(small, settings)
        self.said = []
        for raw in self._raw():
            raw.set_trace_callback(self.said.append)

    def _raw(self):
        """SQLite's own connections: one of each kind, as all is done on one thread."""
        database = self.store.database
        for engine in (database._writer, database._passing, database._reader):
            with engine.connect() as connection:
                yield connection.connection.driver_connection

    def plans(self):
        """How SQLite goes about each statement said so far."""
        out = []
        with self.store.database.read() as connection:
            for statement in list(self.said):
                if statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE"):
                    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}").all()
                    out += [(row[3], statement) for row in plan]
        self.said.clear()
        return out

    def steps(self, act):
        """How many steps of SQLite's machine something takes, to the hundred: what it touches, whatever the clock."""
        found = [0]

        def one():
            found[0] += 1

        for raw in self._raw():
            raw.set_progress_handler(one, 100)
        act()
        for raw in self._raw():
            raw.set_progress_handler(None, 100)
        return found[0]


@pytest.fixture
def watched(tmp_path, helpers, clock):
    """Makes watched stores of datasets of a size."""
    made = []

    def make(n_sets, **chosen):
        data = helpers.make_dataset(tmp_path / f"data{n_sets}", n_sets=n_sets, k=5, images=False)
        made.append(Watched(f"sqlite:///{tmp_path / f'{n_sets}.sqlite'}", data, clock, ReviewOptions(**chosen)))
        return made[-1]

    yield make
    for one in made:
        one.store.close()


def act(store, number):
    """What one visit of the page asks of the store: a claim, the counts, a decision."""
    claimed = queue.claim(store, "Ann", tab="tab", want=3)
    queue.progress(store, "Ann", since="2000-01-01T00:00:00.000Z")
    fields = {"decision": "dissimilar", "bad_anchor": True} if number == 3 else {}
    store.cast([vote(number, claimed[0].task, "Ann", **fields)])
    store.task(claimed[-1].task.task_id)
    leases.release(store, "Ann", tab="tab")


def test_no_statement_of_a_visit_goes_through_a_whole_table(watched):
    one = watched(3, votes=2, controls=0.2, labels=True)
    for number in range(5):
        act(one.store, number)
    store = one.store
    for claimed in queue.claim(store, "Bo", tab="tab", want=12):
        store.cast([vote(f"b{claimed.task.task_id}", claimed.task, "Bo", decision="dissimilar")])
    store.history("Ann")
    plans = one.plans()
    assert len(plans) > 50
    small = ("counts", "own_counts", "CONSTANT ROW", "meta")
    slow = {
        (plan, said) for plan, said in plans if plan.startswith("SCAN") and not plan.split(" ", 1)[1].startswith(small)
    }
    assert {said for _, said in slow} <= {"SELECT at FROM verdicts ORDER BY at DESC LIMIT 1"}, "the end of an index"


def test_a_visit_touches_as_much_of_a_large_review_as_of_a_small_one(watched):
    steps = {}
    for n_sets in (20, 400):
        one = watched(n_sets, votes=1, controls=0.1)
        act(one.store, 0)
        steps[n_sets] = one.steps(lambda store=one.store: [act(store, number) for number in range(1, 5)])
    assert 0 < steps[400] <= 1.3 * steps[20]


def test_a_visit_is_few_statements(watched):
    """Every statement is a message to PostgreSQL and back, and who comes meanwhile waits."""
    one = watched(20, votes=1, controls=0.1)
    act(one.store, 0)
    store, since, took = one.store, "2000-01-01T00:00:00.000Z", {"claim": [], "progress": [], "decision": []}

    def counted_as(what, act):
        one.said.clear()
        out = act()
        took[what].append(len(one.said))
        return out

    for number in range(1, 13):
        (first, *_) = counted_as("claim", lambda: queue.claim(store, "Ann", tab="tab", want=6))
        counted_as("progress", lambda: queue.progress(store, "Ann", since=since))
        decided = [[vote(number, first.task, "Ann")]]
        counted_as("decision", lambda decided=decided: store.cast_each(decided, check=leases.expect_asked))
    # BEGIN and COMMIT among them; a claim with a control asks for one of each kind too.
    assert {what: max(found) for what, found in took.items()} == {"claim": 11, "progress": 5, "decision": 15}


def test_a_second_start_lays_nothing_out(database_url, small, clock):
    settings, content = ReviewOptions(), folders.content(small.root)
    store = Store(database_url, clock=clock)
    assert not store.is_laid_out(settings, content)
    store.prepare(small, settings, content=content)
    claimed = queue.claim(store, "Ann", tab="tab", want=2)
    store.cast([vote(0, claimed[0].task, "Ann")])
    before = kept(store)

    def rows():
        with store.database.read() as connection:
            return sorted(tuple(row) for row in connection.execute(text("SELECT * FROM tasks")))

    # What nothing but laying out would put right: a second start must not come to it.
    with store.database.write() as connection:
        connection.execute(text("UPDATE tasks SET condition = 'untouched'"))
    untouched = rows()
    again = replace(settings, goal=5, guidelines="Look twice.", lease_s=60.0, show_votes=True)
    assert store.is_laid_out(again, content)
    store.prepare(None, again, content=content)
    assert rows() == untouched
    assert store.conduct().settings == again, "remembered all the same"
    assert kept(store) == before

    assert not store.is_laid_out(replace(settings, votes=2), content)
    store.prepare(small, replace(settings, votes=2), content=content)
    assert {row[-1] for row in rows()} == {""}, "other settings lay out anew"
    with store.database.read() as connection:
        assert tally.whole_counts(connection, "pairs")["pair"]["open1"] == 12, "one vote is not enough now"
    store.prepare(small, settings)
    assert not store.is_laid_out(settings, content), "who does not say what is laid out is not believed later"
    store.close()


def test_votes_that_come_with_the_folder_are_taken_in(database_url, small, clock):
    settings = ReviewOptions(controls=0)
    store = Store(database_url, clock=clock)
    before = folders.content(small.root)
    store.prepare(small, settings, content=before)
    tasks = [one.task for one in queue.claim(store, "Ann", tab="tab", want=2)]
    other = replace(vote("elsewhere", tasks[0], "Bo"), at="2026-01-01T00:00:00.000Z")
    data = folders.append_verdicts(small.root, [other])
    content = folders.content(small.root)
    assert content[0] == before[0], "votes leave the tables as they are"
    assert content[1] != before[1]
    names = Store(database_url, ask="name", clock=clock)
    names.prepare(data, ReviewOptions(practice=0), content=content)
    assert [one.verdict_id for one in store.all()] == ["velsewhere"]
    names.close()
    assert not store.is_laid_out(settings, content)
    store.prepare(data, settings, content=content)
    assert store.is_laid_out(settings, content)
    assert queue.progress(store, "Bo").mine == 1
    assert queue.progress(store, "Bo").tasks_open == 11
    assert kept(store) == counted(store)
    store.close()


def test_an_export_leaves_nothing_to_take_in(small, clock):
    settings = ReviewOptions(controls=0)
    store = Store(f"sqlite:///{small.root / 'review.sqlite'}", clock=clock)
    store.prepare(small, settings, content=folders.content(small.root))
    tasks = [one.task for one in queue.claim(store, "Ann", tab="tab", want=2)]
    store.cast([vote(0, tasks[0], "Ann")])
    review.export(small.root)
    assert store.is_laid_out(settings, folders.content(small.root))
    other = replace(vote("elsewhere", tasks[1], "Bo"), at="2026-01-01T00:00:00.000Z")
    folders.append_verdicts(small.root, [other])
    review.export(small.root)
    assert not store.is_laid_out(settings, folders.content(small.root)), "a vote that is not here yet"
    store.close()


def test_names_lie_where_the_tables_say(small):
    rng = np.random.default_rng(1)
    order = rng.permutation(len(small.frames))
    rank = np.argsort(order)
    frames = replace(small.frames, **{name: getattr(small.frames, name)[order] for name in ("video", "index", "key")})
    labels = replace(small.labels, frame=rank[small.labels.frame][::-1].copy(), label=small.labels.label[::-1].copy())
    mixed = replace(small, frames=frames, labels=labels, sets=replace(small.sets, frame=rank[small.sets.frame]))
    for data in (small, mixed):
        places, ids, members = TableLookup(data), data.frame_ids(), data.candidates()
        by_frame = data.labels.by_frame()
        for row, name in enumerate(ids):
            assert places.frame(name) == row
            assert places.frame_id(row) == name
            assert places.labels(row) == frozenset(by_frame[row])
            assert places.sets_of(row) == [
                data.sets.set_id[number]
                for number, frame in zip(data.sets.set, data.sets.frame, strict=True)
                if frame == row
            ]
            for set_id in data.sets.set_id:
                assert places.member(set_id, name) == members.get((set_id, name))
        for number, set_id in enumerate(data.sets.set_id):
            assert places.anchor(set_id) == data.sets.anchor_frame[number]
        for wrong in ("", "vid0", "vid0:", "vid0:x", "vid0:00", "vid0:99", "vid1:-1", "other:0", "vid0:²"):
            assert places.find(wrong) is None


def test_a_picture_goes_by_a_name_that_only_this_server_can_read(small):
    ours, theirs = (FrameImages(small, None, secret=secret) for secret in (b"ours", b"theirs"))
    names = [ours.name(row) for row in range(len(small.frames))]
    assert [ours.row(name) for name in names] == list(range(len(small.frames)))
    assert len({name[:8] for name in names}) == len(names), "rows in turn have names that are not"
    assert [theirs.row(name) for name in names] == [None] * len(names)
    for wrong in ("", "0" * 32, names[0].upper(), names[0][:-1], names[0] + "0", names[0][16:] + names[0][:16]):
        assert ours.row(wrong) is None
    assert ours.row(ours.name(len(small.frames))) is None, "a row that is not there"
    moved = replace(small, frames=replace(small.frames, index=small.frames.index + 1))
    assert FrameImages(moved, None, secret=b"ours").row(names[0]) is None, "what a browser kept is of other frames"


def test_the_tables_of_the_questions_are_those_of_their_logs():
    assert all(question_named(name).log.table == one.table for name, one in QUESTIONS.working().items())
