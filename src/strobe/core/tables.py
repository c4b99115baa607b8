"""The columnar tables of a dataset: numpy arrays of equal length whose rows refer to each other by index.

Each table documents its marker for unknown values. The marker is zero only if zero cannot be a real value.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import BLOCK, FARTHEST, Bools, Floats, Ints, Texts
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.files import json_of
from strobe.core.records import Box
from strobe.core.variants import STATUSES

NO_PTS = int(np.iinfo(np.int64).min)
"""The marker for a frame without a presentation timestamp (pts)."""

SOURCES = {"video": "video", "photo": "photo", "image": "image", "generated": "generated image"}
"""The noun for one source of each kind, in the order in which kinds are listed."""

KINDS = tuple(SOURCES)
"""The kinds of source: a video, an unmodified photo, a derived image, a generated image."""


@dataclass(frozen=True, slots=True)
class LazyColumn:
    """A column of `n` rows that is read on first use. The caller has already validated the content of the column."""

    read: Callable[[], NDArray[Any]]
    n: int

    def __len__(self) -> int:
        return self.n

    def __reduce__(self) -> tuple[Any, ...]:
        return np.asarray, (self.read(),)


def _same_length(table: object, **columns: "NDArray[Any] | LazyColumn") -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    expect(len(set(lengths.values())) <= 1, type(table).__name__, "columns of one length", lengths)


def _absent() -> Any:
    """An omitted column; on creation it takes its default in every row."""
    return np.empty(0, dtype=object)


def _fill(table: object, n: int, **defaults: Any) -> None:
    """Fill the omitted columns with their defaults (one value for all rows, or a column)."""
    for name, default in defaults.items():
        if not len(getattr(table, name)):
            kind = object if isinstance(default, str) else None
            column = default if isinstance(default, np.ndarray) else np.full(n, default, dtype=kind)
            object.__setattr__(table, name, column)


def _one_of(column: Texts, names: tuple[str, ...], what: str) -> None:
    other = sorted(set(column) - set(names), key=str)
    expect(not other, what, f"one of {', '.join(names)}", other[:1])


def pairs_differ(a: Ints, b: Ints) -> bool:
    """Return whether all pairs (a[i], b[i]) of non-negative numbers are distinct."""
    if not len(a):
        return True
    key = a.astype(np.int64) * (int(b.max()) + 1) + b
    return bool((key[1:] > key[:-1]).all()) or len(np.unique(key)) == len(a)


def texts(values: Collection[str]) -> Texts:
    """A column of text."""
    column = np.empty(len(values), dtype=object)
    column[:] = list(values)
    return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Videos:
    """One row per source of frames, video or not. Unknown: fps_den 0, n_frames −1, path and codec empty.

    `path` is the video file to decode frames from (relative to the dataset folder, or absolute). `kind` is one of
    KINDS and defaults to video. Confidence intervals resample sources.
    """

    video_id: Texts
    name: Texts
    fps_num: Ints
    fps_den: Ints
    n_frames: Ints
    path: Texts
    codec: Texts
    kind: Texts = field(default_factory=_absent)

    def __post_init__(self) -> None:
        _fill(self, len(self.video_id), kind="video")
        _same_length(self, **{name: getattr(self, name) for name in self.__slots__})
        expect(len(set(self.video_id)) == len(self.video_id), "videos.video_id", "each video once", None)
        for name, least in (("fps_num", 0), ("fps_den", 0), ("n_frames", -1)):
            low = int(getattr(self, name).min(initial=least))
            expect(low >= least, f"videos.{name}", f">= {least}", low)
        _one_of(self.kind, KINDS, "videos.kind")

    def __len__(self) -> int:
        return len(self.video_id)

    def fps(self, row: int) -> Fraction | None:
        """Return the exact frames per second of a video, if known."""
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

    `video` is a row of Videos. `key` is the frame's unique name in its source. `sha256` is the digest of the frame's
    pixels (RGB bytes) or, for imported files, of the file's bytes. `media` is the stored image, relative to the
    folder. `as_input` marks images stored as a model's own input, which are neither resized nor cropped. `recipe` is
    a JSON object (kind, severity, seed …) for a frame that is rendered on reading, else empty. Any column may be a
    `LazyColumn`, which is read on first use, because scoring mostly needs just two columns.
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
    as_input: Bools = field(default_factory=_absent)
    recipe: Texts = field(default_factory=_absent)

    def __post_init__(self) -> None:
        n = len(self.video)
        for name, default in (("as_input", False), ("recipe", "")):
            if not self.is_later(name):
                _fill(self, n, **{name: default})
        _same_length(self, **{name: object.__getattribute__(self, name) for name in self.__slots__})
        expect(bool((self.index >= 0).all()), "frames.index", ">= 0", None)
        if not self.is_later("recipe"):
            for text in sorted(set(self.recipe) - {""}):
                recipe_of(text)

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if type(value) is LazyColumn:
            value = value.read()
            object.__setattr__(self, name, value)
        return value

    def passing(self, name: str) -> NDArray[Any]:
        """Return a column for temporary use. A large column that is not loaded yet is read but not kept in memory."""
        value = object.__getattribute__(self, name)
        return value.read() if type(value) is LazyColumn and len(value) > BLOCK else getattr(self, name)

    def is_later(self, name: str) -> bool:
        """Return whether this column is not loaded yet."""
        return type(object.__getattribute__(self, name)) is LazyColumn

    def __len__(self) -> int:
        return len(self.video)

    @property
    def time_s(self) -> Floats:
        """Presentation time in seconds, NaN where unknown."""
        known = self.time_den > 0
        return np.where(known, self.time_num / np.where(known, self.time_den, 1), np.nan)


def recipe_of(text: str) -> Mapping[str, Any] | None:
    """Return the recipe in a cell of Frames, or None if the frame is stored.

    >>> recipe_of('{"kind": "fog", "severity": 3}')["severity"], recipe_of("")
    (3, None)
    """
    if not text:
        return None
    try:
        recipe = json_of(text)
    except ValueError as error:
        raise InvalidValue(f"frames.recipe: expected JSON, got {printable(text, limit=60)}") from error
    expect(isinstance(recipe, dict), "frames.recipe", "a JSON object", printable(text, limit=60))
    return dict(recipe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """One row per (set, member), including the anchor at distance 0, sorted by set and then by distance.

    `set` is a row of `set_id`; `frame` is a row of Frames. Like `set_id`, the following columns have one entry per
    set. `variant` is a row of the dataset's Variants (0 if it has none). `group` joins the sets of one image and
    defaults to the set's own name. `status` is one of STATUSES. `reach` is the largest distance that the set or search
    covered (NaN: the largest distance of its members). `margin` is the margin of the search's result (NaN: unknown).
    """

    set_id: Texts
    set: Ints
    frame: Ints
    distance: Floats
    is_anchor: Bools
    variant: Ints = field(default_factory=_absent)
    group: Texts = field(default_factory=_absent)
    status: Texts = field(default_factory=_absent)
    reach: Floats = field(default_factory=_absent)
    margin: Floats = field(default_factory=_absent)

    def __post_init__(self) -> None:
        _same_length(self, set=self.set, frame=self.frame, distance=self.distance, is_anchor=self.is_anchor)
        n_sets = len(self.set_id)
        _fill(self, n_sets, variant=0, group=self.set_id, status="complete", reach=np.nan, margin=np.nan)
        _same_length(self, **{name: getattr(self, name) for name in SET_COLUMNS})
        expect(n_sets > 0, "sets", "at least one set", n_sets)
        expect(len(set(self.set_id)) == n_sets, "sets.set_id", "each set once", None)
        anchors = np.bincount(self.set[self.is_anchor], minlength=n_sets)
        if (anchors != 1).any():
            row = int(np.flatnonzero(anchors != 1)[0])
            raise InvalidValue(
                f"sets: set {printable(self.set_id[row])} has {int(anchors[row])} anchors; every set needs exactly one"
            )
        expect(bool(np.isfinite(self.distance).all()), "sets.distance", "finite numbers", None)
        expect(bool((self.distance[self.is_anchor] == 0).all()), "sets.distance", "0 for every anchor", None)
        step, rise = np.diff(self.set), np.diff(self.distance)
        in_order = (step > 0) | ((step == 0) & (rise >= 0))
        expect(bool(in_order.all()), "sets", "rows sorted by set, then distance", None)
        expect(pairs_differ(self.set, self.frame), "sets", "each frame once per set", None)
        _one_of(self.status, STATUSES, "sets.status")
        expect(bool((self.variant >= 0).all()), "sets.variant", "rows of the variants table", None)
        expect(not (np.isinf(self.reach) | (self.reach < 0)).any(), "sets.reach", "finite and >= 0, or unknown", None)
        expect(not np.isinf(self.margin).any(), "sets.margin", "finite, or unknown", None)
        lost = self.is_searched & np.isnan(self.reach)
        if lost.any():
            row = int(np.flatnonzero(lost)[0])
            raise InvalidValue(
                f"sets: set {printable(self.set_id[row])} has the status {self.status[row]} but no reach"
            )

    def __len__(self) -> int:
        return len(self.set_id)

    @property
    def is_searched(self) -> Bools:
        """The sets that come from a search, whether or not it found something within its reach, (S,)."""
        return np.asarray((self.status == "found") | (self.status == "censored"), dtype=bool)

    @property
    def is_plain(self) -> bool:
        """Whether all per-set columns except the names hold their defaults."""
        searched = (self.status != "complete").any() or np.isfinite(self.reach).any() or np.isfinite(self.margin).any()
        return not (searched or self.variant.any() or (self.group != self.set_id).any())

    @property
    def anchor_frame(self) -> Ints:
        """The frame row of each set's anchor, (S,)."""
        return self.frame[self.is_anchor]


SET_COLUMNS = ("set_id", "variant", "group", "status", "reach", "margin")
"""The columns of Sets with one entry per set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """One row per (frame, label); a frame with several right answers has several rows."""

    frame: Ints
    label: Ints

    def __post_init__(self) -> None:
        _same_length(self, frame=self.frame, label=self.label)
        expect(pairs_differ(self.frame, self.label), "labels", "each label once per frame", None)

    def by_frame(self) -> dict[int, list[int]]:
        """The labels of every labelled frame, in the order of the table."""
        found: dict[int, list[int]] = {}
        for frame, label in zip(self.frame.tolist(), self.label.tolist(), strict=True):
            found.setdefault(frame, []).append(label)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """One row per (frame, object): `xyxy` (N, 4) float64 pixels; track −1 if unknown; crowd regions are ignored."""

    frame: Ints
    label: Ints
    xyxy: Floats
    track: Ints
    crowd: Bools

    def __post_init__(self) -> None:
        _same_length(self, frame=self.frame, label=self.label, xyxy=self.xyxy, track=self.track, crowd=self.crowd)
        expect(self.xyxy.ndim == 2 and self.xyxy.shape[1] == 4, "boxes.xyxy", "shape (N, 4)", self.xyxy.shape)
        far = np.flatnonzero(np.abs(self.xyxy).max(axis=1, initial=0) > FARTHEST)  # NaN is reported by a separate check
        expect(not len(far), "boxes.xyxy", "pixels, at most 1e9", self.xyxy[far[:1]].tolist())

    def of_frame(self, row: int) -> tuple[Box, ...]:
        """Return the boxes of one frame as records."""
        return tuple(
            Box(
                xyxy=cast(tuple[float, float, float, float], tuple(float(value) for value in self.xyxy[place])),
                label=int(self.label[place]),
                track=int(self.track[place]),
                crowd=bool(self.crowd[place]),
            )
            for place in np.flatnonzero(self.frame == row)
        )


SCENE_CUT = 0.5
"""The cut score from which two neighbouring frames belong to different scenes."""

CUTS_BETWEEN_SETS = "cuts_between_sets"
"""The provenance of a dataset lists scene cuts that no set contains: by video, the frames that follow the cuts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Hints computed from the pixels, in the order of the rows of Sets; a hint alone never decides about a pair.

    `cut` is the scene-cut score in [0, 1]. `blur` is the log2 ratio of sharpness, member over anchor. `motion` is the
    mean displacement in per cent of the frame's diagonal. `exposure` is the change of mean luma in [−1, 1].
    `duplicate` marks nearly identical pixels. The anchor's own row is zero.
    """

    cut: Floats
    blur: Floats
    motion: Floats
    exposure: Floats
    duplicate: Bools

    def __post_init__(self) -> None:
        _same_length(self, **{name: getattr(self, name) for name in self.__slots__})
