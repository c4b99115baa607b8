"""The review server over HTTP: the protocol of the page, and the attacks it must refuse."""

from strobe.core.derivation import reviewed
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


def test_replays_and_corrections(small, run_server, claim, decision):
    server = run_server(small)
    ann, bo = server.client("Ann"), server.client("Bo")
    card = claim(ann, want=1)["tasks"][0]
    body = decision(card, 1)
    assert ann.post("/api/decisions", json=body).json()["fresh"] is True
    assert ann.post("/api/decisions", json={**body, "seconds": 9}).json()["fresh"] is False
    assert ann.post("/api/decisions", json={**body, "decision": "unsure"}).status_code == 409
    assert bo.post("/api/decisions", json=body).status_code == 409, (
        "another person's vote cannot be replayed as one's own"
    )
    assert ann.post("/api/decisions", json=decision(card, 2, decision="unsure")).json()["fresh"] is True
    assert [v.decision for v in server.store.all()] == ["similar", "unsure"]


def test_label_stage_over_http(small, run_server, claim, decision):
    server = run_server(small, labels=True)
    ann = server.client("Ann")
    cards = claim(ann)["tasks"]
    assert [card["stage"] for card in cards] == ["anchor"] * 3
    assert all(card["neighbour"] is None for card in cards)
    first = cards[0]
    given = first["labels"][0]["id"]
    added = "n04" if given != "n04" else "n01"
    for number, body in enumerate(
        [{"labels": ["no such class"]}, {"stage": "pair"}, {"decision": "dissimilar", "reason": "everything"}]
    ):
        assert ann.post("/api/decisions", json=decision(first, 90 + number, **body)).status_code == 422
    assert ann.post("/api/decisions", json=decision(first, 1, labels=[given, added])).status_code == 200
    pair = next(card for card in claim(ann)["tasks"] if card["stage"] == "pair")
    assert {label["id"] for label in pair["labels"]} == {given, added}, "the new labels are verified in pair review"


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


def test_pause_keeps_what_was_decided_and_gives_no_more(small, run_server, claim, decision):
    server = run_server(small)
    ann, boss = server.client("Ann"), server.client("Boss")
    card = claim(ann, want=1)["tasks"][0]
    assert boss.post("/api/admin/pause", json={"name": "Ann", "action": "pause"}).status_code == 200
    assert claim(ann)["tasks"] == []
    assert claim(ann)["paused"] is True
    assert ann.post("/api/decisions", json=decision(card, 1)).json()["fresh"] is True
    boss.post("/api/admin/pause", json={"name": "Ann", "action": "resume"})
    assert claim(ann)["tasks"] != []
    boss.post("/api/admin/pause", json={"name": "Ann", "action": "revoke"})
    assert ann.post("/api/claim", json={"tab": "tab-00000001"}).status_code == 401


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


def test_personal_link_continues_elsewhere(small, run_server):
    server = run_server(small, token=TOKEN)
    ann = server.client()
    ann.post("/api/login", json={"name": "Ann", "token": TOKEN})
    link = ann.post("/api/my-link", json={}).json()["link"]
    assert "#key=" in link, "the key is in the fragment, which browsers never send"
    elsewhere = server.client()
    assert elsewhere.post("/api/login", json={"key": link.split("#key=")[1]}).json() == {
        "name": "Ann",
        "role": "annotator",
    }


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
