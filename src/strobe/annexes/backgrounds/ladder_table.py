"""`ladder.parquet`: facts about every image of a background ladder, including images that were left out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from strobe.annexes.backgrounds.ladders import LadderPicture
from strobe.core.errors import InvalidFile, StrobeError, expect, in_file, printable
from strobe.core.files import inside, json_of, replacing
from strobe.core.parquet import read_bounded
from strobe.core.swaps import settle

LADDER_FILE = "ladder.parquet"

_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in ("picture", "frame_id")),
        *(pa.field(name, pa.int32(), nullable=False) for name in ("width", "height")),
        *(pa.field(name, pa.float64()) for name in ("x0", "y0", "x1", "y1", "area_share", "mask_share")),
        *(pa.field(name, pa.string()) for name in ("boxes", "masks", "mask")),
        pa.field("absent", pa.string(), nullable=False),
    ]
)


def write_ladder(folder: Path, pictures: Sequence[LadderPicture]) -> Path:
    """Write the table atomically. Equal content gives equal bytes."""
    rows = [
        {
            "picture": picture.picture,
            "frame_id": picture.frame_id,
            "width": picture.size_wh[0],
            "height": picture.size_wh[1],
            **dict(zip(("x0", "y0", "x1", "y1"), picture.xyxy or (None,) * 4, strict=True)),
            "area_share": picture.area_share,
            "mask_share": picture.mask_share,
            "boxes": picture.boxes or None,
            "masks": picture.masks or None,
            "mask": picture.mask or None,
            "absent": json.dumps(dict(picture.absent), sort_keys=True, ensure_ascii=False),
        }
        for picture in pictures
    ]
    with replacing(folder / LADDER_FILE) as temporary:
        pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), temporary, compression="zstd")
    return folder / LADDER_FILE


def read_ladder(folder: Path) -> tuple[LadderPicture, ...] | None:
    """Return the ladder's images in a dataset folder, in order; None if the dataset has no ladder."""
    settle(folder)
    path = inside(folder, LADDER_FILE)
    if not path.is_file():
        return None
    table, names = read_bounded(path, _SCHEMA.names)
    if missing := [name for name in _SCHEMA.names if name not in names]:
        raise InvalidFile(path, f"the column {printable(missing[0])} is missing", hint="make the ladder again")
    try:
        rows = table.select(_SCHEMA.names).cast(_SCHEMA).to_pylist()
    except (pa.ArrowException, ValueError) as error:
        raise InvalidFile(path, "its column types are not those of a ladder", hint="make it again") from error
    pictures = []
    for number, row in enumerate(rows):
        with in_file(path, where=f"row {number}"):
            pictures.append(_picture(row))
    return tuple(pictures)


def _picture(row: dict[str, Any]) -> LadderPicture:
    corners = (row["x0"], row["y0"], row["x1"], row["y1"])
    try:
        absent = json_of(str(row["absent"]))
    except ValueError as error:
        raise StrobeError("absent: expected JSON") from error
    expect(isinstance(absent, dict), "absent", "a JSON object", absent)
    text = {name: str(row[name] or "") for name in ("picture", "frame_id", "boxes", "masks", "mask")}
    return LadderPicture(
        size_wh=(int(str(row["width"])), int(str(row["height"]))),
        xyxy=None if None in corners else corners,
        area_share=row["area_share"],
        mask_share=row["mask_share"],
        absent={str(rung): str(reason) for rung, reason in absent.items()},
        **text,
    )
