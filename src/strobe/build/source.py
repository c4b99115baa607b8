"""Frames that stay in their videos: decoded when a model asks for them, checked against the hash of the build."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from strobe.build.decode import DecodedFrame, Reader
from strobe.build.index import Limits
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.ports import Image

__all__ = ["VideoSource"]

_CACHE_BYTES = 512 * 2**20
_OPEN_VIDEOS = 4


class VideoSource:
    """The frames of a dataset built with --reference, by row. Safe to use from several threads.

    Reading rows in order decodes every stretch once; frames passed on the way to the one asked for are kept for a
    while, for threads that run a little ahead or behind. A frame whose pixels are not those of the build is an error.
    """

    def __init__(self, dataset: Dataset, *, limits: Limits | None = None, cache_bytes: int = _CACHE_BYTES) -> None:
        self._dataset = dataset
        self._limits = limits or Limits()
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._cache: OrderedDict[int, Image] = OrderedDict()
        self._held = 0
        self._open: OrderedDict[int, _OpenVideo] = OrderedDict()
        self._row_of = {
            (int(video), int(index)): row
            for row, (video, index) in enumerate(zip(dataset.frames.video, dataset.frames.index, strict=True))
        }
        order = np.lexsort((dataset.frames.index, dataset.frames.video))
        self._wanted: dict[int, list[int]] = {}
        for row in order:
            self._wanted.setdefault(int(dataset.frames.video[row]), []).append(int(dataset.frames.index[row]))

    def read(self, row: int) -> Image:
        """The decoded frame; raises StrobeError where the video is gone, damaged or not the one it was."""
        with self._lock:
            image = self._cache.get(row)
            if image is None:
                image = self._decode(row)
        digest = str(self._dataset.frames.sha256[row])
        if digest and hashlib.sha256(image.tobytes()).hexdigest() != digest:
            raise StrobeError(
                f"frame {printable(self._dataset.frames.key[row])}: its pixels are not those of the build; "
                "the video or the decoder (PyAV, FFmpeg) has changed: build the dataset again"
            )
        return image

    def read_encoded(self, row: int) -> bytes | None:  # noqa: ARG002 (the port's signature)
        """None: the frame is not a file of its own."""
        return None

    def close(self) -> None:
        """Close the videos and let the kept frames go."""
        with self._lock:
            for video in self._open.values():
                video.reader.close()
            self._open.clear()
            self._cache.clear()
            self._held = 0

    def _decode(self, row: int) -> Image:
        video, index = int(self._dataset.frames.video[row]), int(self._dataset.frames.index[row])
        opened = self._opened(video)
        for frame in opened.until(index):
            self._keep(self._row_of[video, frame.index], frame.image)
            if frame.index == index:
                return frame.image
        raise InvalidFile(opened.reader.index.path, "the frame is damaged", where=f"frame {index}")

    def _opened(self, video: int) -> "_OpenVideo":
        if video in self._open:
            self._open.move_to_end(video)
            return self._open[video]
        path = Path(str(self._dataset.videos.path[video]))
        if not path.is_absolute() and self._dataset.root is not None:
            path = self._dataset.root / path
        if not path.is_file():
            raise StrobeError(
                f"the video {printable(path)} is not there; {printable(self._dataset.name)} keeps its frames in it "
                "(built with --reference): put it back, or build without --reference"
            )
        reader = Reader.open(path, self._limits)
        n_frames = int(self._dataset.videos.n_frames[video])
        if 0 <= n_frames != len(reader.index):
            # The build found that packets and frames do not match; so must we.
            reader.close()
            reader = Reader.open(path, self._limits, by_decoding=True)
        if len(reader.index) <= self._wanted[video][-1]:
            reader.close()
            raise InvalidFile(
                path, f"has {len(reader.index)} frames, the build saw {n_frames}", hint="build the dataset again"
            )
        while len(self._open) >= _OPEN_VIDEOS:
            self._open.popitem(last=False)[1].reader.close()
        self._open[video] = _OpenVideo(reader, self._wanted[video])
        return self._open[video]

    def _keep(self, row: int, image: Image) -> None:
        if row in self._cache:
            return
        self._cache[row] = image
        self._held += image.nbytes
        while self._held > self._cache_bytes and len(self._cache) > 1:
            self._held -= self._cache.popitem(last=False)[1].nbytes


class _OpenVideo:
    """An open video and where its decoder stands among the frames the dataset wants."""

    def __init__(self, reader: Reader, wanted: list[int]) -> None:
        self.reader = reader
        self._wanted = wanted
        self._frames: Iterator[DecodedFrame] | None = None
        self._at = -1

    def until(self, index: int) -> Iterator[DecodedFrame]:
        """Wanted frames up to this one: on from where the decoder stands, or from this frame after a jump."""
        # A jump over more than a few dozen wanted frames is cheaper from a key frame near the target.
        ahead = sum(self._at < place <= index for place in self._wanted)
        if self._frames is None or index <= self._at or ahead > 64:
            self._frames = self.reader.frames([place for place in self._wanted if place >= index])
        for frame in self._frames:
            self._at = frame.index
            yield frame
            if frame.index >= index:
                return
        self._frames = None
