"""Read files that a stranger may have made: Arrow streams, arrays, safetensors, ZIP archives, torch files, gzip.

No other module calls the libraries' own readers, except `core.files` for JSON and TOML and `core.parquet` for Parquet
(tests/test_readers.py lists all calls). Sizes are read from headers before any content, a file that would unpack to far
more than its own size is refused, and every failure is an error of one line that names the file.
"""

import base64
import gzip
import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import json_of, regular
from strobe.core.late import require

MOST = 2**30
"""The number of bytes that any file may unpack to. A large file may unpack to 256 times its own size."""
_MOST_ARCHIVE = 2**28
"""The same for archives and texts. A large archive may unpack to 16 times its own size, and a text to 64 times."""
_MOST_HEADER = 2**25
"""The largest header of a safetensors file in bytes."""
_TRUNCATED = "is it truncated?"


def most_bytes(path: Path, *, least: int = MOST, times: int = 256) -> int:
    """Return the number of bytes that a file of this size may unpack to."""
    return max(least, times * path.stat().st_size)


def bounded(path: Path, n_bytes: int, *, least: int = MOST, times: int = 256) -> None:
    """Raise InvalidFile if the file would unpack to more bytes than a file of its size can reasonably hold."""
    if n_bytes > most_bytes(path, least=least, times=times):
        raise InvalidFile(
            path, f"would unpack to {n_bytes / 2**30:.1f} GiB, far more than its size allows; strobe did not read it"
        )


# -- Arrow streams -----------------------------------------------------------------------------------------------


def arrow_table(content: bytes) -> Any:
    """Return the table of an Arrow stream of texts, numbers and lists of numbers. Raises ValueError for any other.

    Memory is not copied, and compressed content, dictionaries and empty types are refused, so the table takes no more
    memory than the stream. Every offset is checked before a value is read.
    """
    pa, ipc = require("pyarrow", what="tables", extra=""), require("pyarrow.ipc", what="tables", extra="")
    try:
        for number, message in enumerate(ipc.MessageReader.open_stream(pa.BufferReader(content))):
            expected = "record batch" if number else "schema"
            if message.type != expected:
                raise ValueError(f"expected a {expected}, got a {message.type}")
            _plain_message(bytes(message.metadata), is_batch=number > 0)
        with ipc.open_stream(pa.BufferReader(content)) as stream:
            if not all(_has_bytes(pa.types, field.type) for field in stream.schema):
                raise ValueError("a column is neither text nor numbers")
            table = stream.read_all()
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError, struct.error) as error:
        raise ValueError(printable(error, limit=80)) from error


def _has_bytes(types: Any, kind: Any) -> bool:
    """Return whether each value of this type takes memory, so that the number of rows is bounded by the bytes."""
    if types.is_list(kind) or (types.is_fixed_size_list(kind) and kind.list_size > 0):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_integer(kind) or types.is_floating(kind))


def _plain_message(flat: bytes, *, is_batch: bool) -> None:
    """Raise ValueError if the head of an Arrow message (a FlatBuffer) declares compression or is of an old version."""

    def field(table: int, number: int) -> int:
        """Return the place of a table's field, or 0 if the table has none."""
        entries = table - struct.unpack_from("<i", flat, table)[0]
        size = struct.unpack_from("<H", flat, entries)[0]
        offset = struct.unpack_from("<H", flat, entries + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
        return table + offset if offset else 0

    root = struct.unpack_from("<I", flat, 0)[0]
    version, header = field(root, 0), field(root, 2)
    if not version or struct.unpack_from("<h", flat, version)[0] < 4:  # older versions declare compression elsewhere
        raise ValueError("an old version of Arrow")
    if is_batch and header and field(header + struct.unpack_from("<I", flat, header)[0], 3):
        raise ValueError("compressed Arrow buffers")


def base64_of(text: bytes) -> bytes:
    """Return the decoded bytes. Raises ValueError if any character is not Base64.

    >>> base64_of(b"c3Ryb2Jl")
    b'strobe'
    """
    return base64.b64decode(text, validate=True)


# -- arrays of numpy ---------------------------------------------------------------------------------------------


def read_array(path: Path, *, mapped: bool = False, hint: str | None = None) -> NDArray[Any]:
    """Return the array of a .npy file of numbers, in memory or mapped."""
    with _reading_array(path, hint), regular(path).open("rb") as file:
        size = path.stat().st_size
        if not mapped:
            bounded(path, size, least=4 * MOST, times=0)
        _check_array(file, size)
        file.seek(0)
        source: Any = path if mapped else file
        found: NDArray[Any] = np.load(source, mmap_mode="r" if mapped else None, allow_pickle=False)
        return found


def read_arrays(path: Path, *, hint: str | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file of numbers by name."""
    found: dict[str, NDArray[Any]] = {}
    with _reading_array(path, hint):
        with opened_zip(path) as archive:
            records = {name.removesuffix(".npy"): io.BytesIO(archive.read(name)) for name in archive.namelist()}
        for name, content in records.items():
            _check_array(content, len(content.getbuffer()))
            content.seek(0)
            found[name] = np.load(content, allow_pickle=False)
    return found


@contextmanager
def _reading_array(path: Path, hint: str | None) -> Iterator[None]:
    try:
        yield
    except StrobeError:
        raise
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}" + (f"; {hint}" if hint else "")) from error
    except Exception as error:  # a damaged header, which is Python code, raises arbitrary exceptions
        raise InvalidFile(path, f"not a .npy file of numbers ({printable(error, limit=80)})", hint=hint) from error


def _check_array(file: IO[bytes], size: int) -> None:
    """Raise ValueError unless the header of a .npy file describes numbers that fill the rest of its bytes."""
    if file.read(2) == b"PK":
        raise ValueError("it is a .npz file of several arrays")
    file.seek(0)
    versions = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    read = versions.get(np.lib.format.read_magic(file))
    if read is None:
        raise ValueError("an unknown version")
    shape, _, dtype = read(file)
    count = 1
    for length in shape:
        count *= length
    if dtype.kind not in "biuf" or min(shape, default=0) < 0 or count * dtype.itemsize != size - file.tell():
        raise ValueError(f"{shape} of {dtype} does not fill its {size - file.tell()} bytes")


# -- weights and archives ----------------------------------------------------------------------------------------


def safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a safetensors file, and where its numbers begin. Any other file is a ValueError."""
    with regular(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(path.stat().st_size - 8, _MOST_HEADER):
            raise ValueError(f"a header of {length:,} bytes")
        header = json_of(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    return header, 8 + length


@contextmanager
def opened_safetensors(path: Path) -> Iterator[Any]:
    """Open a safetensors file: an object with `metadata()`, `keys()` and `get_tensor(name)`."""
    library = require("safetensors", what="reading safetensors", extra="models")
    try:
        safetensors_header(path)
        with library.safe_open(str(path), framework="pt") as opened:
            yield opened
    except StrobeError:
        raise
    except BaseException as error:  # safetensors raises its own Rust classes, which differ between versions
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        problem = f"not a safetensors file ({printable(error, limit=120)})"
        raise InvalidFile(path, problem, hint=_TRUNCATED) from error


@contextmanager
def opened_zip(path: Path, content: bytes | None = None) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP archive whose records are stored or deflated, and do not unpack to far more than its size.

    `content` is the file's content, if it is already in memory. All sizes come from the archive's directory, which
    ends the file, so every other reader finds the same directory.
    """
    try:
        with zipfile.ZipFile(regular(path) if content is None else io.BytesIO(content)) as archive:
            records = archive.infolist()
            bounded(path, sum(record.file_size for record in records), least=_MOST_ARCHIVE, times=16)
            if archive.comment or any(record.compress_type not in (0, zipfile.ZIP_DEFLATED) for record in records):
                raise ValueError("a comment, or a record that is neither stored nor deflated")
            yield archive
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, KeyError, EOFError, RuntimeError) as error:
        problem = f"not a readable ZIP archive ({printable(error, limit=80)})"
        raise InvalidFile(path, problem, hint=_TRUNCATED) from error


def check_archive(path: Path, content: bytes | None = None) -> None:
    """Refuse an archive that would take too much memory; torch takes every file that begins as an archive for one."""
    with io.BytesIO(content) if content is not None else path.open("rb") as file:
        is_archive = file.read(4) == b"PK\3\4"
    if is_archive:
        with opened_zip(path, content):
            pass


def read_torch(path: Path, content: bytes | None = None, *, device: str = "cpu", trust: bool = False) -> Any:
    """Return the content of a file that torch.save wrote, as torch.load does, without running code unless `trust`.

    An archive whose records would take too much memory is refused before any is read. A file that would run code, or is
    not a pickle at all, is torch's UnpicklingError.
    """
    torch = require("torch", what="reading weights", extra="models")
    try:
        check_archive(path, content)
        with io.BytesIO(content) if content is not None else path.open("rb") as file:
            return torch.load(file, map_location=device, weights_only=not trust)
    except (StrobeError, pickle.UnpicklingError):
        raise
    except Exception as error:  # the calls in a damaged pickle raise arbitrary exceptions
        reason = printable(error, limit=120) or type(error).__name__
        raise InvalidFile(path, f"not a weights file torch can read ({reason})", hint=_TRUNCATED) from error


def gunzip(path: Path) -> bytes:
    """Return the unpacked content of a gzip file."""
    limits = {"least": _MOST_ARCHIVE, "times": 64}
    try:
        with gzip.open(regular(path)) as file:
            content = file.read(most_bytes(path, **limits) + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidFile(path, f"not a gzip file ({printable(error, limit=80)})") from error
    bounded(path, len(content), **limits)
    return content
