"""Datasets in a program's hands: load, save, and one to try things on."""

from pathlib import Path

import numpy as np

from strobe.api.words import in_python
from strobe.core.dataset import Dataset
from strobe.core.labels import LabelSpace

__all__ = ["example_dataset", "load_dataset", "save_dataset"]


@in_python
def load_dataset(path: str | Path, *, reviewed: bool = True, videos: str | Path | None = None) -> Dataset:
    """The dataset in a folder. `reviewed` keeps only what its votes keep; `videos` names a file of video names."""
    from strobe.workflows.opening import Opened

    return Opened.of(Path(path), subset=None if videos is None else Path(videos), reviewed_only=reviewed).dataset


@in_python
def save_dataset(dataset: Dataset, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a dataset's tables to a folder; media are yours to put beside them."""
    from strobe.datasets.folder import write

    return write(dataset, Path(path), overwrite=overwrite)


def example_dataset(*, n_videos: int = 8, k: int = 3, seed: int = 0) -> Dataset:
    """A made-up dataset of two classes without images, to try things on."""
    from strobe.core.builder import DatasetBuilder, frame_list_digest
    from strobe.core.dataset import DatasetInfo

    rng = np.random.default_rng(seed)
    grown = DatasetBuilder()
    for number in range(n_videos):
        name = f"clip-{number:03d}"
        video = grown.video(video_id=frame_list_digest([name]), name=name)
        label = int(rng.integers(2))
        rows = [
            grown.frame(video=video, index=index, key=f"{name}/{index:06d}.jpg", labels=[label])
            for index in range(2 * k + 1)
        ]
        grown.set(
            set_id=name, anchor=rows[k], members=[(row, place - k) for place, row in enumerate(rows) if place != k]
        )
    info = DatasetInfo(name="example", label_space=LabelSpace.of_names("pets", ("cat", "dog")), k=k)
    return grown.build(info)
