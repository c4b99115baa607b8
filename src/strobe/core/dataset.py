"""A dataset in memory: a few columnar tables, checked at birth, and the questions everyone asks of them.

Tables are columns of equal length (numpy arrays); rows point at each other by place. What a column holds where a
value is unknown is said beside it: unknown is never zero where zero could be a value.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.labels import LabelSpace
from strobe.core.records import AXES, Box, Frame, Member, PerturbationSet, PictType, Verdict, frame_id

__all__ = ["NO_PTS", "Boxes", "Dataset", "DatasetInfo", "Frames", "Hints", "Labels", "Sets", "Videos"]

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]

NO_PTS = int(np.iinfo(np.int64).min)
"""The pts of a frame that has none."""


def _same_length(table: object, **columns: NDArray[Any]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    expect(len(set(lengths.values())) <= 1, type(table).__name__, "columns of one length", lengths)


def texts(values: Collection[str]) -> Texts:
    """A column of text."""
    column = np.empty(len(values), dtype=object)
    column[:] = list(values)
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """What dataset.json says of the whole.

    `label_source` says whose labels a member is scored with: its own (`frame`) or its anchor's (`anchor`).
    `reviewed` is `release` where the sets were reviewed before they came here, `votes` where verdicts in the folder
    decide, `none` where nobody has looked.
    """

    name: str
    label_space: LabelSpace
    k: int
    version: str = "1"
    axis: str = "frame-offset"
    label_source: Literal["frame", "anchor"] = "frame"
    reviewed: Literal["none", "release", "votes"] = "none"
    licence: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(bool(self.name), "dataset.name", "not empty", self.name)
        expect(self.axis in AXES, "dataset.axis", f"one of {', '.join(AXES)}", self.axis)
        expect(self.k >= 0, "dataset.k", ">= 0", self.k)
        expect(self.label_source in ("frame", "anchor"), "dataset.label_source", "frame or anchor", self.label_source)
        expect(
            self.reviewed in ("none", "release", "votes"), "dataset.reviewed", "none, release or votes", self.reviewed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Videos:
    """One row per video. Unknown: fps_den 0, n_frames −1, path and codec empty.

    `path` is the video file where frames are decoded from it (relative to the dataset folder or absolute).
    """

    video_id: Texts
    name: Texts
    fps_num: Ints
    fps_den: Ints
    n_frames: Ints
    path: Texts
    codec: Texts

    def __post_init__(self) -> None:
        _same_length(self, **{name: getattr(self, name) for name in self.__slots__})
        expect(len(set(self.video_id)) == len(self.video_id), "videos.video_id", "each video once", None)

    def __len__(self) -> int:
        return len(self.video_id)

    def fps(self, row: int) -> Fraction | None:
        """Frames per second of a video, exact, where known."""
        den = int(self.fps_den[row])
        return Fraction(int(self.fps_num[row]), den) if den else None

    @property
    def fps_float(self) -> Floats:
        """Frames per second, NaN where unknown."""
        known = self.fps_den > 0
        return np.where(known, self.fps_num / np.where(known, self.fps_den, 1), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """One row per frame. Unknown: pts NO_PTS, time_den 0, pict_type/sha256/media empty, width and height 0.

    `video` is a row of Videos. `key` is the frame's name in its source, unique. `sha256` is of the frame's pixels
    (RGB bytes) or, for imported files, of the file's bytes. `media` is the stored image, relative to the folder.
    """

    video: Ints
    index: Ints
    key: Texts
    pts: Ints
    time_num: Ints
    time_den: Ints
    pict_type: Texts
    width: Ints
    height: Ints
    sha256: Texts
    media: Texts

    def __post_init__(self) -> None:
        _same_length(self, **{name: getattr(self, name) for name in self.__slots__})
        expect(bool((self.index >= 0).all()), "frames.index", ">= 0", None)

    def __len__(self) -> int:
        return len(self.video)

    @property
    def time_s(self) -> Floats:
        """Presentation time in seconds, NaN where unknown."""
        known = self.time_den > 0
        return np.where(known, self.time_num / np.where(known, self.time_den, 1), np.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """One row per (set, member), the anchor among them at distance 0, sorted by set and then by distance.

    `set` is a row of `set_id`; `frame` a row of Frames.
    """

    set_id: Texts
    set: Ints
    frame: Ints
    distance: Floats
    is_anchor: Bools

    def __post_init__(self) -> None:
        _same_length(self, set=self.set, frame=self.frame, distance=self.distance, is_anchor=self.is_anchor)
        n_sets = len(self.set_id)
        expect(n_sets > 0, "sets", "at least one set", n_sets)
        expect(len(set(self.set_id)) == n_sets, "sets.set_id", "each set once", None)
        anchors = np.bincount(self.set[self.is_anchor], minlength=n_sets)
        if (anchors != 1).any():
            row = int(np.flatnonzero(anchors != 1)[0])
            raise InvalidValue(
                f"sets: set {printable(self.set_id[row])} has {int(anchors[row])} anchors; every set needs exactly one"
            )
        expect(bool((self.distance[self.is_anchor] == 0).all()), "sets.distance", "0 for every anchor", None)
        order = np.lexsort((self.distance, self.set))
        expect(bool((order == np.arange(len(order))).all()), "sets", "rows sorted by set, then distance", None)
        pairs = self.set.astype(np.int64) * (int(self.frame.max()) + 1) + self.frame
        expect(len(np.unique(pairs)) == len(pairs), "sets", "each frame once per set", None)

    def __len__(self) -> int:
        return len(self.set_id)

    @property
    def anchor_frame(self) -> Ints:
        """The frame row of each set's anchor, (S,)."""
        return self.frame[self.is_anchor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """One row per (frame, label): several rows for a frame with several right answers."""

    frame: Ints
    label: Ints

    def __post_init__(self) -> None:
        _same_length(self, frame=self.frame, label=self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """One row per (frame, object): `xyxy` (N, 4) float64 pixels; track −1 where unknown; crowd regions are ignored."""

    frame: Ints
    label: Ints
    xyxy: Floats
    track: Ints
    crowd: Bools

    def __post_init__(self) -> None:
        _same_length(self, frame=self.frame, label=self.label, xyxy=self.xyxy, track=self.track, crowd=self.crowd)
        expect(self.xyxy.ndim == 2 and self.xyxy.shape[1] == 4, "boxes.xyxy", "shape (N, 4)", self.xyxy.shape)

    def of_frame(self, row: int) -> tuple[Box, ...]:
        """The boxes of one frame as records."""
        return tuple(
            Box(
                xyxy=cast(tuple[float, float, float, float], tuple(float(value) for value in self.xyxy[place])),
                label=int(self.label[place]),
                track=int(self.track[place]),
                crowd=bool(self.crowd[place]),
            )
            for place in np.flatnonzero(self.frame == row)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the pixels suggest of each row of Sets (same order and length); hints never decide alone.

    `cut` is the scene-cut score in [0, 1], `blur` the log2 ratio of sharpness member over anchor, `motion` the mean
    displacement in per cent of the frame's diagonal, `exposure` the change of mean luma in [−1, 1], `duplicate` whether
    the pixels are all but the same. Zero rows stand for the anchor itself.
    """

    cut: Floats
    blur: Floats
    motion: Floats
    exposure: Floats
    duplicate: Bools

    def __post_init__(self) -> None:
        _same_length(self, **{name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Candidate or reviewed sets with everything known of their frames. `root` is the folder it was read from."""

    info: DatasetInfo
    videos: Videos
    frames: Frames
    sets: Sets
    labels: Labels
    boxes: Boxes | None = None
    hints: Hints | None = None
    verdicts: tuple[Verdict, ...] = ()
    root: Path | None = None

    def __post_init__(self) -> None:
        n_frames, n_classes = len(self.frames), len(self.info.label_space)
        expect(bool((self.frames.video < len(self.videos)).all()), "frames.video", "a row of videos", None)
        expect(bool((self.sets.frame < n_frames).all()), "sets.frame", "a row of frames", None)
        for name, table in (("labels", self.labels), ("boxes", self.boxes)):
            if table is not None and len(table.frame):
                expect(int(table.frame.max()) < n_frames, f"{name}.frame", "a row of frames", None)
                top = int(table.label.max())
                expect(int(table.label.min()) >= 0 and top < n_classes, f"{name}.label", f"0–{n_classes - 1}", top)
        if self.hints is not None:
            expect(len(self.hints.cut) == len(self.sets.set), "hints", "one row per set row", len(self.hints.cut))

    # -- names ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.info.name

    @property
    def n_sets(self) -> int:
        """How many sets there are."""
        return len(self.sets)

    def frame_ids(self) -> list[str]:
        """The identity of every frame, in table order."""
        ids = self.videos.video_id[self.frames.video]
        return [frame_id(video, int(index)) for video, index in zip(ids, self.frames.index, strict=True)]

    def frame(self, row: int) -> Frame:
        """One frame as a record."""
        table = self.frames
        den = int(table.time_den[row])
        width, height = int(table.width[row]), int(table.height[row])
        return Frame(
            video_id=str(self.videos.video_id[table.video[row]]),
            index=int(table.index[row]),
            key=str(table.key[row]),
            pts=None if int(table.pts[row]) == NO_PTS else int(table.pts[row]),
            time_s=Fraction(int(table.time_num[row]), den) if den else None,
            pict_type=cast(PictType, str(table.pict_type[row])),
            size_wh=(width, height) if width else None,
            sha256=str(table.sha256[row]),
        )

    def __iter__(self) -> Iterator[PerturbationSet]:
        """The sets as records, in order."""
        bounds = np.searchsorted(self.sets.set, np.arange(self.n_sets + 1))
        for place in range(self.n_sets):
            rows = range(int(bounds[place]), int(bounds[place + 1]))
            anchor = next(row for row in rows if self.sets.is_anchor[row])
            yield PerturbationSet(
                set_id=str(self.sets.set_id[place]),
                anchor=self.frame(int(self.sets.frame[anchor])),
                members=tuple(
                    Member(frame=self.frame(int(self.sets.frame[row])), distance=float(self.sets.distance[row]))
                    for row in rows
                    if row != anchor
                ),
                axis=self.info.axis,
            )

    # -- questions -----------------------------------------------------------------------------------------------

    @property
    def video_of_set(self) -> Ints:
        """The video row of each set, (S,)."""
        return self.frames.video[self.sets.anchor_frame]

    def right_rows(self, predicted: Ints) -> Bools:
        """Whether the prediction for each set row is right by the dataset's label rule.

        `predicted` (F,) holds a class per frame, −1 where there is none (never right).
        """
        n_classes = len(self.info.label_space)
        known = np.unique(self.labels.frame.astype(np.int64) * n_classes + self.labels.label)
        judged = self.sets.frame if self.info.label_source == "frame" else self.sets.anchor_frame[self.sets.set]
        guess = predicted[self.sets.frame].astype(np.int64)
        key = judged.astype(np.int64) * n_classes + guess
        if not len(known):
            return np.zeros(len(key), dtype=bool)
        place = np.minimum(np.searchsorted(known, key), len(known) - 1)
        return np.asarray((known[place] == key) & (guess >= 0))

    def labels_of(self, row: int) -> tuple[int, ...]:
        """The labels of one frame, ascending."""
        return tuple(sorted(int(label) for label in self.labels.label[self.labels.frame == row]))

    # -- parts ---------------------------------------------------------------------------------------------------

    def keep_rows(self, keep: Bools, *, info: DatasetInfo | None = None) -> "Dataset":
        """Only these set rows (a set whose anchor goes, goes). Frames stay, so their rows keep their place."""
        anchored = np.zeros(self.n_sets, dtype=bool)
        anchored[self.sets.set[self.sets.is_anchor & keep]] = True
        keep = keep & anchored[self.sets.set]
        expect(bool(keep.any()), "dataset", "at least one set left", "none")
        new_place = np.cumsum(anchored) - 1
        sets = Sets(
            set_id=self.sets.set_id[anchored],
            set=new_place[self.sets.set[keep]].astype(np.int32),
            frame=self.sets.frame[keep],
            distance=self.sets.distance[keep],
            is_anchor=self.sets.is_anchor[keep],
        )
        hints = self.hints
        if hints is not None:
            hints = Hints(**{name: getattr(hints, name)[keep] for name in Hints.__slots__})
        return replace(self, info=info or self.info, sets=sets, hints=hints)

    def only_videos(self, names: Collection[str]) -> "Dataset":
        """The sets of the named videos (by name or id); every name must be there."""
        wanted = set(names)
        known = set(self.videos.name) | set(self.videos.video_id)
        missing = sorted(wanted - known)
        if missing:
            raise InvalidValue(f"subset: {len(missing)} video(s) are not in {self.name}, first {printable(missing[0])}")
        chosen = np.array([name in wanted for name in self.videos.name], dtype=bool)
        chosen |= np.array([video in wanted for video in self.videos.video_id], dtype=bool)
        return self.keep_rows(chosen[self.video_of_set][self.sets.set])

    # -- digests -------------------------------------------------------------------------------------------------

    def frames_digest(self) -> str:
        """Changes exactly when the frames' identity or pixels do: what cached predictions depend on."""
        hasher = hashlib.sha256()
        rows = zip(self.frame_ids(), self.frames.sha256, strict=True)
        for text in sorted(f"{name}\t{digest}\n" for name, digest in rows):
            hasher.update(text.encode())
        return hasher.hexdigest()

    def digest(self) -> str:
        """Changes exactly when content does: not with file order, encoding, compression or where the folder lies."""
        info = self.info
        hasher = hashlib.sha256(
            json.dumps(
                [
                    info.name,
                    info.version,
                    info.axis,
                    info.k,
                    info.label_source,
                    info.reviewed,
                    info.licence,
                    info.label_space.digest,
                    info.provenance,
                ],
                sort_keys=True,
                default=str,
            ).encode()
        )
        ids = self.frame_ids()
        for lines in self._content(ids):
            for line in sorted(lines):
                hasher.update(line.encode())
            hasher.update(b"\0")
        return hasher.hexdigest()

    def _content(self, ids: list[str]) -> Iterator[list[str]]:
        videos, frames, sets = self.videos, self.frames, self.sets
        yield [
            f"{i}\t{n}\t{a}/{b}\t{c}\t{d}\n"
            for i, n, a, b, c, d in zip(
                videos.video_id, videos.name, videos.fps_num, videos.fps_den, videos.n_frames, videos.codec, strict=True
            )
        ]
        columns = [
            frames.key, frames.pts, frames.time_num, frames.time_den, frames.pict_type, frames.width, frames.height,
            frames.sha256,
        ]  # fmt: skip
        yield ["\t".join(map(str, row)) + "\n" for row in zip(ids, *(c.tolist() for c in columns), strict=True)]
        set_names = sets.set_id[sets.set]
        yield [
            f"{s}\t{ids[f]}\t{d!r}\t{a}\n"
            for s, f, d, a in zip(
                set_names, sets.frame.tolist(), sets.distance.tolist(), sets.is_anchor.tolist(), strict=True
            )
        ]
        yield [
            f"{ids[f]}\t{label}\n"
            for f, label in zip(self.labels.frame.tolist(), self.labels.label.tolist(), strict=True)
        ]
        if self.boxes is not None:
            boxes = self.boxes
            yield [
                f"{ids[f]}\t{label}\t{xyxy!r}\t{track}\t{crowd}\n"
                for f, label, xyxy, track, crowd in zip(
                    boxes.frame.tolist(), boxes.label.tolist(), boxes.xyxy.tolist(), boxes.track.tolist(),
                    boxes.crowd.tolist(), strict=True,
                )
            ]  # fmt: skip
        if self.hints is not None:
            values = [getattr(self.hints, name).tolist() for name in Hints.__slots__]
            yield [
                "\t".join([s, ids[f], *map(repr, row)]) + "\n"
                for s, f, *row in zip(set_names, sets.frame.tolist(), *values, strict=True)
            ]
        yield [f"{verdict!r}\n" for verdict in self.verdicts]
