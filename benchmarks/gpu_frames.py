"""Make frames for the GPU benchmarks: JPEG files of about 110 KB, and 1280×720 frames in strobe's own format."""

import hashlib
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image as Pillow

from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import space
from strobe.core.packed import PACKED_SUFFIX, packed
from strobe.core.tables import NO_PTS, Frames, Labels, Sets, Videos, texts

T = TypeVar("T")
DISTINCT_JPEG, DISTINCT_PACKED = 512, 64


def picture(rng: np.random.Generator, width: int = 500, height: int = 375, noise: float = 9) -> Pillow.Image:
    """Return an image that compresses like a photograph: smooth shapes, texture, a little noise."""
    coarse = Pillow.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(
        (width, height), Pillow.Resampling.BICUBIC
    )
    fine = Pillow.fromarray(rng.integers(0, 256, (94, 125, 3), dtype=np.uint8)).resize(
        (width, height), Pillow.Resampling.BICUBIC
    )
    grain = rng.normal(0, noise, (height, width, 3))
    mixed = 0.75 * np.asarray(coarse, dtype=np.float64) + 0.25 * np.asarray(fine, dtype=np.float64) + grain
    return Pillow.fromarray(np.clip(mixed, 0, 255).astype(np.uint8))


def encoded(seed: int) -> bytes:
    """Return a JPEG of about 110 KB."""
    image, best = picture(np.random.default_rng(seed)), b""
    for quality in (97, 96, 95, 94, 93, 92, 90, 88, 85):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=quality)
        best = buffer.getvalue()
        if len(best) <= 115_000:
            break
    return best


def packed_frame(seed: int) -> tuple[bytes, str]:
    """Return a 1280×720 frame in the format of `strobe build`, about 1.4 MB like a real one, and its digest."""
    image = np.asarray(picture(np.random.default_rng(seed), 1280, 720, noise=2.5))
    digest = hashlib.sha256(image.tobytes()).hexdigest()
    return packed(image, digest), digest


def make_frames(root: Path, n: int) -> Dataset:
    """Make a dataset of n stored JPEG frames with some hundred different images."""
    files = all_of(encoded, min(n, DISTINCT_JPEG))
    return stored(root, n, files, [""] * len(files), ".jpg", (500, 375))


def make_packed(root: Path, n: int) -> Dataset:
    """Make a dataset of n packed frames with some dozen different images."""
    made = all_of(packed_frame, min(n, DISTINCT_PACKED))
    return stored(root, n, [data for data, _ in made], [digest for _, digest in made], PACKED_SUFFIX, (1280, 720))


def all_of(make: Callable[[int], T], n: int) -> list[T]:
    """Return `make(i)` for i from 0 to n − 1, computed on all cores."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(make, range(n)))


def stored(
    root: Path, n: int, files: list[bytes], digests: list[str], suffix: str, size_wh: tuple[int, int]
) -> Dataset:
    """Make a dataset of n frames of one size that repeats these files."""
    (root / "media").mkdir(parents=True, exist_ok=True)
    names = [f"media/{row:06d}{suffix}" for row in range(n)]
    if not (root / names[-1]).exists():
        all_of(lambda row: (root / names[row]).write_bytes(files[row % len(files)]), n)
    rows, unknown, n_sets = np.arange(n), np.zeros(n, dtype=np.int64), n // 21 + 1
    return Dataset(
        info=DatasetInfo(name="benchmark", label_space=space("imagenet-vid"), k=10),
        videos=Videos(
            video_id=texts([f"{place:016x}" for place in range(n_sets)]),
            name=texts([str(place) for place in range(n_sets)]),
            fps_num=np.full(n_sets, 30), fps_den=np.ones(n_sets, dtype=np.int64), n_frames=np.full(n_sets, 21),
            path=texts([""] * n_sets), codec=texts([""] * n_sets),
        ),
        frames=Frames(
            video=rows // 21, index=rows % 21, key=texts([f"{row:06d}" for row in rows]), pts=np.full(n, NO_PTS),
            time_num=unknown, time_den=unknown, pict_type=texts([""] * n), width=np.full(n, size_wh[0]),
            height=np.full(n, size_wh[1]), sha256=texts([digests[row % len(digests)] for row in range(n)]),
            media=texts(names),
        ),
        sets=Sets(
            set_id=texts(["all"]), set=np.zeros(n, dtype=np.int64), frame=rows, distance=rows.astype(float),
            is_anchor=rows == 0,
        ),
        labels=Labels(frame=rows, label=np.zeros(n, dtype=np.int64)),
        root=root,
    )  # fmt: skip
