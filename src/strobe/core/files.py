"""Writing so that a reader sees the old file or the new one, never half of either; the same for files that go together.

One file is replaced by renaming (`replacing`). Several take their places together (`swapping`): they are written to a
hidden folder with a list of what goes where; renaming that folder to `.committed` decides, and what a kill leaves to be
moved after that is moved by the next one who opens the folder (`settle`).
"""

import csv
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError, printable

__all__ = [
    "Staged",
    "cache_folder",
    "cannot_write",
    "hold",
    "json_text",
    "make_folder",
    "read_json",
    "reading",
    "regular",
    "replacing",
    "settle",
    "sha256_of_file",
    "swapping",
    "write_bytes",
    "write_json",
    "write_text",
]

_REASONS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "no write permission"),
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.ENOTDIR: "a parent is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EEXIST: "a file of that name is in the way",
}

_UMASK = threading.Lock()  # it can only be read by setting it, for the whole process


def cache_folder() -> Path:
    """Where files are kept that can be had again: $STROBE_CACHE, else the user's cache folder."""
    named = os.environ.get("STROBE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strobe"


def cannot_write(path: Path | str, error: OSError) -> CannotWrite:
    """The one line for a write that failed."""
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    return CannotWrite(f"cannot write {printable(path)}: {reason}; nothing was changed there")


def make_folder(path: Path) -> Path:
    """The folder, made with its parents where missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; on leaving it is synced and takes its place, on an error it is removed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    make_folder(path.parent)
    temporary: Path | None = None
    handle: int | None = None
    try:
        temporary, handle = _beside(path)
        yield temporary
        if not any(part.startswith(_STAGING) for part in path.parts):  # a stage is synced when it is committed
            _make_lasting(temporary)
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _beside(path: Path) -> tuple[Path, int | None]:
    """A new, empty file beside `path` and its handle, held while this process lives: what nobody holds was left behind.

    It has one name per `path`, so that who writes the file after a kill uses up what the kill left. Where another
    holds that name, or something lies there that is no file of ours, it gets a name of its own.
    """
    name = path.name if len(os.fsencode(path.name)) <= 200 else hashlib.sha256(os.fsencode(path.name)).hexdigest()
    usual = path.with_name(f".{name}{_USUAL}")
    try:
        handle = os.open(usual, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:  # a link or a folder; or nothing can be written here, which the next line says
        pass
    else:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and _lock(handle) and _is_at(usual, about):
            os.truncate(handle, 0)
            return usual, handle
        os.close(handle)
    handle, own = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".tmp", dir=path.parent)
    if _lock(handle):
        return Path(own), handle
    os.close(handle)  # no locks here, and systems without them rename no open file
    return Path(own), None


def _is_at(path: Path, about: os.stat_result) -> bool:
    """Whether the file is still at the path: between opening and locking it may have taken its place."""
    try:
        now = path.lstat()
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == (about.st_dev, about.st_ino)


def _make_lasting(path: Path) -> None:
    """Sync the file to the disk, and give it the permissions a new file has."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    with _UMASK:
        umask = os.umask(0)
        os.umask(umask)
    path.chmod(0o666 & ~umask)


def hold(handle: int, *, wait: bool) -> None:
    """Lock an open file or folder until it is closed; ImportError where the system has no such locks."""
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _lock(handle: int, *, wait: bool = False) -> bool:
    """Whether this process now holds the lock of an open file or folder; never where there are no locks."""
    try:
        hold(handle, wait=wait)
    except (ImportError, OSError):  # another holds it; or not Linux or macOS, or a file system without locks
        return False
    return True


# -- several files at once ---------------------------------------------------------------------------------------

_STAGING = ".staging-"
_COMMITTED = ".committed"
_LIST = "these.json"
_USUAL = ".strobe.tmp"
_LEFT = re.compile(r"\..+\.([a-z0-9_]{8}|strobe)\.tmp")  # what `replacing` calls its temporary files


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
                list(pool.map(_make_lasting, put))
            listing = self.aside / _LIST
            names = [path.relative_to(self.root).as_posix() for path in put]
            _refuse_blocked(self.folder, [*names, *self._gone])
            listing.write_text(json.dumps({"put": names, "gone": self._gone}), encoding="utf-8")
            _make_lasting(listing)
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
        aside = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder))
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
        if name.startswith((_STAGING, ".incoming-")) or _LEFT.fullmatch(name):  # runs of 0.1 staged in .incoming-…
            _sweep(folder / name)


def _sweep(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        if _lock(handle):
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
    _lock(handle, wait=True)
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
    if not committed.is_dir():
        return
    try:
        if listing.is_file():  # else all was moved, and only the empty folder is left
            _move(folder, *_listed(listing))
            _sync_folder(folder)
            listing.unlink()
        shutil.rmtree(committed)
    except OSError as error:
        raise StrobeError(
            f"{printable(folder)}: a write was interrupted and has to be finished first, but cannot be: "
            f"{_REASONS.get(error.errno or 0, error.strerror)}"
        ) from error


def _listed(listing: Path) -> tuple[list[str], list[str]]:
    """What is to be put and what removed; a list that points out of the folder is none of ours."""
    content = read_json(listing)
    try:
        put, gone = list(content["put"]), list(content["gone"])
    except (KeyError, TypeError) as error:
        raise InvalidFile(listing, "not a list of files to swap", hint="remove the folder it lies in") from error
    for name in (*put, *gone):
        if not isinstance(name, str) or not _is_inside(listing.parent.parent, name):
            raise InvalidFile(
                listing, f"{printable(name)} is no file of this folder", hint="remove the folder it lies in"
            )
    return put, gone


def _is_inside(folder: Path, name: str) -> bool:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
        return False
    return (folder / name).parent.resolve().is_relative_to(folder.resolve())


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


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write the text as UTF-8, whole or not at all."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Write JSON with sorted-as-given keys, whole or not at all. NaN is refused: it is not JSON."""
    write_text(path, json_text(content))


def json_text(content: Any) -> str:
    """The text of a JSON file of ours."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def regular(path: Path) -> Path:
    """The path, unless a pipe or a device lies there, which may never end, or what only others may read.

    >>> regular(Path("/dev/zero"))
    Traceback (most recent call last):
    strobe.core.errors.InvalidFile: /dev/zero: not a regular file
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidFile(path, "not a regular file")
    if path.exists() and not os.access(path, os.R_OK):  # said before a library takes it for damage
        raise InvalidFile(path, "no permission to read it", hint="ask its owner")
    return path


@contextmanager
def reading(path: Path, *, hint: str | None = None) -> Iterator[None]:
    """While open, what is wrong with a file of text, or with the CSV in it, becomes one line that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}" + (f"; {hint}" if hint else "")) from error
    except UnicodeDecodeError as error:
        raise InvalidFile(path, "not UTF-8 text", where=f"byte {error.start}", hint=hint) from error
    except csv.Error as error:
        raise InvalidFile(path, f"not a CSV file ({printable(error, limit=80)})", hint=hint) from error
    except OSError as error:
        raise StrobeError(f"cannot read {printable(path)}: {error.strerror}") from error


def read_json(path: Path, *, hint: str | None = None) -> Any:
    """The file's JSON, or one InvalidFile line that says where it breaks."""
    with reading(path, hint=hint):
        text = regular(path).read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidFile(path, f"not JSON ({error.msg})", where=where, hint=hint or "is it truncated?") from error
    except RecursionError as error:
        raise InvalidFile(path, "JSON nested too deep", hint=hint) from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidFile(path, f"not JSON ({printable(error, limit=80)})", hint=hint) from error


def sha256_of_file(path: Path) -> str:
    """The hex digest of the file's bytes."""
    with regular(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
