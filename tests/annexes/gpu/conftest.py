"""The clips of the tests of builds, and the engine in software of this folder."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "build")]

pytest.importorskip("av")
pytest.importorskip("torch")
from made_clips import clips, make_clip  # noqa: E402, F401 (fixtures)
