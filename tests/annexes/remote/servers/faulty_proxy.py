"""A proxy in front of a chat service that spoils some of its replies.

Request number n gets fault n modulo the number of faults. `ok` forwards it. `429`, `503` and other numbers are statuses
(429 with Retry-After: 0). `drop` closes the connection, `cut` closes it in the middle of the reply, `slow:SECONDS`
waits first, `json` is no JSON, `other` is another service. `length`, `filter`, `refusal` and `empty` change the answer.
"""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

from serving import HttpService, Request, send


class FaultyProxy(HttpService):
    """A running proxy: its `url`, and the faults of its requests in order."""

    def __init__(self, upstream: str, faults: Sequence[str]) -> None:
        super().__init__(self._answer)
        self.upstream, self.faults, self.url = upstream.rstrip("/"), tuple(faults), self.root
        self.used: list[str] = []
        self._lock = threading.Lock()

    def _answer(self, request: Request, body: bytes) -> None:
        with self._lock:
            fault = self.faults[len(self.used) % len(self.faults)]
            self.used.append(fault)
        if fault.isdecimal():
            headers = {"Retry-After": "0"} if fault == "429" else {}
            send(request, int(fault), b'{"error": {"message": "made-up failure"}}', headers)
        elif fault == "drop":
            request.close_connection = True
        elif fault in ("json", "other"):
            send(request, 200, b'{"choices": [{"mess' if fault == "json" else b'{"greeting": "hello"}')
        else:
            if fault.startswith("slow:"):
                time.sleep(float(fault.partition(":")[2]))
            status, reply = self._forward(request, body)
            if status == 200 and fault in ("length", "filter", "refusal", "empty"):
                reply = spoilt(reply, fault)
            send(request, status, reply, cut=fault == "cut")

    def _forward(self, request: Request, body: bytes) -> tuple[int, bytes]:
        kept = {name: value for name, value in request.headers.items() if name in ("Authorization", "Content-Type")}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.upstream + request.path, body, kept)) as reply:
                return int(reply.status), reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


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
