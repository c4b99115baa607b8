"""The PostgreSQL that tests and benchmarks start for themselves ends with them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from own_postgres import postgres_programs

CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from own_postgres import postgres_programs, started_postgres
with started_postgres(postgres_programs(), fsync=False) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(postgres_programs() is None, reason="no PostgreSQL here")
def test_it_ends_with_a_process_that_is_killed() -> None:
    benchmarks = Path(__file__).parents[4] / "benchmarks"
    with subprocess.Popen(
        [sys.executable, "-c", CODE, str(benchmarks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        folder = Path(process.stdout.readline().strip().partition("host=")[2])
        pid = (folder / "data/postmaster.pid").read_text().split()[0]
        process.kill()
    deadline = time.monotonic() + 60
    while folder.exists():  # the last thing that goes
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.05)
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout.strip()
    assert state == "" or state.startswith("Z"), "it runs, and its folder is gone"
