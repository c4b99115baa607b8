"""Log-ins from forged addresses and floods of them; and what a live viewer writes after its dataset has gone."""

import ast
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from test_view_attacks import bodies, routes_of

import strobe
from strobe.annexes.web import attempts
from strobe.annexes.web.guard import RateLimit
from strobe.annexes.web.serve import config_of


def tree(folder: Path) -> dict[str, bytes]:
    """Every file and folder, with the files' content."""
    return {
        str(one.relative_to(folder)): one.read_bytes() if one.is_file() else b""
        for one in sorted(folder.rglob("*"))
    }  # fmt: skip


def flood(url: str, n: int, *, body=lambda number: {"key": f"wrong {number}"}) -> list[int]:
    """Log in with wrong keys, each time from another forged address, on several connections at once."""

    def some(first: int) -> list[int]:
        codes = []
        with httpx.Client(base_url=url, headers={"origin": url}, timeout=60) as client:
            for number in range(first, n, 8):
                forged = {"X-Forwarded-For": f"10.1.{number // 250}.{number % 250}", "X-Forwarded-Proto": "https"}
                codes.append(client.post("/api/login", json=body(number), headers=forged).status_code)
        return codes

    with ThreadPoolExecutor(8) as pool:
        return [code for codes in pool.map(some, range(8)) for code in codes]


@pytest.fixture(autouse=True)
def short_queue(monkeypatch):
    monkeypatch.setattr(attempts, "QUEUE_S", 0.2)
    monkeypatch.setattr(attempts, "GUESSES_PER_S", 0.01)  # the same on a busy machine


def test_forged_addresses_buy_no_guesses(world, view_server):
    server = view_server(world)
    codes = flood(server.url, 600)
    assert set(codes) <= {403, 429}
    assert codes.count(403) <= attempts.GUESSES + 8


def test_a_flood_of_wrong_keys_holds_up_no_right_one(world, view_server):
    server = view_server(world)
    bo = server.client("Guest")
    flooding = threading.Thread(target=flood, args=(server.url, 800))
    flooding.start()
    n_tried = 0
    while flooding.is_alive():
        assert server.client().post("/api/login", json={"key": server.keys.key_of("Ann")}).status_code == 200
        assert bo.get("/api/runs").status_code == 200
        n_tried += 1
    assert n_tried > 2


def test_a_session_is_not_held_up_by_its_address(world, view_server):
    server = view_server(world)
    ann = server.client("Ann")
    server.guard._rates["address"] = RateLimit(per_s=0.001, burst=1)
    stranger = server.client()
    stranger.cookies.set(next(iter(ann.cookies)), "guessed.cookie")
    assert [stranger.get("/api/session").status_code for _ in range(3)] == [200, 429, 429]
    assert ann.get("/api/runs").status_code == 200
    assert server.client("Guest").get("/api/runs").status_code == 200, "a new link still opens"


def test_only_a_named_proxy_names_addresses(world, view_server):
    server = view_server(world)
    usual, named = config_of(server.guard), config_of(server.guard, ["127.0.0.1"])
    for config in (usual, named):
        config.load()
    assert not usual.proxy_headers
    assert named.proxy_headers
    with pytest.raises(Exception, match=r"--proxy: expected an address such as 10\.0\.0\.2, got '\*'"):
        config_of(server.guard, ["*"])


def _replace(data: Path, away: Path) -> None:
    """Another dataset is there now: its sets have other names."""
    data.rename(away)
    dataset = strobe.load_dataset(away)
    strobe.save_dataset(dataset.keep_rows(np.arange(len(dataset.sets.set)) >= 5), data)


MOVES = {
    "moved": lambda data, away: data.rename(away),
    "removed": lambda data, away: shutil.copytree(data, away) and shutil.rmtree(data),
    "replaced by an empty folder": lambda data, away: (data.rename(away), data.mkdir()),
    "replaced by another dataset": _replace,
    "without dataset.json": lambda data, away: shutil.copytree(data, away) and (data / "dataset.json").unlink(),
}


@pytest.mark.parametrize("how", MOVES)
def test_nothing_is_written_where_the_dataset_no_longer_is(world, view_server, how, tmp_path):
    """Every route of the application, as it lists them."""
    server = view_server(world / "run", world / "data")
    ann, body = server.client("Ann"), bodies(server)
    assert ann.post("/api/tag", json=body["/api/tag"]).status_code == 200
    ann.get("/api/set", params={"data": server.data, "row": 0})
    MOVES[how](world / "data", tmp_path / "away")
    before = tree(tmp_path)
    for method, path in sorted(routes_of(server), key=lambda one: "logout" in one[1]):
        place = path.replace("{data}", server.data).replace("{name}", "0" * 32)
        query = {"data": server.data, "row": 0, "form": "csv"}
        answer = ann.post(place, json=body[path]) if method == "POST" else ann.get(place, params=query)
        assert answer.status_code != 500, (path, answer.text)
        if path in ("/api/tag", "/api/selection"):
            assert answer.status_code == 422
            assert "nothing was written" in answer.json()["error"] or "could not be done" in answer.json()["error"]
        assert tree(tmp_path) == before, f"{method} {path} wrote something"


def test_a_dataset_that_comes_back_is_written_to_again(world, view_server):
    server = view_server(world)
    ann, body = server.client("Ann"), bodies(server)["/api/tag"]
    ann.get("/api/sets", params={"data": server.data})
    (world / "data").rename(world / "away")
    assert "nothing was written" in ann.post("/api/tag", json=body).json()["error"]
    (world / "away").rename(world / "data")
    assert ann.post("/api/tag", json=body).status_code == 200
    assert len((world / "data/tags.jsonl").read_text().splitlines()) == 1


def test_every_server_has_these_tests() -> None:
    """The applications of strobe, as the code makes them."""
    made = {
        path.parent.name
        for path in Path(strobe.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("FastAPI", "HTTPServer", "create_server"))
    }
    assert made == {"review", "view"}
    names = [
        "test_forged_addresses_buy_no_guesses",
        "test_a_flood_of_wrong_keys_holds_up_no_right_one",
        "test_nothing_is_written_where_the_dataset_no_longer_is",
    ]
    for one in made:
        text = (Path(__file__).parents[1] / one / f"test_{one}_limits.py").read_text(encoding="utf-8")
        assert all(f"def {name}(" in text for name in names), one
