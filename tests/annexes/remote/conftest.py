"""Chat services in this process, and the coloured images of the engine's tests."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strobe.core.labels import LabelSpace
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

HERE = Path(__file__).parent
HOUSE = [HERE.parents[1] / folder for folder in ("contracts", "engine")]
sys.path[:0] = [str(folder) for folder in (HERE, HERE / "servers", *HOUSE)]

from chat_endpoint import ChatEndpoint  # noqa: E402
from made_colours import colours, plugin  # noqa: E402, F401 (fixtures)
from made_pictures import pictures  # noqa: E402, F401 (a fixture)

PETS = LabelSpace.of_names("pets", ["cat", "dog", "giant_panda", "red fox"])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key in the environment."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("STROBE_TOKEN", raising=False)


@pytest.fixture
def serve(no_key: None) -> Iterator[Callable[..., ChatEndpoint]]:
    """Start a chat service in this process, with an answer or a function of what is asked."""
    running = []

    def start(answer: Any, **options: Any) -> ChatEndpoint:
        running.append(ChatEndpoint(answer if callable(answer) else lambda _: answer, **options))
        return running[-1]

    yield start
    for service in running:
        service.__exit__()


@pytest.fixture
def load(no_key: None, tmp_path: Path) -> Callable[..., Any]:
    """Load the model of a chat service for the classes PETS."""

    def loaded(url: str, settings: dict[str, Any] | None = None, **options: Any) -> Any:
        file = None
        if settings is not None:
            file = tmp_path / "settings.json"
            file.write_text(json.dumps(settings))
        return load_model(f"openai:tiny@{url}", LoadOptions(**{"label_space": PETS, "settings": file, **options}))

    return loaded
