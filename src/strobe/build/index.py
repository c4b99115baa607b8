"""The exact index of a video: its frames in presentation order, and where decoding can start.

Reading the packets is enough if their timestamps are reliable (mp4, mov, mkv, webm, flv, ts with common codecs).
Otherwise, or if anything looks irregular, the video is decoded once from its start. This is slower, but still exact.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.build.options import Limits
from strobe.build.webp import AnimatedWebP, canvas_of, is_webp
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.late import require
from strobe.core.readings import read_as
from strobe.core.tables import NO_PTS

_SEEKABLE = ("mov", "matroska", "webm", "flv", "mpegts")
"""Demuxers whose packet timestamps give the presentation order and whose seeks can be verified."""

_SEQUENTIAL = (
    "avi", "mpeg", "mpegvideo", "m4v", "h264", "hevc", "mjpeg", "ivf", "obu", "av1", "ogg", "asf", "mxf", "nut", "dv",
    "yuv4mpegpipe", "gif",
)  # fmt: skip
"""Demuxers whose files are decoded from the start: timestamps are missing or wrong, or seeking gives wrong pixels."""

_RAW = ("h264", "hevc", "m4v", "mjpeg", "mpegvideo", "obu")
"""Demuxers of streams without a container. They invent timestamps at 25 frames per second."""

_AUDIO = ("wav", "mp3", "flac", "aac")
"""Audio formats. They are opened only to report that the file has sound and no image."""

_ONE_FRAME_PER_PACKET = ("h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg", "mpeg2video", "prores", "ffv1", "dnxhd")
"""Codecs in which each packet shows one frame. VP8 is excluded: its alternate reference packets show none."""

_PLAYLISTS = (b"#EXTM3U", b"ffconcat", b"[playlist]", b"<?xml", b"<MPD", b"<smil", b"<asx", b"v=0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A packet at which decoding can start: its timestamps and its frame's position in presentation order."""

    pts: int
    dts: int | None
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoIndex:
    """Every displayed frame of a video, in presentation order.

    `pts` (N,) is NO_PTS where the container gives no timestamp. `keys` holds the packets at which decoding can start,
    in order of position. It is empty if the video must be decoded from its start. `notes` describe irregularities, one
    line each.
    """

    path: Path
    container: str
    codec: str
    time_base: Fraction
    fps: Fraction | None
    size_wh: tuple[int, int]
    pts: NDArray[np.int64]
    keys: tuple[Key, ...]
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def seekable(self) -> bool:
        """Whether any frame can be reached without decoding from the start."""
        return bool(self.keys)

    def time_s(self, place: int) -> Fraction | None:
        """Return the exact time of a frame, with the first frame at 0; None if the container gives no times."""
        pts, first = int(self.pts[place]), int(self.pts[0])
        return None if NO_PTS in (pts, first) else (pts - first) * self.time_base

    def times_s(self) -> NDArray[np.float64]:
        """Return the times of all frames in seconds, NaN where unknown."""
        known = self.pts != NO_PTS
        if not known.any() or not known[0]:
            return np.full(len(self), np.nan)
        seconds = (self.pts - self.pts[0]).astype(np.float64) * float(self.time_base)
        return np.where(known, seconds, np.nan)


def open_video(path: Path, limits: Limits) -> tuple[Any, Any]:
    """Open the container and its video stream: local files only, no playlists, one slice thread.

    Raises InvalidFile with one line for any file that is not a readable video.
    """
    av = require("av", what="reading video", extra="video")
    if is_webp(head := _head_of(path)):
        check_size(path, *canvas_of(path, head), limits)
        animation = AnimatedWebP(path)
        return animation, animation.stream
    allowed = ",".join((*_SEEKABLE, "mp4", *_SEQUENTIAL, *_AUDIO))
    options = {"protocol_whitelist": "file", "format_whitelist": allowed}
    # Without this setting, PyAV 18 fails on a title that is not UTF-8. PyAV 19 never fails and has no such setting.
    lenient = {"metadata_errors": "replace"} if hasattr(av.container.InputContainer, "metadata_errors") else {}
    try:
        # The path is absolute, so that no part of the name can be parsed as a protocol.
        container = av.open(str(path.absolute()), options=options, **lenient)
    except av.error.FFmpegError as error:
        raise InvalidFile(
            path, f"not a video that can be read ({_reason(error)})", hint=_playlist_hint(path)
        ) from error
    try:
        stream = _video_stream(path, container)
        context = stream.codec_context
        check_size(path, context.width, context.height, limits)
        if stream.duration and stream.time_base and float(stream.duration * stream.time_base) > 1e9:
            raise InvalidFile(path, "claims to last for more than 30 years", hint="the header is damaged")
        # Automatic threading can deadlock when decoding stops early, and makes a truncated file's last frame vary.
        context.thread_type = "SLICE"
        context.thread_count = 1
    except BaseException:
        container.close()
        raise
    return container, stream


def _head_of(path: Path) -> bytes:
    """Return a file's first bytes. Raises InvalidFile if they clearly do not belong to a video."""
    if path.is_dir():
        raise InvalidFile(path, "is a folder, not a video", hint=f"give its files: {printable(path)}/*.mp4")
    if not path.exists():
        hint = "; strobe reads local files only" if "://" in str(path) or ":/" in str(path) else ""
        raise StrobeError(f"no such video: {printable(path)}{hint}")
    if not path.is_file():
        raise InvalidFile(path, "is not a regular file", hint="copy the video to a file first")
    try:
        with path.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise StrobeError(f"cannot read {printable(path)}: {error.strerror}") from error
    if not head:
        raise InvalidFile(path, "is empty (0 bytes)", hint="is the download complete?")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_PLAYLISTS):
        raise InvalidFile(
            path, "is a playlist, not a video", hint="strobe reads local video files only; give the files it lists"
        )
    return head


def _playlist_hint(path: Path) -> str:
    photos = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
    return "for photos use strobe simulate" if path.suffix.lower() in photos else "is it complete, and is it a video?"


def _reason(error: Exception) -> str:
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def _video_stream(path: Path, container: Any) -> Any:
    pictures = [stream for stream in container.streams.video if not _is_cover(stream)]
    if not pictures:
        what = "has sound but no image" if container.streams.audio else "has no video stream"
        raise InvalidFile(path, what, hint="give a file with a video track")
    stream = pictures[0]
    if stream.codec_context is None:
        raise InvalidFile(
            path, "uses a codec that this FFmpeg cannot decode", hint="re-encode it, for example to H.264"
        )
    return stream


def _is_cover(stream: Any) -> bool:
    """Return whether the stream is one attached image (an album cover)."""
    disposition = stream.disposition
    return bool(disposition & type(disposition).attached_pic)


def check_size(path: Path, width: int, height: int, limits: Limits) -> None:
    """Raise InvalidFile if a frame exceeds the limits."""
    if max(width, height) > limits.max_side:
        problem = f"frames of {width}×{height} pixels; the limit is {limits.max_side} pixels a side"
        raise InvalidFile(path, problem, hint="raise it with <<max_side>>, or scale the video down")
    if width * height > limits.max_pixels:
        problem = f"frames of {width}×{height} pixels; the limit is {limits.max_pixels} pixels a frame"
        raise InvalidFile(path, problem, hint="raise it with <<max_pixels>>, or scale the video down")


def read_index(path: Path, limits: Limits | None = None, *, by_decoding: bool = False) -> VideoIndex:
    """Return the exact index of a video, from its packets if they are reliable, else by decoding it once.

    `by_decoding` always decodes. Use it if the packets turned out to be wrong.
    """
    index, container, _ = open_indexed(path, limits or Limits(), by_decoding=by_decoding)
    container.close()
    return index


def open_indexed(path: Path, limits: Limits, *, by_decoding: bool = False) -> tuple[VideoIndex, Any, Any]:
    """Return the index with its container and stream, still open and read to the end."""
    container, stream = open_video(path, limits)
    try:
        pts: NDArray[np.int64] | None = None
        keys: tuple[Key, ...] = ()
        why = "its packets do not match its frames"
        if not by_decoding:
            pts, keys, why = _from_packets(path, container, stream, limits)
        declared = int(stream.frames or 0)
        notes = []
        if pts is None:
            notes.append(f"decoded from the start: {why}")
            container.close()
            container, stream = open_video(path, limits)
            pts, faults = _from_frames(path, container, stream, limits)
            notes += faults
        if len(pts) == 0:
            hint = f"the codec is {printable(stream.codec_context.name)}; re-encode it, for example to H.264"
            raise InvalidFile(path, "has no frame that FFmpeg can decode", hint=hint)
        if len(pts) == 1 < declared and container.format.name == "gif":
            hint = "give each image a delay, for example with gifsicle --delay=10"
            raise InvalidFile(path, f"has {declared} images without delays, of which FFmpeg shows one", hint=hint)
        if declared and declared != len(pts):
            notes.append(f"the header gives {declared} frames, but the file has {len(pts)}")
        elif not declared:
            notes += _ends_early(container, Fraction(stream.time_base or 0), pts)
        if len(keys) == 1 and len(pts) > 250:
            notes.append("the whole video has one key frame, so every read decodes from the start")
        _check_duration(path, pts, Fraction(stream.time_base or 0), limits)
        context = stream.codec_context
        if container.format.name in _RAW:
            pts = np.full(len(pts), NO_PTS, dtype=np.int64)
            # MPEG-4 Part 2 states the resolution of its times only, which FFmpeg gives as the rate.
            fps = None if context.name == "mpeg4" else Fraction(context.framerate or 0) or None
            rate = f"{float(fps):.4g} frames per second" if fps else "unknown"
            why = "its codec states it" if fps else "its codec does not state it"
            odd = [read_as("frame rate", rate, f"the file is a raw stream, and {why}")]
        else:
            fps, odd = _fps(stream, pts)
        notes += odd
        index = VideoIndex(
            path=path,
            container=container.format.name,
            codec=context.name,
            time_base=Fraction(stream.time_base or 0),
            fps=fps,
            size_wh=(context.width, context.height),
            pts=pts,
            keys=keys,
            notes=tuple(notes),
        )
    except BaseException:
        container.close()
        raise
    return index, container, stream


def _check_duration(path: Path, pts: NDArray[np.int64], time_base: Fraction, limits: Limits) -> None:
    known = pts[pts != NO_PTS]
    seconds = float(int(known[-1] - known[0]) * time_base) if len(known) else 0.0
    if seconds > limits.max_duration_s:
        problem = f"lasts {seconds:.0f} s; the limit is {limits.max_duration_s:.0f} s"
        raise InvalidFile(path, problem, hint="raise it with <<max_duration>>, or cut the video")


def _ends_early(container: Any, time_base: Fraction, pts: NDArray[np.int64]) -> list[str]:
    """Return a note if a Matroska file, which can end early without an error, is shorter than its header states."""
    known = pts[pts != NO_PTS]
    # Sound may be longer than the video.
    if (
        "matroska" not in container.format.name
        or len(container.streams) > 1
        or not container.duration
        or not len(known)
    ):
        return []
    said, seconds = container.duration / 1_000_000, float(int(known[-1] - known[0]) * time_base)
    early = said - seconds > max(0.5, 0.1 * said)
    return [f"the header gives {said:.3g} s, but its frames end after {seconds:.3g} s"] if early else []


def _fps(stream: Any, pts: NDArray[np.int64]) -> tuple[Fraction | None, list[str]]:
    """Return the header's frame rate or, if the timestamps contradict it, the timestamps' frame rate and a note."""
    known = pts[pts != NO_PTS]
    header_fps = Fraction(stream.average_rate or stream.guessed_rate or 0)
    seconds = int(known[-1] - known[0]) * Fraction(stream.time_base or 0) if len(known) else Fraction(0)
    if seconds <= 0 or (header_fps and len(known) < len(pts)):
        return header_fps or None, []
    seen = (len(known) - 1) / seconds
    # A tolerance of one frame plus one percent, because timestamps are rounded and a few dropped frames do not
    # change the rate.
    if header_fps and (
        abs(seconds - (len(known) - 1) / header_fps) <= 1 / header_fps or abs(seen / header_fps - 1) <= Fraction(1, 100)
    ):
        return header_fps, []
    rates = f"its timestamps give it, its header {float(header_fps):.4g}"
    return seen, [read_as("frame rate", f"{float(seen):.4g} frames per second", rates)] if header_fps else []


def _too_many(path: Path, limits: Limits) -> InvalidFile:
    problem = f"has more than {limits.max_frames} frames"
    return InvalidFile(path, problem, hint="raise the limit with <<max_frames>>, or cut the video")


def _from_packets(
    path: Path, container: Any, stream: Any, limits: Limits
) -> tuple[NDArray[np.int64] | None, tuple[Key, ...], str]:
    """Return the presentation order by packet timestamps, or None and the reason why they are not reliable."""
    import av

    names = container.format.name.split(",")
    codec = stream.codec_context.name
    # Some decoders are listed under the name of their library.
    codec = {"libdav1d": "av1", "libaom-av1": "av1", "libvpx-vp9": "vp9"}.get(codec, codec)
    if not any(name in _SEEKABLE for name in names):
        return None, (), f"{names[0]} files do not record the order of their frames"
    if codec not in _ONE_FRAME_PER_PACKET:
        return None, (), f"{codec} packets do not record how many frames they show"
    shown: list[int] = []
    keys: list[tuple[int, int | None]] = []
    begun = False
    try:
        for packet in container.demux(stream):
            if packet.size == 0 and packet.dts is None:
                continue  # the flush packet at the end
            if not begun and not packet.is_keyframe:
                return None, (), "it does not begin with a key frame"
            begun = True
            if packet.is_corrupt:
                return None, (), "it has damaged packets"
            if packet.is_discard:
                continue  # an edit list removed the frame, so it is decoded but never shown
            if packet.pts is None:
                return None, (), "it has packets without a timestamp"
            shown.append(packet.pts)
            if packet.is_keyframe:
                keys.append((packet.pts, packet.dts))
            if len(shown) > limits.max_frames:
                raise _too_many(path, limits)
    except av.error.FFmpegError as error:
        return None, (), f"it is truncated ({_reason(error)})"
    pts = np.array(sorted(shown), dtype=np.int64)
    if len(pts) == 0:
        return None, (), "it has no packets"
    if (np.diff(pts) == 0).any():
        return None, (), "two frames have the same timestamp"
    places = np.searchsorted(pts, [key[0] for key in keys])
    found = (Key(pts=p, dts=d, place=int(place)) for (p, d), place in zip(keys, places, strict=True))
    # If the first frame precedes the first key frame (leading images), it can only be reached from the start.
    return pts, tuple(sorted(found, key=lambda key: key.place)), ""


def decode_all(container: Any, stream: Any, faults: list[str]) -> Iterator[Any]:
    """Yield frames from the decoder, from the container's position to its end.

    A packet that cannot be decoded is skipped, and a truncated file ends at the cut. `faults` records both cases.
    """
    import av

    # In a transport stream the flag marks a gap between packets (two joined recordings), but the data may be intact.
    flags_mean_damage = container.format.name != "mpegts"
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except av.error.FFmpegError as error:
            faults.append(f"the file is truncated ({_reason(error)})")
            packet = None
        if packet is not None and packet.is_corrupt and flags_mean_damage:
            # A truncated packet at the end of an avi file decodes to a frame that looks intact but is not.
            faults.append("a packet is damaged")
            continue
        try:
            # Passing None drains the decoder. Its pending frames are intact.
            frames = stream.codec_context.decode(None) if packet is None else packet.decode()
        except av.error.EOFError:
            return
        except av.error.FFmpegError as error:
            if packet is None:
                return
            faults.append(f"a packet cannot be decoded ({_reason(error)})")
            continue
        yield from frames
        if packet is None:
            return


def _from_frames(path: Path, container: Any, stream: Any, limits: Limits) -> tuple[NDArray[np.int64], list[str]]:
    """Return the presentation order by decoding everything. Frames flagged corrupt are excluded."""
    pts: list[int] = []
    faults: list[str] = []
    corrupt = 0
    for frame in decode_all(container, stream, faults):
        if frame.is_corrupt:
            corrupt += 1
            continue
        check_size(path, frame.width, frame.height, limits)
        pts.append(NO_PTS if frame.pts is None else frame.pts)
        if len(pts) > limits.max_frames:
            raise _too_many(path, limits)
    notes = [text if times == 1 else f"{text}, {times} times" for text, times in Counter(faults).items()]
    if corrupt:
        notes.append(f"{corrupt} damaged frame(s) left out")
    return _in_order(np.array(pts, dtype=np.int64), notes), notes


def _in_order(pts: NDArray[np.int64], notes: list[str]) -> NDArray[np.int64]:
    """Return timestamps in ascending order.

    In AVI files, timestamps are in coding order; sorting them gives the display times.
    """
    if (np.diff(pts) > 0).all():
        return pts
    ordered = np.sort(pts)
    if ordered[0] != NO_PTS and (np.diff(ordered) > 0).all():
        notes.append("its timestamps are in coding order, so they were sorted")
        return ordered
    notes.append("its timestamps are missing or repeat, so they were dropped")
    return np.full(len(pts), NO_PTS, dtype=np.int64)
