"""Load a dataset, save one, or make a small one for examples."""

from pathlib import Path

import numpy as np

from strobe.api.words import as_path, in_python
from strobe.core.dataset import Dataset
from strobe.core.labels import LabelSpace


@in_python
def load_dataset(path: str | Path, *, reviewed: bool = True, videos: str | Path | None = None) -> Dataset:
    """Load a dataset from its folder.

    Args:
        path: The dataset folder.
        reviewed: If there are review votes, return only the sets and members that they keep. False returns all
            candidates.
        videos: A text file with one video name per line. Only the sets of these videos are returned.

    Returns:
        The dataset. Images are read from the folder when they are needed.

    Raises:
        StrobeError: The folder is not a dataset, or the file names a video that the dataset does not have.

    >>> import tempfile, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     folder = strobe.save_dataset(strobe.example_dataset(), f"{tmp}/data")
    ...     strobe.load_dataset(folder)
    <Dataset example: 8 sets, 56 frames, 8 sources, 2 classes, k = 3>
    """
    from strobe.store.opening import Opened

    return Opened.of(Path(path), subset=as_path(videos), reviewed_only=reviewed).dataset


@in_python
def save_dataset(dataset: Dataset, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write the tables of a dataset to a folder. Images are not copied.

    Args:
        dataset: The dataset to write.
        path: The folder to write to.
        overwrite: Replace a dataset that is already in the folder.

    Returns:
        The folder.

    Raises:
        StrobeError: The folder already contains a dataset and `overwrite` is False.

    >>> import tempfile, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     strobe.save_dataset(strobe.example_dataset(), f"{tmp}/data").name
    'data'
    """
    from strobe.store.dataset_folder import write

    return write(dataset, Path(path), overwrite=overwrite)


def example_dataset(*, n_videos: int = 8, k: int = 3, seed: int = 0) -> Dataset:
    """Make a small dataset of two classes without images, to try the other functions on.

    Args:
        n_videos: Number of videos. Each has one set.
        k: Frames before and after the anchor of a set.
        seed: Seed of the labels.

    Returns:
        A dataset in memory. Every video shows a cat or a dog.

    >>> import strobe
    >>> strobe.example_dataset(n_videos=3, k=1)
    <Dataset example: 3 sets, 9 frames, 3 sources, 2 classes, k = 1>
    """
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
