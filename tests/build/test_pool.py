"""Ctrl-C while several processes work: one line, whatever the pool was doing."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

WORK = """
import time
from strobe.build.pool import worker_pool
from strobe.cli import main

def one(number):
    time.sleep(0.2)
    return number

def work(**_):
    with worker_pool(2) as pool:
        for number in pool.map(one, range(100)):
            print(number, flush=True)

if __name__ == "__main__":
    main.cli.main = work
    main.main([])
"""


def test_ctrl_c_is_one_line_with_processes_at_work(tmp_path: Path, started: Any) -> None:
    (tmp_path / "work.py").write_text(WORK)
    running = started(
        [sys.executable, "work.py"], cwd=tmp_path, text=True, start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stdout is not None
    running.stdout.readline()  # all are at work
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err.strip() == "strobe: interrupted; finished work is kept, run the same command again to resume"
