"""Open a dataset folder once: read and check it, pass it from step to step of a command, and read its frames.

Frames are stored images, parts of videos, or images rendered from either.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.derivation import reviewed, with_names
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import reading
from strobe.core.ports import FrameSource, Image
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.store.run_folder import Run, Subset

ALL = Path("all")
"""Pass this value instead of a subset file to select every video, even if the run was scored on a subset."""


def kept(dataset: Dataset) -> Dataset:
    """Return the sets that review kept, or all of them if nobody voted."""
    return reviewed(dataset) if dataset.info.reviewed == "votes" and dataset.verdicts else dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A dataset folder in memory: every candidate, and the part of it that is scored.

    `subset` is the requested part of the videos, or the part that the run was scored on. None means all videos.
    """

    path: Path
    candidates: Dataset
    dataset: Dataset
    subset: Subset | None = None

    @classmethod
    def of(
        cls, path: Path, *, subset: Path | None = None, reviewed_only: bool = True, run: Run | None = None
    ) -> "Opened":
        """Open a folder. The scored sets are those of the videos in the subset file.

        Sets that people named have these names as labels. If there are votes, only sets that review kept are scored.
        Without a file, the subset of `run` is used. `ALL` instead of a file selects every video.
        """
        candidates = folder.read(path)
        candidates = dataset = with_names(candidates) if candidates.names else candidates
        if subset is not None:
            part = _read_subset(subset, candidates)
        else:
            part = _remembered(run, candidates) if run is not None and run.exists else None
        if reviewed_only:
            dataset = kept(dataset)
        if part is not None:
            dataset = dataset.only_videos(part.videos)
        return cls(path=path, candidates=candidates, dataset=dataset, subset=part)

    @classmethod
    def of_run(cls, run: Run, *, moved_to: Path | None = None, subset: Path | None = None) -> "Opened":
        """Open the dataset of a run, at the path in run.json or at its new path.

        Check that it has the run's frames. Without a `subset`, the part that the run was scored on is used.
        """
        path = moved_to or run.dataset_path
        if moved_to is None and not folder.is_dataset(path):
            raise StrobeError(
                f"the dataset of {printable(run.path)} is no longer at {printable(path)}; pass its new path with "
                "<<dataset>>"
            )
        opened = cls.of(path, subset=subset, run=run)
        if not run.is_on(opened.candidates):
            raise StrobeError(
                f"{printable(run.path)} has predictions, but not for the frames in {printable(path)}; pass the "
                "right dataset with <<dataset>>, or predict again into another folder"
            )
        return opened


def _remembered(run: Run, candidates: Dataset) -> Subset | None:
    """Return the subset that the run was scored on, checked against the dataset."""
    if not run.is_on(candidates):  # another check raises an error for this case
        return None
    subset = run.subset()
    gone = set() if subset is None else set(subset.videos) - set(candidates.videos.video_id)
    if subset is not None and gone:
        are = "is" if len(gone) == 1 else "are"
        raise StrobeError(
            f"{printable(run.path)}: {len(gone)} of the {len(subset.videos)} videos of the subset "
            f"{printable(subset.name)} {are} not in {printable(candidates.name)}; use <<subset=FILE>>, or "
            "<<subset=all>> for every set"
        )
    return subset


def _read_subset(path: Path, candidates: Dataset) -> Subset | None:
    """Return the videos that a text file names, or None for `ALL`."""
    if path == ALL:
        return None
    with reading(path, hint="pass a text file with one video name per line"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise InvalidFile(path, "it has no video names", hint="write one name per line")
    return Subset(name=path.name, videos=tuple(candidates.ids_of_videos(names)))


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
            f"{dataset.name} has no images (imported with <<no_media>>?); "
            "import it with its images, or score predictions made elsewhere with -m preds:FILE"
        )
    source = _pictures(dataset, all_stored=bool(stored.all()), any_stored=bool(stored.any()))
    if not bool((dataset.frames.recipe != "").any()):
        return source
    from strobe.vary.rendering import with_rendered_frames

    return with_rendered_frames(source, dataset)


def _pictures(dataset: Dataset, *, all_stored: bool, any_stored: bool) -> FrameSource:
    """Return the source of the stored images, before any rendering."""
    if all_stored:
        return MediaSource(dataset)
    from strobe.build.source import VideoSource

    return _Mixed(dataset, MediaSource(dataset), VideoSource(dataset)) if any_stored else VideoSource(dataset)
