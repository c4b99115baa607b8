"""A small world to look at, and viewers; stopped after the test."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_world import ViewServer, answers, make_dataset, make_run


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this test's servers keep their secret: not with those of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dataset and a scored run, made once."""
    root = tmp_path_factory.mktemp("made") / "world"
    dataset = make_dataset(root / "data")
    make_run(root / "run", root / "data", answers(dataset))
    return root


@pytest.fixture
def world(made_once: Path, tmp_path: Path) -> Path:
    """A copy of that folder, for one test."""
    copy = tmp_path / "world"
    shutil.copytree(made_once, copy)
    about = copy / "run/run.json"
    about.write_text(about.read_text().replace(str(made_once), str(copy)))
    return copy


@pytest.fixture
def view_server():
    """Starts viewers; stops them after the test."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    running = []

    def start(*places: Path, **options) -> ViewServer:
        running.append(ViewServer(*places, **options))
        return running[-1]

    yield start
    for one in running:
        one.stop()
