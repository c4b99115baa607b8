"""The synthetic world at its smallest: twelve clips of five frames, 48 pixels."""

from pathlib import Path

import pytest

import strobe


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return strobe.synthesize(tmp_path_factory.mktemp("api") / "world", videos=12, k=2, size=48).root
