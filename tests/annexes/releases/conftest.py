"""The sources to import and the sets to export of the tests of workflows, and those of this folder."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "workflows")]
