"""A real HTTP service that names the colour of an image, with faults to order."""

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable

from serving import HttpService, Request, send

Fault = Callable[[str, int], tuple[int, dict[str, str]] | str | float | None]
"""From the image's digest and the number of the try (1, 2, …): a status with headers, "drop", seconds of delay, or an
answer in words; None for the right answer."""


class Colours(HttpService):
    """The service. It counts what it received and what it answered, by the digest of each image."""

    def __init__(self, fault: Fault | None = None, *, key: str | None = None) -> None:
        self.tries, self.answered = Counter[str](), Counter[str]()
        self.order: list[str] = []
        self.keys: set[str] = set()
        self.attempts = Counter[str]()
        self.sources: dict[str, str] = {}
        self.fault: Fault = fault or (lambda name, n: None)
        self.key, self.guard = key, threading.Lock()
        self.flying = self.most_flying = 0
        super().__init__(self.serve)
        self.address = self.root

    def serve(self, request: Request, body: bytes) -> None:
        asked = json.loads(body)
        names = [hashlib.sha256(json.dumps(one).encode()).hexdigest()[:12] for one in asked["images"]]
        with self.guard:
            self.flying += 1
            self.most_flying = max(self.most_flying, self.flying)
            self.keys.add(request.headers.get("Authorization", ""))
            for name, source in zip(names, asked["sources"], strict=True):
                self.tries[name] += 1
                self.attempts[name, asked["attempt"]] += 1
                self.sources[name] = source
            tried = [self.tries[name] for name in names]
        faults = [found for name, n in zip(names, tried, strict=True) if (found := self.fault(name, n)) is not None]
        try:
            if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
                send(
                    request,
                    401,
                    json.dumps({"error": f"no such key {request.headers.get('Authorization', '')[7:]}"}).encode(),
                )
                return
            fault = faults[0] if faults else None
            if fault == "drop":
                request.close_connection = True
                return
            if isinstance(fault, tuple):
                send(request, fault[0], json.dumps({"error": f"status {fault[0]}"}).encode(), fault[1])
                return
            if isinstance(fault, float):
                time.sleep(fault)
                fault = None
            answers = [fault if fault is not None else one for one in asked["images"]]
            with self.guard:
                for name in names:
                    self.answered[name] += 1
                    self.order.append(name)
            send(request, 200, json.dumps({"answers": answers, "tokens": [7 * len(names), len(names)]}).encode())
        finally:
            with self.guard:
                self.flying -= 1
