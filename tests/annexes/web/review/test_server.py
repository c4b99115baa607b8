"""The review server over HTTP: the protocol of the page, who comes in under which name, cards, sets at a time."""

import json
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import count
from urllib.request import urlopen

import numpy as np
import pytest

from strobe.annexes.web.guard import ServerAddress
from strobe.annexes.web.review import queue
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import Example, ReviewOptions
from strobe.annexes.web.review.examples import plain_examples, read_examples
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.store import Store
from strobe.core.derivation import derive, reviewed
from strobe.core.errors import StrobeError
from strobe.core.records import Verdict
from strobe.core.tables import Hints, Labels
from strobe.store import dataset_folder as folders

TOKEN = "a-long-shared-token"  # a token of this test's own server


def test_a_review_over_http_to_a_reviewed_set(small, run_server, claim, decision):
    server = run_server(small)
    clients = {name: server.client(name) for name in ("Ann", "Bo", "Cy")}
    number = 0
    for _ in range(30):
        for client in clients.values():
            for card in claim(client, want=2)["tasks"]:
                number += 1
                doubtful = card["stage"] == "pair" and number % 5 == 0
                fields = {"decision": "dissimilar", "reason": "blur"} if doubtful else {}
                answer = client.post("/api/decisions", json=decision(card, number, **fields))
                assert answer.json() == {"saved": f"decision-{number:08}", "fresh": True}
    votes = list(server.store.all())
    assert len(votes) == number
    doubted = {(v.set_id, v.frame_id) for v in votes if v.decision == "dissimilar"}
    assert len({(v.set_id, v.frame_id) for v in votes if v.stage == "pair"}) == 12
    assert {(v.set_id, v.frame_id) for v in votes if v.stage == "verify"} == doubted
    assert {v.annotator for v in votes if v.stage == "verify"} == set(clients)
    data = folders.append_verdicts(small.root, votes)
    assert reviewed(data).n_sets == 3
    assert len(reviewed(data).sets.set) == 15, "round two overruled every doubt"


def test_round_two_hides_or_shows_the_earlier_votes(small, run_server, claim, decision):
    for shown in (False, True):
        server = run_server(small, show_votes=shown)
        ann, bo = server.client("Ann"), server.client("Bo")
        cards = claim(ann, want=12)["tasks"]
        for number, card in enumerate(cards):
            fields = {"decision": "unsure", "note": "<i>hm</i>"} if number == 0 else {}
            ann.post("/api/decisions", json=decision(card, number, **fields))
        (card,) = claim(bo)["tasks"]
        assert card["stage"] == "verify"
        assert [(vote["name"], vote["note"]) for vote in card["votes"]] == ([("Ann", "<i>hm</i>")] if shown else [])


def test_history_for_undo_on_another_machine(small, run_server, claim, decision):
    server = run_server(small)
    ann = server.client("Ann")
    cards = claim(ann, want=4)["tasks"]
    for number, card in enumerate(cards):
        ann.post("/api/decisions", json=decision(card, number, note=f"n{number}"))
    elsewhere = server.client("Ann")
    found = elsewhere.get("/api/history").json()["decisions"]
    assert [one["decision"]["note"] for one in found] == ["n3", "n2", "n1", "n0"]
    assert found[0]["card"]["task"] == cards[3]["task"]
    (_, second, *_) = server.store.history("Ann")
    older = elsewhere.get("/api/history", params={"before": second[0]}).json()
    assert [one["decision"]["note"] for one in older["decisions"]] == ["n1", "n0"]
    assert older["before"] is None, "there is nothing before them"


def test_joint_decisions_are_all_or_none_and_only_for_who_runs_the_review(small, run_server, claim, decision):
    server = run_server(small, token=TOKEN)
    boss = server.client()
    assert boss.post("/api/login", json={"key": server.access.admin_key}).json()["role"] == "admin"
    people = {}
    for name in ("Ann", "Bo"):
        link = boss.post("/api/admin/invite", json={"name": name}).json()["link"]
        people[name] = server.client()
        people[name].post("/api/login", json={"key": link.split("#key=")[1]})
    for number, card in enumerate(claim(people["Ann"], want=12)["tasks"]):
        people["Ann"].post(
            "/api/decisions", json=decision(card, number, decision="unsure" if number < 2 else "similar")
        )
    members = {"members": ["Ann", "Bo"]}
    assert people["Ann"].post("/api/joint/claim", json=members).status_code == 403
    cards = boss.post("/api/joint/claim", json=members).json()["tasks"]
    assert len(cards) == 2
    votes = [
        {**decision(cards[0], 100 + place, stage="verify"), "member": name} for place, name in enumerate(("Ann", "Bo"))
    ]
    assert people["Bo"].post("/api/joint/decisions", json={"votes": votes}).status_code == 403
    assert boss.post("/api/joint/decisions", json={"votes": votes}).json()["fresh"] is True
    assert boss.post("/api/joint/decisions", json={"votes": votes}).json()["fresh"] is False
    assert [(v.annotator, v.stage) for v in server.store.all()][-2:] == [("Ann", "joint"), ("Bo", "joint")]


# -- access -----------------------------------------------------------------------------------------------------------


def test_token_mode(small, run_server, claim):
    server = run_server(small, token=TOKEN)
    client = server.client()
    for body in (
        {"name": "Ann"},
        {"name": "Ann", "token": "wrong"},
        {"key": "wrong"},
        {"name": "Ann", "token": TOKEN + "x"},
    ):
        assert client.post("/api/login", json=body).status_code == 403
    for path in ("/api/history", "/api/watch", "/media/" + "0" * 32):
        assert client.get(path).status_code == 401
    for path in ("/api/claim", "/api/decisions", "/api/admin/invite", "/api/joint/claim", "/api/my-link"):
        assert client.post(path, json={}).status_code in (401, 422)
    assert client.post("/api/claim", json={"tab": "tab-00000001"}).status_code == 401
    assert client.post("/api/login", json={"name": "Ann", "token": TOKEN}).status_code == 200
    assert claim(client)["tasks"] != []
    assert client.get("/api/watch").status_code == 403
    assert client.post("/api/admin/invite", json={"name": "Eve"}).status_code == 403
    thief = server.client()
    answer = thief.post("/api/login", json={"name": "Ann", "token": TOKEN})
    assert answer.status_code == 403, "the shared token does not open someone else's name"
    assert "taken" in answer.json()["error"]


def test_another_annotators_token_is_another_annotator(small, run_server, claim, decision):
    server = run_server(small, invited_only=True)
    boss = server.client()
    boss.post("/api/login", json={"key": server.access.admin_key})
    keys = {n: boss.post("/api/admin/invite", json={"name": n}).json()["link"].split("#key=")[1] for n in ("Ann", "Bo")}
    ann, bo = server.client(), server.client()
    ann.post("/api/login", json={"key": keys["Ann"]})
    bo.post("/api/login", json={"key": keys["Bo"], "name": "Ann"})
    card = claim(bo, want=1)["tasks"][0]
    bo.post("/api/decisions", json=decision(card, 1))
    assert [v.annotator for v in server.store.all()] == ["Bo"], "the key decides who one is, not the name"
    assert bo.post("/api/decisions", json={**decision(card, 2), "annotator": "Ann"}).status_code == 422
    assert bo.post("/api/decisions", json=decision(card, 2, who="Ann")).status_code == 401
    assert bo.post("/api/claim", json={"tab": "tab-00000001", "who": "Ann"}).status_code == 401
    assert len(list(server.store.all())) == 1
    assert server.client().post("/api/login", json={"name": "Ann"}).status_code == 403, "no names without a key"


def test_observers_watch_and_change_nothing(small, run_server, decision):
    server = run_server(small, token=TOKEN)
    boss = server.client()
    boss.post("/api/login", json={"key": server.access.admin_key})
    link = boss.post("/api/admin/invite", json={"name": "Olga", "role": "observer"}).json()["link"]
    olga = server.client()
    olga.post("/api/login", json={"key": link.split("#key=")[1]})
    assert olga.get("/api/watch").json()["may_run"] is False
    card = {"task": "0" * 24, "stage": "pair"}
    for path, body in (
        ("/api/claim", {"tab": "tab-00000001"}),
        ("/api/release", {"tab": "tab-00000001"}),
        ("/api/decisions", decision(card, 1)),
        ("/api/admin/invite", {"name": "Eve"}),
        ("/api/admin/pause", {"name": "Olga", "action": "pause"}),
        ("/api/joint/claim", {"members": ["Olga"]}),
    ):
        assert olga.post(path, json=body).status_code == 403, path


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", ["ann lee", " Ann  Lee ", "ANN LEE", "\uff21nn Lee", "Ann Lee"])
def test_on_this_machine_another_spelling_is_the_same_person(small, run_server, typed):
    server = run_server(small)
    server.client("Ann Lee")
    again = server.client()
    assert again.post("/api/login", json={"name": typed}).json() == {"name": "Ann Lee", "role": "annotator"}
    assert again.get("/api/session").json()["person"]["name"] == "Ann Lee"
    assert [one.name for one in People(server.store).all()] == ["Ann Lee"]


def test_someone_known_only_by_votes_made_elsewhere_is_the_same_person(small, run_server, tmp_path):
    file = tmp_path / "votes.csv"
    file.write_text("set,frame,decision,annotator\nset0,vid0:1,similar,Ann\n")
    review.import_votes(small.root, file, annotator="x")
    url = f"sqlite:///{small.root / 'review.sqlite'}"
    server = run_server(small, url=url)
    assert server.client().post("/api/login", json={"name": "ann"}).json()["name"] == "Ann"


def test_with_a_token_another_spelling_is_taken(small, run_server):
    server = run_server(small, token=TOKEN)
    assert server.client().post("/api/login", json={"name": "Ann", "token": TOKEN}).status_code == 200
    for typed in ("ann", "ANN", " Ann", "\uff21nn"):
        answer = server.client().post("/api/login", json={"name": typed, "token": TOKEN})
        assert answer.status_code == 403, typed
        assert "this name is taken" in answer.json()["error"]
    assert server.client().post("/api/login", json={"name": "Anna", "token": TOKEN}).status_code == 200


def test_invitations_in_another_spelling_are_refused(small, run_server):
    server = run_server(small, invited_only=True)
    boss = server.client()
    boss.post("/api/login", json={"key": server.access.admin_key})
    assert boss.post("/api/admin/invite", json={"name": "Ann"}).status_code == 200
    answer = boss.post("/api/admin/invite", json={"name": "ann"})
    assert answer.status_code == 422
    assert "differs from 'Ann'" in answer.json()["error"]
    assert boss.post("/api/admin/invite", json={"name": "Ann"}).status_code == 200, "another link for the same person"


def test_joint_votes_go_to_the_person_whatever_the_spelling(small, run_server, claim, decision):
    server = run_server(small)
    boss = server.client("Boss")
    server.client("Ann")
    (card,) = claim(boss, want=1)["tasks"]
    assert boss.post("/api/decisions", json=decision(card, 1, decision="unsure")).status_code == 200
    (card,) = boss.post("/api/joint/claim", json={"members": ["ann"]}).json()["tasks"]
    vote = {"verdict_id": "joint-000001", "task": card["task"], "member": "ann", "decision": "similar"}
    assert boss.post("/api/joint/decisions", json={"votes": [vote]}).status_code == 200
    assert [v.annotator for v in server.store.all()] == ["Boss", "Ann"]


@pytest.mark.parametrize(
    ("first", "second"),
    [({"invite": ("Ann",)}, {"observers": ("Ann",)}), ({"observers": ("Ann",)}, {"invite": ("Ann",)})],
)
def test_serve_prints_no_link_for_another_role(small, monkeypatch, first, second):
    monkeypatch.setattr("strobe.annexes.web.serve.run", lambda app, listener, on_ready, **_: on_ready())
    shown = []
    review.serve(small.root, review.ServeOptions(port=0, **first), ReviewOptions(), on_ready=shown.append)
    assert list(shown[0].personal) == ["Ann"]
    role = "annotator" if "invite" in first else "observer"
    with pytest.raises(
        StrobeError, match=f"Ann already takes part as {role} and cannot be .* too; choose another name"
    ):
        review.serve(small.root, review.ServeOptions(port=0, **second), ReviewOptions(), on_ready=shown.append)
    shouted = review.ServeOptions(port=0, invite=("ANN",))
    with pytest.raises(StrobeError, match="differs from 'Ann'"):
        review.serve(small.root, shouted, ReviewOptions(), on_ready=shown.append)
    assert len(shown) == 1
    both = review.ServeOptions(port=0, invite=("Bo",), observers=("Bo",))
    with pytest.raises(StrobeError, match="already takes part"):
        review.serve(small.root, both, ReviewOptions(), on_ready=shown.append)


def test_a_post_from_a_browser_that_leaves_the_default_port_out(small, tmp_path):
    from starlette.testclient import TestClient

    from strobe.annexes.web.review.app import make_app
    from strobe.annexes.web.review.service import Access
    from strobe.store.media import MediaSource

    store = Store(f"sqlite:///{tmp_path / 'r.sqlite'}")
    store.prepare(small, ReviewOptions(controls=0))
    access = Access(address=ServerAddress.of("0.0.0.0", 80, "http://lab-3:80"), secret=b"ours", token=TOKEN)
    app = make_app(small, store, MediaSource(small), access)
    for host, origin in (("lab-3", "http://lab-3"), ("lab-3:80", "http://lab-3:80")):
        client = TestClient(app, base_url="http://lab-3")
        headers = {"host": host, "origin": origin}
        answer = client.post("/api/login", json={"name": f"Ann {host[-1]}", "token": TOKEN}, headers=headers)
        assert answer.status_code == 200, answer.text
        client.close()
    store.close()


def test_history_before_a_number_no_database_counts_to(small, run_server):
    server = run_server(small)
    ann = server.client("Ann")
    for before in ("9" * 24, str(2**63), "-1"):
        answer = ann.get("/api/history", params={"before": before})
        assert (answer.status_code, answer.json()) == (422, {"error": "invalid fields: before"})
    assert ann.get("/api/history", params={"before": str(2**63 - 1)}).json() == {"decisions": [], "before": None}


@pytest.mark.slow
def test_a_request_still_open_when_the_server_is_stopped_is_told_so(small, started):
    call = "from strobe.annexes.web.review.command import command; command()"
    arguments = ["serve", str(small.root), "--no-open", "--port", "0"]
    process = started(
        [sys.executable, "-c", call, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    url = process.stdout.readline().split()[-1]
    host, port = url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as line:
        head = f"POST /api/login HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {url}\r\nContent-Type: application/json\r\n"
        line.sendall(f"{head}Content-Length: 20\r\n\r\n{{".encode())
        for _ in range(2):  # who comes later is answered: what came before has been read
            urlopen(f"{url}/static/icon.svg", timeout=60).read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        answer = line.recv(4000).decode()
    assert re.match(r"HTTP/1.1 503 ", answer)
    assert json.loads(answer.split("\r\n\r\n")[1]) == {"error": "the server is being stopped"}
    assert "Traceback" not in out + err
    assert "ERROR" not in out + err


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
