"""The gallery's data: chosen sets with their images as data URIs. The data is small enough for one file that can be
mailed.
"""

import base64
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from strobe.analyses.gallery import Choice, ModelView, SetView
from strobe.analyses.gallery_detection import truth_boxes
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Image, Progress
from strobe.report.wording import ESTIMATED, called, cause_text, level_text

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """The input of the page's script (`data`), and the number of unreadable images."""

    data: dict[str, Any]
    unreadable: int = 0
    first_problem: str = ""
    left_out: int = 0
    pictures: Mapping[int, str] = field(default_factory=dict)
    levels: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def level_of(self, frame: int, set_row: int) -> str:
        """Return the level of a frame in a set in words. Return an empty text for data without variants."""
        return self.levels.get((frame, set_row), "")


def picture(image: Image, *, longest: int, quality: int) -> str:
    """Return the image as a WebP data URI, with at most `longest` pixels on its longest side."""
    from PIL import Image as Pictures

    shown = Pictures.fromarray(image)
    shown.thumbnail((longest, longest), Pictures.Resampling.BICUBIC, reducing_gap=3.0)
    return data_uri(shown, quality=quality, method=3)


def data_uri(image: "Picture", *, quality: int, method: int = 4, lossless: bool = False) -> str:
    """Return the image as a WebP data URI. `method` is the effort from 0 (fast) to 6 (small)."""
    out = io.BytesIO()
    image.save(out, "WEBP", quality=quality, method=method, lossless=lossless)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode("ascii")


class _GalleryImage(NamedTuple):
    """An image as a data URI with its size, or the reason for a missing image."""

    text: str
    size: tuple[int, int] = (0, 0)
    problem: str = ""


def _shown(source: FrameSource, row: int, *, longest: int, quality: int) -> _GalleryImage:
    try:
        image = source.read(row)
        return _GalleryImage(picture(image, longest=longest, quality=quality), (image.shape[1], image.shape[0]))
    except StrobeError as error:
        return _GalleryImage("", problem=printable(error))


def as_script(data: object) -> str:
    """Return JSON that is safe inside a script element, because it cannot close the element or open a comment.

    >>> as_script({"name": "</script><!--"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def build(
    dataset: Dataset,
    choice: Choice,
    source: FrameSource | None,
    *,
    longest: int,
    quality: int,
    max_bytes: int,
    raw_names: Mapping[str, Sequence[str]],
    progress: Progress,
) -> Gallery:
    """Return the chosen sets as data, including images. Sets beyond `max_bytes` are omitted."""
    pictures: dict[int, str] = {}
    sizes: dict[int, tuple[int, int]] = {}
    spent = unreadable = 0
    first_problem = ""
    kept: list[SetView] = []

    look = partial(_shown, source, longest=longest, quality=quality) if source is not None else None
    # Reading and encoding an image mostly release the interpreter lock.
    with progress.task("gallery", len(choice.sets)) as advance, ThreadPoolExecutor(os.cpu_count()) as pool:
        for one in choice.sets:
            rows = [row for row in one.rows.tolist() if row not in pictures]
            made = dict(zip(rows, pool.map(look, rows), strict=True)) if look is not None else {}
            spent += sum(len(image.text) for image in made.values())
            if kept and spent > max_bytes:
                break
            for row, image in made.items():
                pictures[row] = image.text
                if image.text:
                    sizes[row] = image.size
                else:
                    unreadable += 1
                    first_problem = first_problem or image.problem
            kept.append(one)
            advance(1)
    place = {row: i for i, (row, text) in enumerate(pictures.items()) if text}
    data = {
        "models": list(choice.counts),
        "counts": list(choice.counts.values()),
        **({"change": [list(choice.counts).index(name) for name in choice.change]} if choice.change else {}),
        "n_sets": choice.n_sets,
        "axis": dataset.info.axis,
        **({"still": True} if dataset.info.k == 0 else {}),
        "classes": list(dataset.info.label_space.names),
        "detectors": [view.boxes is not None for view in kept[0].models] if kept else [],
        # Overlapping sets share frames, so every image is stored once and referred to by index.
        "pictures": list(pictures.values()),
        "sets": [_set(dataset, one, place, raw_names, sizes) for one in kept],
    }
    return Gallery(
        data=data,
        unreadable=unreadable,
        first_problem=first_problem,
        left_out=len(choice.sets) - len(kept),
        pictures=pictures,
        levels={
            (int(row), one.set_row): level_words(dataset, one.set_row, float(distance))
            for one in kept
            for row, distance in zip(one.rows, one.distance, strict=True)
        },
    )


def level_words(dataset: Dataset, set_row: int, distance: float) -> str:
    """Return a member's level in its variant in words.

    Return an empty text for an anchor, or for data without variants.
    """
    if dataset.variants is None or distance == 0:
        return ""
    one = dataset.variants[int(dataset.sets.variant[set_row])]
    if one.ordered:
        return level_text(one, abs(distance))
    if len(one.levels) == 1 or one.unit == "x":
        return called(one, abs(distance))
    return f"{called(one)}, {level_text(one, abs(distance))}"


def _search_words(dataset: Dataset, set_row: int) -> str:
    """Return the outcome of a search in words, or an empty text if the set is not a search."""
    sets = dataset.sets
    status, reach = str(sets.status[set_row]), float(sets.reach[set_row])
    where = level_words(dataset, set_row, reach) if math.isfinite(reach) else ""
    return {
        "found": f"found at {where}" if where else "found",
        "censored": f"nothing found up to {where}" if where else "nothing found",
        "anchor_wrong": "not searched: the target is wrong on the original",
        "failed": "the search failed",
    }.get(status, "")


def _set(
    dataset: Dataset,
    one: SetView,
    pictures: Mapping[int, int],
    raw_names: Mapping[str, Sequence[str]],
    sizes: Mapping[int, tuple[int, int]],
) -> dict[str, Any]:
    times = dataset.frames.time_s[one.rows]
    fps = dataset.videos.fps_float[dataset.frames.video[one.rows[one.anchor]]]
    frames: list[dict[str, Any]] = [
        {
            "d": _distance(distance),
            "t": _number(1000 * (time - times[one.anchor]), 1),
            "i": pictures.get(int(row), -1),
        }
        for row, distance, time in zip(one.rows, one.distance, times, strict=True)
    ]
    more: dict[str, Any] = {}
    if dataset.variants is not None:
        variant = dataset.variants[int(dataset.sets.variant[one.set_row])]
        mark = f" {ESTIMATED}" if variant.estimated else ""
        more = {"k": called(variant) + mark, **({} if variant.ordered else {"o": True})}
        outcome = _search_words(dataset, one.set_row)
        more |= {"n": outcome} if outcome else {}
        for frame, distance in zip(frames, one.distance.tolist(), strict=True):
            text = level_words(dataset, one.set_row, float(distance))
            frame |= {"n": text + mark} if text else {}
    if dataset.boxes is not None and any(view.boxes is not None for view in one.models):
        for frame, row in zip(frames, one.rows.tolist(), strict=True):
            width, height = int(dataset.frames.width[row]), int(dataset.frames.height[row])
            frame["wh"] = sizes.get(row, (width or 1, height or 1))
            frame["g"] = [_box(box) for box in truth_boxes(dataset.boxes, row)]
    return {
        "id": one.name,
        "v": one.source,
        "y": list(one.labels),
        "a": one.anchor,
        "fps": _number(fps, 3),
        "f": frames,
        **more,
        "m": [_model(view, one.rows, raw_names.get(view.model)) for view in one.models],
    }


def _box(box: np.ndarray[Any, Any]) -> list[float | int]:
    """Return a box for the page: its corners to 0.1 pixels and its label.

    For a detection, the box also has a score and a mark for right or wrong.
    """
    corners: list[float | int] = [round(float(value), 1) for value in box[:4]]
    rest: list[float | int] = [int(box[4])] if len(box) == 5 else [int(box[4]), round(float(box[5]), 3), int(box[6])]
    return corners + rest


def _model(view: ModelView, rows: np.ndarray[Any, Any], raw: Sequence[str] | None) -> dict[str, Any]:
    right = [bool(value) for value in view.right]
    out: dict[str, Any] = {
        "s": view.status,
        "b": view.breaker,
        "l": [int(label) for label in view.label],
        "r": right,
        "c": [_number(value, 4) for value in view.confidence],
        "p": [_number(value, 4) for value in view.truth],
    }
    if view.seen is not None:
        out["r"] = [value if seen else None for value, seen in zip(right, view.seen, strict=True)]
    if view.skipped is not None and view.skipped.any():
        out["q"] = np.flatnonzero(view.skipped).tolist()
    if view.boxes is not None:
        out["x"] = [[_box(box) for box in boxes] for boxes in view.boxes]
        out["g"] = [[_box(box) for box in boxes] for boxes in view.missed or ()]
        out["why"] = cause_text(view.cause) if view.cause else None
    if raw is not None:
        out["w"] = [str(raw[int(row)]) for row in rows]
    return out


def _number(value: float, digits: int) -> float | None:
    return round(float(value), digits) if math.isfinite(value) else None


def _distance(value: float) -> float | int:
    return int(value) if float(value).is_integer() else round(float(value), 4)
