"""Small datasets on disk and models with known answers, for the engine's tests."""

import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_colours import colours, plugin  # noqa: F401 (fixtures)
from made_decoding import workers_of


@pytest.fixture
def nothing_left() -> Any:
    """No worker and none of their memory is there after the test."""
    yield
    gc.collect()
    assert not workers_of(os.getpid())
    assert "strobe-decode" not in Path("/proc/self/maps").read_text()
