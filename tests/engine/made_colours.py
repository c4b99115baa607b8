"""A dataset of coloured images on disk, and a plugin file of models with known answers. Annexes' tests use them too."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.tables import NO_PTS, Frames, Labels, Sets, Videos, texts

COLOURS = LabelSpace.of_names("colours", ["red", "green", "blue"])


def make_dataset(root: Path, *, n_sets: int = 4, k: int = 2, size: tuple[int, int] = (40, 32)) -> Dataset:
    """`n_sets` videos of 2k + 1 frames, each frame a noisy image that is mostly red, green or blue."""
    per_set = 2 * k + 1
    n = n_sets * per_set
    rng = np.random.default_rng(5)
    media, label = [], []
    (root / "media").mkdir(parents=True, exist_ok=True)
    for row in range(n):
        colour = (row // per_set) % 3
        pixels = rng.integers(0, 90, (size[1], size[0], 3), dtype=np.uint8)
        pixels[:, :, colour] += 120
        name = f"media/{row:05d}.jpg"
        Pillow.fromarray(pixels).save(root / name, quality=90)
        media.append(name)
        label.append(colour)
    rows = np.arange(n)
    unknown = np.zeros(n, dtype=np.int64)
    return Dataset(
        info=DatasetInfo(name="colours", label_space=COLOURS, k=k),
        videos=Videos(
            video_id=texts([f"{place:016x}" for place in range(n_sets)]),
            name=texts([f"video{place}" for place in range(n_sets)]),
            fps_num=np.full(n_sets, 30), fps_den=np.ones(n_sets, dtype=np.int64), n_frames=np.full(n_sets, per_set),
            path=texts([""] * n_sets), codec=texts([""] * n_sets),
        ),
        frames=Frames(
            video=rows // per_set, index=rows % per_set, key=texts([f"{row:05d}" for row in rows]),
            pts=np.full(n, NO_PTS), time_num=unknown, time_den=unknown, pict_type=texts([""] * n),
            width=np.full(n, size[0]), height=np.full(n, size[1]), sha256=texts([""] * n),
            media=texts(media),
        ),
        sets=Sets(
            set_id=texts([f"set{place}" for place in range(n_sets)]), set=rows // per_set, frame=rows,
            distance=(rows % per_set - k).astype(float), is_anchor=rows % per_set == k,
        ),
        labels=Labels(frame=rows, label=np.array(label)),
        root=root,
    )  # fmt: skip


@pytest.fixture
def colours(tmp_path: Path) -> Callable[..., Dataset]:
    """Make a dataset of coloured images under the test's folder."""

    def make(name: str = "data", **options: int) -> Dataset:
        return make_dataset(tmp_path / name, **options)  # type: ignore[arg-type]

    return make


PLUGIN = """
import numpy as np

CLASSES = ["red", "green", "blue"]

def make():
    return mean_colour, CLASSES

def mean_colour(images):
    return np.array([image.reshape(-1, 3).mean(axis=0) / 10 for image in images], dtype=np.float32)

def raises():
    def boom(images):
        raise RuntimeError("no such thing\\nas a free lunch")
    return boom, CLASSES

def broken():
    raise ValueError("cannot be made")

def nan():
    return (lambda images: np.full((len(images), 3), np.nan, dtype=np.float32)), CLASSES

def short():
    return (lambda images: np.zeros((len(images), 2), dtype=np.float32)), CLASSES

def greedy():
    def forward(images):
        if len(images) > 2:
            raise MemoryError("DefaultCPUAllocator: can't allocate memory")
        return mean_colour(images)
    return forward, CLASSES
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A plugin file with models that work and models that do not."""
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN)
    return path
