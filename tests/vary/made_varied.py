"""What is varied, made here: images with something of every size, and frames of the world."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import strobe.vary.pictures as pictures
from strobe.core.dataset import Dataset
from strobe.store import dataset_folder as folder
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.workflows.synthesize import synthesize


def make_picture(seed: int, side: int = 224) -> Any:
    """An image (side, side, 3), the same for the same seed."""
    rng = np.random.default_rng(seed)
    layers = [Image.fromarray(rng.integers(0, 256, (n, n, 3), dtype=np.uint8)).resize((224, 224)) for n in (4, 28, 112)]
    mixed = sum(
        np.asarray(layer, dtype=np.float64) * share for layer, share in zip(layers, (0.6, 0.25, 0.15), strict=True)
    )
    canvas = Image.fromarray(np.asarray(mixed, dtype=np.uint8))
    pen = ImageDraw.Draw(canvas)
    for _ in range(6):
        x, y, wide, high = (int(value) for value in rng.integers(10, 120, 4))
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        (pen.ellipse if rng.random() < 0.5 else pen.rectangle)((x, y, x + wide, y + high), fill=colour)
    return np.asarray(canvas if side == 224 else canvas.resize((side, side), Image.Resampling.BOX))


@pytest.fixture(scope="session")
def picture() -> Callable[..., Any]:
    """Make an image by its seed and side."""
    return make_picture


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two frames of every class, 64 pixels, with boxes and masks."""
    root = tmp_path_factory.mktemp("world") / "world"
    synthesize(root, SyntheticOptions(world=WorldOptions(size=64, frames=1, occluders=0), videos=24, masks=True))
    return root


@pytest.fixture
def stopped_at_the_eighth(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Path, Callable[[Path], Dataset]], tuple[Dataset, int]]:
    """Make a dataset, be stopped as its eighth image is to be written, make it again; it, and all tries to write."""

    def make_twice(to: Path, make: Callable[[Path], Dataset]) -> tuple[Dataset, int]:
        write, tries = pictures.write_bytes, 0

        def dying(path: Path, content: bytes) -> None:
            nonlocal tries
            tries += 1
            if tries == 8:
                raise KeyboardInterrupt
            write(path, content)

        monkeypatch.setattr(pictures, "write_bytes", dying)
        with pytest.raises(KeyboardInterrupt):
            make(to)
        assert not folder.is_dataset(to)
        return make(to), tries

    return make_twice
