"""A small world to train on, in memory and in a folder; prepared frames are cached below the test's own folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import WorldOptions
from strobe.workflows.synthesize import synthesize
from strobe.workflows.train_job import Material

WORLD = SyntheticOptions(world=WorldOptions(size=32, frames=5, occluders=0), videos=36, seed=3)


@pytest.fixture(autouse=True)
def one_thread(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def material() -> Material:
    made = synthetic_dataset(WORLD)
    return Material(dataset=made.dataset, source=made.source())


@pytest.fixture(scope="session")
def world_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "world"
    synthesize(path, WORLD)
    return path
