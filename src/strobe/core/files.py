"""Writing so that a reader sees the old file or the new one, never half of either."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError, printable

__all__ = [
    "cache_folder",
    "cannot_write",
    "make_folder",
    "read_json",
    "replacing",
    "sha256_of_file",
    "write_bytes",
    "write_json",
    "write_text",
]

_REASONS = {
    errno.EACCES: "no write permission",
    errno.EPERM: "no write permission",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.ENOTDIR: "a parent is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EEXIST: "a file of that name is in the way",
}


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
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:80]}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write the file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write the text as UTF-8, whole or not at all."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Write JSON with sorted-as-given keys, whole or not at all. NaN is refused: it is not JSON."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, *, hint: str | None = None) -> Any:
    """The file's JSON, or one InvalidFile line that says where it breaks."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}" + (f"; {hint}" if hint else "")) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidFile(path, f"not JSON ({error.msg})", where=where, hint=hint or "is it truncated?") from error
    except UnicodeDecodeError as error:
        raise InvalidFile(path, "not UTF-8 text", where=f"byte {error.start}", hint=hint) from error
    except RecursionError as error:
        raise InvalidFile(path, "JSON nested too deep", hint=hint) from error
    except ValueError as error:  # a number of thousands of digits
        raise InvalidFile(path, f"not JSON ({printable(error, limit=80)})", hint=hint) from error
    except OSError as error:
        raise StrobeError(f"cannot read {printable(path)}: {error.strerror}") from error


def sha256_of_file(path: Path) -> str:
    """The hex digest of the file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
