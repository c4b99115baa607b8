"""Images that are varied, which other folders of tests use too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from made_varied import picture  # noqa: F401 (a fixture)
