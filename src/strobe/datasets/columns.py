"""Tables grown row by row: what importers and builders use to make a Dataset from a foreign format."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.dataset import NO_PTS, Boxes, Dataset, DatasetInfo, Frames, Labels, Sets, Videos, texts
from strobe.core.records import Verdict

__all__ = ["DatasetBuilder", "frame_list_digest"]


def frame_list_digest(names: Iterable[str]) -> str:
    """The identity of a video known only by its frames' names.

    >>> frame_list_digest(["clip/0001.jpg", "clip/0002.jpg"])
    'eaa363a0ab617d7f'
    """
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


@dataclass
class DatasetBuilder:
    """Collects videos, frames, sets, labels and boxes in order, and makes the Dataset."""

    _videos: list[tuple[Any, ...]] = field(default_factory=list)
    _frames: list[tuple[Any, ...]] = field(default_factory=list)
    _sets: list[tuple[int, int, float, bool]] = field(default_factory=list)
    _set_ids: list[str] = field(default_factory=list)
    _labels: list[tuple[int, int]] = field(default_factory=list)
    _boxes: list[tuple[Any, ...]] = field(default_factory=list)
    _verdicts: list[Verdict] = field(default_factory=list)

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
        num, den = (fps.numerator, fps.denominator) if fps else (0, 0)
        self._videos.append((video_id, name, num, den, -1 if n_frames is None else n_frames, path, codec))
        return len(self._videos) - 1

    def frame(
        self,
        *,
        video: int,
        index: int,
        key: str,
        pts: int | None = None,
        time_s: Fraction | None = None,
        pict_type: str = "",
        size_wh: tuple[int, int] = (0, 0),
        sha256: str = "",
        media: str = "",
        labels: Iterable[int] = (),
    ) -> int:
        """Add a frame with its labels; its row comes back."""
        num, den = (time_s.numerator, time_s.denominator) if time_s is not None else (0, 0)
        row = len(self._frames)
        self._frames.append(
            (video, index, key, NO_PTS if pts is None else pts, num, den, pict_type, *size_wh, sha256, media)
        )
        self._labels += [(row, label) for label in dict.fromkeys(labels)]
        return row

    def box(
        self, *, frame: int, label: int, xyxy: tuple[float, float, float, float], track: int = -1, crowd: bool = False
    ) -> None:
        """Add a box to a frame."""
        self._boxes.append((frame, label, xyxy, track, crowd))

    def set(self, *, set_id: str, anchor: int, members: Iterable[tuple[int, float]]) -> None:
        """Add a set: the anchor's frame row and (frame row, distance) of each member, the anchor not among them."""
        place = len(self._set_ids)
        self._set_ids.append(set_id)
        self._sets.append((place, anchor, 0.0, True))
        self._sets += [(place, row, float(distance), False) for row, distance in members]

    def verdict(self, verdict: Verdict) -> None:
        """Add a vote."""
        self._verdicts.append(verdict)

    def build(self, info: DatasetInfo, *, with_boxes: bool = False, root: Path | None = None) -> Dataset:
        """The dataset; `with_boxes` keeps an empty box table where no frame has any."""
        frames = list(zip(*self._frames, strict=True)) if self._frames else [()] * 11
        videos = list(zip(*self._videos, strict=True)) if self._videos else [()] * 7
        rows = sorted(self._sets, key=lambda row: (row[0], row[2]))
        boxes = None
        if self._boxes or with_boxes:
            boxes = Boxes(
                frame=_ints(box[0] for box in self._boxes),
                label=_ints(box[1] for box in self._boxes),
                xyxy=np.array([box[2] for box in self._boxes], dtype=np.float64).reshape(-1, 4),
                track=_ints(box[3] for box in self._boxes),
                crowd=np.array([box[4] for box in self._boxes], dtype=bool),
            )
        return Dataset(
            info=info,
            videos=Videos(
                video_id=texts(videos[0]), name=texts(videos[1]), fps_num=_ints(videos[2]), fps_den=_ints(videos[3]),
                n_frames=_ints(videos[4]), path=texts(videos[5]), codec=texts(videos[6]),
            ),
            frames=Frames(
                video=_ints(frames[0]), index=_ints(frames[1]), key=texts(frames[2]), pts=_ints(frames[3]),
                time_num=_ints(frames[4]), time_den=_ints(frames[5]), pict_type=texts(frames[6]),
                width=_ints(frames[7]), height=_ints(frames[8]), sha256=texts(frames[9]), media=texts(frames[10]),
            ),
            sets=Sets(
                set_id=texts(self._set_ids),
                set=_ints(row[0] for row in rows),
                frame=_ints(row[1] for row in rows),
                distance=np.array([row[2] for row in rows], dtype=np.float64),
                is_anchor=np.array([row[3] for row in rows], dtype=bool),
            ),
            labels=Labels(
                frame=_ints(row[0] for row in self._labels), label=_ints(row[1] for row in self._labels)
            ),
            boxes=boxes,
            verdicts=tuple(self._verdicts),
            root=root,
        )  # fmt: skip


def _ints(values: Iterable[int]) -> Any:
    return np.array(list(values), dtype=np.int64)
