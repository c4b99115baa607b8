"""Tests of trainings have a small world to train on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from made_material import cache, material, world_folder  # noqa: F401 (fixtures)
