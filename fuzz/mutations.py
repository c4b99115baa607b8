"""Ways to damage a file or a folder, each seeded: bytes, JSON, tables, CSV, XML, pictures, names and kinds of files."""

import json
import os
import random
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

__all__ = ["ODD_WORDS", "mutate", "mutate_words"]

_HUGE = 10**30
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 255, -(2**31), 2**31, 2**63 - 1, 2**63, 2**64, _HUGE, -_HUGE, 0.5, -0.5, 1e308,
    float("nan"), float("inf"), float("-inf"), "", " ", "0", "-1", "1e999", "NaN", "null", "true", "x", "é\u0301", "\u202e",
    "a\x00b", "a\nb", "\x1b[31m", "\ud7ff\uffff", "𝒳" * 3, "x" * 300, "y" * 70_000, "../../../etc/passwd", "/etc/passwd",
    "/dev/zero", "media/../../x", "..", ".", "C:\\x", "a/b\\c", "=1+1", "<script>", "%s%n{0}", [], [[]], [None], [1, "x"],
    {}, {"x": 1}, {"": {}}, [[1, 2], [3]], [0] * 1000, {"schema": 1},
]  # fmt: skip
ODD_WORDS = [
    "", " ", "-1", "0", "1", "2", "7", "1000000", "99999999999999999999", "1e999", "nan", "inf", "-inf", "0.5", "x", "é",
    "\x1b[31m", "x" * 300, "..", "/etc/passwd", "/dev/null", "/dev/zero", "a\nb", "1-5", "5-1", "1,3", "a,b", "1/0", "0/0",
    "30000/1001", "@", "@x", "preds:", "py:", "onnx:", "py:models.py", "py:models.py:nothing", "=", "a=", "=a", "auto",
    "coco-91", "ilsvrc-2012", "imagenet-vid", "0.5:0.95", "--", "-h", "*", "[", "*:*", "preds:inputs", "nowhere/x",
]  # fmt: skip

Mutator = Callable[[Path, random.Random], str]


def mutate(root: Path, files: list[Path], rng: random.Random, *, named: Collection[Path] = ()) -> str:
    """Damage one of the files below root; what was done, in words, its kind first.

    A file `named` on the command line becomes no pipe: it is the user's word that it can be read to its end.
    """
    by_kind: dict[str, list[Path]] = {}
    for path in files:
        if os.path.lexists(path):
            by_kind.setdefault(_kind(path), []).append(path)
    if not by_kind:
        return "nothing"
    kinds = sorted(by_kind)
    # Pictures are many and their readers few: tables and texts have the larger share.
    weights = [1 if kind in ("image", "other") else 3 for kind in kinds]
    kind = rng.choices(kinds, weights)[0]
    path = rng.choice(by_kind[kind])
    general: list[Mutator] = [_flip, _cut, _tree]
    own = _OWN.get(kind, [_flip])
    how = rng.choice(general) if rng.random() < 0.25 else rng.choice(own)
    if not path.is_file() or path.is_symlink():
        how = _tree
    if how is _tree and path in named:
        how = _cut
    try:
        said = how(path, rng)
    except Exception as error:  # it was damaged before, beyond what this mutator reads
        said = f"{_flip(path, rng)} ({type(error).__name__})" if path.is_file() and not path.is_symlink() else "none"
    if path.name != "dataset.json" and rng.random() < 0.9:
        _forget_digest(path)
    return f"{kind}.{how.__name__.strip('_')} {path.relative_to(root).as_posix()}: {said}"


def _forget_digest(path: Path) -> None:
    """Take the table's digest out of dataset.json: the checks behind it are to be reached too."""
    about = path.parent / "dataset.json"
    if path.suffix == ".parquet" and about.is_file() and not about.is_symlink():
        try:
            content = json.loads(about.read_text(encoding="utf-8"))
            content["files"].pop(path.name, None)
            about.write_text(json.dumps(content), encoding="utf-8")
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
            return


def mutate_words(words: list[str], rng: random.Random) -> tuple[list[str], str]:
    """The command line with one word that is not a path replaced, an option doubled, or one taken away."""
    out = list(words)
    places = [place for place, word in enumerate(out) if place and out[place - 1].startswith("--")]
    if not places:
        return out, "nothing"
    place, how = rng.choice(places), rng.randrange(3)
    if how == 0 or out[place].startswith("-"):
        out[place] = rng.choice(ODD_WORDS)
    elif how == 1:
        out += [out[place - 1], rng.choice(ODD_WORDS)]
    else:
        del out[place]
    return out, f"words.{('odd', 'again', 'gone')[how]} {words[place - 1]}: {out}"


def _kind(path: Path) -> str:
    kinds = {
        ".json": "json", ".jsonl": "jsonl", ".parquet": "table", ".csv": "csv", ".txt": "csv", ".xml": "xml", ".png": "image",
        ".jpg": "image", ".jpeg": "image", ".webp": "image", ".mp4": "video", ".mkv": "video", ".avi": "video",
        ".npy": "npy", ".sqlite": "sqlite", ".onnx": "weights", ".safetensors": "weights",
    }  # fmt: skip
    return kinds.get(path.suffix.lower(), "other")


# -- bytes -----------------------------------------------------------------------------------------------------------


def _flip(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        path.write_bytes(rng.randbytes(9))
        return "noise"
    n = rng.choice([1, 1, 2, 5, 20])
    # Headers and footers hold what readers trust.
    spans = [(0, len(data)), (0, min(64, len(data))), (max(0, len(data) - 200), len(data))]
    for _ in range(n):
        low, high = rng.choice(spans)
        place = rng.randrange(low, high)
        data[place] = rng.choice([data[place] ^ (1 << rng.randrange(8)), 0, 255, rng.randrange(256)])
    path.write_bytes(data)
    return f"{n} bytes"


def _cut(path: Path, rng: random.Random) -> str:
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
    path.write_bytes(data[:at] + (rng.randbytes(to - at) if how == 4 else data[at:to] * rng.choice([2, 50])) + data[to:])
    return f"other bytes at {at}"


# -- JSON ------------------------------------------------------------------------------------------------------------


def _edit_json(path: Path, rng: random.Random) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    content, said = _edited(content, rng)
    path.write_text(_dump(content, rng), encoding="utf-8", errors="surrogatepass")
    return said


def _edited(content: Any, rng: random.Random) -> tuple[Any, str]:
    """The content with one node changed, and the way to it."""
    way: list[Any] = []
    parent, key, node = None, None, content
    while isinstance(node, dict | list) and node and (not way or rng.random() < 0.8):
        key = rng.choice(sorted(node)) if isinstance(node, dict) else rng.randrange(len(node))
        parent, node = node, node[key]
        way.append(key)
    where = "/".join(str(one)[:20] for one in way)
    how = rng.randrange(8)
    if parent is None or how == 7:
        return rng.choice(ODD), "the whole"
    if how == 0:
        del parent[key]
        return content, f"{where} gone"
    if how == 1 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), rng.choice([node, *ODD]))
        return content, f"one more in {where}"
    if how == 1:
        parent[rng.choice(["", "x", "schema", "\x00", "é", str(key) + "2", "1"])] = rng.choice([node, *ODD])
        return content, f"another key beside {where}"
    if how == 2 and isinstance(parent, dict):
        parent[rng.choice(["", "x", str(key).upper(), f" {key}"])] = parent.pop(key)
        return content, f"{where} renamed"
    if how == 3:
        parent[key] = rng.choice([[node], {"x": node}, str(node), [node, node]])
        return content, f"{where} wrapped"
    if how == 4 and isinstance(node, int | float) and not isinstance(node, bool):
        parent[key] = rng.choice([-node, node * 1000, node + 1, node + 0.5, str(node), node * 1e300])
        return content, f"{where}: another number"
    if how == 5 and isinstance(node, str):
        parent[key] = rng.choice([node + "x", node[:-1], node.upper(), node + "\x00", "../" + node, "/" + node, node * 500])
        return content, f"{where}: another text"
    parent[key] = rng.choice(ODD)
    return content, f"{where} = {str(parent[key])[:30]!r}"


def _dump(content: Any, rng: random.Random) -> str:
    text = json.dumps(content, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        text = text.replace("Infinity", "1e999")
    return text


def _raw_json(path: Path, rng: random.Random) -> str:
    text = path.read_text(encoding="utf-8")
    how = rng.randrange(6)
    if how == 0:
        path.write_text("[" * 100_000, encoding="utf-8")
        return "deep"
    if how == 1:
        path.write_text("\ufeff" + text, encoding="utf-8")
        return "a byte order mark"
    if how == 2:
        path.write_text(text, encoding="utf-16")
        return "UTF-16"
    numbers = list(re.finditer(r"(?<![\w\"])-?\d+(\.\d+)?(?![\w\"])", text))
    if how == 3 and numbers:
        one = rng.choice(numbers)
        new = rng.choice(["1e999", "-1e999", "9" * 5000, "NaN", "-Infinity", "1E400", "0.1e-400", '"1"', "-0", "1e19"])
        path.write_text(text[: one.start()] + new + text[one.end() :], encoding="utf-8")
        return f"the number {new[:12]}"
    keys = list(re.finditer(r'"([^"\\]{1,40})"\s*:', text))
    if how == 4 and keys:
        one = rng.choice(keys)
        path.write_text(text[: one.start()] + f"{one[0]} {rng.choice(['1', 'null', '[]', '{}'])}, " + text[one.start() :],
                        encoding="utf-8")  # fmt: skip
        return f"{one[1]} twice"
    path.write_text(rng.choice(["", " ", "{}", "[]", "null", "0", '""', "{", "tru", "NaN"]), encoding="utf-8")
    return "hardly anything"


def _jsonl(path: Path, rng: random.Random) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    place = rng.randrange(len(lines))
    how = rng.randrange(5)
    if how == 0:
        lines.insert(place, rng.choice(lines))
    elif how == 1:
        del lines[place]
    elif how == 2:
        lines[place] = rng.choice(["", "null", "{", "[]", "1", lines[place][: len(lines[place]) // 2]])
    else:
        content, _ = _edited(json.loads(lines[place]), rng)
        lines[place] = _dump(content, rng).replace("\n", " ")
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    return f"line {place + 1}"


# -- tables ----------------------------------------------------------------------------------------------------------


def _edit_table(path: Path, rng: random.Random) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    said = ""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        table, one = _changed_table(table, rng)
        said += one + "; "
    try:
        pq.write_table(table, path, row_group_size=rng.choice([None, 1, 7]) if len(table) else None)
    except (pa.ArrowException, ValueError):
        return said + _flip(path, rng)
    return said


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
        return table.rename_columns([*table.column_names[:place], new, *table.column_names[place + 1 :]]), f"{name} → {new}"
    if how == 2:
        order = [rng.randrange(len(table)) for _ in range(rng.choice([1, len(table), 3 * len(table)]))] if len(table) else []
        return table.take(order), "rows drawn again"
    if how == 3:
        order = list(range(len(table)))
        rng.shuffle(order)
        return table.take(order), "rows in another order"
    if how == 4:
        return table.slice(0, rng.choice([0, 0, 1, len(table) // 2])), "fewer rows"
    if how == 5:
        return table.append_column(rng.choice([name, "extra", "k"]), table.column(place)), f"{name} again"
    if how == 6:
        kind = rng.choice([pa.string(), pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.binary(),
                           pa.large_string(), pa.null(), pa.list_(pa.int64()), pa.timestamp("us"), pa.decimal128(20, 3)])  # fmt: skip
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
    """The file's own facts changed: keys gone, other texts, bytes that are no text."""
    held = dict(table.schema.metadata or {})
    held.pop(b"pandas", None)
    ours = sorted(held)
    key = rng.choice(ours) if ours else b"strobe.model"
    if rng.random() < 0.3:
        held.pop(key, None)
        return table.replace_schema_metadata(held or None), f"{key!r} gone"
    held[key] = rng.choice([b"", b"\xff\xfe", b"x", b"a\x00b", b"../../x", b"1e999", b"detection", b"logits", b"x" * 300])
    return table.replace_schema_metadata(held), f"{key!r} = {held[key][:20]!r}"


def _cell(table: Any, place: int, name: str, rng: random.Random) -> tuple[Any, str]:
    """Other values in a column, of its own type where they fit, else the column becomes theirs."""
    import pyarrow as pa

    values = table.column(place).to_pylist()
    if not values:
        return table, "no row"
    kind = table.column(place).type
    odd = rng.choice(ODD)
    rows = range(len(values)) if rng.random() < 0.15 else [rng.randrange(len(values)) for _ in range(rng.choice([1, 1, 3]))]
    if rng.random() < 0.3:
        odd = rng.choice(values)  # a value of its own, where it does not belong
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


def _swell_table(path: Path, rng: random.Random) -> str:
    """A small file that unpacks to much: one row a great many times over, in a dictionary."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if not len(table):
        return "no row"
    plain = not any(pa.types.is_nested(column.type) for column in table.columns)
    n = rng.choice([100_000, 3_000_000, 20_000_000] if plain else [100_000])
    where = pa.array(np.zeros(n, dtype=np.int8))
    columns = []
    for place in range(table.num_columns):
        first = table.column(place).slice(0, 1).combine_chunks()
        flat = pa.types.is_nested(first.type) or pa.types.is_boolean(first.type)
        columns.append(first.take(where) if flat else pa.DictionaryArray.from_arrays(where, first))
    pq.write_table(pa.table(columns, names=table.column_names), path, compression="zstd")
    return f"{n:,} rows"


# -- CSV and XML -----------------------------------------------------------------------------------------------------


def _edit_csv(path: Path, rng: random.Random) -> str:
    import csv
    import io

    text = path.read_text(encoding="utf-8")
    how = rng.randrange(10)
    if how == 0:
        path.write_text(text.replace(",", rng.choice([";", "\t", " "])), encoding="utf-8")
        return "another separator"
    if how == 1:
        path.write_bytes(rng.choice([b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16"), b"\xff" + text.encode(),
                                     text.replace("\n", "\r").encode(), text.replace("\n", "\r\n").encode()]))  # fmt: skip
        return "other line ends or letters"
    if how == 2:
        path.write_text(text + rng.choice(['"', '"open', "\0", ",,,,,,,,,,,,\n", "x" * 200_000, "\n" * 1000]), encoding="utf-8")
        return "odd end"
    rows = list(csv.reader(io.StringIO(text)))
    row = rng.choice(rows)
    said = f"row {rows.index(row) + 1}"
    if how == 3:
        rows.remove(row)
    elif how == 4:
        rows.insert(rng.randrange(len(rows) + 1), list(row))
    elif how == 5:
        rng.shuffle(rows)
    elif how == 6 and row:
        del row[rng.randrange(len(row))]
    elif how == 7:
        row.insert(rng.randrange(len(row) + 1), "x")
    elif row:
        odd = rng.choice(ODD)
        row[rng.randrange(len(row))] = odd if isinstance(odd, str) else json.dumps(odd)
        said += f" = {str(odd)[:30]!r}"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    path.write_text(out.getvalue(), encoding="utf-8", errors="surrogatepass")
    return said


def _edit_xml(path: Path, rng: random.Random) -> str:
    text = path.read_text(encoding="utf-8")
    how = rng.randrange(6)
    if how == 0:
        bomb = '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>' + text
        path.write_text(bomb.replace("<folder>v", "<folder>&b;"), encoding="utf-8")
        return "an entity"
    if how == 1:
        path.write_text("<a>" * 50_000, encoding="utf-8")
        return "deep"
    if how == 2:
        path.write_text(text + text, encoding="utf-8")
        return "twice"
    tags = sorted(set(re.findall(r"<(\w+)>", text)))
    tag = rng.choice(tags)
    if how == 3:
        path.write_text(re.sub(rf"<{tag}>.*?</{tag}>", "", text), encoding="utf-8")
        return f"{tag} gone"
    if how == 4:
        path.write_text(re.sub(rf"(<{tag}>.*?</{tag}>)", r"\1" * 40, text), encoding="utf-8")
        return f"{tag} 40 times"
    odd = str(rng.choice([one for one in ODD if not isinstance(one, list | dict)])).replace("\x00", "").replace("<", "&lt;")
    path.write_text(re.sub(rf"<{tag}>[^<]*</{tag}>", lambda _: f"<{tag}>{odd}</{tag}>", text), encoding="utf-8",
                    errors="replace")  # fmt: skip
    return f"{tag} = {odd[:30]!r}"


# -- pictures and arrays ---------------------------------------------------------------------------------------------


def _other_picture(path: Path, rng: random.Random) -> str:
    """Whole pictures nobody expects: odd modes and sizes, many frames, a header that promises gigapixels."""
    from PIL import Image

    how = rng.randrange(9)
    if how == 0:
        data = bytearray(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4) * 2 + b"\x08\x02\0\0\0")
        path.write_bytes(bytes(data) + rng.randbytes(40))
        return "60,000 pixels square, so it says"
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


def _other_array(path: Path, rng: random.Random) -> str:
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


# -- what kind of file it is -----------------------------------------------------------------------------------------


def _tree(path: Path, rng: random.Random) -> str:
    how = rng.randrange(10)
    new = path.with_name(rng.choice(["x" * 200 + path.suffix, "é\u0301" + path.suffix, "a\nb" + path.suffix, ".hidden",
                                     path.name.upper(), path.stem, "\udcff" + path.suffix]))  # fmt: skip
    if how == 0:
        _take_away(path)
        return "gone"
    if how == 1:
        path.rename(new)
        return "another name"
    if how == 2 and path.is_file():
        new.write_bytes(path.read_bytes())
        return "a copy beside it"
    if how == 3 and path.parent.is_dir():
        (path.parent / rng.choice(["Thumbs.db", ".DS_Store", "x.parquet", "model.json", "x.json", "x.png", "x.xml"])).write_bytes(
            rng.randbytes(30)
        )
        return "a stranger beside it"
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
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


_OWN: dict[str, list[Mutator]] = {
    "json": [_edit_json, _edit_json, _edit_json, _edit_json, _raw_json],
    "jsonl": [_jsonl],
    "table": [*[_edit_table] * 24, _swell_table],
    "csv": [_edit_csv],
    "xml": [_edit_xml],
    "image": [_other_picture, _flip],
    "video": [_flip, _cut],
    "npy": [_other_array, _flip],
}

if sys.platform == "win32":
    raise ImportError("the fuzzer forks, and Windows cannot")
