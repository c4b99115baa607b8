"""The secret of this user's review servers, stored in the user's state folder and never in a dataset folder."""

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from strobe.core.errors import StrobeError, printable
from strobe.core.files import cannot_write, make_folder


def server_secret() -> bytes:
    """Return the secret for sessions and personal keys. The first call creates it, readable only by this user."""
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
        raise StrobeError(f"{printable(path)}: other users can read or write this file; remove it to get a new one")
    return content


def _make(path: Path) -> None:
    """Create the file atomically. If another server was faster, its file stays."""
    handle, name = tempfile.mkstemp(dir=path.parent)  # readable only by this user
    try:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()
