"""A model that asks the service of made_colours_service for the colour of an image.

The file is also a plugin: `py:made_remote.py:make` asks the address in the variable COLOUR_ADDRESS.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from strobe.annexes.remote.http import HttpClient
from strobe.core.labels import LabelSpace
from strobe.core.records import Detections, ModelSpec
from strobe.core.remote import RemoteAnswer, Reply, RequestFailed, RequestLimits, Usage
from strobe.models.options import LoadOptions, ModelName
from strobe.models.providers import Provider

KEYS = ("COLOUR_KEY",)
COLOURS = LabelSpace.of_names("colours", ["red", "green", "blue"])


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
