"""Find the frames of a dataset that a file of another program means: by name, by number in the video, or by time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, printable

SHOWN = 3
"""The number of frames of each side in a message."""


@dataclass(frozen=True, slots=True)
class FrameRef:
    """How a file names a frame: its name, or its video with its number (from 0) or its time in seconds."""

    name: str = ""
    video: str = ""
    number: int | None = None
    time: float | None = None

    def __str__(self) -> str:
        if self.name:
            return self.name
        where = f"{self.video} " if self.video else ""
        return f"{where}{self.time:g} s" if self.number is None and self.time is not None else f"{where}{self.number}"

    @classmethod
    def of(cls, name: Any) -> "FrameRef":
        """Return the reference that a name or a number in a file makes.

        >>> FrameRef.of("12").number, FrameRef.of("a/b.png").number
        (12, None)
        """
        if isinstance(name, FrameRef):
            return name
        text = str(name)
        return cls(name=text, number=int(text) if text.isdecimal() and len(text) < 10 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedFrames:
    """The row of each reference in the dataset, −1 if there is none, and a note on how they were matched."""

    rows: list[int]
    note: str | None


def match_frames(
    path: Path | str, names: Sequence[Any], dataset: Dataset, *, ignore_extra: bool, way_out: str = ""
) -> MatchedFrames:
    """Match all names of a file in one way: the first that matches all of them, otherwise the one that matches most.

    `way_out` is added to the error if no name matches.
    """
    refs = [FrameRef.of(name) for name in names]
    ways = [(way, rows) for way, rows in _ways(refs, dataset) if way == "name" or _are_different(rows)]
    way, rows = next(((way, rows) for way, rows in ways if -1 not in rows), None) or max(
        ways, key=lambda pair: sum(row >= 0 for row in pair[1])
    )
    unknown = [name for name, row in zip(names, rows, strict=True) if row < 0]
    if unknown and not (ignore_extra and len(unknown) < len(names)):
        raise InvalidFile(
            path,
            f"{len(unknown)} of {len(names)} frames are not in {printable(dataset.name)}: {_some(unknown)}",
            hint=_hint(dataset, way_out),
        )
    return MatchedFrames(rows=rows, note=None if way == "name" else f"its frames are matched by {way}")


def _are_different(rows: Sequence[int]) -> bool:
    seen = [row for row in rows if row >= 0]
    return len(set(seen)) == len(seen)


def _some(names: Sequence[Any]) -> str:
    more = ", …" if len(names) > SHOWN else ""
    return ", ".join(printable(str(name), limit=60) for name in names[:SHOWN]) + more


def _hint(dataset: Dataset, way_out: str) -> str:
    keys = [str(key) for key in dataset.frames.key[:SHOWN]]
    number, many = int(dataset.frames.index[0]), len(dataset.videos) > 1
    video = f" with the video's name, such as {printable(str(dataset.videos.name[0]), limit=60)}" if many else ""
    text = (
        f"its frames are {_some(keys)}; the name of such a file, or a frame number (here from {number}){video}, matches"
    )
    return f"{text}{way_out}; <<ignore_extra=True>> skips other frames"


def _is_alone(name: str) -> bool:
    """Return whether a name is that of a file without its folder, or with the whole path to it."""
    return bool(name) and (not {"/", "\\"} & set(name) or name.startswith("/") or PureWindowsPath(name).is_absolute())


def _stem(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).stem


def _ways(refs: Sequence[FrameRef], dataset: Dataset) -> Iterator[tuple[str, list[int]]]:
    """Return the rows of the references by each way to match them."""
    known = {str(key): row for row, key in enumerate(dataset.frames.key)}
    if any(ref.name not in known for ref in refs):
        known |= {key: row for row, key in enumerate(dataset.frame_ids())}
    yield "name", [known.get(ref.name, -1) if ref.name else -1 for ref in refs]
    stems: dict[str, int] = {}
    for row, key in enumerate(dataset.frames.key):
        stem = _stem(str(key))
        stems[stem] = -1 if stem in stems else row
    yield "file name", [stems.get(_stem(ref.name), -1) if _is_alone(ref.name) else -1 for ref in refs]
    videos = _videos(refs, dataset)
    place = {
        (int(video), int(index)): row
        for row, (video, index) in enumerate(zip(dataset.frames.video, dataset.frames.index, strict=True))
    }
    yield (
        "frame number",
        [
            -1 if ref.number is None else place.get((video, ref.number), -1)
            for ref, video in zip(refs, videos, strict=True)
        ],
    )
    if any(ref.time is not None for ref in refs):
        yield "time", [_nearest(dataset, video, ref.time) for ref, video in zip(refs, videos, strict=True)]


def _videos(refs: Sequence[FrameRef], dataset: Dataset) -> list[int]:
    """Return the row of each reference's video: by the name of its file, or the only one; −1 if it is unknown."""
    if len(dataset.videos) == 1:
        return [0] * len(refs)
    rows: dict[str, int] = {}
    for row, name in enumerate(dataset.videos.name.tolist()):
        rows[str(name)] = rows[_stem(str(name))] = row
    return [rows.get(ref.video, rows.get(_stem(ref.video), -1)) if ref.video else -1 for ref in refs]


def _nearest(dataset: Dataset, video: int, time: float | None) -> int:
    """Return the frame of a video that is at most half a frame from a time; −1 if there is none."""
    own = np.flatnonzero((dataset.frames.video == video) & np.isfinite(dataset.frames.time_s))
    if time is None or len(own) < 2:
        return -1
    times = dataset.frames.time_s[own]
    best = int(np.abs(times - time).argmin())
    half = float(np.median(np.diff(np.sort(times)))) / 2 + 5e-4
    return int(own[best]) if abs(float(times[best]) - time) <= half else -1
