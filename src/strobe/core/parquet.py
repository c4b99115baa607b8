"""Read Parquet files up to a size limit, because a kilobyte can expand to gigabytes even if the footer claims less.

The footer and every page header are parsed here (Thrift's compact protocol), because readers decompress as many bytes
as a page declares. Texts are read as dictionaries, which are expanded only if the result also stays below the limit.

`numbers_of` and `arrow_of` convert Arrow columns to numpy and back, by their bytes. The functions of pyarrow
(`pa.array`, `pa.scalar`, `to_numpy`, `np.asarray`) import pandas if it is installed, and this import would take a
quarter of the time of one scoring run. This module does not import pyarrow at its top.
"""

import mmap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools
from strobe.core.errors import InvalidFile
from strobe.core.files import regular
from strobe.core.late import load
from strobe.core.readers import bounded

_FEW = 2**26
"""Bytes of texts expanded at once, regardless of the dictionary."""
_TEXT_COST, _NUMBER_COST = 64, 8
"""Bytes that a value takes in memory in addition to its characters."""

IN_LISTS, IN_PYTHON = 12, 48
"""Bytes that a number in a list takes: in an array, including its level, and as a Python object."""

_MAGIC = b"PAR1"
_BYTE_ARRAY = 6

Content = bytes | mmap.mmap


def open_bounded(
    path: Path, columns: Collection[str] | None = None, *, listed: int = IN_LISTS, content: bytes | None = None
) -> tuple[Any, int]:
    """Return a pyarrow ParquetFile with texts as dictionaries, and an upper bound on the bytes that these columns need.

    Raises InvalidFile if the bound is far more than a file of this size can hold, or if the file is not a Parquet file.
    `listed` is the size of a number in a list. `content` is the file's content, if it is already in memory.
    """
    arrow = load("pyarrow:ArrowException")
    try:
        cost, worst = 0, Counter[str]()
        for name, is_text, values, unpacked in _leaves(regular(path), content):
            if columns is None or name.partition(".")[0] in columns:
                worst[name] += unpacked * values * is_text  # each value might be as large as a page
                each = _TEXT_COST if is_text else listed if "." in name else _NUMBER_COST
                cost += unpacked + values * each
                bounded(path, cost)
        texts = [name for name, most in worst.items() if most > _FEW]
        source = path if content is None else load("pyarrow:BufferReader")(content)
        file = load("pyarrow.parquet:ParquetFile")(source, read_dictionary=texts, memory_map=False)
        names = list(file.schema_arrow.names)
    except (arrow, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise InvalidFile(path, "not a readable Parquet file", hint="is it truncated?") from error
    twice = [name for name, many in Counter(names).items() if many > 1 and (columns is None or name in columns)]
    if twice:
        raise InvalidFile(path, f"the column {twice[0]} appears twice", hint="remove one of them")
    return file, cost


def read_bounded(
    path: Path, columns: Collection[str] | None = None, *, listed: int = IN_LISTS, content: bytes | None = None
) -> tuple[Any, list[str]]:
    """Return the requested columns that the file has (by default all) as a pyarrow Table, and all column names."""
    file, cost = open_bounded(path, columns, listed=listed, content=content)
    try:
        with file:
            names = list(file.schema_arrow.names)
            wanted = [name for name in names if columns is None or name in columns]
            table = written_out(path, _read(file, wanted), cost)
            table.validate(full=True)  # damaged text is not valid UTF-8, which pyarrow reports only when it is read
            return table, names
    except (load("pyarrow:ArrowException"), OSError, ValueError) as error:
        raise InvalidFile(path, "not a readable Parquet file", hint="is it truncated?") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What the footer of a Parquet file records: the number of rows, the column names and the metadata."""

    n_rows: int
    names: tuple[str, ...]
    metadata: Mapping[bytes, bytes]


def read_footer(path: Path, *, hint: str = "is it truncated?") -> Footer:
    """Return the footer of a Parquet file without its content. A missing file is a FileNotFoundError."""
    try:
        with load("pyarrow.parquet:ParquetFile")(regular(path), memory_map=False) as file:
            schema, groups = file.schema_arrow, map(file.metadata.row_group, range(file.metadata.num_row_groups))
            if file.metadata.num_rows != sum(group.num_rows for group in groups):
                raise ValueError("its footer contradicts itself")
            return Footer(n_rows=file.metadata.num_rows, names=tuple(schema.names), metadata=schema.metadata or {})
    except FileNotFoundError:
        raise
    except (load("pyarrow:ArrowException"), OSError, ValueError) as error:
        raise InvalidFile(path, "not a readable Parquet file", hint=hint) from error


def _read(file: Any, names: list[str]) -> Any:
    """Return the columns; lists of texts are read by row group, as pyarrow has no dictionaries for them."""
    types, schema = load("pyarrow:types"), file.schema_arrow
    if file.num_row_groups < 2 or not any(types.is_nested(schema.field(name).type) for name in names):
        return file.read(columns=names)
    parts = [file.read_row_group(number, columns=names) for number in range(file.num_row_groups)]
    return load("pyarrow:concat_tables")(parts)


def written_out(path: Path, table: Any, cost: int = 0) -> Any:
    """Return the table with its text dictionaries expanded; refuse a table that would take too much memory."""
    types = load("pyarrow:types")
    for index, field in enumerate(table.schema):
        is_list = types.is_list(field.type) and types.is_dictionary(field.type.value_type)
        if types.is_dictionary(field.type) or is_list:
            column = table.column(index)
            cost += sum(_text_bytes(chunk) for chunk in column.chunks)
            bounded(path, cost)
            kind = load("pyarrow:list_")(field.type.value_type.value_type) if is_list else field.type.value_type
            table = table.set_column(index, field.name, column.cast(kind))
    return table


def _text_bytes(chunk: Any) -> int:
    """Return the bytes of a chunk's texts after expansion."""
    compute = load("pyarrow:compute")
    coded = chunk if load("pyarrow:types").is_dictionary(chunk.type) else chunk.flatten()
    lengths = compute.binary_length(coded.dictionary)
    return int(compute.sum(lengths.take(coded.indices)).as_py() or 0)


# -- the footer and the headers of pages ---------------------------------------------------------------------------


def _leaves(path: Path, content: Content | None = None) -> Iterator[tuple[str, bool, int, int]]:
    """Yield each row group's leaf columns: the path, whether it is text, the value count, the decompressed size."""
    if content is None:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield from _leaves(path, mapped)
        return
    size = len(content)
    if size < 12 or content[-4:] != _MAGIC:
        raise ValueError("not a Parquet file")
    begin = size - 8 - int.from_bytes(content[-8:-4], "little")
    if begin < 4:
        raise ValueError("the footer is longer than the file")
    footer, _ = _struct(content[begin : size - 8], 0)
    stored = 0
    for group in footer.get(4, ()):
        for column in group[1]:
            facts = column[3]
            name = ".".join(part.decode() for part in facts[3])
            values, unpacked, length = _pages(content, facts)
            if (stored := stored + length) > size:  # otherwise, reading the same pages again could take hours
                raise ValueError("two columns share their pages")
            yield name, facts[1] == _BYTE_ARRAY, values, unpacked


def _pages(content: Content, facts: dict[int, Any]) -> tuple[int, int, int]:
    """Return the value count, the decompressed and the stored size of a column's pages, from their headers."""
    place, first = facts[9], facts.get(11) or 0
    if 0 < first < place:
        place = first
    begin = place
    end, wanted = min(len(content), place + max(facts[7], 0) + 128), facts[5]  # some writers count one header too few
    values = unpacked = 0
    while values < wanted and place < end:
        header, place = _struct(content, place)
        told = header.get(5) or header.get(8) or {}
        values += max(told.get(1, 0), 0)
        unpacked += max(header.get(2, 0), 0)
        place += max(header[3], 0)
    return values, unpacked, min(place, end) - begin


def _struct(content: Content, place: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct in Thrift's compact protocol by number, and the place where the struct ends."""
    out: dict[int, Any] = {}
    number = 0
    while (head := content[place]) != 0:
        place += 1
        kind = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, place = _signed(content, place)
        if kind < 3:
            out[number] = kind == 1
        else:
            out[number], place = _value(content, place, kind)
    return out, place + 1


def _value(content: Content, place: int, kind: int) -> tuple[Any, int]:
    if kind in (4, 5, 6):
        return _signed(content, place)
    if kind == 8:
        length, place = read_varint(content, place)
        if place + length > len(content):
            raise ValueError("a text is longer than the file")
        return bytes(content[place : place + length]), place + length
    if kind in (9, 10):
        return _list(content, place)
    if kind == 12:
        return _struct(content, place)
    if kind in (1, 2, 3):
        return content[place], place + 1
    if kind == 7:
        return None, place + 8
    raise ValueError("not a Parquet footer")  # maps and other types do not occur


def _list(content: Content, place: int) -> tuple[list[Any], int]:
    head = content[place]
    n_items, place = (head >> 4, place + 1) if head >> 4 < 15 else read_varint(content, place + 1)
    if n_items > len(content) - place:  # each element takes at least a byte
        raise ValueError("a list is longer than the file")
    out = []
    for _ in range(n_items):
        one, place = _value(content, place, head & 15)
        out.append(one)
    return out, place


def _signed(content: Content, place: int) -> tuple[int, int]:
    value, place = read_varint(content, place)
    return (value >> 1) ^ -(value & 1), place


def numbers_of(column: Any) -> NDArray[Any]:
    """Return an Arrow column of numbers or booleans as a numpy array; values at nulls are undefined.

    The column may have several chunks.

    A single chunk of numbers is not copied and is read-only.
    """
    parts = [_numbers(chunk) for chunk in getattr(column, "chunks", [column])]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=_dtype(column)), *parts])


_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}
"""Types with different names in Arrow and numpy."""


def _dtype(column: Any) -> np.dtype[Any]:
    name = str(column.type)
    found = np.dtype(_NAMES.get(name, name))
    if found.kind not in "biuf":
        raise TypeError(f"expected a column of numbers, got {name}")
    return found


def _numbers(chunk: Any) -> NDArray[Any]:
    kind, begin, n = _dtype(chunk), chunk.offset, len(chunk)
    if not n:  # it may have no buffer
        return np.empty(0, dtype=kind)
    data = chunk.buffers()[1]
    if kind.kind == "b":
        return np.unpackbits(np.frombuffer(data, np.uint8), count=begin + n, bitorder="little")[begin:].view(bool)
    return np.frombuffer(data, kind, count=n, offset=begin * kind.itemsize)


def arrow_of(pa: Any, values: "NDArray[Any] | Sequence[str]", missing: Bools | None = None) -> Any:
    """Return an Arrow array of texts, or of numpy numbers or booleans.

    It is null where `missing` is true; `pa` is pyarrow.
    """
    if not isinstance(values, np.ndarray):
        coded = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, coded)], dtype=np.int32)
        return pa.StringArray.from_buffers(len(coded), pa.py_buffer(ends), pa.py_buffer(b"".join(coded)))
    data = np.packbits(values, bitorder="little") if values.dtype.kind == "b" else np.ascontiguousarray(values)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(data)])


def read_varint(content: bytes | mmap.mmap, place: int) -> tuple[int, int]:
    """Return the unsigned number of variable length at `place`, as in Parquet and ONNX files, and the place after it.

    Raises ValueError if the number has more than 64 bits.

    >>> read_varint(bytes([0xAC, 0x02, 7]), 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        byte = content[place]
        value, place, shift = value | (byte & 127) << shift, place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("the number has more than 64 bits")
