"""Datasets from the synthetic world: perturbation sets with labels, boxes and masks that need no review."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidValue, StrobeError, expect
from strobe.core.files import write_bytes, write_text
from strobe.core.png import png_bytes
from strobe.core.ports import Image, Progress, Silent
from strobe.core.records import Box
from strobe.synthetic.classes import KINDS, LABEL_SPACE
from strobe.synthetic.world import Clip, World, WorldOptions

_TRIES = 50
_NO_MASKS = np.zeros((0, 0, 0, 0), dtype=bool)
_LEAST_PART = 0.2
"""An object with a smaller visible share is marked as ignored (crowd), because nobody could draw its box reliably."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticOptions:
    """The number of clips and the settings of their world. Each clip is one set, and its middle frame is the anchor.

    A frame is not a member if more than `max_occlusion` of the main object is covered, or less than `min_in_view` is
    inside the frame. A person would not give such a frame the same label. `masks` stores masks next to the media.
    """

    world: WorldOptions = field(default_factory=WorldOptions)
    videos: int = 48
    seed: int = 0
    name: str = "synthetic"
    max_occlusion: float = 0.6
    min_in_view: float = 0.6
    masks: bool = False

    def __post_init__(self) -> None:
        expect(1 <= self.videos <= 1_000_000, "<<videos>>", "1 to 1,000,000", self.videos)
        expect(self.seed >= 0, "<<seed>>", ">= 0", self.seed)
        expect(0 <= self.max_occlusion <= 1, "<<max_occlusion>>", "0 to 1", self.max_occlusion)
        expect(0 <= self.min_in_view <= 1, "SyntheticOptions.min_in_view", "0 to 1", self.min_in_view)

    def provenance(self) -> dict[str, Any]:
        """Return, as plain JSON, everything that determines the dataset."""
        whole: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {"made_by": "strobe synthesize", "options": whole}


class ArraySource:
    """Frames of a dataset in memory, as a FrameSource."""

    def __init__(self, frames: NDArray[np.uint8]) -> None:
        self._frames = frames

    def read(self, row: int) -> Image:
        """Return the frame in this row."""
        return np.asarray(self._frames[row])

    def all(self) -> NDArray[np.uint8]:
        """Return every frame, (F, H, W, 3)."""
        return self._frames

    def read_encoded(self, row: int) -> bytes | None:  # noqa: ARG002 (the port's signature)
        """Return None, because nothing here is encoded."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticSets:
    """A dataset and, if not written to a folder, its frames (F, H, W, 3) in table order."""

    dataset: Dataset
    frames: NDArray[np.uint8] | None

    def source(self) -> ArraySource:
        """Return the frames as a FrameSource."""
        if self.frames is None:
            raise StrobeError("the frames were written to a folder; read them from there")
        return ArraySource(self.frames)


def balanced_clip(options: SyntheticOptions, place: int) -> Clip:
    """Render the clip of a dataset at this index. Each clip can be rendered independently, in any process.

    Every class occurs equally often, in an order shuffled by the seed, and every anchor shows its main object well
    enough.
    """
    world = World(options.world)
    turn, within = divmod(place, len(KINDS))
    order = np.random.default_rng([options.seed, turn, 1]).permutation(len(KINDS))
    for attempt in range(_TRIES):
        seed = int(np.random.SeedSequence([options.seed, place, attempt]).generate_state(1)[0])
        clip = world.clip(seed, label=int(order[within]))
        if _fair(clip, options)[clip.anchor]:
            return clip
    raise InvalidValue(f"synthetic: found no usable anchor in {_TRIES} tries; allow more occlusion or less motion")


def stored_clip(options: SyntheticOptions, folder: Path | None, place: int) -> Clip:
    """Render a clip and store it in the folder, if given.

    The clip is returned without its masks, so that it stays small.
    """
    clip = balanced_clip(options, place)
    if folder is not None:
        _store(clip, folder, _name(clip, place), masks=options.masks)
    return replace(clip, masks_visible=_NO_MASKS, masks_full=_NO_MASKS)


def boxes_seen(clip: Clip, place: int) -> tuple[Box, ...]:
    """Return the boxes of one frame of a clip, around the visible parts.

    Almost hidden objects are marked crowd (ignored).
    """
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
    """Return which frames show enough of the main object, (T,)."""
    return np.asarray(
        (clip.occlusion[:, 0] <= options.max_occlusion) & (clip.in_view[:, 0] >= options.min_in_view), dtype=bool
    )


def synthetic_dataset(
    options: SyntheticOptions,
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
    clips: Iterable[Clip] | None = None,
) -> SyntheticSets:
    """Render a dataset.

    With a folder, frames are written to its `media/`, masks to its `masks/`, and the ground truth of each frame to its
    `truth.csv`. The caller writes the tables. Without a folder, everything stays in memory. `clips` are the dataset's
    clips in order, if already rendered elsewhere (`stored_clip`).

    >>> small = SyntheticOptions(world=WorldOptions(size=32, frames=3), videos=2)
    >>> made = synthetic_dataset(small)
    >>> made.dataset.n_sets, made.source().read(0).shape
    (2, (32, 32, 3))
    """
    rows = _DatasetTables(options, in_folder=folder is not None)
    kept: list[NDArray[np.uint8]] = []
    made = clips or (stored_clip(options, folder, place) for place in range(options.videos))
    with (progress or Silent()).task("clips", options.videos) as advance:
        for number, clip in enumerate(made):
            rows.add(clip, number)
            if folder is None:
                kept.append(clip.frames)
            advance(1)
    if folder is not None:
        write_text(folder / "truth.csv", "".join(rows.truth))
    return SyntheticSets(dataset=rows.dataset(), frames=np.concatenate(kept) if kept else None)


def _name(clip: Clip, place: int) -> str:
    return f"{place:05d}-{LABEL_SPACE.names[clip.label]}"


def _store(clip: Clip, folder: Path, name: str, *, masks: bool) -> None:
    tracks = np.arange(1, len(clip.labels) + 1, dtype=np.uint8)
    for index, pixels in enumerate(clip.frames):
        write_bytes(folder / f"media/{name}/{index:06d}.png", png_bytes(pixels))
        if masks:
            # Visible masks do not overlap, so one image contains all of them: a pixel is the track + 1, or 0 without an
            # object.
            numbered = (clip.masks_visible[index] * tracks[:, None, None]).max(axis=0).astype(np.uint8)
            write_bytes(folder / f"masks/{name}/{index:06d}.png", png_bytes(numbered))


class _DatasetTables:
    """The tables of a dataset, extended clip by clip."""

    def __init__(self, options: SyntheticOptions, *, in_folder: bool) -> None:
        self._options = options
        self._in_folder = in_folder
        self._grown = DatasetBuilder()
        self.truth = ["frame,background,track,label,occlusion,in_view\n"]

    def add(self, clip: Clip, number: int) -> None:
        """Add a clip."""
        world, middle = self._options.world, self._options.world.frames // 2
        name = _name(clip, number)
        identity = json.dumps([asdict(world), clip.seed, clip.label], sort_keys=True)
        video_id = hashlib.sha256(identity.encode()).hexdigest()[:16]
        video = self._grown.video(video_id=video_id, name=name, fps=Fraction(world.fps), n_frames=world.frames)
        part = (1 - clip.occlusion) * clip.in_view
        rows = []
        for place, pixels in enumerate(clip.frames):
            key = f"{name}/{place:06d}.png"
            seen = {int(label) for label, share in zip(clip.labels, part[place], strict=True) if share >= 0.5}
            row = self._grown.frame(
                video=video, index=place, key=key, pts=place, time_s=(place, world.fps), size_wh=(world.size,) * 2,
                sha256=hashlib.sha256(pixels.tobytes()).hexdigest(), media=f"media/{key}" if self._in_folder else "",
                labels=sorted(seen | {clip.label}),
            )  # fmt: skip
            rows.append(row)
            for box in boxes_seen(clip, place):
                self._grown.box(frame=row, label=box.label, xyxy=box.xyxy, track=box.track, crowd=box.crowd)
            for track, label in enumerate(clip.labels):
                self.truth.append(
                    f"{key},{clip.background_name},{track},{LABEL_SPACE.ids[label]},"
                    f"{clip.occlusion[place, track]:.6f},{clip.in_view[place, track]:.6f}\n"
                )
        fair = np.flatnonzero(_fair(clip, self._options)).tolist()
        self._grown.set(
            set_id=f"{name}@{middle}",
            anchor=rows[middle],
            members=[(rows[place], place - middle) for place in fair if place != middle],
        )

    def dataset(self) -> Dataset:
        """Return the dataset of all added clips."""
        info = DatasetInfo(
            name=self._options.name,
            label_space=LABEL_SPACE,
            k=self._options.world.frames // 2,
            licence="CC0-1.0",
            provenance=self._options.provenance(),
        )
        return self._grown.build(info, with_boxes=True)
