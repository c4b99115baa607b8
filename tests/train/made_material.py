"""A small world to train on, in memory and in a folder; prepared frames are cached below the test's own folder."""

from pathlib import Path

import pytest

from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import WorldOptions
from strobe.workflows.synthesize import synthesize
from strobe.workflows.train_job import Material

WORLD = SyntheticOptions(world=WorldOptions(size=32, frames=5, occluders=0), videos=36, seed=3)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared frames are kept for all tests of the session, and not with those of whoever runs them."""
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def material() -> Material:
    made = synthetic_dataset(WORLD)
    return Material(dataset=made.dataset, source=made.source())


@pytest.fixture(scope="session")
def world_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "world"
    synthesize(path, WORLD)
    return path
