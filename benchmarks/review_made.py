"""Make the data for review_load.py: a dataset of any size, and simulated votes on it."""

import io
import os
import random
from pathlib import Path

import numpy as np

from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.records import Verdict
from strobe.core.tables import Frames, Labels, Sets, Videos, texts
from strobe.store import dataset_folder as folders

CLASSES = ("cat", "dog", *(f"class {number}" for number in range(28)))

N_FILES = 500
"""The number of image names. All refer to the same file."""


def make_dataset(root: Path, *, n_sets: int, k: int = 10) -> None:
    """Make sets of 2k candidates. Every frame is the same noisy JPEG of typical size, under different names."""
    from PIL import Image

    width = 2 * k + 1
    n = n_sets * width
    (root / "media").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (45, 80, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((640, 360)).save(buffer, "JPEG", quality=80)
    (root / "media" / "frame0.jpg").write_bytes(buffer.getvalue())
    for number in range(1, N_FILES):
        os.link(root / "media" / "frame0.jpg", root / "media" / f"frame{number}.jpg")
    zeros = np.zeros(n, dtype=np.int64)
    videos = texts([f"video{v}" for v in range(n_sets)])
    folders.write(
        Dataset(
            info=DatasetInfo(name="load", label_space=LabelSpace.of_names("many", CLASSES), k=k),
            videos=Videos(
                video_id=videos, name=videos, fps_num=np.full(n_sets, 30), fps_den=np.full(n_sets, 1),
                n_frames=np.full(n_sets, width), path=texts([""] * n_sets), codec=texts([""] * n_sets),
            ),
            frames=Frames(
                video=np.repeat(np.arange(n_sets), width), index=np.tile(np.arange(width), n_sets),
                key=texts([f"f{i}" for i in range(n)]), pts=zeros, time_num=zeros, time_den=zeros,
                pict_type=texts([""] * n), width=zeros + 640, height=zeros + 360,
                sha256=texts([random.Random(i).randbytes(32).hex() for i in range(n)]),
                media=texts([f"media/frame{i % N_FILES}.jpg" for i in range(n)]),
            ),
            sets=Sets(
                set_id=texts([f"set{v}" for v in range(n_sets)]), set=np.repeat(np.arange(n_sets), width),
                frame=np.arange(n), distance=np.tile(np.arange(-k, k + 1), n_sets).astype(float),
                is_anchor=np.tile(np.arange(-k, k + 1) == 0, n_sets),
            ),
            labels=Labels(frame=np.arange(n), label=np.repeat(np.arange(n_sets) % (len(CLASSES) if k else 1), width)),
        ),
        root,
    )  # fmt: skip


def fill(url: str, n: int, people: int) -> None:
    """Add simulated votes on the first `n` pairs of the queue. Every fifth pair needs round two."""
    from strobe.annexes.web.review.database import execute
    from strobe.annexes.web.review.store import Store

    store = Store(url)
    conduct = store.conduct()
    if conduct is not None:
        store.settings = conduct.settings
    with store.database.read() as connection:
        first = (
            "SELECT set_id, frame_id FROM tasks WHERE question = 'pairs' AND kind = 'pair' ORDER BY position LIMIT :n"
        )
        rows = list(execute(connection, first, {"n": n}))
    store.extend(
        Verdict(
            verdict_id=f"before{place}", annotator=f"p{place % people}", stage="pair", set_id=row["set_id"],
            at=f"2026-01-{place // 4000 % 28 + 1:02d}T10:{place // 60 % 60:02d}:{place % 60:02d}.{place % 1000:03d}Z",
            frame_id=row["frame_id"], decision="similar" if place % 5 else "dissimilar",
            reason="" if place % 5 else "blur", seconds=2.0 + place % 7, page_version="bench",
        )
        for place, row in enumerate(rows)
    )  # fmt: skip
    store.close()
