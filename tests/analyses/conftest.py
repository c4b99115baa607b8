"""The plain reference and the random worlds live beside the benchmark that times them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[1] / "report"))

# The same examples on every machine, and no deadline, as machines are shared.
