"""Who runs below a process."""

import time
from pathlib import Path


def _alive(pid: int) -> tuple[int, str] | None:
    """The parent and the command of a process that runs, from the system's own list."""
    try:
        stat, command = Path(f"/proc/{pid}/stat").read_text(), Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]
    return (int(parent), command) if state != "Z" else None


def workers_of(parent: int) -> list[int]:
    """The worker processes of a process."""
    found = {int(entry.name): _alive(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    return [pid for pid, facts in found.items() if facts and facts[0] == parent and "decode_pool" in facts[1]]


def gone(pids: list[int], *, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while any(_alive(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
