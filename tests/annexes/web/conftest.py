"""The sources to import of the tests of workflows, the servers of this folder, and reviews without a rest."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "workflows")]


@pytest.fixture(autouse=True)
def no_rest_before_round_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round two begins at once, also with a clock that stands still."""
    if importlib.util.find_spec("sqlalchemy") is not None:
        from strobe.annexes.web.review import queue

        monkeypatch.setattr(queue, "REST_S", -1.0)
