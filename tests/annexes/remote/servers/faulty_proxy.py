"""A proxy in front of a chat service that spoils some of its replies.

    cd tests/annexes/remote/servers
    python faulty_proxy.py http://127.0.0.1:8000 --port 8001 --faults ok,429,drop,slow:2,json

Request number n gets fault n modulo the number of faults. `ok` forwards it. `429`, `503` and other numbers are statuses
(429 with Retry-After: 0). `drop` closes the connection, `cut` closes it in the middle of the reply, `slow:SECONDS`
waits first, `json` is no JSON, `other` is another service. `length`, `filter`, `refusal` and `empty` change the answer.
"""

import argparse
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FaultyProxy:
    """A running proxy: its `url`, the faults of its requests in order, and the highest number at the same time."""

    def __init__(self, upstream: str, faults: Sequence[str], *, port: int = 0) -> None:
        self.upstream, self.faults = upstream.rstrip("/"), tuple(faults)
        self.used: list[str] = []
        self.finished: list[int] = []
        self.most = 0
        self._now, self._lock = 0, threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self) -> "FaultyProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def begin(self) -> tuple[int, str]:
        """Count a request and return its number and its fault."""
        with self._lock:
            number = len(self.used)
            fault = self.faults[number % len(self.faults)]
            self.used.append(fault)
            self._now += 1
            self.most = max(self.most, self._now)
            return number, fault

    def end(self, number: int) -> None:
        """Count a request that is over."""
        with self._lock:
            self._now -= 1
            self.finished.append(number)


def spoilt(body: bytes, fault: str) -> bytes:
    """Return the completion with its first choice changed."""
    reply = json.loads(body)
    first = reply["choices"][0]
    first.pop("logprobs", None)
    first["message"]["content"] = {"length": "The image", "filter": None, "refusal": None, "empty": ""}[fault]
    first["finish_reason"] = {"length": "length", "filter": "content_filter"}.get(fault, "stop")
    if fault == "refusal":
        first["message"]["refusal"] = "I'm sorry, I can't help with that."
    return json.dumps(reply).encode()


def _handler(proxy: FaultyProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            number, fault = proxy.begin()
            try:
                self._answer(body, fault)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client gave up
            finally:
                proxy.end(number)

        def _answer(self, body: bytes, fault: str) -> None:
            if fault.isdecimal():
                headers = {"Retry-After": "0"} if fault == "429" else {}
                self._send(int(fault), b'{"error": {"message": "made-up failure"}}', headers)
            elif fault == "drop":
                self.close_connection = True
            elif fault == "json":
                self._send(200, b'{"choices": [{"mess')
            elif fault == "other":
                self._send(200, b'{"greeting": "hello"}')
            else:
                if fault.startswith("slow:"):
                    time.sleep(float(fault.partition(":")[2]))
                status, reply = self._forward(body)
                if status == 200 and fault in ("length", "filter", "refusal", "empty"):
                    reply = spoilt(reply, fault)
                self._send(status, reply, cut=fault == "cut")

        def _forward(self, body: bytes) -> tuple[int, bytes]:
            kept = {name: value for name, value in self.headers.items() if name in ("Authorization", "Content-Type")}
            request = urllib.request.Request(proxy.upstream + self.path, data=body, headers=kept)
            try:
                with urllib.request.urlopen(request) as reply:
                    return int(reply.status), reply.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("upstream")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--faults", default="ok")
    given = parser.parse_args()
    with FaultyProxy(given.upstream, given.faults.split(","), port=given.port) as running:
        print(f"{running.url} in front of {given.upstream}: {given.faults}")
        threading.Event().wait()
