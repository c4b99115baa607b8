"""Tests of this annex train on the small world of the house's tests."""

import sys
from pathlib import Path

HERE, TESTS = Path(__file__).parent, Path(__file__).parents[2]
sys.path[:0] = [str(HERE), *(str(TESTS / name) for name in ("train", "report"))]
sys.path.insert(0, str(TESTS.parent / "benchmarks"))

from made_material import cache, material, world_folder  # noqa: E402, F401 (fixtures)
