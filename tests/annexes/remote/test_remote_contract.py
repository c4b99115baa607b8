"""What every model behind an address must do, whatever its protocol."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_endpoint import Asked, ChatEndpoint

from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import RemoteModel
from strobe.core.records import Detections, ModelSpec
from strobe.core.remote import RequestFailed, RequestLimits
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

PETS = LabelSpace.of_names("pets", ["cat", "dog", "giant_panda", "red fox"])
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
def load(case: RemoteCase, tmp_path: Path) -> Callable[..., Any]:
    """Load the case's model, or another one with the same settings."""
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(case.settings))

    def loaded(model: str | None = None, **options: Any) -> Any:
        return load_model(model or case.model, LoadOptions(label_space=PETS, settings=file, **options))

    return loaded


def asked(model: Any, images: list[Any], source: str = "clip") -> list[Any]:
    """The answers to the images, in requests as large as the model allows."""
    prepared, size, out = [model.prepare(image) for image in images], model.spec.batch_size, []
    for start in range(0, len(prepared), size):
        part = prepared[start : start + size]
        reply = model.ask(part, sources=[source] * len(part))
        assert reply.used.requests == 1
        assert reply.used.sent_bytes > 0
        out += reply.answers
    return out


def flat(answer: Any) -> tuple[Any, ...]:
    """An answer as values that can be compared."""
    found = answer.found
    boxes = None if found is None else (found.xyxy.tolist(), found.label.tolist(), found.score.tolist())
    return None if answer.scores is None else np.asarray(answer.scores).tolist(), boxes, answer.said


def test_says_what_it_is(case: Any, load: Any) -> None:
    model = load()
    assert isinstance(model, RemoteModel)
    assert isinstance(model.spec, ModelSpec)
    assert isinstance(model.limits, RequestLimits)
    assert (model.spec.name, model.spec.task) == (case.model, case.task)
    assert len(model.spec.weights) == 64
    facts = dict(model.spec.preprocessing)
    assert json.loads(json.dumps(facts)) == facts
    assert case.model.partition("@")[2] in json.dumps(facts), "the address is part of the key"


def test_answers_have_the_form_of_the_port(case: Any, load: Any, pictures: list[Any]) -> None:
    model, n_outside = load(), 0
    for image, answer in zip(pictures, asked(model, pictures), strict=True):
        if case.task == "detection":
            assert isinstance(answer.found, Detections)
            assert answer.scores is None
            assert (answer.found.label < len(model.spec.label_space)).all()
            high, wide = image.shape[:2]
            assert (answer.found.xyxy <= [wide, high, wide, high]).all()
        elif answer.scores is None:
            n_outside += 1
            assert answer.said
        else:
            assert answer.scores.shape == (len(model.spec.label_space),)
            assert np.isfinite(answer.scores).all()
    assert len({json.dumps(flat(one)) for one in asked(model, pictures)}) > 1, "different images get different answers"
    assert case.task == "detection" or n_outside < len(pictures)


def test_the_same_again_and_from_many_threads(load: Any, pictures: list[Any]) -> None:
    model = load()
    plain = [flat(one) for one in asked(model, pictures[:16])]
    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(lambda image: flat(asked(model, [image])[0]), pictures[:16]))
    assert threaded == plain


def test_preparing_is_thread_safe_and_leaves_the_image_alone(load: Any, pictures: list[Any]) -> None:
    model = load()
    before = [image.copy() for image in pictures]
    plain = [model.prepare(image) for image in pictures]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(model.prepare, pictures))
    assert threaded == plain
    assert all((one == other).all() for one, other in zip(before, pictures, strict=True))


def test_loading_again_gives_the_same_key_whatever_the_limits(load: Any) -> None:
    assert load().spec == load(limits={"concurrency": 3, "per_second": 5.0, "price_request": 0.1}).spec
    assert load(limits={"concurrency": 3}).limits.concurrency == 3


def test_the_key_is_shown_nowhere(case: Any, load: Any, pictures: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    secret = os.environ[case.variable]
    model = load()
    assert secret not in repr(model.spec) + repr(vars(model)) + repr(asked(model, pictures[:2]))
    case.deny()
    with pytest.raises(RequestFailed) as caught:
        asked(model, pictures[:1])
    assert caught.value.blame == "model"
    with pytest.raises(StrobeError, match=case.variable) as refused:
        load()
    monkeypatch.delenv(case.variable)
    with pytest.raises(StrobeError, match=f"it asks for a key; set {case.variable}") as missing:
        load()
    for error in (caught, refused, missing):
        assert secret not in str(error.value)
        assert "\n" not in str(error.value)


def test_an_address_without_a_service_is_one_line(case: Any, load: Any) -> None:
    with pytest.raises(StrobeError, match="nothing answers at this address") as caught:
        load(case.gone)
    assert "\n" not in str(caught.value)
    for address in ("ftp://host", "http://", "http://me:secret@host/v1", "http://host:99999/v1"):
        with pytest.raises(StrobeError) as refused:
            load(case.model.partition("@")[0] + "@" + address)
        assert "\n" not in str(refused.value)
        assert "me:secret" not in str(refused.value)
