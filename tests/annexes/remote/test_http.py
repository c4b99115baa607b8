"""The HTTP client of models behind an address, against real servers: what each failure means, in one line."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from serving import HttpService, send

from strobe.annexes.remote.http import HttpClient, check_address
from strobe.core.errors import ModelFailed
from strobe.core.remote import RequestFailed

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def server() -> Iterator[Callable[[Answer], HttpService]]:
    made: list[HttpService] = []

    def make(answer: Answer, **more: Any) -> HttpService:
        made.append(HttpService(lambda request, _: answer(request), **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def client(
    server: HttpService, *, scheme: str = "http", timeout: float = 5.0, keys: tuple[str, ...] = ()
) -> HttpClient:
    address = f"{scheme}:{server.root.partition(':')[2]}"
    return HttpClient(address, what="far", timeout=timeout, connections=2, keys=keys)


def saying(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: send(request, status, body, named)


FAILURES = {
    "busy": (saying(429, Retry_After="7"), "again", "status 429", 7.0),
    "broken": (saying(500, b'{"error": {"message": "out of\\nmemory"}}'), "again", "status 500: out of memory", None),
    "overloaded": (saying(529, Retry_After="soon"), "again", "status 529", None),
    "refused": (saying(422, b'{"detail": "no image"}'), "frame", "status 422: no image", None),
    "unknown": (saying(404, b"<html>nothing</html>"), "model", "status 404: <html>nothing</html>", None),
    "moved": (saying(301, Location="http://elsewhere"), "model", "it redirects to http://elsewhere; use that", None),
    "locked": (saying(403), "model", "status 403", None),
}


@pytest.mark.parametrize(("answer", "blame", "said", "after"), FAILURES.values(), ids=FAILURES)
def test_a_status_has_a_blame(server: Any, answer: Answer, blame: str, said: str, after: float | None) -> None:
    with pytest.raises(RequestFailed) as failed:
        client(server(answer)).send("POST", "/ask", body=b"12345")
    assert (failed.value.blame, failed.value.after) == (blame, after)
    assert said in str(failed.value)
    assert str(failed.value).startswith("far: ")
    assert "\n" not in str(failed.value)
    assert (failed.value.used.requests, failed.value.used.sent_bytes) == (1, 5)


def test_a_reply_that_never_ends_is_cut(server: Any) -> None:
    """Each piece comes in time, but the whole does not."""
    ended = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        for _ in range(100):
            if ended.wait(0.05):
                return
            request.wfile.write(b" " * 70_000)

    with pytest.raises(RequestFailed, match=r"no complete reply within 0\.2 s") as failed:
        client(server(drip), timeout=0.2).send("POST", "/")
    ended.set()
    assert failed.value.blame == "again"


def test_no_reply_no_server_and_no_json(server: Any) -> None:
    waits = threading.Event()
    with pytest.raises(RequestFailed, match=r"no complete reply within 0\.2 s") as slow:
        client(server(lambda _: waits.wait(5)), timeout=0.2).send("POST", "/")
    waits.set()
    gone = server(saying(200))
    gone.close()
    with pytest.raises(RequestFailed, match="nothing answers at this address; is the service running") as nobody:
        client(gone).send("POST", "/")
    assert (slow.value.blame, nobody.value.blame) == ("again", "again")
    reply = client(server(saying(200, b"<html>"))).send("POST", "/")
    with pytest.raises(RequestFailed, match="the reply is not JSON: <html>") as odd:
        reply.json("far")
    assert odd.value.blame == "frame"


def test_the_key_is_sent_and_never_repeated(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def echo(request: BaseHTTPRequestHandler) -> None:
        sent.append(request.headers.get("Authorization", ""))
        saying(401, b'{"error": "bad key ' + sent[-1][7:].encode() + b'"}')(request)

    monkeypatch.setenv("SECOND_KEY", " sk-secret \n")
    with pytest.raises(RequestFailed) as failed:
        client(server(echo), keys=("FIRST_KEY", "SECOND_KEY")).send("POST", "/")
    assert sent == ["Bearer sk-secret"]
    assert str(failed.value) == ("far: it refused the key in FIRST_KEY or SECOND_KEY (status 401: bad key …)")
    monkeypatch.setenv("SECOND_KEY", "sk-s\u00e9cret")
    with pytest.raises(ModelFailed, match="the key in SECOND_KEY has a character that no header can have") as odd:
        client(server(echo), keys=("FIRST_KEY", "SECOND_KEY"))
    assert "cret" not in str(odd.value)


def test_a_header_that_is_none_is_not_logged(
    server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """urllib3 logs what it cannot parse, and the service had put the key there."""

    def broken(request: BaseHTTPRequestHandler) -> None:
        key = request.headers["Authorization"][7:]
        request.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nno colon {key}\r\n\r\n{{}}".encode())

    monkeypatch.setenv("SECOND_KEY", "sk-secret")
    assert client(server(broken), keys=("SECOND_KEY",)).send("POST", "/").body == b"{}"
    assert "sk-secret" not in caplog.text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
def test_a_certificate_that_fails_is_one_line(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody trusts it, it is for another name, there is none, TLS is asked without; and one that is fine."""
    made = {}
    for name, alternative in (("own", "IP:127.0.0.1"), ("other", "DNS:elsewhere.test")):
        words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        words += ["-addext", f"subjectAltName={alternative}", "-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
        both = (tmp_path / f"{name}.key").read_text() + (tmp_path / f"{name}.pem").read_text()
        (tmp_path / f"{name}.both").write_text(both)
        made[name] = server(saying(200), certificate=tmp_path / f"{name}.both")
    plain, failed = server(saying(200)), "its certificate cannot be verified; set SSL_CERT_FILE"
    for trusted, one, scheme, said in (
        (None, made["own"], "https", failed), ("other", made["other"], "https", failed),
        ("own", plain, "https", failed), ("own", made["own"], "http", "far: "),
    ):  # fmt: skip
        if trusted is not None:
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / f"{trusted}.pem"))
        with pytest.raises(RequestFailed, match=said) as caught:
            client(one, scheme=scheme, timeout=2).send("POST", "/")
        assert "\n" not in str(caught.value)
        assert scheme == "http" or caught.value.blame == "model"
    assert client(made["own"], scheme="https").send("POST", "/").body == b"{}"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ftp://me:secret@host", "expected an address such as https://HOST:PORT"),
        ("http://", "expected an address such as"),
        ("http://host:99999", "expected an address such as"),
        ("https://me:secret@host", "the address contains a password; put the key into the environment"),
        ("https://host/v1?key=secret", "expected an address without ? and #"),
    ],
)
def test_an_address_is_checked(address: str, said: str) -> None:
    with pytest.raises(ModelFailed, match="far: ") as failed:
        check_address(address, "far")
    assert said in str(failed.value)
    assert "secret" not in str(failed.value)
