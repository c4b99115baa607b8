"""One model of every provider behind an address, with a service of its own in this process."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

sys.path.insert(0, str(Path(__file__).parents[2] / "servers"))
from chat_endpoint import Asked, ChatEndpoint

SECRET = "a-secret-of-the-contract"


@dataclass(frozen=True)
class RemoteCase:
    """A model as it is named, its task, the same model at an address without a service, and its settings.

    `deny` makes the service refuse every key. `variable` is the environment variable with the key.
    """

    model: str
    task: str
    gone: str
    variable: str
    deny: Callable[[], None]
    settings: dict[str, Any] = field(default_factory=dict)


def _closed() -> str:
    with ChatEndpoint(lambda _: "A") as closed:
        return closed.url


def _chat(stack: ExitStack, answer: Callable[[Asked], str], task: str) -> RemoteCase:
    service = stack.enter_context(ChatEndpoint(answer, key=SECRET))

    def deny() -> None:
        service.key = "another"

    settings = {"task": task, "encoding": "png"}
    return RemoteCase(f"openai:tiny@{service.url}", task, f"openai:tiny@{_closed()}", "OPENAI_API_KEY", deny, settings)


def openai(stack: ExitStack) -> RemoteCase:
    """The choice depends on the mean colour, and one colour is none of the choices."""

    def answer(asked: Asked) -> str:
        names = ["cat", "dog", "giant panda", "none of these"]
        return asked.symbol(names[int(asked.image.reshape(-1, 3).mean()) % 4])

    return _chat(stack, answer, "classification")


def openai_boxes(stack: ExitStack) -> RemoteCase:
    """One box, as large as a part of the image."""

    def answer(asked: Asked) -> str:
        high, wide = asked.image.shape[:2]
        label = ["cat", "dog", "tree"][int(asked.image.mean()) % 3]
        return json.dumps([{"label": label, "box": [0, 0, wide, max(1, high // 2)], "score": 0.75}])

    return _chat(stack, answer, "detection")


MAKERS = {maker.__name__: maker for maker in (openai, openai_boxes)}


@pytest.fixture(params=list(MAKERS))
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteCase]:
    """A model of each provider in turn."""
    with ExitStack() as stack:
        made = MAKERS[request.param](stack)
        monkeypatch.setenv(made.variable, SECRET)
        yield made


@pytest.fixture
def load(case: RemoteCase, pets: Any, tmp_path: Path) -> Callable[..., Any]:
    """Load the case's model, or another one with the same settings."""
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(case.settings))

    def loaded(model: str | None = None, **options: Any) -> Any:
        return load_model(model or case.model, LoadOptions(label_space=pets, settings=file, **options))

    return loaded
