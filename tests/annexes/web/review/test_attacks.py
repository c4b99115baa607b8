"""Attacks on the review server, each tried and refused: over HTTP, on its sockets, and by links out of the folder."""

import json
import logging
import os
import shutil
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from strobe.annexes.web import attempts, guard, serve
from strobe.annexes.web.guard import RateLimit, ServerAddress
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.sessions import Sessions
from strobe.annexes.web.review.store import Store
from strobe.core.errors import InvalidFile, StrobeError

TOKEN = "a-long-shared-token"  # a token of this test's own server


def test_oversize_bodies_are_refused(small, run_server, claim, decision):
    server = run_server(small)
    ann = server.client("Ann")
    card = claim(ann, want=1)["tasks"][0]
    assert ann.post("/api/decisions", json=decision(card, 1, note="x" * 400_000)).status_code == 413
    assert ann.post("/api/decisions", json=decision(card, 1, note="x" * 1001)).status_code == 422
    assert ann.post("/api/decisions", json=decision(card, 1, labels=["n01"] * 101)).status_code == 422

    def endless():
        for _ in range(100):
            yield b" " * 1000

    headers = {"content-type": "application/json"}
    assert ann.post("/api/claim", content=endless(), headers=headers).status_code in (400, 413, 422)
    assert list(server.store.all()) == []


@pytest.mark.parametrize(
    "bad", ["<script>alert(1)</script>", "a\x00b", "a\x1b[31mb", "a\u202eb", "x'; DROP TABLE verdicts;--"]
)
def test_html_control_characters_and_sql_in_names(small, run_server, bad):
    server = run_server(small)
    client = server.client("Boss")
    answer = server.client().post("/api/login", json={"name": bad})
    assert answer.status_code == 422
    assert "\x1b" not in answer.text
    assert client.post("/api/admin/invite", json={"name": bad}).status_code == 422
    assert client.post("/api/joint/claim", json={"members": [bad]}).status_code == 422
    assert client.post("/api/admin/pause", json={"name": bad, "action": "pause"}).status_code == 422


def test_sql_in_every_field(small, run_server, claim, decision):
    server = run_server(small)
    ann = server.client("Ann")
    card = claim(ann, want=1)["tasks"][0]
    sql = "x'; DROP TABLE verdicts; --"
    for name in ("verdict_id", "task", "stage", "decision", "reason", "page_version"):
        assert ann.post("/api/decisions", json=decision(card, 1, **{name: sql})).status_code == 422, name
    for name in ("label_right", "bad_anchor", "seconds"):
        assert ann.post("/api/decisions", json=decision(card, 1, **{name: sql})).status_code == 422, name
    assert ann.post("/api/decisions", json=decision(card, 1, labels=[sql])).status_code == 422
    assert ann.post("/api/claim", json={"tab": sql}).status_code == 422
    assert ann.post("/api/login", json={"key": sql}).status_code == 403
    assert ann.get("/api/history", params={"before": sql}).status_code == 422
    assert ann.get(f"/media/{sql}").status_code == 404
    assert ann.post("/api/decisions", json=decision(card, 1, note=sql)).status_code == 200
    assert [v.note for v in server.store.all()] == [sql]
    with server.store.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM tasks")).scalar() == 15


def test_a_symlink_out_of_the_media_folder_is_not_served(small, run_server, tmp_path, claim):
    secret = tmp_path / "secret.jpg"
    secret.write_bytes((small.root / small.frames.media[2]).read_bytes())
    anchor = small.root / small.frames.media[2]
    anchor.unlink()
    anchor.symlink_to(secret)
    server = run_server(small)
    ann = server.client("Ann")
    cards = claim(ann, want=12)["tasks"]
    codes = {card["anchor"]: ann.get(f"/media/{card['anchor']}") for card in cards}
    assert sorted(answer.status_code for answer in codes.values()) == [200, 200, 422]
    assert all(str(tmp_path) not in answer.text for answer in codes.values() if answer.status_code != 200)


def test_a_file_that_is_no_image_is_not_served(small, run_server, claim):
    (small.root / small.frames.media[2]).write_text("root:x:0:0: this is no image")
    server = run_server(small)
    ann = server.client("Ann")
    for card in claim(ann, want=12)["tasks"]:
        answer = ann.get(f"/media/{card['anchor']}")
        assert answer.status_code in (200, 422)
        assert b"root:" not in answer.content


def test_other_image_formats_are_sent_as_png(small, run_server, helpers, claim):
    path = small.root / small.frames.media[2]
    helpers.picture(0, 2).save(path, "BMP")
    server = run_server(small)
    ann = server.client("Ann")
    types = {ann.get(f"/media/{card['anchor']}").headers["content-type"] for card in claim(ann, want=12)["tasks"]}
    assert types == {"image/jpeg", "image/png"}


def test_no_secret_is_logged(small, run_server, caplog, capfd, claim):
    with caplog.at_level(logging.DEBUG):
        server = run_server(small, token=TOKEN)
        client = server.client()
        client.post("/api/login", json={"name": "Ann", "token": TOKEN})
        client.post("/api/login", json={"key": "guessed-key-of-someone"})
        link = client.post("/api/my-link", json={}).json()["link"]
        claim(client)
    caught = capfd.readouterr()
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    everything = "\n".join(ours) + caught.out + caught.err
    for secret in (TOKEN, link.split("#key=")[1], "guessed-key-of-someone", *client.cookies.values()):
        assert secret not in everything


def test_nobody_answers_what_somebody_else_claimed(small, run_server, claim, decision):
    server = run_server(small)
    ann, bo = server.client("Ann"), server.client("Bo")
    (hers,) = claim(ann, want=1)["tasks"]
    refused = bo.post("/api/decisions", json=decision(hers, 1, decision="dissimilar"))
    assert refused.status_code == 409
    assert "this task was never given to Bo" in refused.json()["error"]
    (his,) = claim(bo, want=1)["tasks"]
    both = {"votes": [decision(his, 2), decision(hers, 3)]}
    assert bo.post("/api/decisions/set", json=both).status_code == 409, "nor beside a pair of his own"
    assert list(server.store.all()) == []
    assert ann.post("/api/decisions", json=decision(hers, 4)).json()["fresh"] is True
    assert bo.post("/api/decisions", json=decision(hers, 5)).status_code == 409, "nor after she decided it"
    assert [(v.annotator, v.verdict_id) for v in server.store.all()] == [("Ann", "decision-00000004")]


def test_nobody_sends_a_vote_that_was_not_asked_for(small, run_server, claim, decision):
    server = run_server(small, controls=0.5, labels=True)
    ann, bo = server.client("Ann"), server.client("Bo")
    with server.store.database.read() as connection:
        rows = connection.execute(text("SELECT task_id, kind FROM tasks")).all()
    assert {kind for _, kind in rows} == {"pair", "anchor", "same", "different"}
    for place, (task, kind) in enumerate(rows):
        for stage in ("pair", "verify", "anchor"):
            body = decision({"task": task, "stage": stage}, place, label_right=None)
            answer = ann.post("/api/decisions", json=body)
            assert answer.status_code == (409 if (stage == "anchor") == (kind == "anchor") else 422), (kind, stage)
    for number, card in enumerate(claim(bo, want=3)["tasks"], start=60):
        assert bo.post("/api/decisions", json=decision(card, number, labels=["n01"])).status_code == 200
    (pair, *_) = (card for card in claim(ann)["tasks"] if card["stage"] == "pair")
    early = decision({**pair, "stage": "verify"}, 90)
    assert ann.post("/api/decisions", json=early).status_code == 409, "round two was not asked of this pair"
    assert {v.annotator for v in server.store.all()} == {"Bo"}


def test_round_two_is_answered_alone_and_together_only_where_it_was_asked(small, run_server, claim, decision):
    server = run_server(small)
    ann, bo, boss = server.client("Ann"), server.client("Bo"), server.client("Boss")
    for number, card in enumerate(claim(ann, want=12)["tasks"]):
        said = "unsure" if number == 0 else "similar"
        assert ann.post("/api/decisions", json=decision(card, number, decision=said)).status_code == 200

    def joint(task, *members):
        votes = [
            {"verdict_id": f"joint-{who}-0001", "task": task, "member": who, "decision": "similar"} for who in members
        ]
        return boss.post("/api/joint/decisions", json={"votes": votes}).status_code

    clear = ann.get("/api/history").json()["decisions"][0]["card"]["task"]
    assert joint(clear, "Ann", "Bo") == 409, "this pair is clear: nobody looks at it again"
    (again,) = claim(bo)["tasks"]
    assert joint(again["task"], "Ann", "Bo") == 409, "Ann was not asked to look again"
    assert bo.post("/api/decisions", json=decision(again, 50)).status_code == 200
    (together,) = boss.post("/api/joint/claim", json={"members": ["Ann", "Bo"]}).json()["tasks"]
    assert joint(together["task"], "Ann", "Bo") == 200
    assert joint(together["task"], "Ann", "Bo") == 200, "sent twice, kept once"
    assert len(list(server.store.all())) == 12 + 1 + 2


@pytest.mark.parametrize("ask", ["name", "box"])
def test_pictures_are_answered_by_those_who_were_given_them(small, run_server, claim, ask):
    server = run_server(small, ask=ask, practice=0)
    ann, bo = server.client("Ann"), server.client("Bo")
    (card,) = claim(ann, want=1)["tasks"]
    said = {"said": "none", "stage": "name"} if ask == "name" else {"stage": "draw", "label": "n01"}
    if ask == "box":
        said |= {"label": card["labels"][0]["id"], "decision": "discard", "reason": "absent"}
    body = {"answer_id": "answer-00000001", "task": card["task"], **said}
    assert bo.post("/api/decisions", json=body).status_code == 409
    if ask == "box":
        assert ann.post("/api/decisions", json={**body, "stage": "verify"}).status_code == 409
    assert ann.post("/api/decisions", json=body).json()["fresh"] is True
    assert [answer.annotator for answer in server.store.all()] == ["Ann"]


def test_an_answer_after_the_lease_counts_for_its_person_alone(small, database_url, run_server, claim, decision, clock):
    """The page was offline: the work is done, whoever was given the pair meanwhile."""
    server = run_server(small, url=database_url)
    server.store.clock = clock
    ann, bo, cy = (server.client(name) for name in ("Ann", "Bo", "Cy"))
    hers = claim(ann, want=2)["tasks"]
    clock.now += server.store.settings.lease_s + 1
    assert [card["task"] for card in claim(bo, want=2)["tasks"]] == [card["task"] for card in hers]
    for number, client in enumerate((ann, bo)):
        assert client.post("/api/decisions", json=decision(hers[0], number)).json()["fresh"] is True
    assert cy.post("/api/decisions", json=decision(hers[0], 3)).status_code == 409
    bo.post("/api/release", json={"tab": "tab-00000001"})
    assert ann.post("/api/decisions", json=decision(hers[1], 4)).json()["fresh"] is True
    changed = decision(hers[1], 5, decision="unsure")
    assert ann.post("/api/decisions", json=changed).json()["fresh"] is True, "their own decision, changed"
    assert [v.annotator for v in server.store.all()] == ["Ann", "Bo", "Ann", "Ann"]


def test_an_imported_vote_can_be_changed_by_its_person(small, run_server, decision):
    from strobe.core.records import Verdict

    server = run_server(small)
    vote = Verdict(
        verdict_id="imported", annotator="Ann", at="2026-01-01T00:00:00.000000Z", stage="pair", set_id="set0",
        frame_id="vid0:1", decision="unsure",
    )  # fmt: skip
    server.store.extend([vote])
    ann, bo = server.client("Ann"), server.client("Bo")
    (step,) = ann.get("/api/history").json()["decisions"]
    assert bo.post("/api/decisions", json=decision(step["card"], 1)).status_code == 409
    assert ann.post("/api/decisions", json=decision(step["card"], 2)).json()["fresh"] is True


def test_many_tabs_of_one_person_do_not_hold_everything(helpers, tmp_path, database_url, run_server, claim, clock):
    many = helpers.make_dataset(tmp_path / "many", n_sets=10, k=3)
    server = run_server(many, url=database_url)
    ann, bo = server.client("Ann"), server.client("Bo")
    seen = {card["task"] for tab in range(10) for card in claim(ann, want=12, tab=f"tab-{tab:08}")["tasks"]}
    assert len(seen) == 24, "as many as two tabs may ask for, of 60"
    assert len(claim(bo, want=12)["tasks"]) == 12
    server.store.clock = clock
    clock.now = server.store.clock() + 10**9
    again = {card["task"] for card in claim(ann, want=12, tab="tab-00000099")["tasks"]}
    assert len(again) == 12, "what ran out is given anew"


def test_many_tabs_with_sets_at_once(helpers, tmp_path, run_server, claim):
    many = helpers.make_dataset(tmp_path / "many", n_sets=10, k=3)
    server = run_server(many, at_once="set")
    ann, bo = server.client("Ann"), server.client("Bo")
    seen = {card["task"] for tab in range(10) for card in claim(ann, want=12, tab=f"tab-{tab:08}")["tasks"]}
    assert len(seen) == 6
    assert len(claim(bo, want=12)["tasks"]) == 4


def talk(server, sent, *, wait_s=120.0):
    """Send bytes as they are; what comes back until the server closes, and whether it did."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=wait_s) as connection:
        got = b""
        try:
            for part in sent if isinstance(sent, list) else [sent]:
                connection.sendall(part)
                time.sleep(0.05 if isinstance(sent, list) else 0)
            while part := connection.recv(65536):
                got += part
        except TimeoutError:
            return got, False
        except OSError:
            pass
    return got, True


def test_a_store_removed_under_the_server_acknowledges_nothing(small, run_server, claim, decision, tmp_path):
    path = tmp_path / "review.sqlite"
    server = run_server(small, url=f"sqlite:///{path}")
    ann = server.client("Ann")
    cards = claim(ann, want=4)["tasks"]
    assert ann.post("/api/decisions", json=decision(cards[0], 0)).status_code == 200
    path.rename(tmp_path / "away")
    assert ann.post("/api/decisions", json=decision(cards[1], 1)).status_code == 503
    assert not path.exists()
    (tmp_path / "away").rename(path)
    assert ann.post("/api/decisions", json=decision(cards[1], 1)).json()["fresh"]
    assert len(list(server.store.all())) == 2


def test_a_stranger_s_store_brings_no_session_and_no_key(small, run_server, tmp_path):
    url = f"sqlite:///{tmp_path / 'theirs.sqlite'}"
    store = Store(url)
    store.prepare(small, ReviewOptions(controls=0))
    people = People(store)
    theirs = Sessions(people, secret=b"the stranger's", mode="invite")
    cookie, key = theirs.open(people.add("Mallory", "admin")), theirs.new_key(people.add("Eve"))
    store.close()
    server = run_server(small, url=url, invited_only=True)
    client = server.client()
    client.cookies.set(f"strobe_session_{urlsplit(server.url).port}", cookie)
    assert client.get("/api/watch").status_code == 401
    assert client.get("/api/session").json()["person"] is None
    assert client.post("/api/login", json={"key": key}).status_code == 403


def test_an_open_server_s_sessions_do_not_open_a_guarded_one(small, run_server, tmp_path):
    url = f"sqlite:///{tmp_path / 'both.sqlite'}"
    first = run_server(small, url=url)
    ann = first.client("Ann")
    link = ann.post("/api/my-link", json={}).json()["link"]
    (cookie,) = ann.cookies.values()
    first.stop()
    for guarded in ({"invited_only": True}, {"token": TOKEN}):
        server = run_server(small, url=url, **guarded)
        client = server.client()
        client.cookies.set(f"strobe_session_{urlsplit(server.url).port}", cookie)
        assert client.post("/api/claim", json={"tab": "tab-00000001"}).status_code == 401
        assert client.post("/api/login", json={"key": link.split("#key=")[1]}).status_code == 403
        server.stop()


def test_revoking_reaches_a_second_server_at_once(small, run_server, tmp_path):
    url = f"sqlite:///{tmp_path / 'both.sqlite'}"
    one, two = (run_server(small, url=url, invited_only=True) for _ in range(2))
    boss = one.client()
    boss.post("/api/login", json={"key": one.access.admin_key})
    key = boss.post("/api/admin/invite", json={"name": "Ann"}).json()["link"].split("#key=")[1]
    ann = two.client()
    assert ann.post("/api/login", json={"key": key}).status_code == 200
    assert ann.post("/api/claim", json={"tab": "tab-00000001"}).status_code == 200
    boss.post("/api/admin/pause", json={"name": "Ann", "action": "pause"})
    assert ann.post("/api/claim", json={"tab": "tab-00000001"}).json()["paused"]
    boss.post("/api/admin/pause", json={"name": "Ann", "action": "revoke"})
    assert ann.post("/api/claim", json={"tab": "tab-00000001"}).status_code == 401
    assert ann.post("/api/login", json={"key": key}).status_code == 403


def test_who_fails_to_log_in_does_not_lock_out_others_at_the_address(small, run_server):
    server = run_server(small, token=TOKEN)
    guesser = server.client()
    same = [guesser.post("/api/login", json={"name": "Eve", "token": f"guess {n}"}).status_code for n in range(12)]
    assert same[:5] == [403] * 5
    assert 429 in same[5:], "one account waits longer and longer"
    others = [guesser.post("/api/login", json={"name": f"E{n}", "token": "guess"}).status_code for n in range(40)]
    assert set(others) == {403}
    assert server.client().post("/api/login", json={"name": "Ann", "token": TOKEN}).status_code == 200


def test_guesses_of_one_address_are_slowed_whatever_the_name(small, run_server, monkeypatch):
    monkeypatch.setattr(attempts, "GUESSES", 5)
    server = run_server(small, token=TOKEN)
    begin = time.monotonic()
    guesser = server.client()
    for number in range(15):
        assert guesser.post("/api/login", json={"name": f"E{number}", "token": "guess"}).status_code == 403
    assert time.monotonic() - begin > 10 / attempts.GUESSES_PER_S * 0.8
    codes = []

    def guess(number):
        codes.append(server.client().post("/api/login", json={"name": f"F{number}", "token": "guess"}).status_code)

    # One in two seconds: however slow the machine is, most of twelve come too soon.
    for name, value in (("GUESSES", 1), ("GUESSES_PER_S", 0.5), ("QUEUE_S", 0.5)):
        monkeypatch.setattr(attempts, name, value)
    at_once = [threading.Thread(target=guess, args=(number,)) for number in range(12)]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join()
    assert codes.count(429) >= 3, "many at once are not all tried"
    ann, until = server.client(), time.monotonic() + 60
    while (code := ann.post("/api/login", json={"name": "Ann", "token": TOKEN}).status_code) == 429:
        assert time.monotonic() < until, "locked out by others' guesses"
        time.sleep(0.2)
    assert code == 200


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", [b"G", b"E", b"T", b" "]])
def test_a_head_that_does_not_come_whole_is_not_waited_for(small, run_server, monkeypatch, sent):
    monkeypatch.setattr(serve, "HEAD_S", 0.4)
    server = run_server(small)
    got, closed = talk(server, sent)
    assert closed
    assert got == b""


def test_a_body_that_does_not_come_is_not_waited_for(small, run_server, monkeypatch):
    monkeypatch.setattr(guard, "BODY_S", 0.4)
    server = run_server(small)
    host = urlsplit(server.url).netloc
    head = f"POST /api/login HTTP/1.1\r\nHost: {host}\r\nOrigin: {server.url}\r\nContent-Type: application/json\r\n"
    got, closed = talk(server, f"{head}Content-Length: 14\r\n\r\n{{".encode())
    assert closed
    assert b" 408 " in got.splitlines()[0]


@pytest.mark.parametrize("length", [4, 40])
def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_read(small, run_server, length):
    server = run_server(small)
    host = urlsplit(server.url).netloc
    head = f"POST /api/login HTTP/1.1\r\nHost: {host}\r\nOrigin: {server.url}\r\nContent-Type: application/json\r\n"
    hidden = f"GET /static/icon.svg HTTP/1.1\r\nHost: {host}\r\n\r\n"
    got, closed = talk(
        server, f"{head}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}".encode()
    )
    assert closed
    assert b" 400 " in got.splitlines()[0]
    assert got.count(b"HTTP/1.1") == 1, "the hidden request is not answered"


def test_refused_connections_do_not_fill_the_log():
    now = 0.0
    seldom = serve.ThrottledLog(every_s=60, clock=lambda: now)
    shown = []
    for second in range(200):
        now = float(second)
        for words in ("Invalid HTTP request received.", "another"):
            record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, words, (), None)
            if seldom.filter(record):
                shown.append((second, record.getMessage()))
    assert [second for second, text in shown if text.startswith("Invalid")] == [0, 60, 120, 180]
    assert shown[2][1] == "Invalid HTTP request received. (repeated 59 times before)"
    assert len(shown) == 8


def test_a_control_pair_looks_like_any_other_in_the_claim(small, run_server, claim, decision):
    server = run_server(small, controls=0.5)
    ann = server.client("Ann")
    seen, cards = [], claim(ann)["tasks"]
    while cards:
        seen.append(cards[0])
        ann.post("/api/decisions", json=decision(cards[0], len(seen)))
        cards = claim(ann)["tasks"]
    kinds = [server.store.task(card["task"]).kind for card in seen]
    assert {"pair", "same", "different"} <= set(kinds)
    anchors = {card["anchor"] for card in seen}
    for card in seen:
        assert card["neighbour"] not in anchors, "neither its own anchor nor another set's"
        assert ann.get(f"/media/{card['neighbour']}").status_code == 200
    assert len({card["neighbour"] for card in seen}) == len(seen)
    shapes = {(*((key, type(value), len(value)) for key, value in card.items() if key != "labels"),) for card in seen}
    assert len(shapes) == 1
    text_of_all = json.dumps(seen)
    for secret in ("set0", "vid0", "clip0", "frame0", "media", "control", "distance", "same", "different"):
        assert secret not in text_of_all
    assert server.client().get(f"/media/{seen[0]['neighbour']}").status_code == 401


def test_a_pipe_in_a_picture_s_place_is_unreadable_and_holds_nobody_up(small, run_server, claim):
    for row in (0, 1, 2, 3, 4):
        path = small.root / small.frames.media[row]
        path.unlink()
        os.mkfifo(path)
    server = run_server(small)
    ann = server.client("Ann")
    cards = claim(ann, want=12)["tasks"]
    answers = [ann.get(f"/media/{card[side]}").status_code for card in cards for side in ("anchor", "neighbour")]
    assert sorted(set(answers)) == [200, 422]
    assert answers.count(422) == 8


@pytest.fixture
def voted(small):
    """The small dataset with a vote in its store."""
    file = small.root.parent / "votes.csv"
    file.write_text("set,frame,decision,label_right\nset0,clip0/frame0,similar,yes\nset0,clip0/frame1,similar,yes\n")
    review.import_votes(small.root, file, annotator="ann")
    return small


def test_export_does_not_follow_links_out_of_the_folder(voted, tmp_path):
    private = tmp_path / "private.txt"
    private.write_text("nobody's business")
    path = voted.root / voted.frames.media[0]
    path.unlink()
    path.symlink_to(private)
    out = tmp_path / "out"
    with pytest.raises(InvalidFile, match="leads out of the folder"):
        review.export(voted.root, out=out)
    assert not any(file.read_bytes() == private.read_bytes() for file in out.rglob("*") if file.is_file())


def test_export_does_not_follow_a_linked_folder(voted, tmp_path):
    (voted.root / "media").rename(tmp_path / "elsewhere")
    (voted.root / "media").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidFile, match="leads out of the folder"):
        review.export(voted.root, out=tmp_path / "out")


def test_export_refuses_a_pipe_and_takes_a_link_inside(voted, tmp_path):
    first, second = (voted.root / voted.frames.media[row] for row in (0, 1))
    shutil.move(first, voted.root / "stored.jpg")
    first.symlink_to(voted.root / "stored.jpg")
    review.export(voted.root, out=tmp_path / "out")
    copied = tmp_path / "out" / voted.frames.media[0]
    assert copied.is_file()
    assert not copied.is_symlink()
    second.unlink()
    os.mkfifo(second)
    with pytest.raises(InvalidFile, match="not a regular file"):
        review.export(voted.root, out=tmp_path / "again")


pytest.importorskip("starlette")


def test_loopback_answers_to_its_own_names_only():
    address = ServerAddress.of("127.0.0.1", 8321)
    assert address.hosts == {"127.0.0.1:8321", "localhost:8321", "[::1]:8321"}
    assert address.origins == {"http://127.0.0.1:8321", "http://localhost:8321", "http://[::1]:8321"}
    assert ServerAddress.of("::1", 80).hosts >= {"[::1]:80", "[::1]", "localhost"}
    assert ServerAddress.of("192.0.2.7", 80).hosts == {"192.0.2.7:80", "192.0.2.7"}


@pytest.mark.parametrize(
    ("given", "origins", "hosts"),
    [
        ("http://lab-3:80", {"http://lab-3:80", "http://lab-3"}, {"lab-3:80", "lab-3"}),
        ("https://Lab-3:443/", {"https://lab-3:443", "https://lab-3"}, {"lab-3:443", "lab-3"}),
        ("http://lab-3:443", {"http://lab-3:443"}, {"lab-3:443"}),
        ("http://[2001:DB8::1]:80", {"http://[2001:db8::1]:80", "http://[2001:db8::1]"},
         {"[2001:db8::1]:80", "[2001:db8::1]"}),
        ("https://Review.example.org", {"https://review.example.org"}, {"review.example.org"}),
    ],
)  # fmt: skip
def test_the_default_port_may_be_left_out_of_host_and_origin(given, origins, hosts):
    address = ServerAddress.of("0.0.0.0", 8321, given)
    assert address.origins == origins
    assert address.hosts == hosts


@pytest.mark.parametrize(
    "bad",
    [
        "review.example.org", "https://", "https://x/path", "https://x?y", "javascript:alert(1)", "ftp://x",
        "http://user:pw@h:99999", "http://user:pw@lab-3", "http://user@lab-3", "http://h:0", "http://h:port",
        "http://h#x", "http://[::1", "http://:8321", "http://a b", "http://bücher.example", "http://h\\evil",
    ],
)  # fmt: skip
def test_public_addresses_nobody_could_type_are_refused_in_one_line(bad):
    with pytest.raises(StrobeError, match="--public-url: expected") as caught:
        ServerAddress.of("0.0.0.0", 1, bad)
    assert "\n" not in str(caught.value)
    assert "pw" not in str(caught.value), "a password is not repeated"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 3)), max_size=60))
def test_rate_against_a_plain_reference(calls):
    now = 0.0
    rate = RateLimit(per_s=2, burst=3, clock=lambda: now)
    level, last = {}, {}
    for who, pause in calls:
        now += pause
        level[who] = min(3.0, level.get(who, 3.0) + 2 * (now - last.get(who, now)))
        last[who] = now
        allowed = level[who] >= 1
        level[who] -= allowed
        assert rate.allows(who) == allowed
