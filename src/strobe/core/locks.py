"""Locks between processes that write to one folder, and whether its file system keeps them."""

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from strobe.core.errors import CannotWrite, StrobeError, printable
from strobe.core.files import cannot_write, hold, make_folder

__all__ = ["Lock", "locked"]


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that a process holds: its file, and what that process wrote into it. It pickles."""

    path: Path
    token: str

    def check(self) -> None:
        """Refuse the file system where this process could take the lock although another holds it.

        So it is where locks hold on one machine only (NFS with `nolock`, FUSE, …), asked on another machine. One that
        sees no such file, or another one under its name, has nothing to say.
        """
        try:
            with self.path.open("rb+") as file:
                if file.read() != self.token.encode():
                    return
                hold(file.fileno(), wait=False)
        except (ImportError, OSError):
            return
        raise CannotWrite(
            f"cannot write {printable(self.path.parent)}: locks of its file system hold on one machine only, so that "
            "another could write there at once; use another one, or mount it with locks (docs/scale.md)"
        )


@contextmanager
def locked(path: Path, *, busy: str | None) -> Iterator[Lock]:
    """Hold a file as a lock; where another process does, StrobeError `busy`, or without one we wait for its end.

    The system frees it when we die. A file system without locks is refused, and nothing is left there; whoever would
    wait goes on, and so does everybody on a system that has none at all (Windows).
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    make_folder(path.parent)
    held = Lock(path, uuid.uuid4().hex)
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "rb+", buffering=0)
    except OSError as error:
        raise cannot_write(path, error) from error
    with file:
        try:
            hold(file.fileno(), wait=busy is None)
        except ImportError:
            pass
        except OSError as error:
            if busy is not None and error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise StrobeError(busy) from error
            if busy is not None:
                _take_away(missing)
                raise CannotWrite(
                    f"cannot write {printable(path.parent)}: its file system cannot lock ({error.strerror}), so two "
                    "commands could write there at once; use another one, or mount it with locks (docs/scale.md)"
                ) from error
        try:
            file.truncate(0)
            file.write(held.token.encode())
            os.fsync(file.fileno())  # others see it now
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            yield held
        finally:
            with suppress(OSError):
                file.truncate(0)


def _take_away(made: list[Path]) -> None:
    """Remove a file and folders that were just made, as far as nothing came into them."""
    with suppress(OSError):
        for one in made:
            one.rmdir() if one.is_dir() else one.unlink()
