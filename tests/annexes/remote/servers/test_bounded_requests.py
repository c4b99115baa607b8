"""Every request to a service ends within its time-out and its bytes: each provider, each way, loading and asking.

The list of providers comes from their declarations. A new one fails the first test until it has a case here.
"""

import ast
import importlib.util
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_endpoint import ChatEndpoint
from slow_service import ATTACKS, LIFE_S, Relay, dripping
from v2_server import V2Server

import strobe
from strobe.annexes.remote.http import MOST_BYTES, HttpClient
from strobe.core.errors import StrobeError
from strobe.core.files import write_json
from strobe.core.labels import LabelSpace
from strobe.core.remote import RequestFailed
from strobe.models.options import LoadOptions
from strobe.models.providers import declared
from strobe.models.registry import load_model

PETS = LabelSpace.of_names("pets", ["cat", "dog"])
TIMEOUT_S = 2.0
LONGEST_S = TIMEOUT_S + 5
"""The time-out and room for a busy machine; an attack goes on three times as long."""
has_grpc = importlib.util.find_spec("tritonclient") is not None
needs_grpc = pytest.mark.skipif(not has_grpc, reason="the extra kserve-grpc")

Load = Callable[[], Any]


@contextmanager
def _chat(served: Path, task: str) -> Iterator[tuple[Relay, Load]]:
    settings = served / f"bounded-{task}.json"
    write_json(settings, {"task": task})  # many threads write it
    answer = "A" if task == "classification" else "[]"
    with ChatEndpoint(lambda _: answer) as service, Relay(service.url) as relay:
        options = LoadOptions(label_space=PETS, settings=settings, limits={"timeout": TIMEOUT_S})
        yield relay, lambda: load_model(f"openai:tiny@{relay.url}", options)


@contextmanager
def _kserve(served: Path, way: str) -> Iterator[tuple[Relay, Load]]:
    files = {"world": served / "world.onnx"}
    with ExitStack() as stack:
        if way == "grpc":
            from v2_grpc import GrpcServer

            service: Any = stack.enter_context(GrpcServer(files))
        else:
            service = stack.enter_context(V2Server(files, binary=way == "binary", announces=True))
        relay = stack.enter_context(Relay(service.url))
        options = LoadOptions(settings=served / "world.json", limits={"timeout": TIMEOUT_S})
        yield relay, lambda: load_model(f"kserve:world@{relay.url}", options)


PATHS: dict[str, Any] = {
    "openai, classes": lambda served: _chat(served, "classification"),
    "openai, boxes": lambda served: _chat(served, "detection"),
    "kserve, binary": lambda served: _kserve(served, "binary"),
    "kserve, json": lambda served: _kserve(served, "json"),
    "kserve, grpc": lambda served: _kserve(served, "grpc"),
}
EVERY = [pytest.param(path, marks=needs_grpc if "grpc" in path else ()) for path in PATHS]


def test_every_provider_with_an_address_is_tried() -> None:
    remote = {name for name, one in declared() if one.address and not one.is_file and not one.downloads}
    assert remote == {path.partition(",")[0] for path in PATHS}


def test_there_is_no_other_way_to_a_service() -> None:
    """Providers send requests through HttpClient, or with a time for the whole call through gRPC."""
    house = Path(strobe.__file__).parent
    remote = house / "annexes/remote"
    clients = {"urllib3", "http.client", "httpx", "requests", "aiohttp", "grpc", "tritonclient.grpc", "socket"}
    using = set()
    for path in (*(house / "models").rglob("*.py"), *remote.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[Any] = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            elif isinstance(node, ast.Call):  # late.require("urllib3", …)
                names = [one.value for one in node.args if isinstance(one, ast.Constant)]
            using |= {path.name for name in names if name in clients}
    assert using == {"bounded.py", "http.py", "kserve_grpc.py", "downloads.py"}
    assert "client_timeout" in (remote / "kserve_grpc.py").read_text()


def _failure(call: Callable[[], Any]) -> Any:
    """The error of a call, which must come long before the attack ends."""
    found: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except StrobeError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONGEST_S)
    assert not thread.is_alive(), "it goes on as long as the service likes"
    assert found, "it did not fail"
    return found[0]


@pytest.mark.parametrize("path", EVERY)
@pytest.mark.parametrize("when", ["loading", "asking"])
def test_each_slow_answer_ends_in_time(served: Path, path: str, when: str) -> None:
    image = np.zeros((40, 60, 3), dtype=np.uint8)

    def try_one(name: str) -> tuple[str, Any]:
        with PATHS[path](served) as (relay, load):
            if when == "loading":
                relay.turn(ATTACKS[name])
                return name, _failure(load)
            model = load()
            prepared = [model.prepare(image)]
            assert len(model.ask(prepared, sources=["a"]).answers) == 1
            before = relay.n_links
            relay.turn(ATTACKS[name])
            for _ in range(20):  # a client may first find that its old connection is closed
                out = name, _failure(lambda: model.ask(prepared, sources=["a"]))
                if relay.n_links > before:
                    return out
                time.sleep(0.2)
            raise AssertionError(f"{name} was not met")

    with ThreadPoolExecutor(len(ATTACKS)) as pool:
        tried = list(pool.map(try_one, ATTACKS))
    for name, error in tried:
        assert "\n" not in str(error), name
        if when == "asking":
            assert isinstance(error, RequestFailed), (name, error)


@pytest.mark.slow
@pytest.mark.parametrize("path", EVERY)
def test_damaged_replies_are_answers_or_one_line(
    served: Path, path: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every reply is damaged somewhere, in its head or its body, while the model loads and while it answers."""
    monkeypatch.setitem(globals(), "TIMEOUT_S", 1.0)
    rng, refused = random.Random(path), []
    image = np.zeros((40, 60, 3), dtype=np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with PATHS[path](served) as (relay, load):
        model = load()
        prepared = [model.prepare(image)]
        model.ask(prepared, sources=["a"])
        relay.damage = rng
        capfd.readouterr()

        def try_one(number: int) -> None:
            try:
                if number % 2:
                    model.ask(prepared, sources=["a"])
                else:
                    load()
            except StrobeError as error:
                refused.append(str(error))

        with ThreadPoolExecutor(1) as pool:
            for number in range(int(os.environ.get("STROBE_DAMAGED", "30"))):
                relay.turn(None)
                pool.submit(try_one, number).result(4 * LONGEST_S)
    assert len(refused) > 10
    assert not any("\n" in text for text in refused)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000, "kilobytes"
    assert "Traceback" not in capfd.readouterr().err


def _client(port: int, *, scheme: str = "http", timeout: float = TIMEOUT_S) -> HttpClient:
    return HttpClient(f"{scheme}://127.0.0.1:{port}", what="far", timeout=timeout, connections=2)


@contextmanager
def _raw(attack: Callable[[socket.socket], None]) -> Iterator[int]:
    with Relay("http://127.0.0.1:9") as relay:
        relay.turn(attack)
        yield int(relay.url.rpartition(":")[2])


@pytest.mark.parametrize("name", ATTACKS)
def test_a_handshake_ends_in_time(name: str) -> None:
    with _raw(ATTACKS[name]) as port:
        _failure(lambda: _client(port, scheme="https").send("GET", "/"))


def test_a_proxy_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a head byte by byte", "100 Continue", "silence"):
        for scheme in ("http", "https"):
            with _raw(ATTACKS[name]) as port:
                monkeypatch.setenv(f"{scheme}_proxy", f"http://127.0.0.1:{port}")
                monkeypatch.setenv("no_proxy", "")
                far = HttpClient(f"{scheme}://192.0.2.1", what="far", timeout=TIMEOUT_S, connections=1)
                _failure(lambda: far.send("GET", "/"))  # noqa: B023 (called here)
                monkeypatch.delenv(f"{scheme}_proxy")


def test_a_service_that_does_not_read_ends_in_time() -> None:
    def read_slowly(link: socket.socket) -> None:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(int(LIFE_S / 0.05)):
            link.recv(1024)
            time.sleep(0.05)

    with _raw(read_slowly) as port:
        error = _failure(lambda: _client(port).send("POST", "/", body=b"x" * 2**25))
    assert error.blame == "again"


HUGE = 2**20
ENDLESS = {
    "a body": b"HTTP/1.1 200 OK\r\n\r\n",
    "a body of a declared length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
    "the size of a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    "a packed body": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\n\r\n",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_reply_is_cut_before_it_fills_the_memory(name: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield ENDLESS[name]
        while True:
            yield b"0" * HUGE

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with _raw(dripping(pieces, 0)) as port, pytest.raises(RequestFailed) as failed:
        _client(port, timeout=30).send("GET", "/")
    assert f"larger than {MOST_BYTES:,} bytes" in str(failed.value) or "exceeded maximum" in str(failed.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000, "kilobytes"


def test_threads_have_their_own_time() -> None:
    """A request that is slow takes no time from another one on the same client."""
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    turns = iter([ATTACKS["silence"], dripping(lambda: iter([body]))])
    lock = threading.Lock()

    def either(link: socket.socket) -> None:
        with lock:
            attack = next(turns)
        attack(link)

    with _raw(either) as port:
        far = _client(port)
        slow = threading.Thread(target=lambda: _failure(lambda: far.send("GET", "/")))
        slow.start()
        time.sleep(TIMEOUT_S * 0.6)
        assert far.send("GET", "/").body == b"{}"
        slow.join()
