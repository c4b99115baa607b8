"""What a card shows is what is decided, undo shows what one said last, and progress says what is left for whom."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from strobe.annexes.web.review import queue
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.store import Store
from strobe.core.derivation import derive
from strobe.core.records import Verdict
from strobe.core.tables import Labels

_ids = count()


def vote(task, who, decision="similar", *, stage="pair", **fields):
    return Verdict(
        verdict_id=f"vote-{next(_ids):06}", annotator=who, at="", stage=stage, set_id=task.set_id,
        frame_id=task.frame_id, decision=decision, **fields,
    )  # fmt: skip


def finish(store, who, decide=lambda claimed: {}):
    """Decide everything this person is given."""
    while claimed := queue.claim(store, who, tab="t", want=4):
        for one in claimed:
            store.cast([vote(one.task, who, stage=one.stage, **decide(one))])


# -- labels on the card -----------------------------------------------------------------------------------------------


def own_labels(data):
    """Members scored by their own labels: one is also a person, one has none, one is a dog."""
    labels = {row: {int(label)} for row, label in zip(data.labels.frame, data.labels.label, strict=True)}
    labels[0], labels[1], labels[4] = {0, 3}, set(), {1}
    rows = sorted((frame, label) for frame, found in labels.items() for label in found)
    table = np.array(rows)
    return replace(
        data,
        info=replace(data.info, label_source="frame"),
        labels=Labels(frame=table[:, 0].astype(np.int32), label=table[:, 1].astype(np.int32)),
    )


@pytest.mark.parametrize(
    "listed", [[("n01", "n03")], [("n03",)], [("n01", "n02"), ("n01", "n03"), ("n01", "n03")], [("n01",), ("n02",)], []]
)
def test_a_pair_shows_the_labels_that_would_be_kept(small, run_server, listed):
    data = own_labels(small)
    server = run_server(data, labels=True, votes=1)
    ann = server.client("Ann")
    tasks = {}
    for number, labels in enumerate(listed or [()]):
        anchor = Verdict(
            verdict_id=f"anchor-vote-{number}", annotator=f"P{number}", at="", stage="anchor", set_id="set0",
            frame_id="vid0:2", decision="similar", labels=labels,
        )  # fmt: skip
        server.store.cast([anchor])
    for claimed in queue.claim(server.store, "Ann", tab="tab-00000001", want=20):
        tasks[claimed.task.task_id] = claimed.task
    cards = ann.post("/api/claim", json={"tab": "tab-00000001", "want": 12}).json()["tasks"]
    kept = replace(data, labels=derive(replace(data, verdicts=tuple(server.store.all()))).labels)
    pairs = [card for card in cards if card["stage"] == "pair"]
    assert len(pairs) == 4
    row = {name: place for place, name in enumerate(data.frame_ids())}
    for card in pairs:
        shown = [label["id"] for label in card["neighbour_labels"]]
        assert shown == [
            data.info.label_space.ids[label] for label in kept.labels_of(row[tasks[card["task"]].frame_id])
        ]
        assert [label["id"] for label in card["labels"]] == [data.info.label_space.ids[n] for n in kept.labels_of(2)]


# -- undo -------------------------------------------------------------------------------------------------------------


def said(store, who):
    return [(task.task_id, verdict.decision) for _, verdict, task in store.history(who)]


def test_undo_never_shows_a_vote_that_was_overtaken_together(store):
    one, two, *_ = [c.task for c in queue.claim(store, "ann", tab="t", want=12)]
    store.cast([vote(one, "ann", "unsure"), vote(two, "ann")])
    store.cast([vote(one, who, "dissimilar", stage="joint") for who in ("ann", "bo")])
    assert said(store, "ann") == [(two.task_id, "similar")]
    store.cast([vote(one, "ann", "similar", stage="verify")])
    assert said(store, "ann") == [(one.task_id, "similar"), (two.task_id, "similar")]


# -- progress ---------------------------------------------------------------------------------------------------------


def open_for(store, who):
    return queue.progress(store, who).open_for_me


def test_what_is_left_for_others_is_not_open_for_me(database_url, small, clock):
    store = Store(database_url, clock=clock)
    store.prepare(small, ReviewOptions(controls=0.5, votes=2))
    assert open_for(store, "ann") == 12
    finish(store, "ann")
    counts = queue.progress(store, "ann")
    assert (counts.tasks_open, counts.open_for_me) == (12, 0), "twelve pairs need another annotator"
    assert open_for(store, "bo") == 12
    finish(store, "bo")
    assert open_for(store, "bo") == 0
    store.close()


def test_what_another_holds_may_still_come_to_me(store, clock):
    held = queue.claim(store, "bo", tab="t", want=12)
    assert queue.claim(store, "ann", tab="t", want=12) == []
    assert open_for(store, "ann") == 12, "when bo's leases run out"
    clock.now += store.settings.lease_s + 1
    assert len(queue.claim(store, "ann", tab="t", want=12)) == len(held)
    assert open_for(store, "ann") == 12


def test_round_two_is_open_until_i_voted(store):
    doubtful = iter(range(3))
    finish(
        store, "ann", lambda c: {"decision": "unsure"} if c.stage == "pair" and next(doubtful, None) is not None else {}
    )
    assert open_for(store, "ann") == 0
    assert open_for(store, "bo") == queue.progress(store, "bo").verify == 3
    finish(store, "bo")
    assert open_for(store, "bo") == 0


def test_pairs_that_wait_for_their_anchors_labels_are_open(database_url, small, clock):
    store = Store(database_url, clock=clock)
    store.prepare(small, ReviewOptions(controls=0, labels=True))
    assert open_for(store, "ann") == 15
    anchors = queue.claim(store, "bo", tab="t", want=3)
    assert [c.stage for c in anchors] == ["anchor"] * 3
    assert open_for(store, "ann") == 15
    store.cast([vote(anchors[0].task, "bo", stage="anchor")])
    assert open_for(store, "ann") == 14
    store.cast([vote(anchors[1].task, "bo", "dissimilar", stage="anchor")])
    assert open_for(store, "ann") == 9, "a bad anchor's pairs do not come"
    store.close()


def test_the_claim_says_what_is_open_for_me(small, run_server):
    server = run_server(small, votes=2)
    ann = server.client("Ann")
    number = 0
    while cards := (answer := ann.post("/api/claim", json={"tab": "tab-00000001", "want": 12}).json())["tasks"]:
        assert answer["progress"]["open_for_me"] == 12 - number
        for card in cards[:5]:
            number += 1
            body = {"verdict_id": f"decision-{number:04}", "task": card["task"], "stage": card["stage"]}
            ann.post("/api/decisions", json={**body, "decision": "similar"})
    assert answer["progress"]["open_for_me"] == 0
    assert answer["progress"]["tasks_open"] == 12
