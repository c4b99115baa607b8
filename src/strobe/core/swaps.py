"""Several files of a folder that take their places together: a kill at any moment leaves all the old or all the new.

They are written to a hidden folder with a list of what goes where (`swapping`). Renaming that folder to `.committed`
decides; what a kill leaves to be moved after that is moved by the next command that opens the folder (`settle`). A
folder may come from a stranger: nothing in `.committed` may be a link, and no name in its list may lead out of it.
"""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import (
    LEFT_BEHIND,
    STAGING,
    cannot_write,
    make_folder,
    make_lasting,
    read_json,
    try_to_hold,
    why_not_written,
)
from strobe.core.inside import inside, others_in

__all__ = ["Staged", "settle", "swapping"]

_COMMITTED = ".committed"
_LIST = "these.json"
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""How what lies there is opened to be locked: no link is followed, no pipe waited for."""


@dataclass(slots=True)
class Staged:
    """Files of a folder written aside: all that lies under `root` when it is committed takes its place in `folder`."""

    folder: Path
    aside: Path
    _gone: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """The folder to write to, as if it were `folder`."""
        return self.aside / "put"

    def remove(self, name: str) -> None:
        """Take `folder/name` away, where it is."""
        self._gone.append(name)

    def commit(self) -> None:
        """Put everything in place; `swapping` does this on leaving."""
        try:
            put = sorted(path for path in self.root.rglob("*") if path.is_file())
            with ThreadPoolExecutor(8) as pool:  # synced at once they take hardly longer than one
                list(pool.map(make_lasting, put))
            listing = self.aside / _LIST
            names = [path.relative_to(self.root).as_posix() for path in put]
            for name in (*names, *self._gone):
                inside(self.folder, name, replaced=True)
            _refuse_blocked(self.folder, [*names, *self._gone])
            listing.write_text(json.dumps({"put": names, "gone": self._gone}), encoding="utf-8")
            make_lasting(listing)
            with _alone(self.folder):
                _finish(self.folder)
                self.aside.rename(self.folder / _COMMITTED)
                _sync_folder(self.folder)
                _finish(self.folder)
        except OSError as error:
            raise cannot_write(error.filename or self.folder, error) from error


def _refuse_blocked(folder: Path, names: list[str]) -> None:
    """Raise the OSError that moving would end in, while nothing is decided yet."""
    for place in (folder / name for name in names):
        above = next(path for path in place.parents if os.path.lexists(path))
        problems = {
            errno.EISDIR: place.is_dir() and not place.is_symlink(),
            errno.ENOTDIR: not above.is_dir(),
            errno.EACCES: not os.access(above, os.W_OK | os.X_OK),
        }
        for problem in (number for number, is_there in problems.items() if is_there):
            raise OSError(problem, os.strerror(problem), str(place))


@contextmanager
def swapping(folder: Path) -> Iterator[Staged]:
    """Files that take their places together on leaving: a kill at any moment leaves all the old or all the new.

    On an error nothing is changed. Whoever reads the folder calls `settle` first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     with swapping(Path(name)) as staged:
    ...         for letter in "ab":
    ...             _ = (staged.root / letter).write_text(letter)
    ...     sorted(path.name for path in Path(name).iterdir())
    ['a', 'b']
    """
    make_folder(folder)
    settle(folder, sweep=True)
    try:
        aside = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder))
    except OSError as error:
        raise cannot_write(folder, error) from error
    handle = _open_folder(aside)
    try:
        staged = Staged(folder, aside)
        make_folder(staged.root)
        yield staged
        staged.commit()
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def settle(folder: Path, *, sweep: bool = False) -> None:
    """Finish what a killed process had decided to swap in this folder; `sweep` also takes away what it had not.

    Only leftovers that no living process holds are swept. Where nothing was left this is one look.
    """
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.name.startswith(".")]
    except OSError:
        return
    if _COMMITTED in names:
        with _alone(folder):
            _finish(folder)
    for name in names if sweep else ():
        if name.startswith((STAGING, ".incoming-")) or LEFT_BEHIND.fullmatch(name):  # runs of 0.1 staged in .incoming-…
            _sweep(folder / name)


def _sweep(path: Path) -> None:
    try:
        handle = os.open(path, _LOOK)
    except OSError:
        return
    try:
        if try_to_hold(handle):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    except OSError:
        return  # a folder that may only be read
    finally:
        os.close(handle)


def _open_folder(folder: Path) -> int | None:
    """An open, locked folder, where the system has such a thing."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try_to_hold(handle, wait=True)
    return handle


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process swaps files in the folder meanwhile."""
    handle = _open_folder(folder)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _finish(folder: Path) -> None:
    """Move what a commit lists to its place; done twice it comes to the same."""
    committed = folder / _COMMITTED
    listing = committed / _LIST
    if not os.path.lexists(committed):
        return
    _refuse_foreign(committed)
    try:
        if listing.is_file():  # else all was moved, and only the empty folder is left
            _move(folder, *_listed(folder, listing))
            _sync_folder(folder)
            listing.unlink()
        shutil.rmtree(committed)
    except OSError as error:
        raise StrobeError(
            f"{printable(folder)}: a write was interrupted and has to be finished first, but cannot be: "
            f"{why_not_written(error)}"
        ) from error


def _refuse_foreign(committed: Path) -> None:
    """Raise InvalidFile where it is not a folder of files: strobe puts no link, pipe or device there."""
    found = committed if committed.is_symlink() or not committed.is_dir() else next(others_in(committed), None)
    if found is not None:
        raise InvalidFile(
            found, "not a file of an interrupted write", hint=f"nothing is moved; remove {committed.name}"
        )


def _listed(folder: Path, listing: Path) -> tuple[list[str], list[str]]:
    """What is to be put and what removed; a list that points out of the folder is refused."""
    content = read_json(listing)
    try:
        put, gone = list(content["put"]), list(content["gone"])
    except (KeyError, TypeError) as error:
        raise InvalidFile(listing, "not a list of files to swap", hint="remove the folder it lies in") from error
    if not all(isinstance(name, str) for name in (*put, *gone)):
        raise InvalidFile(listing, "not a list of files to swap", hint="remove the folder it lies in")
    for name in (*put, *gone):
        inside(folder, name, replaced=True)
    return put, gone


def _move(folder: Path, put: list[str], gone: list[str]) -> None:
    for name in put:
        staged, place = folder / _COMMITTED / "put" / name, folder / name
        if staged.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(place)
    for name in gone:
        (folder / name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make renames in the folder last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
