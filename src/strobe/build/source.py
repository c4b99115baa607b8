"""Frames that stay in their videos: decoded on request, and checked against the build's hash."""

import bisect
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from strobe.build.decode import DecodedFrame, Reader
from strobe.build.store import pixel_digest
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import inside
from strobe.core.ports import Image

_CACHE_BYTES = 12 * 2**20
"""The memory limit for cached frames, which is enough for four frames of 1280×720."""

_GIVEN = 4
"""The number of already requested frames that are cached whatever their size, as another thread may want one too."""

_PASSED = 16
"""The number of frames cached before they are requested, whatever their size, to avoid rewinding the decoder later."""

_BEFORE = 8
"""After a jump, the decoder starts this many wanted frames early, because other threads will probably request them."""

_OPEN_VIDEOS = 4


class VideoSource:
    """The frames of a dataset built with --reference, by row. Thread-safe.

    If rows are read in order, every segment is decoded once. If several threads wait, the lowest row is served first.
    Frames that are decoded on the way to it are cached for a while. A frame whose pixels differ from those at build
    time is an error.
    """

    def __init__(self, dataset: Dataset, *, cache_bytes: int = _CACHE_BYTES) -> None:
        self._dataset = dataset
        self._cache_bytes = cache_bytes
        self._turn = threading.Condition()
        self._waiting: list[int] = []  # rows, ascending
        self._decoding = False
        self._passed: OrderedDict[int, Image] = OrderedDict()
        self._given: OrderedDict[int, Image] = OrderedDict()
        self._held = 0
        self._open: OrderedDict[int, _OpenVideo] = OrderedDict()
        # Rows by video and position in it, and the first row of each video.
        self._order = np.lexsort((dataset.frames.index, dataset.frames.video))
        self._begins = np.searchsorted(dataset.frames.video[self._order], np.arange(len(dataset.videos) + 1))

    def read(self, row: int) -> Image:
        """Return the decoded frame. Raises StrobeError if the video is missing, damaged or changed."""
        digest = str(self._dataset.frames.sha256[row])
        if not digest:  # the path may be of any file on this machine, so a digest must show that it is the video
            raise StrobeError(
                f"frame {printable(self._dataset.frames.key[row])}: the dataset has no digest of its pixels, so "
                "strobe does not read its video; build the dataset again"
            )
        image = self._image(row)
        if pixel_digest(image) != digest:
            raise StrobeError(
                f"frame {printable(self._dataset.frames.key[row])}: its pixels differ from those of the build, because "
                "the video or the decoder (PyAV, FFmpeg) has changed; build the dataset again"
            )
        return image

    def read_encoded(self, row: int) -> bytes | None:  # noqa: ARG002 (the port's signature)
        """Return None, because the frame has no file of its own."""
        return None

    def path(self, video: int) -> Path:
        """Return the path of a video. Raises StrobeError if the video is missing or outside the folder."""
        path = Path(str(self._dataset.videos.path[video]))
        if not path.is_absolute() and self._dataset.root is not None:
            path = inside(self._dataset.root, path)
        if not path.is_file():
            raise StrobeError(
                f"the video {printable(path)} is missing, and {printable(self._dataset.name)} reads its frames from it "
                "(it was built with <<reference=True>>); put the video back, or build without <<reference=True>>"
            )
        return path

    def close(self) -> None:
        """Close the videos and free the cached frames."""
        with self._turn:
            self._turn.wait_for(lambda: not self._decoding)
            for video in self._open.values():
                video.reader.close()
            self._open.clear()
            self._passed.clear()
            self._given.clear()
            self._held = 0

    def _image(self, row: int) -> Image:
        """Return the frame from the cache, or decode it when no lower row is waiting."""
        with self._turn:
            bisect.insort(self._waiting, row)
            try:
                self._turn.wait_for(lambda: self._kept(row) or (not self._decoding and self._waiting[0] == row))
            finally:
                self._waiting.remove(row)
                self._turn.notify_all()
            if self._kept(row):
                return self._give(row)
            self._decoding = True
        try:
            return self._decode(row)
        finally:
            with self._turn:
                self._decoding = False
                self._turn.notify_all()

    def _decode(self, row: int) -> Image:
        video, index = int(self._dataset.frames.video[row]), int(self._dataset.frames.index[row])
        opened = self._opened(video)
        for frame in opened.until(index):
            with self._turn:
                self._keep(opened.rows[frame.index], frame.image)
                if frame.index == index:
                    return self._give(row)
        raise InvalidFile(opened.reader.index.path, "the frame is damaged", where=f"frame {index}")

    def _opened(self, video: int) -> "_OpenVideo":
        if video in self._open:
            self._open.move_to_end(video)
            return self._open[video]
        path = self.path(video)
        reader = Reader.open(path)
        n_frames = int(self._dataset.videos.n_frames[video])
        if 0 <= n_frames != len(reader.index):
            # The build found that packets and frames do not match, so this index is made by decoding too.
            reader.close()
            reader = Reader.open(path, by_decoding=True)
        rows = self._order[self._begins[video] : self._begins[video + 1]]
        row_of_index = {int(self._dataset.frames.index[row]): int(row) for row in rows}
        if len(reader.index) <= max(row_of_index):
            reader.close()
            raise InvalidFile(
                path, f"has {len(reader.index)} frames, but the build found {n_frames}", hint="build the dataset again"
            )
        while len(self._open) >= _OPEN_VIDEOS:
            self._open.popitem(last=False)[1].reader.close()
        self._open[video] = _OpenVideo(reader, row_of_index)
        return self._open[video]

    def _kept(self, row: int) -> bool:
        return row in self._passed or row in self._given

    def _keep(self, row: int, image: Image) -> None:
        """Cache a decoded frame, and evict old frames if there are too many."""
        if self._kept(row):
            return
        self._passed[row] = image
        self._held += image.nbytes
        while self._held > self._cache_bytes:
            if len(self._given) > _GIVEN:
                oldest = self._given
            elif len(self._passed) > _PASSED:
                oldest = self._passed
            else:
                return
            self._held -= oldest.popitem(last=False)[1].nbytes

    def _give(self, row: int) -> Image:
        """Return the cached frame, and mark it as requested."""
        image = self._passed.pop(row) if row in self._passed else self._given.pop(row)
        self._given[row] = image
        return image


class _OpenVideo:
    """An open video, and its decoder's position among the frames that the dataset needs."""

    def __init__(self, reader: Reader, rows: dict[int, int]) -> None:
        self.reader = reader
        self.rows = rows
        """Return the dataset's row of each wanted position, in order."""
        self._wanted = list(rows)
        self._frames: Iterator[DecodedFrame] | None = None
        self._at = -1

    def until(self, index: int) -> Iterator[DecodedFrame]:
        """Yield the wanted frames up to and including this frame.

        Decoding starts at the decoder's position or, after a jump, shortly before this frame.
        """
        # To skip more than a few dozen wanted frames, seeking to a key frame near the target is cheaper.
        first = bisect.bisect_left(self._wanted, index)
        ahead = first - bisect.bisect_right(self._wanted, self._at)
        if self._frames is None or index <= self._at or ahead > 64:
            self._frames = self.reader.frames(self._wanted[max(0, first - _BEFORE) :])
        for frame in self._frames:
            self._at = frame.index
            yield frame
            if frame.index >= index:
                return
        self._frames = None
