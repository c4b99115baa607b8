"""A set at a time on the server: whole sets are given, kept as one vote a pair, and walked back through as sets."""

import json
from dataclasses import replace

import numpy as np
import pytest

from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import Conduct, Example, ReviewOptions
from strobe.annexes.web.review.examples import plain_examples, read_examples
from strobe.core.codec import encode
from strobe.core.errors import StrobeError
from strobe.core.tables import Hints


def votes_on(card, decision, start=0, **marks):
    """The body of a decision on a set: similar, except what `marks` says by place."""
    votes = [decision(member, start + place) for place, member in enumerate(card["members"])]
    for place, fields in marks.items():
        votes[int(place[1:])] |= fields
    return {"votes": votes}


def test_whole_sets_are_given_and_never_to_two_people(helpers, tmp_path, run_server, claim, decision):
    data = helpers.make_dataset(tmp_path / "sets", n_sets=5, k=3)
    server = run_server(data, at_once="set")
    ann, bo = server.client("Ann"), server.client("Bo")
    hers, his = claim(ann, want=2)["tasks"], claim(bo, want=2)["tasks"]
    assert [len(card["members"]) for card in (*hers, *his)] == [6] * 4
    tasks = [member["task"] for card in (*hers, *his) for member in card["members"]]
    assert len(set(tasks)) == len(tasks) == 24
    shown = [server.store.task(member["task"]) for member in hers[0]["members"]]
    assert len({task.set_id for task in shown}) == 1
    assert [int(task.frame_id.split(":")[1]) for task in shown] == [0, 1, 2, 4, 5, 6], "in the order of the video"
    assert [card["task"] for card in claim(ann, want=2)["tasks"]] == [card["task"] for card in hers], "held"
    body = votes_on(hers[0], decision, p1={"decision": "dissimilar", "reason": "blur"})
    saved = ann.post("/api/decisions/set", json={"who": "Ann", **body}).json()
    assert saved == {"saved": [vote["verdict_id"] for vote in body["votes"]], "fresh": True}
    assert not ann.post("/api/decisions/set", json={"who": "Ann", **body}).json()["fresh"], "twice is once"
    assert [v.decision for v in server.store.all()] == ["similar", "dissimilar", *["similar"] * 4]
    left = claim(ann, want=3)["tasks"]
    assert [len(card["members"]) for card in left if "members" in card] == [6, 6]
    (second,) = [card for card in left if card["stage"] == "verify"] or [{"members": None}]
    assert "members" not in second or second["members"] is None, "a second look is at one pair"


def test_a_set_is_kept_whole_or_not_at_all(small, run_server, claim, decision):
    server = run_server(small, at_once="set")
    ann = server.client("Ann")
    card = claim(ann, want=1)["tasks"][0]
    body = votes_on(card, decision, p2={"reason": "blur"})  # a reason with similar
    assert ann.post("/api/decisions/set", json=body).status_code == 422
    body = votes_on(card, decision)
    body["votes"][3]["verdict_id"] = body["votes"][0]["verdict_id"]  # one id for two pairs
    assert ann.post("/api/decisions/set", json=body).status_code == 409
    assert list(server.store.all()) == []
    assert ann.post("/api/decisions/set", json={"who": "Bo", **votes_on(card, decision)}).status_code == 401
    assert ann.post("/api/decisions/set", json={"votes": []}).status_code == 422


def test_undo_elsewhere_walks_back_by_sets(helpers, tmp_path, run_server, claim, decision):
    data = helpers.make_dataset(tmp_path / "sets", n_sets=4, k=8)  # 64 pairs: more than a page of the log
    server = run_server(data, at_once="set")
    ann = server.client("Ann")
    names = []
    for number in range(4):
        (card, *_) = claim(ann, want=1)["tasks"]
        names.append(card["task"])
        marks = {f"p{number}": {"decision": "unsure", "note": "hm"}}
        assert ann.post("/api/decisions/set", json=votes_on(card, decision, 100 * number, **marks)).status_code == 200
    again = next(one for one in votes_on(card, decision, 900)["votes"])
    ann.post("/api/decisions/set", json={"votes": [again | {"decision": "dissimilar", "reason": "motion"}]})
    steps, before = [], ""
    while before is not None:
        found = ann.get(f"/api/history{before}").json()
        steps += found["decisions"]
        before = None if found["before"] is None else f"?before={found['before']}"
    order = list(dict.fromkeys(step["card"]["task"] for step in steps))
    assert order == names[::-1], "the latest first"
    first = steps[0]
    assert len(first["card"]["members"]) == len(first["decision"]["votes"]) == 16, "all of it, old and corrected"
    said = [first["decision"]["votes"][member["task"]] for member in first["card"]["members"]]
    assert [(one["decision"], one["note"]) for one in said[:4]] == [
        ("dissimilar", ""), ("similar", ""), ("similar", ""), ("unsure", "hm"),
    ]  # fmt: skip


def test_controls_stand_among_the_pairs_of_their_own_set(helpers, tmp_path, run_server, claim, decision):
    data = helpers.make_dataset(tmp_path / "sets", n_sets=6, k=4)
    server = run_server(data, at_once="set", controls=0.25)
    ann = server.client("Ann")
    kinds, number = [], 0
    while cards := [card for card in claim(ann, want=2)["tasks"] if "members" in card]:
        tasks = [server.store.task(member["task"]) for member in cards[0]["members"]]
        assert len({task.set_id for task in tasks}) == 1
        kinds.append([task.kind for task in tasks])
        keys = {frozenset(member) for member in cards[0]["members"]}
        assert len(keys) == 1, "nothing tells a control apart"
        ann.post("/api/decisions/set", json=votes_on(cards[0], decision, number))
        number += 100
    assert all(sum(kind != "pair" for kind in of_set) <= 1 for of_set in kinds)
    assert sum(kind != "pair" for of_set in kinds for kind in of_set) >= 4
    assert sum(kind == "pair" for of_set in kinds for kind in of_set) == 48


def test_what_was_done_today_is_counted_from_the_persons_own_midnight(small, run_server, decision):
    server = run_server(small, goal=5)
    ann = server.client("Ann")
    assert ann.get("/api/session").json()["goal"] == 5
    ask = {"tab": "tab-00000001", "want": 2}
    cards = ann.post("/api/claim", json=ask).json()["tasks"]
    ann.post("/api/decisions", json=decision(cards[0], 1))
    for since, counted in (("2020-01-01T00:00:00.000Z", 1), ("2999-01-01T00:00:00.000Z", 0)):
        assert ann.post("/api/claim", json={**ask, "since": since}).json()["progress"]["today"] == counted
    assert ann.post("/api/claim", json={**ask, "since": "yesterday"}).status_code == 422


def test_hints_are_words_and_only_where_they_are_asked_for(small, run_server, claim):
    n = len(small.sets.set)
    hints = Hints(
        cut=np.full(n, 0.4), blur=np.full(n, 1.2), motion=np.full(n, 4.4), exposure=np.full(n, -0.2),
        duplicate=np.ones(n, dtype=bool),
    )  # fmt: skip
    words = ["almost the same pixels", "a cut between the frames", "sharper", "moved by 4 % of the diagonal", "darker"]
    for when, found in (("before", words), ("after", words), ("never", [])):
        server = run_server(replace(small, hints=hints), hints=when)
        ann = server.client("Ann")
        assert ann.get("/api/session").json()["hints"] == when
        assert claim(ann)["tasks"][0]["hints"] == found
    assert run_server(small).client("Ann").get("/api/session").json()["hints"] == "never", "there are none"


def test_examples_come_from_a_file_of_votes_or_are_plain(small, tmp_path):
    lines = ["set,frame,decision,reason,note", "set0,vid0:1,similar,,the same", "set1,vid1:4,dissimilar,blur,look"]
    file = tmp_path / "examples.csv"
    file.write_text("\n".join(lines))
    first, second = read_examples(file, small)
    assert first == Example(set_id="set0", frame_id="vid0:1", decision="similar", note="the same")
    assert (second.decision, second.reason) == ("dissimilar", "blur")
    file.write_text("\n".join([*lines, "set0,vid1:1,similar,,"]))
    with pytest.raises(StrobeError, match="expected only pairs of this dataset"):
        read_examples(file, small)
    plain = plain_examples(small, 4, seed=0)
    assert [one.decision for one in plain] == ["similar", "dissimilar", "similar", "dissimilar"]
    assert all((one.frame_id.split(":")[0] == f"vid{one.set_id[-1]}") == (one.decision == "similar") for one in plain)
    assert plain_examples(small, 0, seed=0) == ()


def test_how_it_was_run_is_remembered(small, run_server):
    settings = {
        "at_once": "set",
        "hints": "before",
        "goal": 7,
        "guidelines": "# x",
        "examples": plain_examples(small, 2, seed=0),
    }
    server = run_server(small, **settings)
    conduct = server.store.conduct()
    assert conduct.settings == ReviewOptions(controls=0.0, **settings)
    figures = json.loads(json.dumps(review.status(small.root)))
    assert figures["conduct"] is None, "this folder's own store is another"
    assert Conduct.from_json(json.loads(json.dumps(encode(conduct)))) == conduct
