"""The source of a dataset's frames: stored images, the videos that contain them, or images rendered from either."""

import threading

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import FrameSource, Image
from strobe.datasets.media import MediaSource
from strobe.vary.rendering import with_rendered_frames

__all__ = ["LateSource", "NoImages", "frame_source"]


class _Mixed:
    """Reads a frame from its stored image, or from its video if no image is stored."""

    def __init__(self, dataset: Dataset, stored: MediaSource, videos: FrameSource) -> None:
        self._is_stored = dataset.frames.media != ""
        self._stored, self._videos = stored, videos

    def read(self, row: int) -> Image:
        return self._of(row).read(row)

    def read_encoded(self, row: int) -> bytes | None:
        return self._of(row).read_encoded(row)

    def _of(self, row: int) -> FrameSource:
        return self._stored if self._is_stored[row] else self._videos


class LateSource:
    """Access to a dataset's frames. It opens on first use, so a command does not read a million names at its start."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self._lock = dataset, threading.Lock()
        self._found: FrameSource | None = None

    def read(self, row: int) -> Image:
        """Return a frame."""
        return self._source().read(row)

    def read_encoded(self, row: int) -> bytes | None:
        """Return a frame's file, if it has one."""
        return self._source().read_encoded(row)

    def _source(self) -> FrameSource:
        with self._lock:
            self._found = self._found or frame_source(self._dataset)
        return self._found


class NoImages(StrobeError):
    """The dataset was imported without its images. The message explains how to run a model on it."""


def frame_source(dataset: Dataset) -> FrameSource:
    """Return the source of all frames of a dataset, including rendered ones.

    Raise NoImages if it was imported without media.
    """
    used = np.unique(dataset.sets.frame)
    stored = dataset.frames.media[used] != ""
    in_video = dataset.videos.path[dataset.frames.video[used]] != ""
    if not bool((stored | in_video).all()):
        raise NoImages(
            f"{dataset.name} has no images (imported with --no-media?); "
            "import it with its images, or score predictions made elsewhere with -m preds:FILE"
        )
    return with_rendered_frames(
        _pictures(dataset, all_stored=bool(stored.all()), any_stored=bool(stored.any())), dataset
    )


def _pictures(dataset: Dataset, *, all_stored: bool, any_stored: bool) -> FrameSource:
    """Return the source of the stored images, before any rendering."""
    if all_stored:
        return MediaSource(dataset)
    from strobe.build.source import VideoSource

    return _Mixed(dataset, MediaSource(dataset), VideoSource(dataset)) if any_stored else VideoSource(dataset)
