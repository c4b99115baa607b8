"""Attacks on the review server, each tried over HTTP and refused."""

import http.client
import json
import logging
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from strobe.review.guard import Rate

TOKEN = "a-long-shared-token"  # a token of this test's own server


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


TRAVERSALS = [
    "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "..%252f..%252fetc%252fpasswd",
    "....//....//etc/passwd", "..%5c..%5cwindows%5cwin.ini", "%00", "/etc/passwd", "//etc/passwd", "..;/etc/passwd",
    "%c0%ae%c0%ae/etc/passwd", "style.css%00.html", "../app.py", "..%2fapp.py", "dataset.json", "../review.sqlite",
]  # fmt: skip


def test_path_traversal_on_every_route(small, run_server):
    server = run_server(small)
    ann = server.client("Ann")
    cookie = "; ".join(f"{name}={value}" for name, value in ann.cookies.items())
    for prefix in ("/", "/static/", "/media/", "/admin/", "/api/", "/api/history/", "/api/session/"):
        for path in TRAVERSALS:
            status, _, body = raw(server, "GET", prefix + path, {"Cookie": cookie})
            assert status in (400, 404, 405), (prefix + path, status)
            assert b"root:" not in body
            assert b"import " not in body


def test_wrong_host_is_refused(small, run_server):
    server = run_server(small)
    port = urlsplit(server.url).port
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1:{port}.evil.example", "", f"127.0.0.1:{port + 1}"):
        assert raw(server, "GET", "/", {"Host": host})[0] in (400, 421), host
    assert raw(server, "GET", "/", {"Host": f"localhost:{port}"})[0] == 200


def test_cross_site_posts_are_refused(small, run_server):
    server = run_server(small)
    ann = server.client("Ann")
    cookie = "; ".join(f"{name}={value}" for name, value in ann.cookies.items())
    body = json.dumps({"tab": "tab-00000001"}).encode()
    right = {
        "Cookie": cookie, "Content-Type": "application/json", "Content-Length": str(len(body)), "Origin": server.url,
    }  # fmt: skip
    assert raw(server, "POST", "/api/claim", right, body)[0] == 200
    for change in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": server.url + ".evil.example"},
        {"Origin": server.url.replace("http:", "https:")},
        {"Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ):
        assert raw(server, "POST", "/api/claim", {**right, **change}, body)[0] in (403, 415), change
    without = {name: value for name, value in right.items() if name != "Origin"}
    assert raw(server, "POST", "/api/claim", without, body)[0] == 403
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert raw(server, method, "/api/claim", right)[0] == 405


def test_nothing_changes_by_get(small, run_server):
    server = run_server(small)
    ann = server.client("Ann")
    for path in ("/api/claim", "/api/decisions", "/api/login", "/api/logout", "/api/release", "/api/my-link"):
        assert ann.get(path).status_code in (404, 405)
    for path in ("/api/admin/invite", "/api/admin/pause", "/api/joint/claim", "/api/joint/decisions"):
        assert ann.get(path).status_code in (404, 405)


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


def test_rates_are_limited_per_session(small, run_server):
    server = run_server(small)
    ann, bo = server.client("Ann"), server.client("Bo")
    server.guard._rates["other"] = Rate(per_s=0.001, burst=5)
    codes = [ann.get("/api/history").status_code for _ in range(8)]
    assert codes == [200] * 5 + [429] * 3
    assert bo.get("/api/history").status_code == 200


def test_security_headers_on_every_answer(small, run_server):
    server = run_server(small, token=TOKEN)
    client = server.client()
    answers = [client.get(path) for path in ("/", "/admin", "/static/main.js", "/api/session", "/nothing", "/media/x")]
    answers += [client.post("/api/login", json={"name": "Ann", "token": TOKEN}), client.post("/api/claim", json={})]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    cookie = answers[-2].headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


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


def test_notes_with_control_characters_are_refused(small, run_server, claim, decision):
    server = run_server(small)
    ann = server.client("Ann")
    card = claim(ann, want=1)["tasks"][0]
    for bad in ("\x00", "\x1b]0;title\x07", "a\u202eb"):
        assert ann.post("/api/decisions", json=decision(card, 1, note=bad)).status_code == 422


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
    (small.root / small.frames.media[2]).write_text("root:x:0:0: this is no picture")
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
