"""Tiny clips made on the spot with PyAV, in the shapes that make exact decoding hard."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from made_clips import clips, make_clip  # noqa: F401 (fixtures)
