"""Nobody sees own doubtful pairs again in the same sitting."""

from dataclasses import replace

from strobe.annexes.web.review import queue
from strobe.core.records import Verdict


def test_own_pairs_come_back_after_an_hour(store, clock, monkeypatch):
    monkeypatch.setattr(queue, "REST_S", 3600.0)
    unsure = Verdict(verdict_id="", annotator="ann", at="", stage="pair", set_id="", frame_id="", decision="unsure")
    number = 0
    while claimed := queue.claim(store, "ann", tab="t", want=12):
        for task in (one.task for one in claimed):
            number += 1
            vote = replace(unsure, verdict_id=f"vote-{number}", set_id=task.set_id, frame_id=task.frame_id)
            store.cast([vote])
    counts = queue.progress(store, "ann")
    assert (number, counts.open_for_me, counts.resting) == (12, 12, 12)
    assert len(queue.claim(store, "bo", tab="u", want=12)) == 12, "others see these pairs for the first time"
    assert len(queue.claim_joint(store, ["ann"], want=12)) == 12, "a group may decide at once"
    clock.now += 3601
    assert [claimed.stage for claimed in queue.claim(store, "ann", tab="t", want=12)] == ["verify"] * 12
    assert queue.progress(store, "ann").resting == 0
