"""A small dataset with boxes and tracks, and detections that break on named frames."""

import numpy as np
import pytest

from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.tables import Boxes, Frames, Labels, Sets, Videos, texts

SPACE = LabelSpace.of_names("zoo", ["fox", "sheep", "bird"])


def make_dataset(*, n_videos=4, k=2, tracks=True, label_source="frame", boxes=True) -> Dataset:
    """One set per video, 2k + 1 frames, one object of class (video mod 3) that moves by 3 pixels a frame."""
    width = 2 * k + 1
    n = n_videos * width
    video, index = np.repeat(np.arange(n_videos), width), np.tile(np.arange(width), n_videos)
    label = video % 3
    corner = 20.0 + 3.0 * index
    xyxy = np.stack([corner, np.full(n, 10.0), corner + 40.0, np.full(n, 60.0)], axis=1)
    return Dataset(
        info=DatasetInfo(name="zoo", label_space=SPACE, k=k, label_source=label_source),
        videos=Videos(
            video_id=texts([f"v{i}" for i in range(n_videos)]),
            name=texts([f"video {i}" for i in range(n_videos)]),
            fps_num=np.full(n_videos, 30),
            fps_den=np.ones(n_videos, dtype=int),
            n_frames=np.full(n_videos, width),
            path=texts([""] * n_videos),
            codec=texts([""] * n_videos),
        ),
        frames=Frames(
            video=video,
            index=index,
            key=texts([f"v{v}/{i}.png" for v, i in zip(video, index, strict=True)]),
            pts=np.zeros(n, dtype=int),
            time_num=index,
            time_den=np.full(n, 30),
            pict_type=texts([""] * n),
            width=np.full(n, 200),
            height=np.full(n, 100),
            sha256=texts([""] * n),
            media=texts([""] * n),
        ),
        sets=Sets(
            set_id=texts([f"s{i}" for i in range(n_videos)]),
            set=video,
            frame=np.arange(n),
            distance=(index - k).astype(float),
            is_anchor=index == k,
        ),
        labels=Labels(frame=np.arange(n), label=label),
        boxes=Boxes(
            frame=np.arange(n),
            label=label,
            xyxy=xyxy,
            track=np.zeros(n, dtype=int) if tracks else np.full(n, -1),
            crowd=np.zeros(n, dtype=bool),
        )
        if boxes
        else None,
    )


def perfect(dataset: Dataset) -> dict[int, list[tuple[int, tuple[float, ...], float]]]:
    """Per frame the right answer at 0.9: {frame: [(label, box, score)]}; tests spoil some of it."""
    boxes = dataset.boxes
    return {frame: [(int(boxes.label[frame]), tuple(boxes.xyxy[frame]), 0.9)] for frame in range(len(dataset.frames))}


def table(dataset: Dataset, answers) -> BoxAnswers:
    """The answers as a table; a frame that is not among them was not looked at."""
    rows = [(frame, *one) for frame, found in sorted(answers.items()) for one in found]
    scored = np.zeros(len(dataset.frames), dtype=bool)
    scored[list(answers)] = True
    return BoxAnswers.of(
        np.array([row[0] for row in rows], dtype=int),
        np.array([row[1] for row in rows], dtype=int),
        np.array([row[2] for row in rows], dtype=float).reshape(-1, 4),
        np.array([row[3] for row in rows], dtype=float),
        n_frames=len(dataset.frames),
        n_classes=3,
        scored=scored,
    )


class Zoo:
    """What tests need, behind one fixture."""

    dataset = staticmethod(make_dataset)
    perfect = staticmethod(perfect)
    table = staticmethod(table)


@pytest.fixture(scope="session")
def zoo():
    return Zoo
