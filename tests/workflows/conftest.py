"""What tests of workflows share: the modules `made_*` of this folder, and a command whose exit code is checked."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def called(command: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Call strobe; what it printed, after its exit code was checked."""

    def call(*words: object, code: int = 0) -> str:
        ended, out, err = command(*words)
        assert ended == code, out + err
        return out + err

    return call
