"""The sources to import of the tests of workflows, and the servers of this folder."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "workflows")]
