"""Locks between processes that write to one folder, and a check whether its file system supports them."""

import functools
import inspect
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError, printable
from strobe.core.files import cannot_write, hold, is_at, make_folder, refuse_links, release

LOCK = ".lock"
"""The name of a folder's lock file. A process that writes to the folder holds this lock."""

P = ParamSpec("P")
T = TypeVar("T")

_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_HELD: ContextVar[Mapping[Path, "Lock"]] = ContextVar("held", default={})  # noqa: B039 (it is replaced, never changed)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that a process holds: its file, and the content that the process wrote into it. It can be pickled."""

    path: Path
    token: str

    def check(self) -> None:
        """Refuse the file system if this process could take the lock although another process holds it.

        This happens if the other process is on another machine and locks do not reach across machines (NFS with
        `nolock`, FUSE, …). The check has no effect on a machine that does not see the file, or sees another file under
        its name.
        """
        try:
            with self.path.open("rb+") as file:
                if file.read() != self.token.encode():
                    return
                hold(file.fileno(), wait=False)
        except OSError:
            return
        raise CannotWrite(
            f"cannot write {printable(self.path.parent)}: locks on its file system work on one machine only, so "
            "another machine could write at the same time; use another file system, or mount it with locks "
            "(docs/scale.md)"
        )


@contextmanager
def writing(folder: Path) -> Iterator[Lock]:
    """Lock a folder for writing; if another command writes to it, raise a one-line error.

    The folder is created if missing, and removed again if it stays empty. The lock is reentrant. A link out of the
    folder is refused in places that commands write to (`strobe.core.files`).
    """
    place = folder.resolve()
    held = _HELD.get().get(place)
    if held is not None:
        yield held
        return
    if folder.exists() and not folder.is_dir():
        raise StrobeError(f"{printable(folder)} is a file; choose a folder to write to")
    busy = f"another strobe command is writing to {printable(folder)}; wait for it to end"
    with locked(folder / LOCK, busy=busy) as held:
        refuse_links(folder)
        before = _HELD.set({**_HELD.get(), place: held})
        try:
            yield held
        finally:
            _HELD.reset(before)


def writes(argument: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function that writes to the folder given as `argument`: it runs while that folder is locked."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def guarded(*args: P.args, **named: P.kwargs) -> T:
            folder = signature.bind(*args, **named).arguments[argument]
            with writing(folder):
                return function(*args, **named)

        return guarded

    return decorate


@contextmanager
def locked(path: Path, *, busy: str | None, make: bool = True) -> Iterator[Lock]:
    """Lock a file; if another process holds it, raise StrobeError `busy`, or wait if `busy` is None.

    The system frees the lock when the process ends, and the file is removed on release. A file left by a killed process
    is reused. A file system without locks is refused, and no file is left on it. A caller with `busy` None continues
    without a lock. Without `make`, the folder must be there.
    """
    missing = [parent for parent in path.parents if not parent.exists()] if make else []
    if make:
        make_folder(path.parent)
    lock = Lock(path, uuid.uuid4().hex)
    handle = _taken(path, busy=busy, missing=missing)
    try:
        try:
            os.truncate(handle, 0)
            os.write(handle, lock.token.encode())
            os.fsync(handle)  # from now on, other processes can read it
        except OSError as error:
            raise cannot_write(path, error) from error
        yield lock
    finally:
        if os.name != "nt":  # removed while locked: a waiting process sees that the file is gone and creates a new one
            path.unlink(missing_ok=True)
        with suppress(OSError):
            release(handle)  # processes forked in the meantime also have the file open
        os.close(handle)
        with suppress(OSError):
            if os.name == "nt":  # only now, because Windows cannot remove an open file
                path.unlink(missing_ok=True)
        _take_away(missing)


def _taken(path: Path, *, busy: str | None, missing: list[Path]) -> int:
    """Open and lock the file, make sure that it is still at its path, and return it."""
    while True:
        try:
            handle = os.open(path, _OPEN, 0o666)
        except OSError as error:
            _take_away(missing)
            raise cannot_write(path, error) from error
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or path.is_symlink():
            os.close(handle)
            raise InvalidFile(path, "not one of strobe's lock files", hint="remove it")
        try:
            hold(handle, wait=busy is None)
        except OSError as error:
            if busy is None:  # without locks, a caller that would wait continues
                return handle
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise StrobeError(busy) from error
            path.unlink(missing_ok=True)
            _take_away(missing)
            raise CannotWrite(
                f"cannot write {printable(path.parent)}: its file system cannot lock ({error.strerror}), so two "
                "commands could write at the same time; use another file system, or mount it with locks (docs/scale.md)"
            ) from error
        if is_at(path, about):
            return handle
        os.close(handle)  # another process held the lock and removed the file while this process waited


def _take_away(made: list[Path]) -> None:
    """Remove folders that were just created, if they are empty."""
    with suppress(OSError):
        for one in made:
            one.rmdir()
