"""A real HTTP service that names the colour of an image, with faults to order, and the model that asks it.

The file is also a plugin: `py:made_remote.py:make` asks the address in the variable COLOUR_ADDRESS.
"""

import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from serving import HttpService, Request, send

from strobe.annexes.remote.http import HttpClient
from strobe.core.labels import LabelSpace
from strobe.core.records import Detections, ModelSpec
from strobe.core.remote import RemoteAnswer, Reply, RequestFailed, RequestLimits, Usage
from strobe.models.options import LoadOptions, ModelName
from strobe.models.providers import Provider

KEYS = ("COLOUR_KEY",)
COLOURS = LabelSpace.of_names("colours", ["red", "green", "blue"])

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


class ColourModel:
    """Asks the service for the colour of images: a classifier, or a detector of one box with the colour."""

    device, lanes, preparation = "remote", 1, None

    def __init__(
        self,
        address: str,
        limits: RequestLimits,
        *,
        batch_size: int = 1,
        task: str = "classification",
        space: LabelSpace = COLOURS,
    ) -> None:
        self.limits = limits
        self.spec = ModelSpec(
            name="colours", provider="test", task=task, label_space=space, weights=hashlib.sha256(b"1").hexdigest(),
            preprocessing={"protocol": "colours 1"}, batch_size=batch_size,
        )  # fmt: skip
        self.http = HttpClient(
            address, what="colours", timeout=limits.timeout, connections=limits.concurrency, keys=KEYS
        )

    def prepare(self, image: Any) -> list[float]:
        return [round(float(one), 3) for one in image.reshape(-1, 3).mean(axis=0)]

    prepare_input = prepare

    def ask(self, prepared: Sequence[Any], *, sources: Sequence[str], attempt: int = 0) -> Reply:
        body = json.dumps({"images": list(prepared), "sources": list(sources), "attempt": attempt}).encode()
        content = self.http.send("POST", "/colour", body=body).json("colours")
        used = Usage(
            requests=1, sent_bytes=len(body), input_tokens=content["tokens"][0], output_tokens=content["tokens"][1]
        )
        return Reply(answers=tuple(self._answer(one) for one in content["answers"]), used=used)

    def _answer(self, answer: Any) -> RemoteAnswer:
        if isinstance(answer, str):
            if answer == "refused":
                raise RequestFailed("colours: it refused the image", blame="frame")
            return RemoteAnswer(said=answer)
        scores = np.array(answer, dtype=np.float32) / 10
        if self.spec.task == "classification":
            return RemoteAnswer(scores=scores)
        label = np.array([int(scores.argmax())], dtype=np.int32)
        return RemoteAnswer(found=Detections(xyxy=np.array([[0.0, 0, 20, 16]]), label=label, score=np.array([0.9])))


def make(options: LoadOptions) -> ColourModel:
    """Return the model of the address in COLOUR_ADDRESS, for `py:made_remote.py:make`."""
    limits = RequestLimits.of(options.limits)
    return ColourModel(
        os.environ.get("COLOUR_ADDRESS", "http://127.0.0.1:9"), limits, batch_size=options.batch_size or 1
    )


def load(model: ModelName, options: LoadOptions) -> Any:
    """Return the model of `far:NAME@ADDRESS`."""
    assert model.address is not None
    return ColourModel(model.address, RequestLimits.of(options.limits))


PROVIDER = Provider(
    load=load, what="colours", example="far:colours@http://localhost:8000", address=True, settings=("limits",)
)
"""The provider of `far:`, which a test adds to the list."""
