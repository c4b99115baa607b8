"""The attacks that the review server withstands, tried on every route of the viewer."""

import base64
import json

import pytest
from made_world import answers, make_dataset, make_run

from strobe.annexes.web.view.access import COOKIE_S, ViewKeys

GETS = ["/api/runs", "/api/sets", "/api/set", "/api/videos", "/api/video", "/api/export"]
POSTS = ["/api/login", "/api/logout", "/api/compare", "/api/tag", "/api/selection"]
WRITES = ["/api/tag", "/api/selection"]


def routes_of(server):
    """Every route of the application that the guard protects."""
    return {
        (method, route.path)
        for route in server.guard._app.routes
        for method in route.methods - {"HEAD"}
    }  # fmt: skip


def bodies(server):
    """A valid body for every route that takes one."""
    run = next(iter(server.library.found.runs))
    return {
        "/api/login": {"key": server.keys.key_of("Ann")},
        "/api/logout": {},
        "/api/compare": {"rows": [[run, "net:0"], [run, "net:1"]]},
        "/api/tag": {"data": server.data, "act": "tag", "text": "odd", "row": 0},
        "/api/selection": {"data": server.data, "query": "v=clip1", "name": "some"},
    }


def test_no_route_is_left_out(world, view_server):
    server = view_server(world)
    pages = {("GET", "/"), ("GET", "/static/{name}"), ("GET", "/api/session")}
    media = {("GET", "/media/{data}/{name}"), ("GET", "/media/{data}/{name}/small")}
    assert routes_of(server) == pages | media | {("GET", one) for one in GETS} | {("POST", one) for one in POSTS}


@pytest.mark.parametrize("path", GETS)
def test_nothing_is_shown_without_a_link(world, view_server, path):
    server = view_server(world)
    query = {"data": server.data, "row": 0, "form": "csv"}
    assert server.client().get(path, params=query).status_code == 401
    assert server.client("Guest").get(path, params=query).status_code == 200
    stranger = server.client()
    stranger.cookies.set(next(iter(server.client("Ann").cookies)), "guessed.cookie")
    assert stranger.get(path, params=query).status_code == 401


def test_images_need_a_link_and_a_name_that_was_issued(world, view_server):
    server = view_server(world)
    ann, data = server.client("Ann"), server.data
    name = ann.get("/api/sets", params={"data": data}).json()["sets"][0]["i"]
    for path in (f"/media/{data}/{name}", f"/media/{data}/{name}/small"):
        assert ann.get(path).headers["content-type"] == "image/jpeg"
        assert server.client().get(path).status_code == 401
    for bad in ("0" * 32, "1", "a" * 31, name[:-1] + ("0" if name[-1] != "0" else "1"), "x'; DROP TABLE sets;--"):
        assert ann.get(f"/media/{data}/{bad}").status_code == 404, bad
    assert ann.get(f"/media/{'0' * 12}/{name}").status_code == 404


def test_no_path_of_this_machine_reaches_a_guest(world, view_server, tmp_path):
    server = view_server(world)
    guest = server.client("Guest")
    query = {"data": server.data, "row": 0, "facets": 1, "form": "csv"}
    for path in GETS:
        assert str(tmp_path) not in guest.get(path, params=query).text
    assert str(tmp_path) not in guest.post("/api/compare", json=bodies(server)["/api/compare"]).text


@pytest.mark.parametrize("path", WRITES)
def test_a_guest_only_reads(world, view_server, path):
    server = view_server(world)
    body = bodies(server)[path]
    assert server.client("Guest").post(path, json=body).status_code == 403
    assert server.client().post(path, json=body).status_code == 401
    assert not (world / "data/tags.jsonl").exists()
    assert not (world / "data-some").exists()
    assert server.client("Ann").post(path, json=body).status_code == 200


@pytest.mark.parametrize("path", POSTS)
def test_odd_bodies_are_refused(world, view_server, path):
    server = view_server(world)
    ann, good = server.client("Ann"), bodies(server)[path]
    assert ann.post(path, json={**good, "note": "x" * 400_000}).status_code == 413
    if path == "/api/logout":
        return
    assert ann.post(path, json={**good, "extra": 1}).status_code == 422
    assert ann.post(path, json=[]).status_code == 422
    assert ann.post(path, content=b"{", headers={"content-type": "application/json"}).status_code == 422
    for name in good:
        for bad in (None, 1.5, {"a": 1}, "x" * 9000, "../../data", "a\x00b"):
            answer = ann.post(path, json={**good, name: bad})
            assert answer.status_code in (403, 404, 422, 429), (name, bad)
            assert "x" * 100 not in answer.text
    assert not (world / "data/tags.jsonl").exists()
    assert sorted(one.name for one in world.iterdir()) == ["data", "run"]


@pytest.mark.parametrize("bad", ["<script>alert(1)</script>", "a\x1b[31mb", "a\u202eb", "", "=cmd()", "x" * 41])
def test_odd_tags_are_refused(world, view_server, bad):
    server = view_server(world)
    body = {**bodies(server)["/api/tag"], "text": bad}
    assert server.client("Ann").post("/api/tag", json=body).status_code == 422


def test_odd_queries_are_refused(world, view_server):
    server = view_server(world)
    ann, data = server.client("Ann"), server.data
    for query in (
        {"data": "../../etc"}, {"data": "0" * 12}, {"data": data, "offset": -1}, {"data": data, "limit": 10**9},
        {"data": data, "m": "net:0:none"}, {"data": data, "m": "other:holds"}, {"data": data, "d": "x" * 50},
        {"data": data, "s": "random"}, {"data": data, "x": "a\tb\tc"}, {"data": data, "offset": "1; DROP TABLE"},
    ):  # fmt: skip
        assert ann.get("/api/sets", params=query).status_code == 422, query
    assert ann.get("/api/set", params={"data": data, "row": 10**6}).status_code == 404
    assert ann.get("/api/video", params={"data": data, "row": 10**6}).status_code == 404
    assert ann.get("/api/export", params={"data": data, "form": "../tags"}).status_code == 422


def test_guessing_keys_gets_slower(world, view_server):
    server = view_server(world)
    client = server.client()
    codes = [client.post("/api/login", json={"key": "guess"}).status_code for _ in range(8)]
    assert codes[:5] == [403] * 5
    assert 429 in codes[5:]


def test_a_symlink_out_of_the_dataset_is_not_served(world, view_server, tmp_path):
    secret = tmp_path / "secret.jpg"
    image = world / "data/media/2.jpg"
    secret.write_bytes(image.read_bytes())
    image.unlink()
    image.symlink_to(secret)
    server = view_server(world)
    ann, data = server.client("Ann"), server.data
    frames = ann.get("/api/set", params={"data": data, "row": 0}).json()["frames"]
    codes = [ann.get(f"/media/{data}/{frame['i']}/small") for frame in frames]
    assert [answer.status_code for answer in codes] == [200, 200, 422, 200, 200]
    assert str(tmp_path) not in codes[2].text


def test_a_link_for_tags_out_of_the_dataset_is_refused(world, view_server, tmp_path):
    (tmp_path / "elsewhere").write_text("")
    (world / "data/tags.jsonl").symlink_to(tmp_path / "elsewhere")
    server = view_server(world)
    assert server.client("Ann").post("/api/tag", json=bodies(server)["/api/tag"]).status_code == 422
    assert (tmp_path / "elsewhere").read_text() == ""


def test_keys_belong_to_a_name_a_role_and_a_place():
    clock = [1_800_000_000.0]
    keys = ViewKeys({"Ann": "owner", "Bo": "guest"}, secret=b"s", scope="a", clock=lambda: clock[0])
    assert keys.person_of_key(keys.key_of("Bo")).role == "guest"
    assert keys.key_of("Ann") != keys.key_of("Bo")
    elsewhere = ViewKeys({"Ann": "owner"}, secret=b"s", scope="b")
    assert elsewhere.person_of_key(keys.key_of("Ann")) is None
    cookie = keys.seal(keys.person_of_key(keys.key_of("Bo")))
    assert keys.person_of_cookie(cookie).name == "Bo"
    text, _, seal = cookie.partition(".")
    forged = base64.urlsafe_b64encode(json.dumps(["Bo", "owner", 1_800_000_000]).encode()).decode()
    for bad in ("", ".", text, f"{forged}.{seal}", cookie[:-1], f"{text}.", "💥." + seal):
        assert keys.person_of_cookie(bad) is None
    later = ViewKeys({"Ann": "owner"}, secret=b"s", scope="a", clock=lambda: clock[0])
    assert later.person_of_cookie(cookie) is None, "Bo is no longer invited"
    promoted = ViewKeys({"Bo": "owner"}, secret=b"s", scope="a", clock=lambda: clock[0])
    assert promoted.person_of_cookie(cookie) is None, "another role needs another link"
    clock[0] += COOKIE_S + 1
    assert keys.person_of_cookie(cookie) is None


def test_a_dataset_without_images_is_shown(tmp_path, view_server):
    dataset = make_dataset(tmp_path / "data", images=False)
    make_run(tmp_path / "run", tmp_path / "data", answers(dataset, 1))
    server = view_server(tmp_path / "run")
    found = server.client("Ann").get("/api/sets", params={"data": server.data, "facets": 1}).json()
    assert found["about"]["no_images"]
    assert {one["i"] for one in found["sets"]} == {""}


def test_a_dataset_that_comes_back_is_written_to_again(world, view_server):
    server = view_server(world)
    ann, body = server.client("Ann"), bodies(server)["/api/tag"]
    ann.get("/api/sets", params={"data": server.data})
    (world / "data").rename(world / "away")
    assert "nothing was written" in ann.post("/api/tag", json=body).json()["error"]
    (world / "away").rename(world / "data")
    assert ann.post("/api/tag", json=body).status_code == 200
    assert len((world / "data/tags.jsonl").read_text().splitlines()) == 1
