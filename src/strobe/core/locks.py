"""Locks between processes that write to one folder, and whether its file system keeps them."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from strobe.core.errors import CannotWrite, StrobeError, printable
from strobe.core.files import cannot_write, hold, make_folder

__all__ = ["local_locks", "locked", "refuse_local_locks"]

_LOCAL = ("nolock", "local_lock=all", "local_lock=flock", "localflock")
"""Options of NFS and Lustre mounts with which a lock holds on one machine only."""


@contextmanager
def locked(path: Path, *, busy: str | None) -> Iterator[None]:
    """Hold a file as a lock; where another process does, StrobeError `busy`, or without one we wait for its end.

    The system frees it when we die. A file system without locks is refused, and nothing is left there; whoever would
    wait goes on, and so does everybody on a system that has none at all (Windows).
    """
    missing = [one for one in (path, *path.parents) if not one.exists()]
    make_folder(path.parent)
    try:
        file = path.open("w")
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
        yield


def _take_away(made: list[Path]) -> None:
    """Remove a file and folders that were just made, as far as nothing came into them."""
    with suppress(OSError):
        for one in made:
            one.rmdir() if one.is_dir() else one.unlink()


def refuse_local_locks(folder: Path) -> None:
    """Refuse a folder of several machines whose locks hold on one of them only, as its mount says (Linux)."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    option = local_locks(folder.resolve(), mounts)
    if option is not None:
        raise CannotWrite(
            f"cannot write {printable(folder)}: it is mounted with {option}, so its locks hold on this machine only "
            "and another one could write there at once; mount it with locks (docs/scale.md)"
        )


def local_locks(folder: Path, mounts: str) -> str | None:
    r"""The option of the mount a folder lies in with which locks hold on one machine only; None where there is none.

    >>> nfs = "36 35 0:40 / /data rw - nfs host:/x rw,vers=3,nolock"
    >>> local_locks(Path("/data/run"), nfs), local_locks(Path("/elsewhere"), nfs)
    ('nolock', None)
    """
    found: tuple[int, str | None] = (-1, None)
    for line in mounts.splitlines():
        about, _, system = line.partition(" - ")
        fields, told = about.split(), system.split()
        if len(fields) < 6 or len(told) < 3 or not told[0].startswith(("nfs", "lustre")):
            option = None
        else:
            given = {*fields[5].split(","), *told[2].split(",")}
            option = next((one for one in _LOCAL if one in given), None)
        if len(fields) < 5:
            continue
        place = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        if folder.is_relative_to(place) and len(place.parts) >= found[0]:
            found = (len(place.parts), option)  # of mounts one over the other the last one counts
    return found[1]
