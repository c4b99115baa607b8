"""The vote store and the queue, the same tests on SQLite and on a real PostgreSQL."""

import threading
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from strobe.annexes.web.review import leases, queue
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.log import Conflict
from strobe.annexes.web.review.plan import plan
from strobe.annexes.web.review.store import Store
from strobe.core.derivation import derive, is_clean
from strobe.core.errors import StrobeError
from strobe.core.moments import timestamp
from strobe.core.records import Verdict

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


def test_no_two_people_get_the_same_pair(store):
    given = [take(store, who, want=4) for who in ("ann", "bo", "cy")]
    assert len({task.task_id for tasks in given for task in tasks}) == 12
    assert take(store, "di") == []


def test_a_claim_repeated_by_the_same_tab_gives_the_same_pairs(store):
    first = take(store, "ann", want=3)
    assert take(store, "ann", want=3) == first
    assert len(take(store, "ann", want=5)) == 5


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


def test_history_is_what_undo_walks_through(store):
    finish(store, "ann")
    newest = store.history("ann", limit=5)
    older = store.history("ann", before=newest[-1][0], limit=50)
    assert len(newest) == 5
    assert len(older) == 7
    assert newest[0][0] > newest[-1][0] > older[0][0]
    assert store.history("bo") == []


def test_seeded_order(small):
    def order(seed):
        tasks = plan(small, secret=b"s", seed=seed, controls=0)
        return [task.frame_id for task in sorted(tasks, key=lambda task: task.position) if task.kind == "pair"]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))


def test_everything_is_there_after_reopening(database_url, small, clock):
    store = Store(database_url, clock=clock)
    store.prepare(small, ReviewOptions(controls=0))
    tasks = take(store, "ann", want=3)
    store.cast([vote(tasks[0], "ann", "unsure")])
    before, counts = list(store.all()), queue.progress(store, "ann")
    store.close()
    again = Store(database_url, clock=clock)
    again.prepare(small, ReviewOptions(controls=0))
    assert list(again.all()) == before
    assert queue.progress(again, "ann") == counts
    assert take(again, "bo", want=12) != []
    assert not {task.task_id for task in take(again, "bo", want=12)} & {tasks[1].task_id, tasks[2].task_id}, (
        "leases live through a restart"
    )
    again.close()


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


def test_votes_from_the_folder_are_taken_in_once(database_url, small, clock):
    imported = replace(vote(plan(small, secret=b"x", seed=0, controls=0)[0], "ann"), at=timestamp(clock.now - 5))
    store = Store(database_url, clock=clock)
    for _ in range(2):
        store.prepare(replace(small, verdicts=(imported,)), ReviewOptions(controls=0))
    assert list(store.all()) == [imported]
    assert store.extend([imported]) == 0
    assert len(take(store, "bo", want=12)) == 11
    assert store.history("ann")[0][1] == imported
    store.close()


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
