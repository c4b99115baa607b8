"""Start a temporary PostgreSQL server in a folder, reached by a socket there, and remove it afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def postgres_programs() -> Path | None:
    """Return the folder of the newest installed initdb and pg_ctl."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), None)


@contextmanager
def started_postgres(programs: Path, *, fsync: bool) -> Iterator[str]:
    """Yield the server's address while it runs. It ends with this process, even if that is killed.

    PostgreSQL refuses to run as root, so it then runs as an unprivileged user.
    """
    base = Path(tempfile.mkdtemp(prefix="strobe-pg-"))
    base.chmod(0o755)
    as_user: list[str] = []
    if os.geteuid() == 0:
        known = {user.pw_name for user in pwd.getpwall()}
        user = next(name for name in ("postgres", "nobody") if name in known)
        shutil.chown(base, user)
        as_user = ["runuser", "-u", user, "--"]

    def words(program: str, *arguments: str) -> list[str]:
        return [*as_user, str(programs / program), "-D", str(base / "data"), *arguments]

    quiet: dict[str, Any] = {"cwd": base, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = f"-c listen_addresses='' -c unix_socket_directories='{base}' -c fsync={'on' if fsync else 'off'}"
    # A shell waits on a pipe until this process closes it or dies, and then stops the server.
    end = ["sh", "-c", 'cat; "$@"; rm -rf "$0"', str(base), *words("pg_ctl", "-m", "immediate", "-w", "stop")]
    watcher = subprocess.Popen(end, stdin=subprocess.PIPE, start_new_session=True, **quiet)
    try:
        subprocess.run(words("initdb", "-U", "strobe", "-A", "trust", "-E", "UTF8", "--no-sync"), check=True, **quiet)
        start = words("pg_ctl", "-w", "-o", options, "-l", str(base / "log"), "start")
        subprocess.run(start, check=True, timeout=120, **quiet)
        yield f"postgresql://strobe@/postgres?host={base}"
    finally:
        watcher.communicate(timeout=120)
