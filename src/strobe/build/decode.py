"""Read frames by position in presentation order. Only the needed segment is decoded, and the pixels are exact.

The result of every seek is verified. Decoding starts at the last key packet at or before the first wanted frame, and
every decoded frame must be the next frame of the index. Otherwise decoding restarts one key packet earlier, and as a
last resort at the start of the file.
"""

import bisect
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from strobe.build.index import Key, VideoIndex, check_size, decode_all, open_indexed, open_video
from strobe.build.options import Limits
from strobe.core.errors import expect
from strobe.core.ports import Image
from strobe.core.readings import read_as
from strobe.core.records import PictType
from strobe.core.tables import NO_PTS

_WORTH_A_SEEK = 8
"""A gap shorter than this is decoded instead of skipped, because a seek costs about as much."""

_PICT_TYPES: dict[int, PictType] = {1: "I", 2: "P", 3: "B", 5: "I", 6: "P", 7: "B"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedFrame:
    """One frame: its position in presentation order, its exact time and its pixels, upright and with square pixels."""

    index: int
    pts: int | None
    time_s: Fraction | None
    pict_type: PictType
    image: Image


class Reader:
    """Reads frames of one video through one open container. Not thread-safe.

    `decoded` counts frames from the decoder. `missing` holds wanted positions that no attempt could decode (damaged).
    `mistrusted` becomes True if frames appear that the index does not have. The caller must then index by decoding and
    start again. `readings` state how the shape of the frames was read.
    """

    def __init__(
        self, index: VideoIndex, limits: Limits | None = None, *, opened: tuple[Any, Any] | None = None
    ) -> None:
        """`opened` is a container that is already open, with its stream. Without it, the file is opened."""
        self.index = index
        self.decoded = 0
        self.missing: set[int] = set()
        self.readings: dict[str, None] = {}
        self.mistrusted = False
        self._limits = limits or Limits()
        self._container, self._stream = opened or open_video(index.path, self._limits)
        self._fresh = opened is None
        self._sar = _sample_aspect(self._stream)
        self._key_places = [key.place for key in index.keys]

    @classmethod
    def open(cls, path: Path, limits: Limits | None = None, *, by_decoding: bool = False) -> "Reader":
        """Index a video and return its reader. The file is opened only once, because opening is slow."""
        limits = limits or Limits()
        index, container, stream = open_indexed(path, limits, by_decoding=by_decoding)
        return cls(index, limits, opened=(container, stream))

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def frames(self, wanted: Iterable[int]) -> Iterator[DecodedFrame]:
        """Yield the frames at these positions, in ascending order.

        Damaged frames are skipped and recorded in `missing`.
        """
        todo = sorted(set(wanted))
        if not todo:
            return
        expect(todo[0] >= 0 and todo[-1] < len(self.index), "frame index", f"0–{len(self.index) - 1}", todo)
        if not self.index.seekable:
            yield from self._by_count(todo)
            return
        for run in self._runs(todo):
            yield from self._run(run)

    def _runs(self, todo: list[int]) -> Iterator[list[int]]:
        """Group the wanted positions; a new group begins where seeking to a later key frame saves decoding."""
        run = [todo[0]]
        for place in todo[1:]:
            key = self._key_before(place)
            if key is not None and self._key_places[key] - run[-1] > _WORTH_A_SEEK:
                yield run
                run = []
            run.append(place)
        yield run

    def _key_before(self, place: int) -> int | None:
        found = bisect.bisect_right(self._key_places, place) - 1
        return found if found >= 0 else None

    def _run(self, run: list[int]) -> Iterator[DecodedFrame]:
        """Decode one segment, from progressively earlier starts until every wanted frame has been found."""
        left = run
        for frames in self._starts(run[0]):
            for decoded in self._checked(frames, left):
                left = left[bisect.bisect_right(left, decoded.index) :]
                yield decoded
            if not left:
                return
        for decoded in self._from_start(left):
            left = [place for place in left if place != decoded.index]
            yield decoded
        self.missing.update(left)

    def _starts(self, first: int) -> Iterator[tuple[int, Iterator[Any]]]:
        """Yield starting points before `first`: (position of the first frame, the frames)."""
        near = self._key_before(first)
        if near is None or near == 0:
            return  # this video can only be decoded from the start
        for number in (near, near - 1):
            if number < 1:
                return
            key = self.index.keys[number]
            # Containers differ in the timestamp that a seek uses, so check the packet that was reached.
            for target in dict.fromkeys((key.pts, key.dts)):
                if target is None:
                    continue
                landed = self._seek(target, key)
                if landed is not None:
                    yield landed
                    break

    def _seek(self, target: int, key: Key) -> tuple[int, Iterator[Any]] | None:
        """Seek to this key packet.

        Return the key packet that was reached, which may be an earlier one; None if seeking failed.
        """
        import av

        self._fresh = False
        try:
            self._container.seek(target, stream=self._stream, backward=True)
            packet = next(packet for packet in self._container.demux(self._stream) if not packet.is_discard)
        except (av.error.FFmpegError, StopIteration):
            return None
        if packet.pts is None or packet.pts > key.pts or not packet.is_keyframe:
            return None
        place = int(np.searchsorted(self.index.pts, packet.pts))
        if self.index.pts[place] != packet.pts:
            return None
        return place, self._with_first(packet)

    def _with_first(self, packet: Any) -> Iterator[Any]:
        import av

        try:
            yield from packet.decode()
        except av.error.FFmpegError:
            return
        yield from decode_all(self._container, self._stream, [])

    def _checked(self, start: tuple[int, Iterator[Any]], left: list[int]) -> Iterator[DecodedFrame]:
        """Yield the wanted frames while they follow the index without a gap. Stops at the first mismatch."""
        place, frames = start
        floor, positions = int(self.index.pts[place]), set(left)
        for frame in frames:
            self.decoded += 1
            if frame.pts is None:
                return
            if frame.pts < floor:
                continue  # a leading image, whose references precede the key frame
            if frame.is_corrupt or place >= len(self.index) or frame.pts != int(self.index.pts[place]):
                return
            if place in positions:
                yield self._made(frame, place)
            if place >= left[-1]:
                return
            place += 1

    def _from_start(self, positions: list[int]) -> Iterator[DecodedFrame]:
        """Yield the wanted frames by timestamp, decoding everything from the start, without damaged frames."""
        self._rewind()
        pts = self.index.pts
        left = {int(pts[position]): position for position in positions}
        last = max(left)
        for frame in decode_all(self._container, self._stream, []):
            self.decoded += 1
            if frame.pts is None or frame.is_corrupt:
                continue
            at = int(np.searchsorted(pts, frame.pts))
            if at == len(pts) or pts[at] != frame.pts:
                self.mistrusted = True
            place = left.pop(frame.pts, None)
            if place is not None:
                yield self._made(frame, place)
            if frame.pts >= last:
                return

    def _by_count(self, todo: list[int]) -> Iterator[DecodedFrame]:
        """Yield the wanted frames by counting undamaged frames from the start, as the index did."""
        self._rewind()
        positions, place = set(todo), 0
        for frame in decode_all(self._container, self._stream, []):
            self.decoded += 1
            if frame.is_corrupt:
                continue
            if place in positions:
                positions.discard(place)
                yield self._made(frame, place)
            place += 1
            if place > todo[-1]:
                break
        self.missing.update(positions)

    def _rewind(self) -> None:
        """Rewind by reopening the file, because seeking to the start is not exact in every container."""
        if not self._fresh:
            self._container.close()
            self._container, self._stream = open_video(self.index.path, self._limits)
        self._fresh = False

    def _made(self, frame: Any, place: int) -> DecodedFrame:
        check_size(self.index.path, frame.width, frame.height, self._limits)
        pts = int(self.index.pts[place])
        return DecodedFrame(
            index=place,
            pts=None if pts == NO_PTS else pts,
            time_s=self.index.time_s(place),
            pict_type=_PICT_TYPES.get(int(frame.pict_type), ""),
            image=self._image(frame),
        )

    def _image(self, frame: Any) -> Image:
        image = rgb_of(frame)
        height, width = image.shape[:2]
        size, matrix = square_size(width, height, self._sar), _display_matrix(frame)
        if size != (width, height):
            shape = f"{width}×{height} pixels become {size[0]}×{size[1]}"
            self.readings[read_as("pixel aspect", f"{float(self._sar):.4g}", f"the file states it, so {shape}")] = None
            check_size(self.index.path, *size, self._limits)
            from PIL import Image as Pillow

            image = np.asarray(Pillow.fromarray(image).resize(size, Pillow.Resampling.BICUBIC))
        if matrix is not None and (turned := _turned(matrix)) != (near := 90 * round(turned / 90)):
            told = f"the file states {turned:.3g}°, and strobe turns by multiples of 90° only"
            self.readings[read_as("rotation", f"{near}°", told)] = None
        return upright(image, matrix)


def rgb_of(frame: Any) -> Image:
    """Return the frame's coded pixels as 8-bit RGB, neither rotated nor made square.

    The bytes equal those of PyAV's plain `to_ndarray(format="rgb24")`, on one thread.
    """
    from av.video.reformatter import Interpolation

    how = Interpolation.BILINEAR | Interpolation.BITEXACT
    image: Image = frame.to_ndarray(format="rgb24", interpolation=how, threads=1)
    return image


def square_size(width: int, height: int, sample_aspect: Fraction) -> tuple[int, int]:
    """Return the size with square pixels. The side with fewer pixels is enlarged, so that no pixel is lost.

    >>> square_size(720, 576, Fraction(16, 15)), square_size(720, 480, Fraction(8, 9))
    ((768, 576), (720, 540))
    """
    if sample_aspect >= 1:
        return round(width * sample_aspect), height
    return width, round(height / sample_aspect)


def upright(image: Image, matrix: tuple[int, ...] | None) -> Image:
    """Rotate and mirror the image by its display matrix (a, b, c, d): x' = ax + cy, y' = bx + dy.

    >>> phone = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    >>> upright(phone, (0, 1, -1, 0))[:, :, 0].tolist()
    [[3, 0], [4, 1], [5, 2]]
    """
    if matrix is None:
        return image
    a, b, c, d = matrix
    if abs(b) > abs(a):  # rotated by 90°
        image, flip_x, flip_y = image.transpose(1, 0, 2), c < 0, b < 0
    else:
        flip_x, flip_y = a < 0, d < 0
    image = image[:, ::-1] if flip_x else image
    image = image[::-1] if flip_y else image
    return np.ascontiguousarray(image)


def _turned(matrix: tuple[int, ...]) -> float:
    """Return the clockwise angle of a display matrix in degrees, to a tenth of a degree."""
    return round(math.degrees(math.atan2(matrix[1], matrix[0])), 1)


def _display_matrix(frame: Any) -> tuple[int, ...] | None:
    import av.sidedata.sidedata as found

    # This avoids `frame.side_data`, which creates a reference cycle that keeps the frame and its pixels in memory. A
    # few hundred such objects do not trigger the garbage collector.
    container: Any = found.SideDataContainer
    data = container(frame).get("DISPLAYMATRIX")
    if data is None:
        return None
    values = np.frombuffer(bytes(data), dtype=np.int32)
    return int(values[0]), int(values[1]), int(values[3]), int(values[4])


def _sample_aspect(stream: Any) -> Fraction:
    """Return a pixel's width divided by its height; 1 if the file gives no plausible value."""
    for ratio in (stream.sample_aspect_ratio, stream.codec_context.sample_aspect_ratio):
        if ratio and Fraction(1, 8) <= ratio <= 8:
            return Fraction(ratio)
    return Fraction(1)
