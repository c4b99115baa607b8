"""Locks between processes that write to one folder, and whether its file system keeps them."""

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
from strobe.core.files import cannot_write, hold, is_at, make_folder, release
from strobe.core.inside import refuse_links

__all__ = ["LOCK", "Lock", "locked", "writes", "writing"]

LOCK = ".lock"
"""The file in a folder that whoever writes there holds."""

P = ParamSpec("P")
T = TypeVar("T")

_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_HELD: ContextVar[Mapping[Path, "Lock"]] = ContextVar("held", default={})  # noqa: B039 (it is replaced, never changed)


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
        except OSError:
            return
        raise CannotWrite(
            f"cannot write {printable(self.path.parent)}: locks of its file system hold on one machine only, so that "
            "another could write there at once; use another one, or mount it with locks (docs/scale.md)"
        )


@contextmanager
def writing(folder: Path) -> Iterator[Lock]:
    """Hold a folder for writing: of two commands that write to it at once the second gets one line.

    Made where it is missing, and taken away again where nothing came into it. Whoever holds it may ask again. A link
    that leads out of the folder is refused where commands write (`strobe.core.inside`).
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
    """Decorate a function that writes to the folder given as `argument`: it runs while that folder is held."""

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
def locked(path: Path, *, busy: str | None) -> Iterator[Lock]:
    """Hold a file as a lock; where another process does, StrobeError `busy`, or without one we wait for its end.

    The system frees it when the process dies, and the file goes when it is free: one that a kill left is taken over. A
    file system without locks is refused, and nothing is left there; whoever would wait goes on.
    """
    missing = [one for one in path.parents if not one.exists()]
    make_folder(path.parent)
    held = Lock(path, uuid.uuid4().hex)
    handle = _taken(path, busy=busy, missing=missing)
    try:
        try:
            os.truncate(handle, 0)
            os.write(handle, held.token.encode())
            os.fsync(handle)  # others see it now
        except OSError as error:
            raise cannot_write(path, error) from error
        yield held
    finally:
        if os.name != "nt":  # while it is held: whoever waits for it sees that it is gone, and makes a new one
            path.unlink(missing_ok=True)
        with suppress(OSError):
            release(handle)  # processes forked meanwhile have it open, too
        os.close(handle)
        with suppress(OSError):
            if os.name == "nt":  # Windows removes no open file, neither ours before nor another's now
                path.unlink(missing_ok=True)
        _take_away(missing)


def _taken(path: Path, *, busy: str | None, missing: list[Path]) -> int:
    """The open file, locked, and still at its path."""
    while True:
        try:
            handle = os.open(path, _OPEN, 0o666)
        except OSError as error:
            _take_away(missing)
            raise cannot_write(path, error) from error
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or path.is_symlink():
            os.close(handle)
            raise InvalidFile(path, "not a lock file of strobe", hint="remove it")
        try:
            hold(handle, wait=busy is None)
        except OSError as error:
            if busy is None:  # no locks here: who would only wait goes on
                return handle
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise StrobeError(busy) from error
            path.unlink(missing_ok=True)
            _take_away(missing)
            raise CannotWrite(
                f"cannot write {printable(path.parent)}: its file system cannot lock ({error.strerror}), so two "
                "commands could write there at once; use another one, or mount it with locks (docs/scale.md)"
            ) from error
        if is_at(path, about):
            return handle
        os.close(handle)  # it was another's, and removed while we waited


def _take_away(made: list[Path]) -> None:
    """Remove folders that were just made, as far as nothing came into them."""
    with suppress(OSError):
        for one in made:
            one.rmdir()
