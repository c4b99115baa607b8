"""Damage text files: JSON, JSON lines, CSV and XML."""

import json
import random
import re
from pathlib import Path
from typing import Any

__all__ = ["ODD", "edit_csv", "edit_json", "edit_jsonl", "edit_xml", "raw_json"]

_HUGE = 10**30
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    255,
    -(2**31),
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    _HUGE,
    -_HUGE,
    0.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    " ",
    "0",
    "-1",
    "1e999",
    "NaN",
    "null",
    "true",
    "x",
    "é\u0301",
    "\u202e",
    "a\x00b",
    "a\nb",
    "\x1b[31m",
    "\ud7ff\uffff",
    "𝒳" * 3,
    "x" * 300,
    "y" * 70_000,
    "../../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "media/../../x",
    "..",
    ".",
    "C:\\x",
    "a/b\\c",
    "=1+1",
    "<script>",
    "%s%n{0}",
    [],
    [[]],
    [None],
    [1, "x"],
    {},
    {"x": 1},
    {"": {}},
    [[1, 2], [3]],
    [0] * 1000,
    {"schema": 1},
]


# -- JSON ------------------------------------------------------------------------------------------------------------


def edit_json(path: Path, rng: random.Random) -> str:
    """Change one node of the JSON."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content, said = _edited(content, rng)
    path.write_text(_dump(content, rng), encoding="utf-8", errors="surrogatepass")
    return said


def _edited(content: Any, rng: random.Random) -> tuple[Any, str]:
    """Return the content with one node changed, and the path to that node."""
    way: list[Any] = []
    parent: Any = None
    key: Any = None
    node = content
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
        return content, f"another key next to {where}"
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
        parent[key] = rng.choice(
            [node + "x", node[:-1], node.upper(), node + "\x00", "../" + node, "/" + node, node * 500]
        )
        return content, f"{where}: another text"
    parent[key] = rng.choice(ODD)
    return content, f"{where} = {str(parent[key])[:30]!r}"


def _dump(content: Any, rng: random.Random) -> str:
    text = json.dumps(content, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        text = text.replace("Infinity", "1e999")
    return text


def raw_json(path: Path, rng: random.Random) -> str:
    """Change the text of the JSON in ways that no writer does."""
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
        path.write_text(
            text[: one.start()] + f"{one[0]} {rng.choice(['1', 'null', '[]', '{}'])}, " + text[one.start() :],
            encoding="utf-8",
        )
        return f"{one[1]} twice"
    path.write_text(rng.choice(["", " ", "{}", "[]", "null", "0", '""', "{", "tru", "NaN"]), encoding="utf-8")
    return "almost nothing left"


def edit_jsonl(path: Path, rng: random.Random) -> str:
    """Change, remove or repeat one line."""
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


# -- CSV and XML -----------------------------------------------------------------------------------------------------


def edit_csv(path: Path, rng: random.Random) -> str:
    """Change cells, rows, separators, encoding or line endings."""
    import csv
    import io

    text = path.read_text(encoding="utf-8")
    how = rng.randrange(10)
    if how == 0:
        path.write_text(text.replace(",", rng.choice([";", "\t", " "])), encoding="utf-8")
        return "another separator"
    if how == 1:
        path.write_bytes(
            rng.choice(
                [
                    b"\xef\xbb\xbf" + text.encode(),
                    text.encode("utf-16"),
                    b"\xff" + text.encode(),
                    text.replace("\n", "\r").encode(),
                    text.replace("\n", "\r\n").encode(),
                ]
            )
        )
        return "other line endings or encoding"
    if how == 2:
        path.write_text(
            text + rng.choice(['"', '"open', "\0", ",,,,,,,,,,,,\n", "x" * 200_000, "\n" * 1000]), encoding="utf-8"
        )
        return "odd end"
    rows = list(csv.reader(io.StringIO(text)))
    row = rng.choice(rows)
    description = f"row {rows.index(row) + 1}"
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
        description += f" = {str(odd)[:30]!r}"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    path.write_text(out.getvalue(), encoding="utf-8", errors="surrogatepass")
    return description


def edit_xml(path: Path, rng: random.Random) -> str:
    """Change tags or their texts."""
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
    odd = (
        str(rng.choice([one for one in ODD if not isinstance(one, list | dict)]))
        .replace("\x00", "")
        .replace("<", "&lt;")
    )
    path.write_text(
        re.sub(rf"<{tag}>[^<]*</{tag}>", lambda _: f"<{tag}>{odd}</{tag}>", text), encoding="utf-8", errors="replace"
    )
    return f"{tag} = {odd[:30]!r}"
