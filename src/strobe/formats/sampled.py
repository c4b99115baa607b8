"""Turn labelled frames of another layout into sets: a seeded anchor per video, or many, and the frames around each.

Importers describe the videos and the content of a frame. This module samples anchors, copies or links media, and builds
the dataset.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.labels import LabelSpace, space
from strobe.store.bring_media import ImportOptions

_KNOWN_SPACES = ("imagenet-vid", "youtube-bb", "coco-80")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameBox:
    """A box on a frame: its class, corners in pixels, track, whether it is a crowd, and its image's size."""

    label: int
    xyxy: tuple[float, float, float, float]
    track: int = -1
    crowd: bool = False
    size_wh: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameContents:
    """The annotations of one frame.

    `size_wh` is the image size that the annotations give; it also applies to boxes without a size. `is_named` is
    whether the annotations name their own frame and video.
    """

    labels: tuple[int, ...] = ()
    boxes: tuple[FrameBox, ...] = ()
    size_wh: tuple[int, int] = (0, 0)
    is_named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVideo:
    """A video of another layout: the paths of its frames by index, relative to the media root, and their content.

    `see` is called only for frames that may enter a set, so that few annotations are read.
    """

    name: str
    keys: Mapping[int, str]
    see: Callable[[int], FrameContents]
    fps: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSampling:
    """How anchors are chosen, and how far sets extend.

    With `every`, every N-th frame of a video that has a label is an anchor, and sets share frames. `anchors` (video
    name → frame indices) are used as given, without sampling. With `unlabelled`, they need no label.
    """

    k: int = 10
    seed: int = 0
    every: int | None = None
    anchors: Mapping[str, Sequence[int]] | None = None
    unlabelled: bool = False

    def __post_init__(self) -> None:
        expect(self.k >= 0, "<<k>>", ">= 0", self.k)
        expect(self.seed >= 0, "<<seed>>", ">= 0", self.seed)
        expect(self.every is None or self.every >= 1, "<<every>>", ">= 1", self.every)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a dataset: the folder of its images, and what dataset.json records."""

    name: str
    format: str
    label_space: LabelSpace
    media_root: Path
    label_source: Literal["frame", "anchor"] = "frame"
    with_boxes: bool = False
    licence: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDataset:
    """A dataset whose tables the caller writes, and notes about the videos and frames that were left out.

    Notes are printed. A count that dataset.json should record goes into `Origin.facts`.
    """

    dataset: Dataset
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The anchors of a video, and the annotations of all frames that may be in their sets."""

    video: SourceVideo
    anchors: tuple[int, ...]
    seen: Mapping[int, FrameContents]
    k: int

    def frames(self, anchor: int) -> list[int]:
        """Return the frames of an anchor's set in order, including the anchor."""
        return [index for index in range(anchor - self.k, anchor + self.k + 1) if index in self.seen]


def import_sampled(
    videos: Sequence[SourceVideo], target: Path, *, origin: Origin, draw: ImportSampling, how: ImportOptions
) -> ImportedDataset:
    """Sample the sets, copy or link their frames to target/media, and make the dataset.

    Each video samples its anchor among its labelled frames with its own seed, so that other videos do not affect it. If
    members are scored with their own labels, unlabelled members are excluded (because no answer could be right) and
    counted in the notes.
    """
    sampled: list[_Drawn] = []
    bare: list[str] = []
    left_out = 0
    with how.progress.task("videos", len(videos)) as advance:
        for video in videos:
            drawn, missed = _draw(video, draw, origin.label_source)
            left_out += missed
            if drawn.anchors:
                sampled.append(drawn)
            else:
                bare.append(video.name)
            advance(1)
    if not sampled:
        raise StrobeError(f"none of the {len(videos)} videos has a labelled frame, so no set can be built")
    notes = []
    if bare:
        notes.append(f"{len(bare)} video(s) without a labelled frame were left out, first {printable(bare[0])}")
    if left_out:
        notes.append(f"{left_out} unlabelled frame(s) near an anchor were left out")
    return _build(sampled, target, origin, draw, how, notes)


def _draw(video: SourceVideo, draw: ImportSampling, label_source: str) -> tuple[_Drawn, int]:
    """Return the anchors of a video with their frames, and the number of unlabelled frames near an anchor."""
    seen: dict[int, FrameContents] = {}

    def see(index: int) -> FrameContents:
        if index not in seen:
            seen[index] = video.see(index)
        return seen[index]

    anchors = _anchors(video, draw, see)
    for anchor in anchors:
        if anchor not in video.keys:
            raise StrobeError(f"{printable(video.name)}: the given anchor {anchor} is not a frame of the video")
        if not (see(anchor).labels or draw.unlabelled):
            raise StrobeError(f"{printable(video.name)}: the given anchor {anchor} has no label")
    near = {index for anchor in anchors for index in range(anchor - draw.k, anchor + draw.k + 1) if index in video.keys}
    kept = {index: see(index) for index in sorted(near) if label_source == "anchor" or see(index).labels}
    return _Drawn(video, tuple(anchors), kept, draw.k), len(near) - len(kept)


def _anchors(video: SourceVideo, draw: ImportSampling, see: Callable[[int], FrameContents]) -> list[int]:
    """Return the given anchors, every N-th frame with a label, or one random frame with a label."""
    if draw.anchors is not None:
        return list(draw.anchors.get(video.name, ()))
    indices = sorted(video.keys)
    if draw.every is not None:
        return [index for index in indices[:: draw.every] if see(index).labels]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([draw.seed, int(_video_id(video), 16)])))
    order = rng.permutation(np.array(indices, dtype=np.int64)).tolist()
    first = next((index for index in order if see(index).labels), None)
    return [] if first is None else [first]


def _video_id(video: SourceVideo) -> str:
    return frame_list_digest(video.keys[index] for index in sorted(video.keys))


def _build(
    sampled: Sequence[_Drawn],
    target: Path,
    origin: Origin,
    draw: ImportSampling,
    how: ImportOptions,
    notes: Sequence[str],
) -> ImportedDataset:
    keys = list(dict.fromkeys(sample.video.keys[index] for sample in sampled for index in sample.seen))
    files = how.files(origin.media_root, target, keys)
    grown, rows = DatasetBuilder(), dict[str, int]()
    for sample in sampled:
        video = sample.video
        row = grown.video(video_id=_video_id(video), name=video.name, fps=video.fps, n_frames=len(video.keys))
        for index, seen in sample.seen.items():
            if video.keys[index] not in rows:
                rows[video.keys[index]] = _add_frame(grown, row, video, index, seen, files)
        for anchor in sample.anchors:
            grown.set(
                set_id=f"{video.name}@{anchor}",
                anchor=rows[video.keys[anchor]],
                members=[(rows[video.keys[i]], i - anchor) for i in sample.frames(anchor) if i != anchor],
            )
    notes = (*notes, *grown.check_boxes())
    info = DatasetInfo(
        name=origin.name,
        label_space=origin.label_space,
        k=draw.k,
        label_source=origin.label_source,
        licence=origin.licence,
        provenance={
            "format": origin.format,
            "media": how.media != "none",
            "anchors": "given" if draw.anchors is not None else "drawn" if draw.every is None else "every",
            **({} if draw.every is None else {"every": draw.every}),
            "seed": draw.seed,
            "notes": list(notes),
            **origin.facts,
        },
    )
    return ImportedDataset(dataset=grown.build(info, with_boxes=origin.with_boxes, root=target), notes=notes)


def _add_frame(
    grown: DatasetBuilder,
    video_row: int,
    video: SourceVideo,
    index: int,
    seen: FrameContents,
    files: Mapping[str, tuple[str, tuple[int, int]]],
) -> int:
    """Add a frame with its boxes, and return its row."""
    key = video.keys[index]
    digest, size = files.get(key, ("", seen.size_wh))
    row = grown.frame(
        video=video_row,
        index=index,
        key=key,
        sha256=digest,
        size_wh=size,
        labels=seen.labels,
        time_s=index / video.fps if video.fps else None,
        media=f"media/{key}" if files else "",
    )
    for box in seen.boxes:
        grown.box(
            frame=row,
            label=box.label,
            xyxy=box.xyxy,
            track=box.track,
            crowd=box.crowd,
            declared_wh=box.size_wh if any(box.size_wh) else seen.size_wh,
        )
    return row


def label_space_for(names: Sequence[str], *, requested: str | None, own_name: str) -> LabelSpace:
    """Return the label space for an external list of classes.

    `requested` names a shipped space, in which every class must be found by id, name or synonym. Otherwise a shipped
    space with exactly these classes is used, or a new space if there is none.

    >>> label_space_for(["cat", "dog"], requested=None, own_name="pets").ids
    ('cat', 'dog')
    """
    if requested is not None:
        chosen = space(requested)
        for name in names:
            chosen.index(name)
        return chosen
    for known in _KNOWN_SPACES:
        try:
            shipped = space(known)
        except StrobeError:
            continue
        if len(names) == len(shipped) and {_place(shipped, name) for name in names} == set(range(len(shipped))):
            return shipped
    return LabelSpace.of_names(own_name, list(names))


def _place(shipped: LabelSpace, name: str) -> int | None:
    places = shipped.matches(name)
    return places[0] if len(places) == 1 else None
