"""Where a dataset's frames come from: stored images, or the videos they are kept in."""

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import FrameSource
from strobe.datasets.media import MediaSource, has_media

__all__ = ["frame_source"]


def frame_source(dataset: Dataset) -> FrameSource:
    """The source of the dataset's frames; one line where the dataset was imported without media."""
    if has_media(dataset):
        return MediaSource(dataset)
    used = np.unique(dataset.frames.video[np.unique(dataset.sets.frame)])
    if bool((dataset.videos.path[used] != "").all()):
        from strobe.build.source import VideoSource

        return VideoSource(dataset)
    raise StrobeError(
        f"{dataset.name} has no images (imported with --no-media?); bring them, or score predictions with -m preds:FILE"
    )
