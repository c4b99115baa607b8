"""Make random data in the shape of a video dataset: plain Python for a slow reference, and strobe's own records."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.tables import Frames, Hints, Labels, Sets, Videos, texts


@dataclass
class PlainFrame:
    video: int
    index: int
    labels: set[int]
    time: Fraction | None = None
    pict: str = ""


@dataclass
class PlainSet:
    anchor: int
    members: list[tuple[int, float]]
    """(frame, signed distance) of each member except the anchor."""


@dataclass
class World:
    """A dataset in plain lists. `rates` are the videos' frames per second, None if unknown."""

    k: int
    n_classes: int
    rates: list[Fraction | None]
    frames: list[PlainFrame]
    sets: list[PlainSet]
    label_source: str = "frame"
    hints: dict[tuple[int, int], tuple[float, float, float, float]] = field(default_factory=dict)


def vid_world(
    rng: np.random.Generator, *, n_sets: int = 1109, k: int = 10, n_classes: int = 30, n_frames: int | None = 22179
) -> World:
    """Return one set per video with ±k neighbours, some lost at ends and in review, and times of 25 or 30 fps."""
    rates: list[Fraction | None] = [Fraction(30000, 1001) if i % 3 else Fraction(25) for i in range(n_sets)]
    keep = np.ones((n_sets, 2 * k + 1), dtype=bool)
    excess = 0 if n_frames is None else keep.size - n_frames
    member = np.flatnonzero(np.tile(np.arange(2 * k + 1) != k, n_sets))
    keep.ravel()[rng.choice(member, size=max(excess, 0), replace=False)] = False
    frames: list[PlainFrame] = []
    sets: list[PlainSet] = []
    for video in range(n_sets):
        label = {int(rng.integers(n_classes))}
        if rng.random() < 0.07:
            label.add(int(rng.integers(n_classes)))
        start = int(rng.integers(0, 300))
        members: list[tuple[int, float]] = []
        anchor = -1
        for place in np.flatnonzero(keep[video]):
            index = start + int(place)
            rate = rates[video]
            time = None if rate is None else Fraction(index) / rate
            pict = "I" if index % 12 == 0 else "P" if index % 3 == 0 else "B"
            frames.append(PlainFrame(video, index, set(label), time, pict))
            if place == k:
                anchor = len(frames) - 1
            else:
                members.append((len(frames) - 1, float(place - k)))
        sets.append(PlainSet(anchor, members))
    return World(k, n_classes, rates, frames, sets)


def dataset_of(world: World) -> Dataset:
    """Return the world as a Dataset."""
    rows = sorted(
        (number, distance, frame, anchor)
        for number, part in enumerate(world.sets)
        for frame, distance, anchor in [(part.anchor, 0.0, True), *((f, d, False) for f, d in part.members)]
    )
    rates = [rate or Fraction(0, 1) for rate in world.rates]
    known = [rate is not None for rate in world.rates]
    times = [frame.time for frame in world.frames]
    pairs = [(row, label) for row, frame in enumerate(world.frames) for label in sorted(frame.labels)]
    n_videos, n_frames = len(world.rates), len(world.frames)
    empty, nothing = texts([""] * n_frames), np.zeros(n_frames, dtype=np.int64)
    names = [f"v{video}" for video in range(n_videos)]
    hints = None
    if world.hints:
        values = np.array([world.hints.get((number, frame), (0.0,) * 4) for number, _, frame, _ in rows])
        hints = Hints(
            cut=values[:, 0], blur=values[:, 1], motion=values[:, 2], exposure=values[:, 3],
            duplicate=np.zeros(len(rows), dtype=bool),
        )  # fmt: skip
    return Dataset(
        info=DatasetInfo(
            name="world",
            k=world.k,
            label_space=LabelSpace.of_names("world", [f"c{label}" for label in range(world.n_classes)]),
            label_source="frame" if world.label_source == "frame" else "anchor",
        ),
        videos=Videos(
            video_id=texts(names),
            name=texts(names),
            fps_num=np.array([rate.numerator for rate in rates], dtype=np.int64),
            fps_den=np.array([rate.denominator if k else 0 for rate, k in zip(rates, known, strict=True)]),
            n_frames=np.full(n_videos, -1),
            path=texts([""] * n_videos),
            codec=texts([""] * n_videos),
        ),
        frames=Frames(
            video=np.array([frame.video for frame in world.frames], dtype=np.int64),
            index=np.array([frame.index for frame in world.frames], dtype=np.int64),
            key=texts([f"v{frame.video}/{frame.index}" for frame in world.frames]),
            pts=nothing,
            time_num=np.array([0 if time is None else time.numerator for time in times], dtype=np.int64),
            time_den=np.array([0 if time is None else time.denominator for time in times], dtype=np.int64),
            pict_type=texts([frame.pict for frame in world.frames]),
            width=nothing,
            height=nothing,
            sha256=empty,
            media=empty,
        ),
        sets=Sets(
            set_id=texts([f"s{number}" for number in range(len(world.sets))]),
            set=np.array([row[0] for row in rows], dtype=np.int64),
            frame=np.array([row[2] for row in rows], dtype=np.int64),
            distance=np.array([row[1] for row in rows], dtype=np.float64),
            is_anchor=np.array([row[3] for row in rows], dtype=bool),
        ),
        labels=Labels(
            frame=np.array([row for row, _ in pairs], dtype=np.int64),
            label=np.array([label for _, label in pairs], dtype=np.int64),
        ),
        hints=hints,
    )


def random_scores(rng: np.random.Generator, world: World, accuracy: float) -> NDArray[np.float64]:
    """Return random logits (F, C) in which a right class ranks first with this probability."""
    scores = rng.normal(size=(len(world.frames), world.n_classes))
    for row, frame in enumerate(world.frames):
        if frame.labels and rng.random() < accuracy:
            scores[row, min(frame.labels)] = scores[row].max() + rng.random()
    return scores


def predictions_of(name: str, scores: NDArray[np.float64], scored: NDArray[np.bool_] | None = None) -> ClassAnswers:
    """Return the scores as predictions of a model."""
    return ClassAnswers.from_scores(name, scores, kind="logits", scored=scored)
