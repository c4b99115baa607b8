"""Draw a few background ladders in one image.

Each row shows a ladder from the whole image to its controls, as models see them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.annexes.backgrounds.ladders import LadderPicture
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import replacing
from strobe.core.ports import FrameSource
from strobe.formats.contact_sheet import ANCHOR, BOX, EMPTY, INK, PAPER, SOFT, font_of, write_line

SHEET = "ladders.png"

_TILE, _GAP, _APART, _MARGIN, _TOP, _HEAD, _ROWS = 112, 6, 22, 28, 132, 24, 6
_GROUPS = (
    ("whole", ("whole",)),
    ("object and background magnified", ("zoom", "random", "crop")),
    ("both", ("tight",)),
    ("the background changed, nothing magnified", ("grey", "blur", "plain", "same", "other", "object")),
    ("controls", ("removed", "ground")),
)
"""The columns in groups. The rung that shows the unchanged image has no column."""


def draw_ladders(dataset: Dataset, source: FrameSource, pictures: Sequence[LadderPicture], path: Path) -> None:
    """Draw the ladders of a few images."""
    from PIL import Image, ImageDraw

    frames = _frames(dataset)
    groups = [(title, _columns(names, frames)) for title, names in _GROUPS]
    groups = [(title, columns) for title, columns in groups if columns]
    places, width = _places(groups)
    shown = _chosen([picture for picture in pictures if picture.picture in frames], frames)
    row_height = _HEAD + _TILE + 16
    sheet = Image.new("RGB", (max(width, 760), _TOP + len(shown) * row_height + 12), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((_MARGIN, 18), printable(dataset.name, limit=60), fill=INK, font=font_of(22))
    pen.text((_MARGIN, 48), _legend(dataset, len(shown), len(frames)), fill=SOFT, font=font_of(13))
    for title, columns in groups:
        left, right = places[columns[0]], places[columns[-1]] + _TILE
        colour = ANCHOR if columns == ["whole"] else SOFT
        if columns != ["whole"]:
            write_line(pen, (left, _TOP - 54), title, size=12, fill=SOFT, room=max(_TILE, right - left))
        pen.line((left, _TOP - 36, right, _TOP - 36), fill=colour, width=2)
        for column in columns:
            write_line(pen, (places[column], _TOP - 30), _caption(column), size=14, fill=INK, room=_TILE)
    for line, picture in enumerate(shown):
        y = _TOP + line * row_height
        _write_head(dataset, pen, picture, frames[picture.picture]["whole"], y, room=width - 2 * _MARGIN)
        for column, x in places.items():
            frame = frames[picture.picture].get(column)
            if frame is None:
                pen.rectangle((x, y + _HEAD, x + _TILE - 1, y + _HEAD + _TILE - 1), fill=EMPTY)
                write_line(pen, (x + 8, y + _HEAD + _TILE // 2 - 8), "cannot be drawn", size=12, fill=SOFT, room=_TILE)
            else:
                sheet.paste(_tile(source, frame), (x, y + _HEAD))
        if picture.xyxy is not None:
            _draw_box(pen, picture, (places["whole"], y + _HEAD), is_padded=_is_padded(dataset))
    with replacing(path) as temporary:
        sheet.save(temporary, format="PNG")


def _frames(dataset: Dataset) -> dict[str, dict[str, int]]:
    """Return the frame of every column by image. A column is `whole`, a rung, or a crop with its context."""
    sets, variants = dataset.sets, dataset.variants
    frames_of: dict[str, dict[str, int]] = {}
    for row, place in enumerate(sets.set.tolist()):
        own = frames_of.setdefault(str(sets.group[place]), {})
        name = "" if variants is None else str(variants.variant[sets.variant[place]])
        if sets.is_anchor[row]:
            name = "whole"
        elif name == "crop":
            name = f"crop {sets.distance[row]:g}"
        own[name] = int(sets.frame[row])
    return frames_of


def _columns(names: Sequence[str], frames: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the columns of a group that at least one image has."""
    have = {name for own in frames.values() for name in own}
    crops = sorted((name for name in have if name.startswith("crop ")), key=lambda name: float(name[5:]))
    return [column for name in names for column in (crops if name == "crop" else [name]) if column in have]


def _places(groups: Sequence[tuple[str, Sequence[str]]]) -> tuple[dict[str, int], int]:
    """Return the x position of each column, and the total width."""
    places, x = {}, _MARGIN
    for _, columns in groups:
        for column in columns:
            places[column] = x
            x += _TILE + _GAP
        x += _APART - _GAP
    return places, x - _APART + _MARGIN


def _chosen(pictures: Sequence[LadderPicture], frames: Mapping[str, Mapping[str, int]]) -> list[LadderPicture]:
    """Return the images with the most rungs, spread over the sizes of their objects."""
    many = sorted((len(frames[picture.picture]) for picture in pictures), reverse=True)
    full = [picture for picture in pictures if len(frames[picture.picture]) >= many[min(_ROWS, len(many)) - 1]]
    full.sort(key=lambda one: (one.area_share or 0, one.picture))
    spread = np.linspace(0, len(full) - 1, min(_ROWS, len(full))).round()
    return [full[place] for place in sorted({int(place) for place in spread})]


def _is_padded(dataset: Dataset) -> bool:
    return bool(dataset.frames.recipe[dataset.sets.anchor_frame[0]])


def _legend(dataset: Dataset, n: int, of: int) -> str:
    fit = "put into a grey square" if _is_padded(dataset) else "squashed to a square"
    text = f"{n} of {of} images, by the size of their objects · every rung {fit}, as models get it"
    fields = [] if dataset.variants is None else [dict(field) for field in dataset.variants.fields]
    said = {f"{name} {field[name]}" for field in fields for name in ("boxes", "masks") if field.get(name)}
    return " · ".join([text, *sorted(said)])


def _caption(column: str) -> str:
    return f"crop {float(column[5:]):g}x" if column.startswith("crop ") else column


def _write_head(dataset: Dataset, pen: Any, picture: LadderPicture, anchor: int, y: int, *, room: int) -> None:
    names = dataset.info.label_space.names
    title = ", ".join(printable(names[label], limit=40) for label in dataset.labels_of(anchor))
    write_line(pen, (_MARGIN, y + 2), title, size=14, fill=INK, room=room // 3)
    left = _MARGIN + int(pen.textlength(title, font=font_of(14))) + 10
    facts = (
        picture.picture
        if picture.area_share is None
        else f"box {picture.area_share:.0%} of the image · {picture.picture}"
    )
    write_line(pen, (min(left, _MARGIN + room // 3), y + 4), facts, size=12, fill=SOFT, room=room // 2)


def _tile(source: FrameSource, frame: int) -> Any:
    """Return the frame resized to a tile, ignoring the aspect ratio; an unreadable frame gives a grey tile."""
    from PIL import Image

    try:
        picture = Image.fromarray(source.read(frame))
    except StrobeError:
        return Image.new("RGB", (_TILE, _TILE), EMPTY)
    return picture.resize((_TILE, _TILE), Image.Resampling.LANCZOS)


def _draw_box(pen: Any, picture: LadderPicture, at: tuple[int, int], *, is_padded: bool) -> None:
    width, height = picture.size_wh
    side = max(width, height)
    left, top = ((side - width) / 2, (side - height) / 2) if is_padded else (0.0, 0.0)
    across, down = (_TILE / side,) * 2 if is_padded else (_TILE / width, _TILE / height)
    x0, y0, x1, y1 = picture.xyxy or (0.0, 0.0, 0.0, 0.0)
    low, high = (at[0], at[1]), (at[0] + _TILE - 1, at[1] + _TILE - 1)
    corners = [
        at[0] + (x0 + left) * across,
        at[1] + (y0 + top) * down,
        at[0] + (x1 + left) * across,
        at[1] + (y1 + top) * down,
    ]
    held = [min(max(value, low[index % 2]), high[index % 2]) for index, value in enumerate(corners)]
    pen.rectangle(held, outline=BOX, width=2)
