"""The simulator of faults around a review: 10 seeds (`make simulate-faults` runs more), and that it can fail."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="the simulator forks")]

UNSYNCED = """
from strobe.annexes.web.review.database import Database
write = Database.write
Database.write = lambda self, durable=True: write(self, durable=False)
"""
"""Votes and claims are confirmed before they are on the disk."""

UNBOUND = """
from strobe.annexes.web.review import leases
leases.expect_asked = lambda *args: None
"""
"""Anybody's answer to anything is taken."""


def simulate(*words: str, fault: str = "", code: int = 0) -> str:
    """Run it as `make simulate-faults` does, with a fault put into strobe first."""
    script = f"{fault}\nfrom fuzz.simulate import main\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", script, "--lanes", "1", *words], cwd=ROOT, text=True, capture_output=True, timeout=1200,
        env={**os.environ, "FUZZ_PATIENCE": "4"},
    )  # fmt: skip
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_ten_seeds() -> None:
    said = simulate("--seeds", "10")
    assert "no rule was broken" in said
    counts = {what: int(n.replace(",", "")) for n, what in re.findall(r"([\d,]+) ([a-z]+)", said)}
    assert counts["answers"] == counts["confirmed"] > 150
    assert all(counts[what] for what in ("clock", "command", "disk", "kill", "power"))


def test_a_seed_is_the_same_story_every_time() -> None:
    first, second = (simulate("--seed", "4").splitlines()[:-2] for _ in range(2))
    assert first == second
    assert len(first) > 100


@pytest.mark.parametrize(
    ("fault", "finding"),
    [(UNSYNCED, "lost|cannot log in|is refused"), (UNBOUND, "which only others were given")],
    ids=["unsynced", "unbound"],
)
def test_a_known_fault_is_found(fault: str, finding: str) -> None:
    said = simulate("--seeds", "8", fault=fault, code=1)
    assert re.search(rf"seed \d+: .*({finding})", said)
