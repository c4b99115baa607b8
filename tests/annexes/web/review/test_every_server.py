"""What every server of strobe, of the review and the viewer, withstands on every route that its application lists."""

import ast
import http.client
import json
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

import strobe
from strobe.annexes.web import attempts
from strobe.annexes.web.guard import RateLimit
from strobe.annexes.web.serve import config_of

sys.path.insert(0, str(Path(__file__).parents[1] / "view"))
from made_world import ViewServer, answers, make_dataset, make_run

TOKEN = "a-shared-secret-of-this-review"
TRAVERSALS = [
    "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "..%252f..%252fetc%252fpasswd",
    "....//....//etc/passwd", "..%5c..%5cwindows%5cwin.ini", "%00", "/etc/passwd", "//etc/passwd", "..;/etc/passwd",
    "%c0%ae%c0%ae/etc/passwd", "style.css%00.html", "../app.py", "..%2fapp.py", "dataset.json", "../review.sqlite",
    "../run.json",
]  # fmt: skip


@dataclass
class Served:
    """A running server, its dataset's folder, a valid body for every POST, and who logs in how."""

    server: Any
    data: Path
    bodies: dict[str, Any]
    query: dict[str, Any]
    places: dict[str, str]
    logged_in: Callable[[], Any]
    other: Callable[[], Any]
    right: Callable[[], dict[str, Any]]
    wrong: list[Callable[[int], dict[str, Any]]]
    writes: tuple[set[str], int]

    @property
    def routes(self) -> set[tuple[str, str]]:
        return {(way, one.path) for one in self.server.guard._app.routes for way in one.methods - {"HEAD"}}

    def gets(self) -> list[str]:
        return [self.at(path) for way, path in sorted(self.routes) if way == "GET"]

    def at(self, path: str) -> str:
        for name, value in self.places.items():
            path = path.replace(name, value)
        return path


@pytest.fixture(scope="session")
def viewed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("viewed") / "world"
    make_run(root / "run", root / "data", answers(make_dataset(root / "data")))
    return root


@pytest.fixture(params=["review", "view"])
def served(request, small, run_server, decision, viewed_once, tmp_path):
    data = tmp_path / "served/data"
    if request.param == "review":
        data.mkdir(parents=True)
        server = run_server(small, url=f"sqlite:///{data / 'review.sqlite'}", token=TOKEN)
        boss = server.client()
        assert boss.post("/api/login", json={"key": server.access.admin_key}).status_code == 200
        link = boss.post("/api/admin/invite", json={"name": "Ann"}).json()["link"]
        key = {"key": link.split("#key=")[1]}
        card = boss.post("/api/claim", json={"tab": "tab-00000000", "want": 1}).json()["tasks"][0]
        bodies = {
            "/api/login": key, "/api/logout": {}, "/api/my-link": {}, "/api/decisions": decision(card, 1),
            "/api/decisions/set": {"votes": [decision(card, 2)]}, "/api/claim": {"tab": "tab-00000001", "want": 1},
            "/api/release": {"tab": "tab-00000001"}, "/api/joint/claim": {"members": ["Ann", "Bo"], "want": 1},
            "/api/joint/decisions": {"votes": [{**decision(card, 3), "member": "Ann"}]},
            "/api/admin/invite": {"name": "Cem"}, "/api/admin/pause": {"name": "Bo", "action": "pause"},
        }  # fmt: skip
        names, writes = (
            {"{name}": "0" * 24},
            {f"/api/{name}" for name in ("decisions", "login", "my-link", "claim", "admin/invite", "admin/pause")},
        )

        def ann():
            client = server.client()
            assert client.post("/api/login", json=key).status_code == 200
            return client

        yield Served(
            server, data, bodies, {}, names, lambda: boss, ann, lambda: key, [_wrong_key, _wrong_token], (writes, 503)
        )
        return
    copy = shutil.copytree(viewed_once, data.parent, dirs_exist_ok=True)
    about = copy / "run/run.json"
    about.write_text(about.read_text().replace(str(viewed_once), str(copy)))
    server = ViewServer(copy / "run", data)
    run = next(iter(server.library.found.runs))
    bodies = {
        "/api/login": {"key": server.keys.key_of("Ann")}, "/api/logout": {},
        "/api/compare": {"rows": [[run, "net:0"], [run, "net:1"]]},
        "/api/tag": {"data": server.data, "act": "tag", "text": "odd", "row": 0},
        "/api/selection": {"data": server.data, "query": "v=clip1", "name": "some"},
    }  # fmt: skip
    query, names = {"data": server.data, "row": 0, "form": "csv"}, {"{data}": server.data, "{name}": "0" * 32}
    yield Served(
        server, data, bodies, query, names, lambda: server.client("Ann"), lambda: server.client("Guest"),
        lambda: bodies["/api/login"], [_wrong_key], ({"/api/tag", "/api/selection"}, 422),
    )  # fmt: skip
    server.stop()


def _wrong_key(number: int) -> dict[str, Any]:
    return {"key": f"wrong {number}"}


def _wrong_token(number: int) -> dict[str, Any]:
    return {"name": f"E{number}", "token": "a guess"}


def raw(server, method, path, headers=None, body=None):
    """A request exactly as given: no client tidies the path."""
    host = urlsplit(server.url).netloc
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": host, **(headers or {})}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    out = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return out


def cookie_of(client):
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


def test_every_server_is_tried_and_has_a_body_for_every_route(served):
    made = {
        path.parent.name
        for path in Path(strobe.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("FastAPI", "HTTPServer", "create_server"))
    }
    assert made == {"review", "view"}
    assert {path for way, path in served.routes if way == "POST"} == set(served.bodies)


def test_path_traversal_on_every_route(served):
    cookie = cookie_of(served.logged_in())
    for prefix in {"/", *(f"{path.rsplit('/0', 1)[0].rstrip('/')}/" for path in served.gets())}:
        for path in TRAVERSALS:
            status, _, body = raw(served.server, "GET", prefix + path, {"Cookie": cookie})
            assert status in (400, 404, 405), (prefix + path, status)
            assert b"root:" not in body
            assert b"import " not in body


def test_wrong_host_is_refused_on_every_route(served):
    port = urlsplit(served.server.url).port
    for path in served.gets():
        for host in ("evil.example", f"127.0.0.1:{port}.evil.example", "", f"127.0.0.1:{port + 1}"):
            assert raw(served.server, "GET", path, {"Host": host})[0] in (400, 421), (path, host)
    assert raw(served.server, "GET", "/", {"Host": f"localhost:{port}"})[0] == 200


def test_cross_site_posts_are_refused_and_nothing_changes_by_get(served):
    server, ann, before = served.server, served.logged_in(), tree(served.data)
    for path, content in served.bodies.items():
        body = json.dumps(content).encode()
        right = {
            "Cookie": cookie_of(ann), "Content-Type": "application/json", "Content-Length": str(len(body)),
            "Origin": server.url,
        }  # fmt: skip
        for change in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": server.url + ".evil.example"},
            {"Origin": server.url.replace("http:", "https:")},
            {"Sec-Fetch-Site": "cross-site"},
            {"Content-Type": "text/plain"},
            {"Content-Type": "application/x-www-form-urlencoded"},
        ):
            assert raw(server, "POST", path, {**right, **change}, body)[0] in (403, 415), (path, change)
        without = {name: value for name, value in right.items() if name != "Origin"}
        assert raw(server, "POST", path, without, body)[0] == 403, path
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert raw(server, method, path, right)[0] == 405, path
        assert ann.get(path).status_code in (404, 405), path
    assert tree(served.data).keys() == before.keys()


def test_security_headers_on_every_answer(served):
    ann = served.logged_in()
    found = [ann.get(path, params=served.query) for path in (*served.gets(), "/static/main.js", "/nothing")]
    found += [ann.post(path, json=body) for path, body in served.bodies.items() if path != "/api/logout"]
    for answer in found:
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = served.server.client().post("/api/login", json=served.right()).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_rates_are_limited_per_session_and_no_address_holds_up_a_session(served):
    one, other = served.logged_in(), served.other()
    served.server.guard._rates["address"] = RateLimit(per_s=0.001, burst=1)
    stranger = served.server.client()
    stranger.cookies.set(next(iter(other.cookies)), "guessed.cookie")
    assert [stranger.get("/api/session").status_code for _ in range(3)] == [200, 429, 429]
    served.server.guard._rates["other"] = RateLimit(per_s=0.001, burst=5)
    path = "/api/history" if "/api/claim" in served.bodies else "/api/runs"
    assert [one.get(path).status_code for _ in range(8)] == [200] * 5 + [429] * 3
    assert other.get(path).status_code == 200


def flood(url, n, body):
    """Log in wrongly, each time from another forged address, on several connections at once."""

    def some(first):
        codes = []
        with httpx.Client(base_url=url, headers={"origin": url}, timeout=60) as client:
            for number in range(first, n, 8):
                forged = {"X-Forwarded-For": f"10.1.{number // 250}.{number % 250}", "X-Forwarded-Proto": "https"}
                codes.append(client.post("/api/login", json=body(number), headers=forged).status_code)
        return codes

    with ThreadPoolExecutor(8) as pool:
        return [code for codes in pool.map(some, range(8)) for code in codes]


def test_forged_addresses_buy_no_guesses_and_a_flood_holds_up_nobody(served, monkeypatch):
    monkeypatch.setattr(attempts, "QUEUE_S", 0.2)
    monkeypatch.setattr(attempts, "GUESSES_PER_S", 0.01)  # the same on a busy machine
    ann, path = served.logged_in(), "/api/history" if "/api/claim" in served.bodies else "/api/runs"
    codes: list[int] = []
    flooding = threading.Thread(target=lambda: codes.extend(flood(served.server.url, 600, served.wrong[0])))
    flooding.start()
    n_tried = 0
    while flooding.is_alive():
        assert served.server.client().post("/api/login", json=served.right()).status_code == 200
        assert ann.get(path).status_code == 200
        if "/api/claim" in served.bodies:
            name = {"name": f"Bo{n_tried}", "token": TOKEN}
            assert served.server.client().post("/api/login", json=name).status_code == 200, "who has the token"
        n_tried += 1
    assert n_tried > 2
    for found in (codes, *(flood(served.server.url, 300, body) for body in served.wrong[1:])):
        assert set(found) <= {403, 429}
        assert found.count(403) <= attempts.GUESSES + 8


def test_only_a_named_proxy_names_addresses(served):
    usual, named = config_of(served.server.guard), config_of(served.server.guard, ["127.0.0.1"])
    for config in (usual, named):
        config.load()
    assert not usual.proxy_headers
    assert named.proxy_headers
    with pytest.raises(Exception, match=r"--proxy: expected an address such as 10\.0\.0\.2, got '\*'"):
        config_of(served.server.guard, ["*"])


def tree(folder: Path) -> dict[str, int]:
    return {str(one.relative_to(folder)): one.stat().st_size for one in sorted(folder.rglob("*"))}


def _replace(data: Path, away: Path) -> None:
    """Another dataset is there now: its sets have other names."""
    data.rename(away)
    data.mkdir()
    if (away / "dataset.json").is_file():
        dataset = strobe.load_dataset(away)
        strobe.save_dataset(dataset.keep_rows(np.arange(len(dataset.sets.set)) >= 5), data)


MOVES = {
    "moved": lambda data, away: data.rename(away),
    "removed": lambda data, away: shutil.copytree(data, away) and shutil.rmtree(data),
    "replaced by an empty folder": lambda data, away: (data.rename(away), data.mkdir()),
    "replaced by another dataset": _replace,
    "without dataset.json": lambda data, away: (
        shutil.copytree(data, away) and next(data.glob("dataset.json"), data / "review.sqlite").unlink()
    ),
}


@pytest.mark.parametrize("how", MOVES)
def test_nothing_is_written_where_the_dataset_no_longer_is(served, how, tmp_path):
    """Every route of the application, as it lists them. The database of a review is in the dataset's folder."""
    ann, bo = served.logged_in(), served.other()
    ann.get("/api/set", params=served.query)
    MOVES[how](served.data, tmp_path / "away")
    before, (writes, refused) = tree(tmp_path / "served"), served.writes
    for method, path in sorted(served.routes, key=lambda one: "logout" in one[1]):
        place = served.at(path)
        body = {"name": "Dan", "token": TOKEN} if (path, refused) == ("/api/login", 503) else served.bodies.get(path)
        who = bo if path in ("/api/my-link", "/api/claim") else ann
        answer = who.post(place, json=body) if method == "POST" else who.get(place, params=served.query)
        assert answer.status_code != 500, (path, answer.text)
        if path in writes:
            assert answer.status_code == refused, (path, answer.text)
        assert tree(tmp_path / "served") == before, f"{method} {path} wrote something"
