"""What the contracts share: the cases of the house and of the annexes, a cache folder, and images."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strobe.core.labels import LabelSpace

sys.path.insert(0, str(Path(__file__).parent))
from made_cases import MAKERS, PETS, SERVERS, Case, of_annexes
from made_pictures import pictures  # noqa: F401 (a fixture)

CASES = {**MAKERS, **of_annexes("CLASSIFIERS")}


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder of the tests' own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STROBE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[None]:
    """Stop the servers that cases have started."""
    with SERVERS:
        yield


@pytest.fixture(scope="session", params=list(CASES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A model of each provider in turn."""
    return CASES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def pets() -> LabelSpace:
    """The classes of the dataset the models are loaded for."""
    return PETS
