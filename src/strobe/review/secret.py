"""The secret of this machine's review servers: kept with the user's state, never in a dataset folder that travels."""

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from strobe.core.errors import StrobeError, printable
from strobe.core.files import cannot_write, make_folder

__all__ = ["server_secret"]


def server_secret() -> bytes:
    """What sessions and keys are sealed with; made at the first call, for this user's eyes only."""
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "strobe" / "review.secret"
    make_folder(path.parent)
    try:
        if not path.exists():
            _make(path)
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            found, content = os.fstat(handle), file.read(1024).strip()
    except OSError as error:
        raise cannot_write(path, error) from error
    if not stat.S_ISREG(found.st_mode) or len(content) < 64:
        raise StrobeError(f"{printable(path)}: expected a secret of 64 characters; remove the file to get a new one")
    if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
        raise StrobeError(f"{printable(path)}: others can read or write it; remove the file to get a new one")
    return content


def _make(path: Path) -> None:
    """The file, whole or not at all; where another server was quicker, its file stays."""
    handle, name = tempfile.mkstemp(dir=path.parent)  # readable for this user alone
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
