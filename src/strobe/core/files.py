"""Atomic file writes, file reads that raise one-line errors, and paths that cannot lead out of a folder.

A reader sees either the old or the new file, never a partial file. `strobe.core.swaps` replaces several files together.

A dataset, run or training folder may come from a stranger. Its files name other files, and any of its entries may be a
link. Every path in such a folder is checked before it is read or written: by `inside`, or by `matching` if names are
searched.
"""

import csv
import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError, printable

_REASONS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "no write permission"),
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.ENOTDIR: "a parent is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EEXIST: "a file with that name already exists",
}

STAGING = ".staging-"
"""Name prefix of folders that stage files to be replaced together (`strobe.core.swaps`)."""

_USUAL = ".strobe.tmp"
LEFT_BEHIND = re.compile(r"\..+\.([a-z0-9_]{8}|strobe)\.tmp")
"""Name pattern of the temporary files that `replacing` writes next to their targets."""

MOST_JSON = 2**32
"""The size of the largest JSON file in bytes."""

_UMASK = threading.Lock()  # os.umask can only be read by setting it, which affects the whole process


def cache_folder() -> Path:
    """Return the folder for files that can be recreated: $STROBE_CACHE, else the user's cache folder."""
    named = os.environ.get("STROBE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strobe"


def cannot_write(path: Path | str, error: OSError) -> CannotWrite:
    """Return the one-line error for a failed write."""
    return CannotWrite(f"cannot write {printable(path)}: {why_not_written(error)}; nothing was changed there")


def why_not_written(error: OSError) -> str:
    """Return the reason for a failed write in words."""
    return _REASONS.get(error.errno or 0, error.strerror or str(error))


def make_folder(path: Path) -> Path:
    """Return the folder, created with its parents if missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`.

    On exit, the temporary file is synced and replaces `path`; on an error, it is removed.

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
        if not any(part.startswith(STAGING) for part in path.parts):  # files of a stage are synced on commit
            make_lasting(temporary)
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
    """Create an empty file next to `path`, lock it while this process lives, and return its path and handle.

    An unlocked file was left behind by a killed process. The name is fixed per `path`, so the next writer reuses that
    file. If another process uses the name, or the file is a link or not a regular file, a unique name is used.
    """
    name = path.name if len(os.fsencode(path.name)) <= 200 else hashlib.sha256(os.fsencode(path.name)).hexdigest()
    usual = path.with_name(f".{name}{_USUAL}")
    if os.name == "nt":  # Windows cannot rename an open file
        handle, own = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
        return Path(own), None
    try:
        handle = os.open(usual, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:  # a link or a folder; if the folder is not writable, the next line raises
        pass
    else:
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and try_to_hold(handle) and is_at(usual, about):
            os.truncate(handle, 0)
            return usual, handle
        os.close(handle)
    handle, own = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".tmp", dir=path.parent)
    if try_to_hold(handle):
        return Path(own), handle
    os.close(handle)  # no locks on this system
    return Path(own), None


def is_at(path: Path, about: os.stat_result) -> bool:
    """Return whether the file is still at the path, because it may have been renamed between opening and locking."""
    try:
        now = path.lstat()
    except OSError:
        return False
    return (now.st_dev, now.st_ino) == (about.st_dev, about.st_ino)


def make_lasting(path: Path) -> None:
    """Sync the file to the disk, and give it the permissions of a new file."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    with _UMASK:
        umask = os.umask(0)
        os.umask(umask)
    path.chmod(0o666 & ~umask)


def hold(handle: int, *, wait: bool) -> None:
    """Lock an open file or folder until it is closed; raise OSError if that fails.

    BlockingIOError means that another process holds the lock; any other OSError means that the file system has no
    locks. The system frees the lock when the process ends.
    """
    from filelock import lock_descriptor

    if not lock_descriptor(handle, blocking=wait):
        raise BlockingIOError(errno.EWOULDBLOCK, "another process holds it")


def release(handle: int) -> None:
    """Release the lock of an open file, also for processes that were forked while it was held."""
    from filelock import unlock_descriptor

    unlock_descriptor(handle)


def try_to_hold(handle: int, *, wait: bool = False) -> bool:
    """Return whether this process now holds the lock of an open file or folder; always False without locks."""
    try:
        hold(handle, wait=wait)
    except OSError:  # held by another process, or a file system without locks
        return False
    return True


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write the text as UTF-8, atomically."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Write JSON with keys in the given order, atomically. NaN is refused, because it is not JSON."""
    write_text(path, json_text(content))


def json_text(content: Any) -> str:
    """Return the text of a JSON file as strobe formats it."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def regular(path: Path) -> Path:
    """Return the path if it is a readable regular file. A pipe or a device is refused, because it could be endless.

    >>> regular(Path("/dev/zero"))
    Traceback (most recent call last):
    strobe.core.errors.InvalidFile: /dev/zero: not a regular file; save its content in a file first
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidFile(path, "not a regular file", hint="save its content in a file first")
    # This is checked first, because a library would report a damaged file instead.
    if path.exists() and not os.access(path, os.R_OK):
        raise InvalidFile(path, "no permission to read it", hint="ask its owner")
    return path


@contextmanager
def reading(path: Path, *, hint: str | None = None) -> Iterator[None]:
    """Turn errors in a text or CSV file into one line that names the file. A pipe or a device is refused."""
    try:
        regular(path)
        yield
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}" + (f"; {hint}" if hint else "")) from error
    except UnicodeDecodeError as error:
        raise InvalidFile(path, "not UTF-8 text", where=f"byte {error.start}", hint=hint) from error
    except csv.Error as error:
        raise InvalidFile(path, f"not a CSV file ({printable(error, limit=80)})", hint=hint) from error
    except OSError as error:
        raise StrobeError(f"cannot read {printable(path)}: {error.strerror}") from error


Pairs = Callable[[list[tuple[str, Any]]], Any]


def json_of(text: str | bytes, *, pairs: Pairs | None = None) -> Any:
    """Return the JSON value of a text. Every fault is a ValueError, also a nesting that is too deep.

    `pairs` makes each object from its keys and values.

    >>> json_of("[" * 200_000)
    Traceback (most recent call last):
    ValueError: nested too deep
    """
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def toml_of(text: str) -> dict[str, Any]:
    """Return the content of a TOML text. Every fault is a ValueError, also a nesting that is too deep."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def read_json(path: Path, *, hint: str | None = None, pairs: Pairs | None = None) -> Any:
    """Return the file's JSON, or raise a one-line InvalidFile with the position of the error."""
    with reading(path, hint=hint):
        if path.is_file() and path.stat().st_size > MOST_JSON:
            raise InvalidFile(path, f"larger than {MOST_JSON >> 30} GiB, too large for JSON", hint=hint)
        text = path.read_text(encoding="utf-8")
    try:
        return json_of(text, pairs=pairs)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidFile(path, f"not JSON ({error.msg})", where=where, hint=hint or "is it truncated?") from error
    except ValueError as error:  # a number with thousands of digits, or nested too deep
        raise InvalidFile(path, f"not JSON ({printable(error, limit=80)})", hint=hint) from error


def sha256_of_file(path: Path) -> str:
    """Return the hex digest of the file's bytes. A file that cannot be read is an error of one line."""
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


WRITTEN = (
    *("media", "masks", "generator", "predictions", "external", "frames", "tables", "figures", "data", "images", "val"),
    *(".committed", ".build", ".simulate", ".attack", ".generator", ".detector", "metadata", "test", "report", "gate"),
    "verdict",
)
"""The folders inside a folder that commands write to."""


def below(folder: Path, name: str) -> Path:
    """Return a folder to write to inside a folder that the user gave. A link that leads out of it is refused.

    Raises KeyError if the name is not in the list of such folders, so that every check knows it.
    """
    if PurePath(name).parts[0] not in WRITTEN:
        raise KeyError(f"{name} is not in strobe.core.files.WRITTEN")
    return inside(folder, name)


def inside(folder: Path, name: str | PurePath, *, replaced: bool = False) -> Path:
    """Return the path of `name` in the folder, whether or not the file exists.

    Raises InvalidFile if the name is absolute or contains `..`, if a link on the path leads out of the folder, or if
    the path is a pipe or a device. The folder itself may be a link, because the user named it. With `replaced`, the
    entry will be replaced by a rename or removed, so it may be of any kind. Only the path to it is checked.

    >>> inside(Path("/data/set"), "media/a.png").as_posix()
    '/data/set/media/a.png'
    >>> inside(Path("/data/set"), "../secret")
    Traceback (most recent call last):
    strobe.core.errors.InvalidFile: /data/set: '../secret' is not a file in this folder; strobe did not open it
    """
    text, relative = str(name), PurePath(name)
    if not relative.parts or relative.anchor or ".." in relative.parts or "\0" in text:
        raise InvalidFile(
            folder, f"{printable(text, limit=80)!r} is not a file in this folder", hint="strobe did not open it"
        )
    path = folder
    try:
        for part in relative.parts[:-1] if replaced else relative.parts:
            path = path / part
            if path.is_symlink():
                _refuse_way_out(folder, path)
        kind = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return folder / relative
    except OSError as error:
        raise InvalidFile(path, f"cannot be read ({error.strerror})") from error
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise InvalidFile(path, "not a regular file")
    return folder / relative


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return the matches of the pattern in the folder, sorted; each part of the path is checked before it is listed."""
    paths = [folder]
    for part in pattern.split("/"):
        names = (path for parent in paths if parent.is_dir() for path in sorted(parent.glob(part)))
        paths = [inside(folder, path.relative_to(folder)) for path in names]
    return paths


def refuse_links(folder: Path, names: Iterable[str] = WRITTEN) -> None:
    """Raise InvalidFile if a link below one of these names leads out of the folder, because a write would follow it.

    Other entries are not checked, because the folder may also hold the user's own project.
    """
    for name in names:
        top = folder / name
        if top.is_symlink():
            _refuse_way_out(folder, top)
        for other in others_in(top):
            if other.is_symlink():
                _refuse_way_out(folder, other)


def others_in(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder that is neither a file nor a folder: links (not followed), pipes and devices."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # it is missing, not a folder or not readable, so a write into it fails anyway
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from others_in(Path(entry.path))
        elif not entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _refuse_way_out(folder: Path, link: Path) -> None:
    try:
        stays = link.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # circular links
        stays = False
    if not stays:
        raise InvalidFile(
            link,
            "a link that leads out of the folder",
            hint="strobe does not follow it; replace the link with the file",
        )
