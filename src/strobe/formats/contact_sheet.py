"""Contact sheets with one row per set: its frames in order of distance, the marked anchor, labels and boxes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, expect, printable
from strobe.core.files import replacing
from strobe.core.ports import FrameSource, Progress

_TILE_W = 148
_GRID = 6
_GAP, _MARGIN, _HEAD, _CAPTION = 8, 28, 32, 18
PAPER, INK, SOFT, EMPTY = (255, 255, 255), (28, 32, 38), (110, 118, 128), (240, 242, 245)
ANCHOR, _REJECTED, BOX = (0, 114, 178), (213, 94, 0), (240, 228, 66)


def choose_sets(dataset: Dataset, how_many: int, *, named: Sequence[str] = ()) -> list[int]:
    """Return the named sets, or a number of sets spread evenly over the dataset."""
    if named:
        place = {str(name): row for row, name in enumerate(dataset.sets.set_id)}
        missing = [name for name in named if name not in place]
        if missing:
            raise InvalidValue(
                f"<<set>>: {printable(missing[0])!r} is not a set of {printable(dataset.name)}; "
                f"sets are named like {printable(dataset.sets.set_id[0])!r}"
            )
        return [place[name] for name in named]
    expect(how_many >= 1, "<<sets>>", ">= 1", how_many)
    spread = np.linspace(0, dataset.n_sets - 1, min(how_many, dataset.n_sets)).round()
    return sorted({int(place) for place in spread})


def draw_sheet(
    dataset: Dataset,
    source: FrameSource,
    path: Path,
    *,
    sets: Sequence[int],
    n_columns: int = 11,
    kept: NDArray[np.bool_] | None = None,
    progress: Progress,
) -> int:
    """Draw the sets into an image file, by default PNG. Returns the number of unreadable frames.

    `n_columns` distances are shown, spread evenly. `kept` (one entry per row of the table `sets`) is False for members
    that review rejected. Sets with only an anchor are shown side by side.
    """
    from PIL import Image, ImageDraw

    _format(path)  # an unknown suffix raises before any work is done
    columns = _columns(dataset, sets, n_columns)
    tile_wh = (_TILE_W, _tile_height(dataset, sets))
    width = 2 * _MARGIN + len(columns) * (_TILE_W + _GAP) - _GAP
    row_height = _HEAD + tile_wh[1] + _CAPTION + 18
    top, alone = 76, dataset.info.k == 0
    n_rows = -(-len(sets) // _GRID) if alone else len(sets)
    width = 2 * _MARGIN + _GRID * (_TILE_W + _GAP) - _GAP if alone else width
    sheet = Image.new("RGB", (max(width, 900), top + n_rows * row_height + _MARGIN // 2), PAPER)
    pen = ImageDraw.Draw(sheet)
    pen.text((_MARGIN, 18), f"{printable(dataset.name, limit=60)}", fill=INK, font=font_of(22))
    pen.text((_MARGIN, 48), _legend(dataset, len(sets), columns, kept), fill=SOFT, font=font_of(13))
    unread = 0
    with progress.task("frames", None) as advance:
        for line, place in enumerate(sets):
            if alone:
                x, y = _MARGIN + line % _GRID * (_TILE_W + _GAP), top + line // _GRID * row_height
                unread += _draw_picture(dataset, source, sheet, pen, place, (x, y), tile_wh)
                advance(1)
                continue
            y = top + line * row_height
            unread += _draw_set(dataset, source, sheet, pen, place, y, columns, tile_wh, kept, advance)
    with replacing(path) as temporary:
        sheet.save(temporary, format=_format(path))
    return unread


def _format(path: Path) -> str:
    formats = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
    if path.suffix.lower() not in formats:
        raise StrobeError(f"cannot draw {printable(path)}: unknown file name extension; use .png")
    return formats[path.suffix.lower()]


def font_of(size: int) -> Any:
    """The font of every sheet."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _tile_height(dataset: Dataset, sets: Sequence[int]) -> int:
    """Return the tile height that the frames need at the tile's width, within limits."""
    rows = dataset.sets.frame[np.isin(dataset.sets.set, sets)]
    known = rows[dataset.frames.width[rows] > 0]
    if not len(known):
        return 3 * _TILE_W // 4
    ratio = float(np.median(dataset.frames.height[known] / dataset.frames.width[known]))
    return round(_TILE_W * min(max(ratio, 0.5), 1.34))


def _columns(dataset: Dataset, sets: Sequence[int], n_columns: int) -> list[float]:
    """Return the distances to show: all of them, or an even selection that includes the anchor's distance 0."""
    distances = [float(value) for value in np.unique(dataset.sets.distance[np.isin(dataset.sets.set, sets)])]
    expect(1 <= n_columns <= 101, "<<columns>>", "1 to 101", n_columns)
    if len(distances) <= n_columns:
        return distances
    places = np.linspace(0, len(distances) - 1, n_columns).round().astype(int).tolist()
    return sorted({distances[place] for place in places} | {0.0})


def _legend(dataset: Dataset, n: int, columns: list[float], kept: NDArray[np.bool_] | None) -> str:
    text = f"{n} of {dataset.n_sets} sets · {len(columns)} distances ({dataset.info.axis}) · anchor in a blue frame"
    if dataset.info.k == 0:
        text = f"{n} of {dataset.n_sets} images"
    if len(columns) > 1 and len(columns) < len(np.unique(dataset.sets.distance)):
        text += " · not every distance is shown"
    if kept is not None:
        text += " · crossed: rejected in review"
    return text + (" · boxes in yellow" if dataset.boxes is not None else "")


def _draw_picture(
    dataset: Dataset,
    source: FrameSource,
    sheet: Any,
    pen: Any,
    place: int,
    at: tuple[int, int],
    tile_wh: tuple[int, int],
) -> bool:
    """Draw a single image with its label and name below. Returns whether it could not be read."""
    frame = int(dataset.sets.anchor_frame[place])
    tile, problem = _tile(dataset, source, frame, tile_wh)
    sheet.paste(tile, at)
    label = ", ".join(dataset.info.label_space.names[label] for label in dataset.labels_of(frame)) or "no label"
    x, y = at[0], at[1] + tile_wh[1]
    write_line(pen, (x, y + 5), label, size=14, fill=INK, room=_TILE_W)
    write_line(pen, (x, y + 24), str(dataset.sets.set_id[place]), size=12, fill=SOFT, room=_TILE_W)
    return problem


def _draw_set(
    dataset: Dataset,
    source: FrameSource,
    sheet: Any,
    pen: Any,
    place: int,
    y: int,
    columns: list[float],
    tile_wh: tuple[int, int],
    kept: NDArray[np.bool_] | None,
    advance: Any,
) -> int:
    names = dataset.info.label_space.names
    rows = np.flatnonzero(dataset.sets.set == place)
    anchor = int(dataset.sets.anchor_frame[place])
    own = dataset.labels_of(anchor)
    title = ", ".join(names[label] for label in own) or "no label"
    room = sheet.width - 2 * _MARGIN
    write_line(pen, (_MARGIN, y + 4), title, size=16, fill=INK, room=room // 2)
    left = _MARGIN + int(pen.textlength(title[:200], font=font_of(16))) + 12
    facts = f"{dataset.sets.set_id[place]} · {len(rows) - 1} members"
    axis = "" if dataset.variants is None else f"{dataset.variants.axis[dataset.sets.variant[place]]} "
    write_line(pen, (min(left, _MARGIN + room // 2), y + 7), facts, size=13, fill=SOFT, room=room // 2)
    by_distance = {float(dataset.sets.distance[row]): int(row) for row in rows}
    unread = 0
    for column, distance in enumerate(columns):
        x, top = _MARGIN + column * (_TILE_W + _GAP), y + _HEAD
        row = by_distance.get(distance)
        if row is None:
            pen.rectangle((x, top, x + _TILE_W - 1, top + tile_wh[1] - 1), fill=EMPTY)
            continue
        frame = int(dataset.sets.frame[row])
        tile, problem = _tile(dataset, source, frame, tile_wh)
        unread += problem
        sheet.paste(tile, (x, top))
        is_anchor = bool(dataset.sets.is_anchor[row])
        if is_anchor:
            for grow in range(4):
                corners = (x - grow, top - grow, x + _TILE_W - 1 + grow, top + tile_wh[1] - 1 + grow)
                pen.rectangle(corners, outline=ANCHOR)
        elif kept is not None and not kept[row]:
            pen.line((x, top, x + _TILE_W - 1, top + tile_wh[1] - 1), fill=_REJECTED, width=3)
            pen.line((x, top + tile_wh[1] - 1, x + _TILE_W - 1, top), fill=_REJECTED, width=3)
        caption = "anchor" if is_anchor else f"{axis}{distance:.3g}" if axis else f"{distance:+g}"
        kind = str(dataset.frames.pict_type[frame])
        caption += f" · {kind}" if kind else ""
        other = dataset.labels_of(frame)
        if not is_anchor and other != own and dataset.info.label_source == "frame":
            caption += " · " + (", ".join(names[label] for label in other) or "no label")
        colour = ANCHOR if is_anchor else SOFT
        write_line(pen, (x, top + tile_wh[1] + 5), caption, size=12, fill=colour, room=_TILE_W)
        advance(1)
    return unread


def _tile(dataset: Dataset, source: FrameSource, frame: int, tile_wh: tuple[int, int]) -> tuple[Any, bool]:
    """Return the frame fitted into a tile with its boxes, or a grey tile with a note if it is unreadable."""
    from PIL import Image, ImageDraw

    tile = Image.new("RGB", tile_wh, EMPTY)
    pen = ImageDraw.Draw(tile)
    try:
        picture = Image.fromarray(source.read(frame))
    except StrobeError:
        pen.text((8, tile_wh[1] // 2 - 8), "cannot be read", fill=_REJECTED, font=font_of(12))
        return tile, True
    scale = min(tile_wh[0] / picture.width, tile_wh[1] / picture.height)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    left, top = (tile_wh[0] - size[0]) // 2, (tile_wh[1] - size[1]) // 2
    tile.paste(picture.resize(size, Image.Resampling.LANCZOS), (left, top))
    for box in dataset.boxes.of_frame(frame) if dataset.boxes is not None else ():
        x0, y0, x1, y1 = (value * scale for value in box.xyxy)
        pen.rectangle((left + x0, top + y0, left + x1, top + y1), outline=BOX)
    return tile, False


def write_line(pen: Any, at: tuple[int, int], text: str, *, size: int, fill: tuple[int, int, int], room: int) -> None:
    """Return the text on one line, shortened with an ellipsis to fit."""
    font, shown = font_of(size), printable(text, limit=200)
    while len(shown) > 1 and pen.textlength(shown, font=font) > room:
        shown = shown[:-2].rstrip() + "…"
    pen.text(at, shown, fill=fill, font=font)
