"""The review server against forged addresses and floods of log-ins; and what it writes after its dataset has gone."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from strobe.annexes.web import attempts
from strobe.annexes.web.guard import RateLimit

TOKEN = "a-shared-secret-of-this-review"


@pytest.fixture(autouse=True)
def short_queue(monkeypatch):
    monkeypatch.setattr(attempts, "QUEUE_S", 0.2)
    monkeypatch.setattr(attempts, "GUESSES_PER_S", 0.01)  # the same on a busy machine


def flood(url: str, n: int, body) -> list[int]:
    """Log in wrongly, each time from another forged address, on several connections at once."""

    def some(first: int) -> list[int]:
        codes = []
        with httpx.Client(base_url=url, headers={"origin": url}, timeout=60) as client:
            for number in range(first, n, 8):
                forged = {"X-Forwarded-For": f"10.1.{number // 250}.{number % 250}"}
                codes.append(client.post("/api/login", json=body(number), headers=forged).status_code)
        return codes

    with ThreadPoolExecutor(8) as pool:
        return [code for codes in pool.map(some, range(8)) for code in codes]


BODIES = {
    "keys": lambda number: {"key": f"wrong {number}"},
    "tokens": lambda number: {"name": f"E{number}", "token": "a guess"},
}


@pytest.mark.parametrize("kind", BODIES)
def test_forged_addresses_buy_no_guesses(small, run_server, kind):
    server = run_server(small, token=TOKEN)
    codes = flood(server.url, 600, BODIES[kind])
    assert set(codes) <= {403, 429}
    assert codes.count(403) <= attempts.GUESSES + 8


def test_a_flood_of_wrong_keys_holds_up_no_right_one(small, run_server, claim):
    server = run_server(small, token=TOKEN)
    boss = server.client()
    assert boss.post("/api/login", json={"key": server.access.admin_key}).status_code == 200
    key = boss.post("/api/admin/invite", json={"name": "Ann"}).json()["link"].split("#key=")[1]
    flooding = threading.Thread(target=flood, args=(server.url, 800, BODIES["keys"]))
    flooding.start()
    n_tried = 0
    while flooding.is_alive():
        ann = server.client()
        assert ann.post("/api/login", json={"key": key}).status_code == 200
        assert server.client().post("/api/login", json={"key": server.access.admin_key}).status_code == 200
        assert claim(ann, want=1)["tasks"]
        name = {"name": f"Bo{n_tried}", "token": TOKEN}
        assert server.client().post("/api/login", json=name).status_code == 200, (
            "who has the token does not wait either"
        )
        n_tried += 1
    assert n_tried > 2


def test_a_session_is_not_held_up_by_its_address(small, run_server):
    server = run_server(small)
    ann = server.client("Ann")
    server.guard._rates["address"] = RateLimit(per_s=0.001, burst=1)
    stranger = server.client()
    stranger.cookies.set(next(iter(ann.cookies)), "guessed")
    assert [stranger.get("/api/session").status_code for _ in range(3)] == [200, 429, 429]
    assert ann.get("/api/history").status_code == 200


def tree(folder: Path) -> dict[str, int]:
    return {str(one.relative_to(folder)): one.stat().st_size for one in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("how", ["moved", "removed", "replaced by an empty folder"])
def test_nothing_is_written_where_the_dataset_no_longer_is(small, run_server, claim, decision, tmp_path, how):
    """The database is in the dataset's folder, as usual. Every route of the application, as it lists them."""
    data = tmp_path / "data"
    data.mkdir()
    server = run_server(small, url=f"sqlite:///{data / 'review.sqlite'}")
    ann = server.client("Ann")
    cards = claim(ann, want=2)["tasks"]
    assert ann.post("/api/decisions", json=decision(cards[0], 0)).status_code == 200
    if how == "removed":
        shutil.rmtree(data)
    else:
        data.rename(tmp_path / "away")
    if how == "replaced by an empty folder":
        data.mkdir()
    here = tree(data)
    bodies = {
        "/api/decisions": decision(cards[1], 1),
        "/api/claim": {"tab": "tab-00000001", "want": 1},
        "/api/release": {"tab": "tab-00000001"},
        "/api/login": {"name": "Bo"},
        "/api/decisions/set": {"votes": [decision(cards[1], 2)]},
        "/api/joint/claim": {"members": ["Ann", "Bo"], "want": 1},
        "/api/joint/decisions": {"votes": [{**decision(cards[1], 3), "member": "Ann"}]},
        "/api/admin/invite": {"name": "Cem"},
        "/api/admin/pause": {"name": "Ann", "action": "pause"},
    }
    # These change the database, so none of them may be confirmed.
    writing = {"/api/decisions", "/api/login", "/api/my-link", "/api/admin/invite", "/api/admin/pause", "/api/claim"}
    routes = {(method, one.path) for one in server.guard._app.routes for method in one.methods - {"HEAD"}}
    assert {path for method, path in routes if method == "POST"} == {*bodies, "/api/my-link", "/api/logout"}
    for method, path in sorted(routes, key=lambda one: "logout" in one[1]):
        place = path.replace("{name}", "0" * 24)
        answer = ann.post(place, json=bodies.get(path, {})) if method == "POST" else ann.get(place)
        assert answer.status_code != 500, (path, answer.text)
        if path in writing:
            assert answer.status_code == 503, (path, answer.text)
        assert tree(data) == here, f"{method} {path} wrote something"
