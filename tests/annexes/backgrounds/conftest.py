"""Tests of this annex vary the images of the house's tests."""

import sys
from pathlib import Path

import pytest

from strobe.annexes.backgrounds.workflow import LadderMade, VaryBackgroundOptions, vary_background

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(TESTS / name) for name in ("vary", "report", "workflows")]
sys.path.insert(0, str(TESTS.parent / "benchmarks"))

from made_varied import picture, stopped_at_the_eighth, world  # noqa: E402, F401 (fixtures)


@pytest.fixture(scope="session")
def ladder(world: Path) -> LadderMade:  # noqa: F811
    return vary_background(world, world.parent / "ladder", VaryBackgroundOptions())
