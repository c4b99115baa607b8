"""Datasets from the synthetic world: perturbation sets with labels, boxes and masks nobody has to check."""

import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.core.dataset import Boxes, Dataset, DatasetInfo, Frames, Labels, Sets, Videos, texts
from strobe.core.errors import InvalidValue, StrobeError, expect
from strobe.core.files import write_bytes, write_text
from strobe.core.ports import Image, Progress, Silent
from strobe.core.records import Box
from strobe.synthetic.classes import KINDS, LABEL_SPACE
from strobe.synthetic.world import Clip, World, WorldOptions

__all__ = ["ArraySource", "SyntheticOptions", "SyntheticSets", "balanced_clips", "boxes_seen", "synthetic_dataset"]

_TRIES = 50
_LEAST_PART = 0.2
"""An object of which less than this is to be seen is marked to be ignored (crowd): nobody could box it fairly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticOptions:
    """How many clips of which world. Each clip is one set; its middle frame is the anchor.

    Frames in which more than `max_occlusion` of the main object is covered, or less than `min_in_view` is inside the
    frame, are no members: a person would not call them the same. `masks` stores masks beside the media.
    """

    world: WorldOptions = field(default_factory=WorldOptions)
    videos: int = 48
    seed: int = 0
    name: str = "synthetic"
    max_occlusion: float = 0.6
    min_in_view: float = 0.6
    masks: bool = False

    def __post_init__(self) -> None:
        expect(1 <= self.videos <= 1_000_000, "--videos", "1 to 1,000,000", self.videos)
        expect(self.seed >= 0, "--seed", ">= 0", self.seed)
        expect(0 <= self.max_occlusion <= 1, "--max-occlusion", "0 to 1", self.max_occlusion)
        expect(0 <= self.min_in_view <= 1, "SyntheticOptions.min_in_view", "0 to 1", self.min_in_view)

    def provenance(self) -> dict[str, Any]:
        """Everything the dataset follows from, as plain JSON."""
        whole: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {"made_by": "strobe synthesize", "options": whole}


class ArraySource:
    """Frames of a dataset that lie in memory, behind the FrameSource port."""

    def __init__(self, frames: NDArray[np.uint8]) -> None:
        self._frames = frames

    def read(self, row: int) -> Image:
        """The frame."""
        return np.asarray(self._frames[row])

    def read_encoded(self, row: int) -> bytes | None:  # noqa: ARG002 (the port's signature)
        """None: nothing here is encoded."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticSets:
    """A dataset and, where it was not written to a folder, its frames (F, H, W, 3) in table order."""

    dataset: Dataset
    frames: NDArray[np.uint8] | None

    def source(self) -> ArraySource:
        """The frames behind the FrameSource port."""
        if self.frames is None:
            raise StrobeError("the frames were written to a folder; read them from there")
        return ArraySource(self.frames)


def balanced_clips(options: SyntheticOptions) -> Iterator[Clip]:
    """The clips of a dataset: every class equally often, the order shuffled by the seed, every anchor a fair one."""
    world = World(options.world)
    for place in range(options.videos):
        turn, within = divmod(place, len(KINDS))
        order = np.random.default_rng([options.seed, turn, 1]).permutation(len(KINDS))
        for attempt in range(_TRIES):
            seed = int(np.random.SeedSequence([options.seed, place, attempt]).generate_state(1)[0])
            clip = world.clip(seed, label=int(order[within]))
            if _fair(clip, options)[clip.anchor]:
                yield clip
                break
        else:
            raise InvalidValue(f"synthetic: no fair anchor in {_TRIES} tries; allow more occlusion or less motion")


def boxes_seen(clip: Clip, place: int) -> tuple[Box, ...]:
    """The boxes of one frame of a clip, around what is visible; objects all but hidden are marked crowd (ignored)."""
    part = (1 - clip.occlusion[place]) * clip.in_view[place]
    return tuple(
        Box(
            xyxy=(float(box[0]), float(box[1]), float(box[2]), float(box[3])),
            label=int(clip.labels[track]),
            track=track,
            crowd=bool(part[track] < _LEAST_PART),
        )
        for track, box in enumerate(clip.boxes[place])
        if np.isfinite(box).all()
    )


def _fair(clip: Clip, options: SyntheticOptions) -> NDArray[np.bool_]:
    """Which frames show enough of the main object, (T,)."""
    return np.asarray(
        (clip.occlusion[:, 0] <= options.max_occlusion) & (clip.in_view[:, 0] >= options.min_in_view), dtype=bool
    )


def synthetic_dataset(
    options: SyntheticOptions, *, folder: Path | None = None, progress: Progress | None = None
) -> SyntheticSets:
    """Render a dataset. With a folder, frames go to its `media/` (and masks to `masks/`, what is known of each frame
    to `truth.csv`) and the tables are the caller's to write; without, everything stays in memory.

    >>> small = SyntheticOptions(world=WorldOptions(size=32, frames=3), videos=2)
    >>> made = synthetic_dataset(small)
    >>> made.dataset.n_sets, made.source().read(0).shape
    (2, (32, 32, 3))
    """
    rows = _Rows(options)
    kept: list[NDArray[np.uint8]] = []
    with (progress or Silent()).task("clips", options.videos) as advance:
        for clip in balanced_clips(options):
            name = rows.add(clip)
            if folder is None:
                kept.append(clip.frames)
            else:
                _store(clip, folder, name, masks=options.masks)
            advance(1)
    if folder is not None:
        write_text(folder / "truth.csv", "".join(rows.truth))
    return SyntheticSets(
        dataset=rows.dataset(in_folder=folder is not None), frames=np.concatenate(kept) if kept else None
    )


def _store(clip: Clip, folder: Path, name: str, *, masks: bool) -> None:
    tracks = np.arange(1, len(clip.labels) + 1, dtype=np.uint8)
    for place, pixels in enumerate(clip.frames):
        write_bytes(folder / f"media/{name}/{place:06d}.png", _png(pixels))
        if masks:
            # Visible masks do not overlap, so one picture holds them all: track + 1, and 0 for none.
            numbered = (clip.masks_visible[place] * tracks[:, None, None]).max(axis=0).astype(np.uint8)
            write_bytes(folder / f"masks/{name}/{place:06d}.png", _png(numbered))


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    PillowImage.fromarray(pixels).save(buffer, format="png", compress_level=3)
    return buffer.getvalue()


class _Rows:
    """The tables of a dataset, grown clip by clip."""

    def __init__(self, options: SyntheticOptions) -> None:
        self._options = options
        self._length = options.world.frames
        self._ids: list[str] = []
        self._names: list[str] = []
        self._sha256: list[str] = []
        self._fair: list[NDArray[np.bool_]] = []
        self._labels: list[tuple[int, int]] = []
        self._boxes: list[tuple[int, Box]] = []
        self.truth = ["frame,background,track,label,occlusion,in_view\n"]

    def add(self, clip: Clip) -> str:
        """Take a clip in; returns its name."""
        number = len(self._ids)
        name = f"{number:05d}-{LABEL_SPACE.names[clip.label]}"
        world = asdict(self._options.world)
        identity = json.dumps([world, clip.seed, clip.label], sort_keys=True)
        self._ids.append(hashlib.sha256(identity.encode()).hexdigest()[:16])
        self._names.append(name)
        self._sha256 += [hashlib.sha256(pixels.tobytes()).hexdigest() for pixels in clip.frames]
        self._fair.append(_fair(clip, self._options))
        part = (1 - clip.occlusion) * clip.in_view
        for place in range(self._length):
            row = number * self._length + place
            seen = {int(label) for label, share in zip(clip.labels, part[place], strict=True) if share >= 0.5}
            self._labels += [(row, label) for label in sorted(seen | {clip.label})]
            self._boxes += [(row, box) for box in boxes_seen(clip, place)]
            for track, label in enumerate(clip.labels):
                self.truth.append(
                    f"{name}/{place:06d}.png,{clip.background_name},{track},{LABEL_SPACE.ids[label]},"
                    f"{clip.occlusion[place, track]:.6f},{clip.in_view[place, track]:.6f}\n"
                )
        return name

    def dataset(self, *, in_folder: bool) -> Dataset:
        """The dataset of all clips taken in."""
        count, length, world = len(self._ids), self._length, self._options.world
        index = np.tile(np.arange(length), count)
        keys = [f"{name}/{place:06d}.png" for name in self._names for place in range(length)]
        member = np.concatenate(self._fair)
        whole = np.arange(count * length)
        return Dataset(
            info=DatasetInfo(
                name=self._options.name,
                label_space=LABEL_SPACE,
                k=length // 2,
                licence="CC0-1.0",
                provenance=self._options.provenance(),
            ),
            videos=Videos(
                video_id=texts(self._ids),
                name=texts(self._names),
                fps_num=np.full(count, world.fps, dtype=np.int64),
                fps_den=np.ones(count, dtype=np.int64),
                n_frames=np.full(count, length, dtype=np.int64),
                path=texts([""] * count),
                codec=texts([""] * count),
            ),
            frames=Frames(
                video=np.repeat(np.arange(count, dtype=np.int32), length),
                index=index,
                key=texts(keys),
                pts=index.astype(np.int64),
                time_num=index.astype(np.int64),
                time_den=np.full(len(index), world.fps, dtype=np.int64),
                pict_type=texts([""] * len(index)),
                width=np.full(len(index), world.size),
                height=np.full(len(index), world.size),
                sha256=texts(self._sha256),
                media=texts([f"media/{key}" if in_folder else "" for key in keys]),
            ),
            sets=Sets(
                set_id=texts([f"{name}@{length // 2}" for name in self._names]),
                set=(whole[member] // length).astype(np.int32),
                frame=whole[member].astype(np.int32),
                distance=(index[member] - length // 2).astype(np.float64),
                is_anchor=index[member] == length // 2,
            ),
            labels=Labels(
                frame=np.array([row for row, _ in self._labels], dtype=np.int32),
                label=np.array([label for _, label in self._labels], dtype=np.int32),
            ),
            boxes=Boxes(
                frame=np.array([row for row, _ in self._boxes], dtype=np.int32),
                label=np.array([box.label for _, box in self._boxes], dtype=np.int32),
                xyxy=np.array([box.xyxy for _, box in self._boxes], dtype=np.float64).reshape(-1, 4),
                track=np.array([box.track for _, box in self._boxes], dtype=np.int32),
                crowd=np.array([box.crowd for _, box in self._boxes], dtype=bool),
            ),
        )
