"""Who comes in under which name, and under which addresses the server answers."""

import json
import re
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

from strobe.annexes.web.guard import ServerAddress
from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.people import People
from strobe.annexes.web.review.store import Store
from strobe.core.errors import StrobeError

TOKEN = "a-long-shared-token"  # a token of this test's own server


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
