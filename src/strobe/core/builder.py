"""Tables grown row by row: what every importer and maker of datasets uses."""

import hashlib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.records import Verdict
from strobe.core.tables import NO_PTS, Bools, Boxes, Floats, Frames, Hints, Ints, Labels, Sets, Texts, Videos, texts

__all__ = ["DatasetBuilder", "frame_list_digest"]

Table = TypeVar("Table", Videos, Frames, Sets, Labels, Boxes)

_DTYPES: dict[Any, type] = {Texts: object, Ints: np.int64, Floats: np.float64, Bools: np.bool_}


def frame_list_digest(names: Iterable[str]) -> str:
    """The identity of a video known only by its frames' names.

    >>> frame_list_digest(["clip/0001.jpg", "clip/0002.jpg"])
    'eaa363a0ab617d7f'
    """
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


class DatasetBuilder:
    """Collects videos, frames, sets, labels, boxes and votes in order, and makes the Dataset."""

    def __init__(self) -> None:
        # One row per line of a table, its values in the order of the table's columns.
        self._videos: list[tuple[Any, ...]] = []
        self._frames: list[tuple[Any, ...]] = []
        self._set_ids: list[str] = []
        self._members: list[tuple[int, int, float, bool]] = []
        self._labels: list[tuple[int, int]] = []
        self._boxes: list[tuple[Any, ...]] = []
        self._verdicts: list[Verdict] = []

    def video(
        self,
        *,
        video_id: str,
        name: str,
        fps: Fraction | None = None,
        n_frames: int | None = None,
        path: str = "",
        codec: str = "",
    ) -> int:
        """Add a video; its row comes back."""
        num, den = fps.as_integer_ratio() if fps else (0, 0)
        self._videos.append((video_id, name, num, den, -1 if n_frames is None else n_frames, path, codec))
        return len(self._videos) - 1

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
        labels: Iterable[int] = (),
    ) -> int:
        """Add a frame with its labels; its row comes back. `time_s` as two numbers is kept unreduced."""
        num, den = time_s.as_integer_ratio() if isinstance(time_s, Fraction) else time_s or (0, 0)
        row = len(self._frames)
        self._frames.append(
            (video, index, key, NO_PTS if pts is None else pts, num, den, pict_type, *size_wh, sha256, media)
        )
        self._labels += [(row, label) for label in dict.fromkeys(labels)]
        return row

    def box(self, *, frame: int, label: int, xyxy: Sequence[float], track: int = -1, crowd: bool = False) -> None:
        """Add a box to a frame."""
        self._boxes.append((frame, label, xyxy, track, crowd))

    def set(self, *, set_id: str, anchor: int, members: Iterable[tuple[int, float]]) -> None:
        """Add a set: the anchor's frame row and (frame row, distance) of each member, the anchor not among them."""
        place = len(self._set_ids)
        self._set_ids.append(set_id)
        rows = [(place, row, float(distance), False) for row, distance in members]
        self._members += sorted([(place, anchor, 0.0, True), *rows], key=lambda row: row[2])

    def verdict(self, verdict: Verdict) -> None:
        """Add a vote."""
        self._verdicts.append(verdict)

    def build(
        self, info: DatasetInfo, *, with_boxes: bool = False, hints: Hints | None = None, root: Path | None = None
    ) -> Dataset:
        """The dataset. `with_boxes` keeps an empty box table where no frame has any; `hints` are in the order of sets,
        and by distance in each."""
        return Dataset(
            info=info,
            videos=_table(Videos, self._videos),
            frames=_table(Frames, self._frames),
            sets=_table(Sets, self._members, set_id=texts(self._set_ids)),
            labels=_table(Labels, self._labels),
            boxes=_table(Boxes, self._boxes) if self._boxes or with_boxes else None,
            hints=hints,
            verdicts=tuple(self._verdicts),
            root=root,
        )


def _table(cls: type[Table], rows: Sequence[tuple[Any, ...]], **others: Texts) -> Table:
    """The table of these rows, whose values stand in the order of its columns; `others` are columns given whole."""
    names = [name for name in cls.__slots__ if name not in others]
    columns: dict[str, Any] = dict(others)
    for name, values in zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True):
        columns[name] = np.array(values, dtype=_DTYPES[cls.__annotations__[name]])
    if cls is Boxes:
        columns["xyxy"] = columns["xyxy"].reshape(-1, 4)
    return cls(**columns)
