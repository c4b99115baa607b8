"""Answers that are stored as they come: a file of lines, each with a checksum, which later becomes a shard.

    predictions/<model>/<key>.journal

A line is a digest, a space and the Base64 text of an Arrow stream with the columns of a shard. If the process is
killed, at most the last line is incomplete; it is ignored. Any other line that does not match its digest, or is not an
uncompressed Arrow stream of these columns, is damaged.
"""

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from strobe.core.codec import decode
from strobe.core.errors import InvalidValue, printable
from strobe.core.files import cannot_write, json_of, make_folder, regular
from strobe.core.readers import arrow_table, base64_of
from strobe.core.remote import Usage
from strobe.store.answer_tables import Columns

SUFFIX = ".journal"
_DIGITS = 16
_SPENT = b"strobe.spent"


class Journal:
    """An open journal. One thread at a time adds lines. Each line is in the file when `add` returns."""

    def __init__(self, path: Path) -> None:
        self.path, self.n_rows = path, 0
        self._tables: list[pa.Table] = []
        make_folder(path.parent)
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except OSError as error:
            raise cannot_write(path, error) from error
        self._is_new = os.fstat(self._file).st_size == 0

    def add(self, columns: Columns, said: Mapping[str, str], used: Usage) -> None:
        """Append the columns of some frames with the metadata of a shard, and what their requests used."""
        metadata = {f"strobe.{key}": value for key, value in said.items()} | {_SPENT: spent_text(used)}
        table = pa.table(columns).replace_schema_metadata(metadata)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        text = base64.b64encode(sink.getvalue())
        line = memoryview(_digest(text) + b" " + text + b"\n")
        try:
            while line:  # on a full disk, only a part is written, and the next call raises
                line = line[os.write(self._file, line) :]
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self.n_rows += len(table)
        self._tables.append(table)

    def close(self) -> "JournalContent":
        """Close the file and return its content."""
        os.close(self._file)
        return _joined(self._tables, []) if self._is_new else read_journal(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalContent:
    """The content of a journal: its rows as one table, what they used, and the numbers of the damaged lines."""

    table: pa.Table | None
    used: Usage
    damaged: list[int] = field(default_factory=list)


def read_journal(path: Path) -> JournalContent:
    """Return the undamaged lines of a journal. An incomplete last line is ignored."""
    try:
        lines = regular(path).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:  # a writer has just turned it into a shard
        lines = []
    tables: list[pa.Table] = []
    damaged, schema = [], pa.schema([])
    for number, line in enumerate(lines, start=1):
        digest, _, text = line.partition(b" ")
        try:
            if digest != _digest(text):
                raise ValueError("another checksum")
            table = arrow_table(base64_of(text))
            schema = pa.unify_schemas([schema, table.schema])
            needed = ("frame_id", "error") if len(table) else ("frame_id",)
            if any(table.schema.field(name).type != pa.string() for name in needed):
                raise ValueError("not the columns of answers")
            tables.append(table)
        except (ValueError, TypeError, KeyError):
            damaged.append(number)
    return _joined(tables, damaged)


def _joined(tables: Sequence[pa.Table], damaged: list[int]) -> JournalContent:
    used = sum((spent_of(one.schema.metadata) for one in tables), Usage())
    rows = [one for one in tables if len(one)]
    table = pa.concat_tables(rows, promote_options="default").combine_chunks() if rows else None
    return JournalContent(table=table, used=used, damaged=damaged)


def spent_text(used: Usage) -> str:
    """Return what requests used as a line of JSON, for the metadata of a shard."""
    return json.dumps({name: value for name in Usage.__slots__ if (value := getattr(used, name))}, allow_nan=False)


def spent_of(metadata: Mapping[bytes, bytes] | None) -> Usage:
    """Return what the requests of a shard used; nothing if its metadata has no such line."""
    try:
        return decode(Usage, json_of((metadata or {}).get(_SPENT, b"{}")))
    except (ValueError, InvalidValue):
        return Usage()


def damaged_lines(content: JournalContent) -> str:
    """Return a phrase that names the damaged lines.

    >>> damaged_lines(JournalContent(table=None, used=Usage(), damaged=[3, 7]))
    'lines 3, 7 are damaged'
    """
    numbers = printable(", ".join(map(str, content.damaged)), limit=60)
    return f"lines {numbers} are damaged" if len(content.damaged) > 1 else f"line {numbers} is damaged"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:_DIGITS].encode()
