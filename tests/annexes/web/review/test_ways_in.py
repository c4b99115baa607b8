"""Ways into the server and out of the dataset folder that stood open once, each tried."""

import json
import logging
import os
import shutil
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from strobe.annexes.web import attempts, guard, serve
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.sessions import Sessions
from strobe.annexes.web.review.store import Store
from strobe.core.errors import InvalidFile

TOKEN = "a-long-shared-token"  # a token of this test's own server


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
    others = [guesser.post("/api/login", json={"name": f"E{n}", "token": "guess"}).status_code for n in range(90)]
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


def test_a_second_head_on_a_connection_is_not_waited_for_either(small, run_server, monkeypatch):
    monkeypatch.setattr(serve, "HEAD_S", 0.4)
    server = run_server(small)
    host = urlsplit(server.url).netloc
    first = f"GET /static/icon.svg HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    got, closed = talk(server, [first, first, b"GET /stat"])
    assert closed
    assert got.count(b"HTTP/1.1 200") == 2


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
        for text in ("Invalid HTTP request received.", "another"):
            record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, text, (), None)
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
