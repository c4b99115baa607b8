"""Build dataset tables row by row; every importer and dataset maker uses this."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats, Ints, Texts
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.records import Verdict
from strobe.core.tables import NO_PTS, SET_COLUMNS, Boxes, Frames, Hints, Labels, Sets, Videos
from strobe.core.true_boxes import fit_boxes
from strobe.core.variants import NO_VARIANT, Variant, Variants

_DTYPES: dict[Any, type] = {Texts: object, Ints: np.int64, Floats: np.float64, Bools: np.bool_}
_ROWS = 2**15
"""The number of rows buffered before they become columns: rows of Python objects take ten times the memory."""


def written(name: str) -> str:
    """Return the name of a file, or raise a one-line error if it is not valid text."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = printable(name.encode(errors="replace").decode())
        raise InvalidValue(f"{shown}: the file name is not UTF-8 text; rename the file") from error
    return name


def frame_list_digest(names: Iterable[str]) -> str:
    """Return the id of a video that is known only by its frames' names.

    >>> frame_list_digest(["clip/0001.jpg", "clip/0002.jpg"])
    'eaa363a0ab617d7f'
    """
    return hashlib.sha256("\n".join(map(written, names)).encode()).hexdigest()[:16]


class DatasetBuilder:
    """Collects videos, frames, sets, labels, boxes and votes in order, and builds the Dataset."""

    def __init__(self) -> None:
        self._videos, self._frames, self._labels, self._boxes = map(_GrowingTable, (Videos, Frames, Labels, Boxes))
        self._sets = _GrowingTable(Sets, SET_COLUMNS)
        self._members = _GrowingTable(Sets, [name for name in Sets.__slots__ if name not in SET_COLUMNS])
        self._variants: dict[str, Variant] = {}
        self._verdicts: list[Verdict] = []
        self._declared: list[tuple[int, int]] = []
        self._fitted: dict[str, NDArray[Any]] | None = None

    def video(
        self,
        *,
        video_id: str,
        name: str,
        fps: Fraction | None = None,
        n_frames: int | None = None,
        path: str = "",
        codec: str = "",
        kind: str = "video",
    ) -> int:
        """Add a video, or another source of frames (`kind`), and return its row."""
        num, den = fps.as_integer_ratio() if fps else (0, 0)
        self._videos.append((video_id, name, num, den, -1 if n_frames is None else n_frames, path, codec, kind))
        return len(self._videos) - 1

    def video_of(self, videos: Videos, row: int) -> int:
        """Add the video of another dataset, without its path, and return its row here."""
        return self.video(
            video_id=str(videos.video_id[row]),
            name=str(videos.name[row]),
            fps=videos.fps(row),
            codec=str(videos.codec[row]),
            kind=str(videos.kind[row]),
        )

    def frame(
        self,
        *,
        video: int,
        index: int,
        key: str,
        pts: int | None = None,
        time_s: Fraction | tuple[int, int] | None = None,
        pict_type: str = "",
        size_wh: tuple[int, int] = (0, 0),
        sha256: str = "",
        media: str = "",
        as_input: bool = False,
        recipe: Mapping[str, Any] | None = None,
        labels: Iterable[int] = (),
    ) -> int:
        """Add a frame with its labels and return its row.

        A fraction `time_s`, given as two numbers, is stored unreduced.
        """
        cooked = "" if recipe is None else json.dumps(dict(recipe), sort_keys=True, allow_nan=False)
        num, den = time_s.as_integer_ratio() if isinstance(time_s, Fraction) else time_s or (0, 0)
        row = len(self._frames)
        shown = (NO_PTS if pts is None else pts, num, den, pict_type, *size_wh)
        self._frames.append((video, index, key, *shown, sha256, media, as_input, cooked))
        for label in dict.fromkeys(labels):
            self._labels.append((row, label))
        return row

    def box(
        self,
        *,
        frame: int,
        label: int,
        xyxy: Sequence[float],
        track: int = -1,
        crowd: bool = False,
        declared_wh: tuple[int, int] = (0, 0),
    ) -> None:
        """Add a box to a frame; `declared_wh` is the image size its annotation refers to, if given."""
        self._boxes.append((frame, label, xyxy, track, crowd))
        self._declared.append(declared_wh)

    def check_boxes(self) -> tuple[str, ...]:
        """Check all boxes against the sizes of their frames; return notes on scaled, clipped and dropped boxes.

        Dataset makers call this once for external boxes, after adding the last box.
        """
        if not len(self._boxes):
            return ()
        boxes, frames = self._boxes.columns(), self._frames.columns()
        row = boxes["frame"]
        fitted = fit_boxes(
            boxes["xyxy"],
            real_wh=np.stack([frames["width"][row], frames["height"][row]], axis=1).astype(np.float64),
            declared_wh=np.array(self._declared, dtype=np.float64).reshape(-1, 2),
            source=frames["video"][row],
            name=lambda place: printable(frames["key"][row[place]]),
        )
        boxes["xyxy"] = fitted.xyxy
        self._fitted = {column: values[fitted.keep] for column, values in boxes.items()}
        return fitted.notes

    def variant(self, variant: Variant) -> None:
        """Add a variant; its sets refer to it by name."""
        self._variants[variant.variant] = variant

    def set(
        self,
        *,
        set_id: str,
        anchor: int,
        members: Iterable[tuple[int, float]],
        variant: str = NO_VARIANT,
        group: str | None = None,
        status: str = "complete",
        reach: float | None = None,
        margin: float | None = None,
    ) -> None:
        """Add a set, given its anchor's frame row and a pair (frame row, distance) for every other member.

        `group` joins the sets of one image. `status`, `reach` and `margin` are set by a search.
        """
        place = len(self._sets)
        expect(variant == NO_VARIANT or variant in self._variants, "sets.variant", "a variant added before", variant)
        row = 0 if variant == NO_VARIANT else list(self._variants).index(variant)
        far = [np.nan if value is None else value for value in (reach, margin)]
        self._sets.append((set_id, row, set_id if group is None else group, status, *far))
        rows = [(place, row, float(distance), False) for row, distance in members]
        for one in sorted([(place, anchor, 0.0, True), *rows], key=lambda row: row[2]):
            self._members.append(one)

    def verdict(self, verdict: Verdict) -> None:
        """Add a vote."""
        self._verdicts.append(verdict)

    def build(
        self, info: DatasetInfo, *, with_boxes: bool = False, hints: Hints | None = None, root: Path | None = None
    ) -> Dataset:
        """Return the dataset. `with_boxes` keeps an empty box table if no frame has boxes.

        `hints` follow the order of the sets and, within a set, the distance.
        """
        return Dataset(
            info=info,
            videos=Videos(**self._videos.columns()),
            frames=Frames(**self._frames.columns()),
            sets=Sets(**self._members.columns(), **self._sets.columns()),
            labels=Labels(**self._labels.columns()),
            boxes=Boxes(**(self._fitted or self._boxes.columns())) if len(self._boxes) or with_boxes else None,
            hints=hints,
            verdicts=tuple(self._verdicts),
            variants=Variants.of(list(self._variants.values())) if self._variants else None,
            root=root,
        )


class _GrowingTable:
    """Buffered rows of a table. Values are in the order of the named columns, or of all columns if none are named."""

    def __init__(self, table: type[Any], names: Sequence[str] | None = None) -> None:
        self._types = {name: _DTYPES[table.__annotations__[name]] for name in names or table.__slots__}
        self._rows: list[tuple[Any, ...]] = []
        self._done: list[list[NDArray[Any]]] = []
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def append(self, row: tuple[Any, ...]) -> None:
        """Add a row."""
        self._rows.append(row)
        self._n += 1
        if len(self._rows) == _ROWS:
            self._done.append(self._columns())
            self._rows = []

    def _columns(self) -> list[NDArray[Any]]:
        values = zip(*self._rows, strict=True) if self._rows else [()] * len(self._types)
        return [
            np.array(column, dtype=kind).reshape((-1, 4) if name == "xyxy" else -1)
            for (name, kind), column in zip(self._types.items(), values, strict=True)
        ]

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all rows as columns of the types that the table declares."""
        parts = zip(*self._done, self._columns(), strict=True)
        return {name: np.concatenate(part) for name, part in zip(self._types, parts, strict=True)}
