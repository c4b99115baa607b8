"""Frames of videos, decoded by a GPU's engines; each frame is checked against the build's digest.

The engines return the same planes as FFmpeg. Colour is converted in FFmpeg's arithmetic, and the frame is turned
upright. The digest of a video's first frame shows which colour matrix, range and rotation give the build's pixels. If
the engines do not decode a video to these pixels, the CPU decodes it, and the reason is recorded.
"""

import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.gpu.clip import EncodedClip, NotForTheEngines
from strobe.annexes.gpu.colour import Colour, FrameConversion, conversions, turned
from strobe.annexes.gpu.engine import EngineHangs, Planes, SessionPool, VideoEngine
from strobe.annexes.gpu.frames import PixelDigests, in_stream, memory_of, new_stream, wait_for
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Image
from strobe.core.tables import NO_PTS

_TASK = 192
"""Frames are added to a task until it has this many, because every task must start decoding at a key frame."""

_ON_CPU = 8
"""The number of frames in a task that the CPU decodes."""

_SHARE = 4
"""Frames of all threads that wait for their digests may use one part in this many (1/4) of the device's memory."""

_CLIP_BYTES = 256 << 20
"""The memory limit for packets of videos. A video's packets are read once, and dropped when there are too many."""


class VideosOnDevice:
    """The frames of a dataset built with --reference, decoded on the device (a DeviceSource). Thread-safe.

    At most `sessions` videos are decoded at once. `videos` is the source on the CPU, which reads the videos that the
    engines cannot decode. `handed_over` lists these videos with the reasons.
    """

    def __init__(
        self,
        dataset: Dataset,
        videos: FrameSource,
        engine: VideoEngine,
        *,
        path: Callable[[int], Path],
        device: str,
        sessions: int,
    ) -> None:
        self._dataset, self._videos, self._engine, self._path = dataset, videos, engine, path
        self._digests = PixelDigests(device)
        self.threads = 3 * sessions
        self._room = memory_of(device) // _SHARE // self.threads
        self._pool = SessionPool(engine, most=sessions, streams=lambda: new_stream(device))
        self._clips: OrderedDict[int, EncodedClip] = OrderedDict()
        self._guard = threading.Lock()
        self._conversions: dict[int, FrameConversion] = {}
        self.handed_over: dict[int, str] = {}

    def open_ahead(self) -> None:
        """Open the sessions for the first video, before its frames are needed."""
        with suppress(NotForTheEngines):
            self._pool.open_ahead(self._clip(0))

    def read(self, row: int) -> Image:
        """Return the frame, decoded by the CPU."""
        return self._videos.read(row)

    def read_encoded(self, row: int) -> bytes | None:
        """Return None, because the frame is not a file of its own."""
        return self._videos.read_encoded(row)

    def close(self) -> None:
        """End the sessions and free the packets."""
        self._pool.close()
        self._digests.close()
        self._clips.clear()

    def tasks(self, rows: Sequence[int]) -> Iterator[list[int]]:
        """Yield the rows in the groups in which they are decoded; frames after the same key frame stay together."""
        for video, some in self._by_video(rows):
            try:
                clip = self._clip(video)
                starts = [clip.start(place) for place in clip.places(self._pts(some))]
            except NotForTheEngines as error:
                self.handed_over.setdefault(video, str(error))
                yield from (some[begin : begin + _ON_CPU] for begin in range(0, len(some), _ON_CPU))
                continue
            begin = 0
            for n in range(1, len(some)):
                if starts[n] != starts[n - 1] and n - begin >= _TASK:
                    yield some[begin:n]
                    begin = n
            yield some[begin:]

    def batches(self, rows: Sequence[int]) -> Iterator[tuple[list[int], Any]]:
        """Yield rows with their frames (N, height, width, 3) on the device, in the current stream of the thread.

        Frames are None if the CPU must read their rows. When the iterator ends, all work in its streams is done.
        """
        for video, some in self._by_video(rows):
            yield from self._of_video(video, some)

    def _by_video(self, rows: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        videos = self._dataset.frames.video[np.asarray(rows)].tolist()
        for video, some in groupby(zip(rows, videos, strict=True), key=lambda one: one[1]):
            yield video, [row for row, _ in some]

    def _of_video(self, video: int, rows: list[int]) -> Iterator[tuple[list[int], Any]]:
        left = dict.fromkeys(rows)
        for attempt in range(2):  # a session that hangs is replaced once
            if video in self.handed_over or not left:
                break
            try:
                for some, frames in self._decoded(video, list(left)):
                    for row in some:
                        del left[row]
                    yield some, frames
            except EngineHangs as error:
                if attempt:
                    self.handed_over.setdefault(video, str(error))
            except Exception as error:  # whatever failed on the device, the CPU decodes instead
                why = str(error) if isinstance(error, NotForTheEngines) else printable(error, limit=120)
                self.handed_over.setdefault(video, why)
        if left:
            yield list(left), None

    def _decoded(self, video: int, rows: list[int]) -> Iterator[tuple[list[int], Any]]:
        """Yield the frames whose pixels equal the build's pixels."""
        clip = self._clip(video)
        by_place = dict(zip(clip.places(self._pts(rows)), rows, strict=True))
        pending: deque[tuple[list[int], Any, Future[list[str]]]] = deque()
        with self._pool.lent(clip) as (session, stream), in_stream(stream):
            for part in clip.parts(sorted(by_place)):
                shown = part.first
                for data in (*part.calls, b""):
                    planes = session.decode(data)
                    here = [n for n in range(len(planes)) if shown + n <= part.last and shown + n in by_place]
                    if here:
                        pending.append(self._made(video, clip, planes, here, [by_place.pop(shown + n) for n in here]))
                    shown += len(planes)
                    while len(pending) > self._depth(pending):
                        yield from self._checked(video, *pending.popleft())
                if shown - part.first != part.n_packets:
                    raise NotForTheEngines(f"{part.n_packets} packets gave {shown - part.first} frames")
        with in_stream(stream):
            while pending:
                yield from self._checked(video, *pending.popleft())
            wait_for(stream)

    def _depth(self, pending: "deque[tuple[list[int], Any, Future[list[str]]]]") -> int:
        """Return how many batches of a task may wait for their digests while the next batch is decoded."""
        largest = max(frames.nbytes for _, frames, _ in pending) if pending else 1
        return max(1, self._room // largest)

    def _made(
        self, video: int, clip: EncodedClip, planes: Planes, here: list[int], rows: list[int]
    ) -> tuple[list[int], Any, Future[list[str]]]:
        if video not in self._conversions:
            self._conversions[video] = self._conversion(clip, planes, here[0], rows[0])
        conversion = self._conversions[video]
        frames = turned(planes.rgb(here, conversion.colour), conversion)
        return rows, frames, self._digests.of(frames)

    def _conversion(self, clip: EncodedClip, planes: Planes, place: int, row: int) -> FrameConversion:
        """Return the conversion that gives this frame the build's digest."""
        frames = self._dataset.frames
        found = list(conversions(clip.size_wh, (int(frames.width[row]), int(frames.height[row]))))
        if not found:
            raise NotForTheEngines("its pixels are not square")
        known = list(self._conversions.values())  # most videos are like the last one
        found.sort(key=lambda conversion: conversion not in known[-1:])
        plain: dict[Colour, Any] = {}
        for conversion in found:
            if conversion.colour not in plain:
                plain[conversion.colour] = planes.rgb([place], conversion.colour)
            pixels = turned(plain[conversion.colour], conversion).cpu().numpy()
            if hashlib.sha256(pixels.data).hexdigest() == str(frames.sha256[row]):
                return conversion
        raise NotForTheEngines("the GPU's engines and the build give different pixels")

    def _checked(
        self, video: int, rows: list[int], frames: Any, digests: "Future[list[str]]"
    ) -> Iterator[tuple[list[int], Any]]:
        expected = self._dataset.frames.sha256
        good = [n for n, digest in enumerate(digests.result()) if digest == str(expected[rows[n]])]
        if len(good) == len(rows):
            yield rows, frames
            return
        self.handed_over.setdefault(video, "the GPU's engines and the build give different pixels")
        if good:
            yield [rows[n] for n in good], frames[good]

    def _pts(self, rows: list[int]) -> NDArray[np.int64]:
        frames = self._dataset.frames
        pts = frames.pts[rows].astype(np.int64)
        if (pts == NO_PTS).any() or (frames.sha256[rows] == "").any():
            raise NotForTheEngines("the dataset lacks the time or the digest of a frame")
        return pts

    def _clip(self, video: int) -> EncodedClip:
        with self._guard:
            if video in self.handed_over:
                raise NotForTheEngines(self.handed_over[video])
            if video in self._clips:
                self._clips.move_to_end(video)
                return self._clips[video]
            try:
                path = self._path(video)
            except StrobeError as error:  # the video is missing; the CPU's source reports this for each frame
                raise NotForTheEngines(str(error)) from error
            self._clips[video] = clip = self._engine.open(path)
            held = sum(one.n_bytes for one in self._clips.values())
            while held > _CLIP_BYTES and len(self._clips) > 1:
                held -= self._clips.popitem(last=False)[1].n_bytes
            return clip
