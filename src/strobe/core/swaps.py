"""Replace several files of a folder together.

If the process is killed at any moment, either all old or all new files remain.

The new files are written to a hidden folder with a list of moves (`swapping`). Renaming that folder to `.committed` is
the commit. If the process is killed during the moves after the commit, the next command that opens the folder completes
the moves (`settle`). A folder may come from a stranger, so nothing in `.committed` may be a link, and no listed name
may lead out of the folder.
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
    inside,
    make_folder,
    make_lasting,
    others_in,
    read_json,
    try_to_hold,
    why_not_written,
)

_COMMITTED = ".committed"
_LIST = "these.json"
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags for opening an entry to lock it: no link is followed, and no pipe blocks."""


@dataclass(slots=True)
class Staged:
    """Staged files of a folder: on commit, everything under `root` is moved into `folder`."""

    folder: Path
    aside: Path
    _gone: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """The folder to write to, in place of `folder`."""
        return self.aside / "put"

    def remove(self, name: str) -> None:
        """Remove `folder/name` on commit, if it exists."""
        self._gone.append(name)

    def commit(self) -> None:
        """Move everything into place; `swapping` does this on exit."""
        try:
            put = sorted(path for path in self.root.rglob("*") if path.is_file())
            with ThreadPoolExecutor(8) as pool:  # syncing all files together takes hardly longer than syncing one
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
    """Raise the OSError that the moves would raise, before the commit."""
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
    """Replace files together on exit. If the process is killed at any moment, either all old or all new files remain.

    On an error nothing is changed. Readers of the folder call `settle` first.

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
    """Complete the committed moves of a killed process in this folder; `sweep` also removes its uncommitted files.

    Only leftovers that no running process has locked are removed. If there are no leftovers, this is a single lookup.
    """
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.name.startswith(".")]
    except OSError:
        return
    if _COMMITTED in names:
        with _alone(folder):
            _finish(folder)
    for name in names if sweep else ():
        if name.startswith((STAGING, ".incoming-")) or LEFT_BEHIND.fullmatch(name):  # version 0.1 used .incoming-…
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
        return  # a read-only folder
    finally:
        os.close(handle)


def _open_folder(folder: Path) -> int | None:
    """Return an open, locked folder, if the system supports this."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try_to_hold(handle, wait=True)
    return handle


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Prevent other processes from swapping files in the folder while the context is open."""
    handle = _open_folder(folder)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _finish(folder: Path) -> None:
    """Move the files of a commit into place. It is safe to repeat the moves."""
    committed = folder / _COMMITTED
    listing = committed / _LIST
    if not os.path.lexists(committed):
        return
    _refuse_foreign(committed)
    try:
        if listing.is_file():  # without the list, all files were moved before, and only the empty folder is left
            _move(folder, *_listed(folder, listing))
            _sync_folder(folder)
            listing.unlink()
        shutil.rmtree(committed)
    except OSError as error:
        raise StrobeError(
            f"{printable(folder)}: strobe cannot finish an interrupted write: {why_not_written(error)}"
        ) from error


def _refuse_foreign(committed: Path) -> None:
    """Raise InvalidFile unless the folder contains plain files only: strobe puts no link, pipe or device there."""
    found = committed if committed.is_symlink() or not committed.is_dir() else next(others_in(committed), None)
    if found is not None:
        raise InvalidFile(
            found, "not a file of an interrupted write", hint=f"strobe moved nothing; remove {committed.name}"
        )


def _listed(folder: Path, listing: Path) -> tuple[list[str], list[str]]:
    """Return the files to write and to remove; refuse a list that points out of the folder."""
    content = read_json(listing)
    try:
        put, gone = list(content["put"]), list(content["gone"])
    except (KeyError, TypeError) as error:
        raise InvalidFile(listing, "not a list of files to swap", hint="remove the folder that contains it") from error
    if not all(isinstance(name, str) for name in (*put, *gone)):
        raise InvalidFile(listing, "not a list of files to swap", hint="remove the folder that contains it")
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
    """Make renames in the folder survive a power cut, if the system can do so."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
