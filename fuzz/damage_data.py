"""Damage bytes, tables, images, arrays, and the type of a file."""

import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

from fuzz.damage_text import ODD

__all__ = ["cut", "edit_table", "flip", "other_array", "other_picture", "swell_table", "tree"]

# -- bytes -----------------------------------------------------------------------------------------------------------


def flip(path: Path, rng: random.Random) -> str:
    """Change a few bytes."""
    data = bytearray(path.read_bytes())
    if not data:
        path.write_bytes(rng.randbytes(9))
        return "noise"
    n = rng.choice([1, 1, 2, 5, 20])
    # Readers trust headers and footers, so these are changed more often.
    spans = [(0, len(data)), (0, min(64, len(data))), (max(0, len(data) - 200), len(data))]
    for _ in range(n):
        low, high = rng.choice(spans)
        place = rng.randrange(low, high)
        data[place] = rng.choice([data[place] ^ (1 << rng.randrange(8)), 0, 255, rng.randrange(256)])
    path.write_bytes(data)
    return f"{n} bytes"


def cut(path: Path, rng: random.Random) -> str:
    """Empty, truncate or lengthen the file, or replace a part by noise or a repetition."""
    data = path.read_bytes()
    how = rng.randrange(6)
    if how == 0:
        path.write_bytes(b"")
        return "empty"
    at = rng.randrange(len(data) + 1)
    if how == 1:
        path.write_bytes(data[:at])
        return f"cut at {at} of {len(data)}"
    if how == 2:
        path.write_bytes(data[at:])
        return f"from {at}"
    if how == 3:
        path.write_bytes(data + rng.choice([data, b"\0" * 1000, rng.randbytes(50)]))
        return "more at the end"
    to = min(len(data), at + rng.choice([1, 4, 16, 100]))
    path.write_bytes(
        data[:at] + (rng.randbytes(to - at) if how == 4 else data[at:to] * rng.choice([2, 50])) + data[to:]
    )
    return f"other bytes at {at}"


# -- tables ----------------------------------------------------------------------------------------------------------


def edit_table(path: Path, rng: random.Random) -> str:
    """Change a Parquet table up to three times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    description = ""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        table, one = _changed_table(table, rng)
        description += one + "; "
    try:
        pq.write_table(table, path, row_group_size=rng.choice([None, 1, 7]) if len(table) else None)
    except (pa.ArrowException, ValueError):
        return description + flip(path, rng)
    return description


def _changed_table(table: Any, rng: random.Random) -> tuple[Any, str]:
    import pyarrow as pa

    how = rng.randrange(12)
    if not table.num_columns:
        return table, "no column"
    place = rng.randrange(table.num_columns)
    name = table.column_names[place]
    if how == 0:
        return table.remove_column(place), f"{name} gone"
    if how == 1:
        new = rng.choice(["", "x", name.upper(), "frame_id", "label"])
        return table.rename_columns(
            [*table.column_names[:place], new, *table.column_names[place + 1 :]]
        ), f"{name} → {new}"
    if how == 2:
        order = (
            [rng.randrange(len(table)) for _ in range(rng.choice([1, len(table), 3 * len(table)]))]
            if len(table)
            else []
        )
        return table.take(order), "rows resampled"
    if how == 3:
        order = list(range(len(table)))
        rng.shuffle(order)
        return table.take(order), "rows in another order"
    if how == 4:
        return table.slice(0, rng.choice([0, 0, 1, len(table) // 2])), "fewer rows"
    if how == 5:
        return table.append_column(rng.choice([name, "extra", "k"]), table.column(place)), f"{name} again"
    if how == 6:
        kind = rng.choice(
            [
                pa.string(),
                pa.int8(),
                pa.int64(),
                pa.float32(),
                pa.float64(),
                pa.bool_(),
                pa.binary(),
                pa.large_string(),
                pa.null(),
                pa.list_(pa.int64()),
                pa.timestamp("us"),
                pa.decimal128(20, 3),
            ]
        )
        try:
            new = table.column(place).cast(kind, safe=False)
        except (pa.ArrowException, NotImplementedError):
            new = pa.nulls(len(table), kind)
        return table.set_column(place, name, new), f"{name} as {kind}"
    if how == 7:
        return table.set_column(place, name, pa.nulls(len(table), table.column(place).type)), f"{name} all null"
    if how == 8:
        return _metadata(table, rng)
    return _cell(table, place, name, rng)


def _metadata(table: Any, rng: random.Random) -> tuple[Any, str]:
    """Change the file's metadata: remove keys, change texts, insert bytes that are not text."""
    held = dict(table.schema.metadata or {})
    held.pop(b"pandas", None)
    ours = sorted(held)
    key = rng.choice(ours) if ours else b"strobe.model"
    if rng.random() < 0.3:
        held.pop(key, None)
        return table.replace_schema_metadata(held or None), f"{key!r} gone"
    held[key] = rng.choice(
        [b"", b"\xff\xfe", b"x", b"a\x00b", b"../../x", b"1e999", b"detection", b"logits", b"x" * 300]
    )
    return table.replace_schema_metadata(held), f"{key!r} = {held[key][:20]!r}"


def _cell(table: Any, place: int, name: str, rng: random.Random) -> tuple[Any, str]:
    """Put other values into a column. If they do not fit its type, the column gets their type."""
    import pyarrow as pa

    values = table.column(place).to_pylist()
    if not values:
        return table, "no row"
    kind = table.column(place).type
    odd = rng.choice(ODD)
    rows = (
        range(len(values))
        if rng.random() < 0.15
        else [rng.randrange(len(values)) for _ in range(rng.choice([1, 1, 3]))]
    )
    if rng.random() < 0.3:
        odd = rng.choice(values)  # a value of the same column, at another row
    elif pa.types.is_integer(kind):
        odd = rng.choice([None, -1, 0, 1, 2**31, 2**62, -(2**63), 10**6])
    elif pa.types.is_floating(kind):
        odd = rng.choice([None, float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e308, 1e-320])
    elif pa.types.is_string(kind):
        odd = rng.choice([one for one in ODD if one is None or isinstance(one, str)])
    elif pa.types.is_list(kind):
        odd = rng.choice([None, [], [None], [values[0]] if not isinstance(values[0], list) else values[0] * 3])
    for row in rows:
        values[row] = odd
    try:
        column = pa.array(values, type=kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        column = pa.array([None if value is None else str(value) for value in values])
    return table.set_column(place, name, column), f"{name} = {str(odd)[:30]!r}"


def swell_table(path: Path, rng: random.Random) -> str:
    """Write a small file that unpacks to a large table: one row repeated very often, in a dictionary."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if not len(table):
        return "no row"
    plain = not any(pa.types.is_nested(column.type) for column in table.columns)
    n = rng.choice([100_000, 3_000_000, 20_000_000] if plain else [100_000])
    row = sum(column.slice(0, 1).nbytes for column in table.columns if pa.types.is_nested(column.type))
    n = min(n, (64 << 20) // max(row, 1)) if not plain else n  # stored row by row, not as a dictionary
    where = pa.array(np.zeros(n, dtype=np.int8))
    columns = []
    for place in range(table.num_columns):
        first = table.column(place).slice(0, 1).combine_chunks()
        flat = pa.types.is_nested(first.type) or pa.types.is_boolean(first.type)
        columns.append(first.take(where) if flat else pa.DictionaryArray.from_arrays(where, first))
    pq.write_table(pa.table(columns, names=table.column_names), path, compression="zstd")
    return f"{n:,} rows"


# -- images and arrays ---------------------------------------------------------------------------------------------


def other_picture(path: Path, rng: random.Random) -> str:
    """Write an unusual image: an odd mode or size, many frames, or a header that promises gigapixels."""
    from PIL import Image

    how = rng.randrange(9)
    if how == 0:
        data = bytearray(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4) * 2 + b"\x08\x02\0\0\0")
        path.write_bytes(bytes(data) + rng.randbytes(40))
        return "60,000 pixels square by its header"
    mode = ["RGB", "L", "1", "P", "LA", "RGBA", "CMYK", "I;16", "F"][rng.randrange(9)]
    size = rng.choice([(1, 1), (1, 3000), (3000, 1), (7, 5), (16, 16), (640, 480)])
    picture = Image.new(mode, size)
    if how == 1:
        picture.convert("RGB").save(path, "GIF", save_all=True, append_images=[Image.new("RGB", size)] * 3)
        return "moving"
    kind = {"I;16": "PNG", "F": "TIFF", "CMYK": "JPEG"}.get(mode, rng.choice(["PNG", "TIFF", "BMP", "WEBP", "ICO"]))
    try:
        picture.save(path, kind)
    except (OSError, ValueError, KeyError):
        picture.convert("RGB").save(path, "PNG")
    return f"{kind} {mode} {size[0]}×{size[1]}"


def other_array(path: Path, rng: random.Random) -> str:
    """Write an array of another shape or type, a pickle, or a header that promises more data."""
    import numpy as np

    shape = rng.choice([(0,), (3,), (10, 8, 8), (10, 8, 8, 4), (10, 0, 8, 3), (11, 8, 8, 3), (7, 8, 8, 3), ()])
    kind = rng.choice(["uint8", "float64", "int64", "bool", "complex64", "U3", "datetime64[s]"])
    array = np.zeros(shape, dtype=kind)
    if rng.random() < 0.2:
        np.save(path, np.array([{"x": 1}], dtype=object), allow_pickle=True)
        return "a pickle"
    np.save(path, array)
    if rng.random() < 0.2:
        data = path.read_bytes()
        path.write_bytes(re.sub(rb"'shape': \([^)]*\)", b"'shape': (99999999,)", data, count=1))
        return f"{shape} {kind}, a shape beyond its data"
    return f"{shape} {kind}"


# -- the type of the file --------------------------------------------------------------------------------------------


def tree(path: Path, rng: random.Random) -> str:
    """Remove, rename or copy the file, or replace it by something that is not a regular file."""
    how = rng.randrange(12)
    new = path.with_name(
        rng.choice(
            [
                "x" * 200 + path.suffix,
                "é\u0301" + path.suffix,
                "a\nb" + path.suffix,
                ".hidden",
                path.name.upper(),
                path.stem,
                "\udcff" + path.suffix,
            ]
        )
    )
    if how == 0:
        _take_away(path)
        return "gone"
    if how == 1:
        path.rename(new)
        return "another name"
    if how == 2 and path.is_file():
        new.write_bytes(path.read_bytes())
        return "a copy next to it"
    if how == 3 and path.parent.is_dir():
        (
            path.parent / rng.choice(["Thumbs.db", ".DS_Store", "x.parquet", "model.json", "x.json", "x.png", "x.xml"])
        ).write_bytes(rng.randbytes(30))
        return "an unknown file next to it"
    if how in (10, 11) and path.parent != Path.cwd():
        path.parent.chmod((0, 0o500)[how - 10])
        return ("a folder without read permission", "a folder without write permission")[how - 10]
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    _take_away(path)
    if how == 4:
        os.mkfifo(path)
        return "a pipe"
    if how == 5:
        path.mkdir()
        return "a folder"
    if how == 6:
        path.symlink_to(rng.choice(["/etc/passwd", "/dev/zero", "/nowhere", path.name, "..", "/proc/self/environ"]))
        return "a link out"
    if how == 7:
        (path.parent / "real").write_bytes(content)
        path.symlink_to("real")
        return "a link inside"
    if how == 8:
        path.write_bytes(content)
        path.chmod(0)
        return "no permission"
    path.write_bytes(b"")
    return "empty"


def _take_away(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
