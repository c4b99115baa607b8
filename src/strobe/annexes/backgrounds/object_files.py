"""Match boxes and masks from other sources to images, and read them."""

import csv
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import read_json, reading

Corners = tuple[float, float, float, float]
_NAMES = ("key", "picture", "file", "image", "filename")
_CORNERS = ("x0", "y0", "x1", "y1")


def matched(keys: Sequence[str], names: Collection[str], *, what: str) -> dict[str, str]:
    """Match each image to the name that equals its key, or otherwise to the longest name that its key ends with.

    Suffixes are ignored. Two images with one name are refused, because the match would be ambiguous.

    >>> matched(["dog/a.jpg", "cat/b.jpg"], ["a.png", "cat/b.png"], what="masks")
    {'dog/a.jpg': 'a.png', 'cat/b.jpg': 'cat/b.png'}
    """
    plain = {_stem(name): name for name in sorted(names)}
    name_of: dict[str, str] = {}
    owner: dict[str, str] = {}
    for key in keys:
        parts = _stem(key)
        name = next((plain[parts[start:]] for start in range(len(parts)) if parts[start:] in plain), None)
        if name is None:
            continue
        if name in owner:
            raise StrobeError(
                f"{what}: {printable(name)} could belong to {printable(owner[name])} or to {printable(key)}; "
                "put each file into a folder that has the name of its image's folder"
            )
        name_of[key], owner[name] = name, key
    return name_of


def _stem(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    return (*path.parts[:-1], path.stem)


def mask_files(folder: Path, keys: Sequence[str]) -> dict[str, Path]:
    """Return the masks of the images, by image. A mask is a PNG file in the folder with the image's name."""
    if not folder.is_dir():
        raise StrobeError(f"<<masks>>: no such folder: {printable(folder)}")
    found = (path for path in folder.rglob("*") if path.suffix.lower() == ".png" and not path.is_dir())
    names = [path.relative_to(folder).as_posix() for path in found]
    if not names:
        raise StrobeError(
            f"<<masks>>: no PNG file in {printable(folder)}; expected one per image, with the image's name"
        )
    name_of = matched(keys, names, what="<<masks>>")
    if not name_of:
        raise StrobeError(
            f"<<masks>>: none of the {len(names)} PNG files in {printable(folder)} has the name of an image; masks are "
            f"named like {printable(names[0])}, images like {printable(keys[0])}"
        )
    return {key: folder / name for key, name in name_of.items()}


def read_boxes(path: Path, keys: Sequence[str]) -> tuple[dict[str, Corners], int]:
    """Return the box of every image in the file, and the number of boxes that match no image.

    The file is a CSV with the columns key, x0, y0, x1, y1, or the manifest.json of a crop set. An image that occurs
    twice is refused.
    """
    rows = _of_manifest(path) if path.suffix.lower() == ".json" else _of_csv(path)
    boxes: dict[str, Corners] = {}
    for where, name, corners in rows:
        if name in boxes:
            raise InvalidFile(path, f"{printable(name)} appears twice", where=where, hint="write one box per image")
        boxes[name] = corners
    name_of = matched(keys, boxes, what="<<boxes>>")
    if not name_of:
        raise InvalidFile(
            path,
            f"none of its {len(boxes)} names is the name of an image",
            hint=f"images are named like {printable(keys[0])}",
        )
    return {key: boxes[name] for key, name in name_of.items()}, len(boxes.keys() - set(name_of.values()))


def _of_manifest(path: Path) -> list[tuple[str, str, Corners]]:
    content = read_json(path)
    crops = content.get("crops") if isinstance(content, dict) else None
    if not isinstance(crops, list):
        raise InvalidFile(path, "not the manifest of a crop set", hint="give a manifest, or a CSV with key,x0,y0,x1,y1")
    rows = []
    for number, crop in enumerate(crops):
        where = f"crop {number}"
        if not isinstance(crop, dict) or not isinstance(crop.get("key"), str):
            raise InvalidFile(path, "the key is missing", where=where)
        rows.append((where, crop["key"], _corners(path, where, crop.get("xyxy"))))
    return rows


def _of_csv(path: Path) -> list[tuple[str, str, Corners]]:
    if not path.exists():
        raise StrobeError(f"<<boxes>>: no such file: {printable(path)}; give truth, people, or a CSV")
    with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        names = [name.strip().lower() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        named = next((name for name in _NAMES if name in names), None)
        missing = [name for name in _CORNERS if name not in names]
        if named is None or missing:
            lacks = "key" if named is None else missing[0]
            raise InvalidFile(path, f"no column {lacks}", hint="a CSV of boxes has key,x0,y0,x1,y1")
        return [
            (where := f"line {reader.line_num}", str(row[named]), _corners(path, where, [row[n] for n in _CORNERS]))
            for row in reader
        ]


def _corners(path: Path, where: str, values: Any) -> Corners:
    try:
        x0, y0, x1, y1 = (float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise InvalidFile(path, f"expected four numbers, got {printable(values, limit=60)}", where=where) from error
    return x0, y0, x1, y1
