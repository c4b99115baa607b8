"""Where is it? on the server: who gets which image, what is refused, what disagrees, what comes out."""

import json
from dataclasses import replace

import pytest

BOX, NEAR, FAR = [40, 30, 140, 130], [42, 30, 142, 130], [150, 100, 300, 190]


@pytest.fixture
def say(claim):
    """Answers the image a person is given next; the card and the answer of the server."""
    number = iter(range(10_000))

    def one(client, box=BOX, *, task=None, **fields):
        card = task or claim(client)["tasks"][0]
        body = {
            "answer_id": f"answer-{next(number):08}", "task": card["task"], "stage": card["stage"],
            "label": card["labels"][0]["id"], "decision": "keep" if box else "discard", "xyxy": box,
            "reason": "" if box else "absent", "seconds": 2.5, "page_version": "abc123", **fields,
        }  # fmt: skip
        return card, client.post("/api/decisions", json=body)

    return one


def test_two_people_box_every_picture_and_only_what_disagrees_comes_again(small, run_server, say, claim):
    server = run_server(small, ask="box", votes=2)
    ann, bo = server.client("Ann"), server.client("Bo")
    first = claim(ann)
    assert len(first["tasks"]) == 3, "the anchors, each once"
    assert first["progress"]["tasks"] == 3
    names = {}
    for card in first["tasks"]:
        assert say(ann, task=card)[1].status_code == 200
    boxes = iter([NEAR, FAR, None])
    while tasks := [card for card in claim(bo)["tasks"] if card["stage"] == "draw"]:
        names[tasks[0]["task"]] = box = next(boxes)
        assert say(bo, box, task=tasks[0])[1].json()["fresh"] is True
    again = {card["task"] for card in claim(ann)["tasks"]}
    assert again == {name for name, box in names.items() if box is not NEAR}
    assert all(card["stage"] == "verify" for card in claim(bo)["tasks"])
    for client in (ann, bo):
        for card in claim(client)["tasks"]:
            say(client, BOX, task=card)
    assert claim(ann)["tasks"] == claim(bo)["tasks"] == []
    assert claim(ann)["progress"]["open_for_me"] == 0
    words = list(server.store.all())
    assert len(words) == 10
    assert len({(word.annotator, word.frame_id, word.stage) for word in words}) == 10, "none twice"
    assert [word.xyxy for word in words if word.stage == "verify"] == [tuple(BOX)] * 4


def test_one_picture_is_not_given_to_more_people_than_asked_for(small, run_server, claim):
    server = run_server(small, ask="box", votes=1)
    ann, bo = claim(server.client("Ann"), want=2), claim(server.client("Bo"), want=6)
    assert {card["task"] for card in ann["tasks"]} & {card["task"] for card in bo["tasks"]} == set()
    assert len(ann["tasks"]) + len(bo["tasks"]) == 3


NO_ANSWERS = [
    ({"xyxy": [40, 30, 40, 130]}, "no area"),
    ({"xyxy": [140, 30, 40, 130]}, "no area"),
    ({"xyxy": [40, 30, 321, 130]}, "not inside the image of 320×200"),
    ({"xyxy": [40, 30, 140, 201]}, "not inside"),
    ({"xyxy": [-1, 30, 140, 130]}, "invalid fields: xyxy"),
    ({"xyxy": [1.5, 30, 140, 130]}, "invalid fields: xyxy"),
    ({"xyxy": [1, 30, 140]}, "invalid fields: xyxy"),
    ({"xyxy": ["1", 30, 140, 150]}, "invalid fields: xyxy"),
    ({"xyxy": None}, "BoxAnswer.xyxy: expected a box"),
    ({"label": "no such class"}, "no such class"),
    ({"label": "person"}, "expected a class of this image"),
    ({"decision": "discard"}, "a discarded image has no box"),
    ({"decision": "discard", "xyxy": None}, "BoxAnswer.reason: expected a reason"),
    ({"decision": "discard", "xyxy": None, "reason": "bored"}, "invalid fields: reason"),
    ({"reason": "absent"}, "BoxAnswer.reason: expected empty"),
    ({"stage": "pair"}, "invalid fields: stage"),
    ({"suggested": True}, "invalid fields: suggested"),
    ({"note": "a\u202eb"}, "note"),
]


def test_what_is_no_answer_is_refused_and_nothing_kept(small, run_server, say, claim):
    server = run_server(small, ask="box")
    ann = server.client("Ann")
    card = claim(ann)["tasks"][0]
    for change, why in NO_ANSWERS:
        _, answer = say(ann, task=card, **change)
        assert answer.status_code == 422, change
        assert why in answer.json()["error"], change
    assert list(server.store.all()) == []


def test_the_same_answer_twice_is_one_and_another_under_its_name_is_refused(small, run_server, say, claim):
    server = run_server(small, ask="box")
    ann = server.client("Ann")
    card, first = say(ann, answer_id="the-very-same")
    assert first.json() == {"saved": "the-very-same", "fresh": True}
    assert say(ann, task=card, answer_id="the-very-same")[1].json()["fresh"] is False
    assert say(ann, NEAR, task=card, answer_id="the-very-same")[1].status_code == 409
    assert say(ann, NEAR, task=card)[1].status_code == 200, "another word on it, which counts"
    assert [word.xyxy for word in server.store.all()] == [tuple(BOX), tuple(NEAR)]
    past = ann.get("/api/history").json()["decisions"]
    assert [one["decision"]["xyxy"] for one in past] == [NEAR], "one image, one step back"


def test_a_suggestion_taken_as_it_is_is_known_without_being_told(small, run_server, say, claim):
    frame = small.frame_ids()[int(small.sets.anchor_frame[0])]
    server = run_server(small, ask="box", suggestions={frame: tuple(FAR)})
    ann = server.client("Ann")
    cards = claim(ann)["tasks"]
    assert sorted(card["suggestion"] is not None for card in cards) == [False, False, True]
    for card in cards:
        say(ann, card["suggestion"] or FAR, task=card)
    assert {word.frame_id for word in server.store.all() if word.suggested} == {frame}


def test_earlier_boxes_are_shown_in_round_two_only_where_asked_for(small, run_server, say, claim):
    for shown in (False, True):
        server = run_server(small, ask="box", votes=2, show_votes=shown)
        ann, bo = server.client("Ann"), server.client("Bo")
        card, _ = say(ann, BOX)
        (same,) = [one for one in claim(bo)["tasks"] if one["task"] == card["task"]]
        assert same["votes"] == []
        say(bo, FAR, task=same)
        (again,) = [one for one in claim(ann)["tasks"] if one["stage"] == "verify"]
        assert [vote["xyxy"] for vote in again["votes"]] == ([FAR] if shown else [])


def test_how_much_overlap_is_asked_for(small, run_server, say, claim):
    for agree, rounds in ((0.99, 1), (0.5, 0)):
        server = run_server(small, ask="box", votes=2, agree=agree)
        ann, bo = server.client("Ann"), server.client("Bo")
        card, _ = say(ann, BOX)
        (same,) = [one for one in claim(bo)["tasks"] if one["task"] == card["task"]]
        say(bo, NEAR, task=same)
        assert sum(one["stage"] == "verify" for one in claim(ann)["tasks"]) == rounds


def test_a_picture_of_unknown_size_is_looked_at(small, run_server, say):
    nothing = small.frames.width * 0
    unknown = replace(small, frames=replace(small.frames, width=nothing, height=nothing))
    server = run_server(unknown, ask="box")
    ann = server.client("Ann")
    assert say(ann, [0, 0, 320, 200])[1].status_code == 200
    assert "320×200" in say(ann, [0, 0, 321, 200])[1].json()["error"]


def test_the_counters_made_anew_say_the_same(small, run_server, say, claim, database_url):
    server = run_server(small, ask="box", votes=2, url=database_url)
    ann, bo = server.client("Ann"), server.client("Bo")
    card, _ = say(ann, BOX)
    say(bo, FAR, task=card)
    say(ann, NEAR, task=claim(ann)["tasks"][0])
    before = [claim(client) for client in (ann, bo)]
    server.store.prepare(small, server.store.settings)
    after = [claim(client) for client in (ann, bo)]
    assert json.dumps([one["tasks"] for one in before]) == json.dumps([one["tasks"] for one in after])
