"""Which frames a video holds, in presentation order, and where decoding can start: the exact index.

A pass over the packets is enough where packets carry true timestamps (mp4, mov, mkv, webm, flv, ts with common
codecs). Everywhere else, and wherever anything looks odd, the video is decoded once from its start instead: slower,
and still exact.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.build.webp import AnimatedWebP, canvas_of, is_webp
from strobe.core.errors import InvalidFile, StrobeError, expect, printable
from strobe.core.late import require
from strobe.core.tables import NO_PTS

__all__ = ["Key", "Limits", "VideoIndex", "check_size", "decode_all", "open_indexed", "open_video", "read_index"]

_SEEKABLE = ("mov", "matroska", "webm", "flv", "mpegts")
"""Demuxers whose packet timestamps are the presentation order and whose seeks can be checked."""

_SEQUENTIAL = (
    "avi", "mpeg", "mpegvideo", "m4v", "h264", "hevc", "mjpeg", "ivf", "obu", "av1", "ogg", "asf", "mxf", "nut", "dv",
    "yuv4mpegpipe", "gif",
)  # fmt: skip
"""Demuxers read from the start: timestamps are missing or wrong, or seeking gives wrong pixels without a flag."""

_AUDIO = ("wav", "mp3", "flac", "aac")
"""Allowed only so that the message can say that the file has sound and no image."""

_ONE_FRAME_PER_PACKET = ("h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg", "mpeg2video", "prores", "ffv1", "dnxhd")
"""Codecs in which each packet shows one frame. VP8 is not here: its alternate reference packets show none."""

_PLAYLISTS = (b"#EXTM3U", b"ffconcat", b"[playlist]", b"<?xml", b"<MPD", b"<smil", b"<asx", b"v=0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a video may cost. A video beyond a limit is refused with a line that names the limit.

    `max_side` and `max_pixels` bound one frame, `max_frames` and `max_duration_s` the whole video.
    """

    max_side: int = 16_384
    max_pixels: int = 7680 * 4320
    max_frames: int = 1_000_000
    max_duration_s: float = 24 * 3600.0

    def __post_init__(self) -> None:
        for name in ("max_side", "max_pixels", "max_frames", "max_duration_s"):
            expect(getattr(self, name) > 0, f"Limits.{name}", "> 0", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A packet decoding can start at: its timestamps and the place of its frame in presentation order."""

    pts: int
    dts: int | None
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoIndex:
    """Every frame of a video that is shown, in presentation order.

    `pts` (N,) holds NO_PTS where the container gives none. `keys` are the packets decoding can start at, in order of
    place; empty where the video has to be decoded from its start. `notes` say in one line each what was odd.
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
        """The exact time of a frame; the first frame shown is at 0. None where the container gives no times."""
        pts, first = int(self.pts[place]), int(self.pts[0])
        return None if NO_PTS in (pts, first) else (pts - first) * self.time_base

    def times_s(self) -> NDArray[np.float64]:
        """Times of all frames in seconds, NaN where unknown."""
        known = self.pts != NO_PTS
        if not known.any() or not known[0]:
            return np.full(len(self), np.nan)
        seconds = (self.pts - self.pts[0]).astype(np.float64) * float(self.time_base)
        return np.where(known, seconds, np.nan)


def open_video(path: Path, limits: Limits) -> tuple[Any, Any]:
    """The opened container and its video stream, local files only, no playlists, one slice thread.

    Raises InvalidFile with one line for everything that is not a video that can be read.
    """
    av = require("av", what="reading video", extra="video")
    if is_webp(head := _head_of(path)):
        check_size(path, *canvas_of(path, head), limits)
        animation = AnimatedWebP(path)
        return animation, animation.stream
    allowed = ",".join((*_SEEKABLE, "mp4", *_SEQUENTIAL, *_AUDIO))
    options = {"protocol_whitelist": "file", "format_whitelist": allowed}
    # PyAV 18 stumbles over a title that is not UTF-8 unless told; PyAV 19 never does and dropped the setting.
    lenient = {"metadata_errors": "replace"} if hasattr(av.container.InputContainer, "metadata_errors") else {}
    try:
        # Absolute, so that no part of the name can be read as a protocol.
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
        # Automatic threading can deadlock when decoding stops early, and makes the last frame of a truncated file vary.
        context.thread_type = "SLICE"
        context.thread_count = 1
    except BaseException:
        container.close()
        raise
    return container, stream


def _head_of(path: Path) -> bytes:
    """The first bytes of a file that may be a video; InvalidFile for what is none at first sight."""
    if path.is_dir():
        raise InvalidFile(path, "is a folder, not a video", hint=f"give its files: {printable(path)}/*.mp4")
    if not path.exists():
        hint = "; only local files are read" if "://" in str(path) or ":/" in str(path) else ""
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
            path, "is a playlist, not a video", hint="only local video files are read; give those it names"
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
        what = "has sound but no picture" if container.streams.audio else "holds no video stream"
        raise InvalidFile(path, what, hint="give a file with a video track")
    stream = pictures[0]
    if stream.codec_context is None:
        raise InvalidFile(path, "uses a codec this FFmpeg cannot decode", hint="re-encode it, for example to H.264")
    return stream


def _is_cover(stream: Any) -> bool:
    """Whether the stream is one attached image (an album cover)."""
    disposition = stream.disposition
    return bool(disposition & type(disposition).attached_pic)


def check_size(path: Path, width: int, height: int, limits: Limits) -> None:
    """Raise InvalidFile where a frame is larger than the limits allow."""
    if max(width, height) > limits.max_side:
        problem = f"frames of {width}×{height} pixels; the limit is {limits.max_side} pixels a side"
        raise InvalidFile(path, problem, hint="raise it with --max-side, or scale the video down")
    if width * height > limits.max_pixels:
        problem = f"frames of {width}×{height} pixels; the limit is {limits.max_pixels} pixels a frame"
        raise InvalidFile(path, problem, hint="raise it with --max-pixels, or scale the video down")


def read_index(path: Path, limits: Limits | None = None, *, by_decoding: bool = False) -> VideoIndex:
    """The exact index of a video: from its packets where they can be trusted, else by decoding it once.

    `by_decoding` decodes in any case; used where the packets turned out not to tell the truth.
    """
    index, container, _ = open_indexed(path, limits or Limits(), by_decoding=by_decoding)
    container.close()
    return index


def open_indexed(path: Path, limits: Limits, *, by_decoding: bool = False) -> tuple[VideoIndex, Any, Any]:
    """The index with the container and stream it was made from, still open and read to their end."""
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
            raise InvalidFile(path, "holds no frame that can be decoded", hint=hint)
        if declared and declared != len(pts):
            notes.append(f"the header says {declared} frames, {len(pts)} are there")
        elif not declared:
            notes += _ends_early(container, Fraction(stream.time_base or 0), pts)
        if len(keys) == 1 and len(pts) > 250:
            notes.append("one key frame in the whole video: every read decodes from the start")
        _check_duration(path, pts, Fraction(stream.time_base or 0), limits)
        fps, odd = _fps(stream, pts)
        notes += odd
        context = stream.codec_context
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
        raise InvalidFile(path, problem, hint="raise it with --max-duration, or cut the video")


def _ends_early(container: Any, time_base: Fraction, pts: NDArray[np.int64]) -> list[str]:
    """A line where a Matroska file, which breaks off without an error, is shorter than its header says."""
    known = pts[pts != NO_PTS]
    # Sound may outlast the images.
    if (
        "matroska" not in container.format.name
        or len(container.streams) > 1
        or not container.duration
        or not len(known)
    ):
        return []
    said, seconds = container.duration / 1_000_000, float(int(known[-1] - known[0]) * time_base)
    early = said - seconds > max(0.5, 0.1 * said)
    return [f"the header says {said:.3g} s, its frames end after {seconds:.3g} s"] if early else []


def _fps(stream: Any, pts: NDArray[np.int64]) -> tuple[Fraction | None, list[str]]:
    """Frames per second: the header's, or those of the timestamps where they say otherwise, with a line about it."""
    known = pts[pts != NO_PTS]
    said = Fraction(stream.average_rate or stream.guessed_rate or 0)
    seconds = int(known[-1] - known[0]) * Fraction(stream.time_base or 0) if len(known) else Fraction(0)
    if seconds <= 0 or (said and len(known) < len(pts)):
        return said or None, []
    seen = (len(known) - 1) / seconds
    # A frame's length of slack, and a hundredth: timestamps are rounded, and a few frames dropped make no other rate.
    if said and (abs(seconds - (len(known) - 1) / said) <= 1 / said or abs(seen / said - 1) <= Fraction(1, 100)):
        return said, []
    return seen, [
        f"{float(seen):.4g} frames a second by its timestamps, {float(said):.4g} by its header"
    ] if said else []


def _too_many(path: Path, limits: Limits) -> InvalidFile:
    problem = f"holds more than {limits.max_frames} frames"
    return InvalidFile(path, problem, hint="raise the limit with --max-frames, or cut the video")


def _from_packets(
    path: Path, container: Any, stream: Any, limits: Limits
) -> tuple[NDArray[np.int64] | None, tuple[Key, ...], str]:
    """The presentation order from packet timestamps, or None and why they cannot be trusted."""
    import av

    names = container.format.name.split(",")
    codec = stream.codec_context.name
    # Some decoders are known by the library that does the work.
    codec = {"libdav1d": "av1", "libaom-av1": "av1", "libvpx-vp9": "vp9"}.get(codec, codec)
    if not any(name in _SEEKABLE for name in names):
        return None, (), f"{names[0]} files do not tell the order of their frames"
    if codec not in _ONE_FRAME_PER_PACKET:
        return None, (), f"{codec} packets do not tell how many frames they show"
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
                continue  # cut away by an edit list: decoded, never shown
            if packet.pts is None:
                return None, (), "it has packets without a timestamp"
            shown.append(packet.pts)
            if packet.is_keyframe:
                keys.append((packet.pts, packet.dts))
            if len(shown) > limits.max_frames:
                raise _too_many(path, limits)
    except av.error.FFmpegError as error:
        return None, (), f"it breaks off ({_reason(error)})"
    pts = np.array(sorted(shown), dtype=np.int64)
    if len(pts) == 0:
        return None, (), "it has no packets"
    if (np.diff(pts) == 0).any():
        return None, (), "two frames have the same timestamp"
    places = np.searchsorted(pts, [key[0] for key in keys])
    found = (Key(pts=p, dts=d, place=int(place)) for (p, d), place in zip(keys, places, strict=True))
    # A first frame that is not at a key (leading images before it) can only come from the start.
    return pts, tuple(sorted(found, key=lambda key: key.place)), ""


def decode_all(container: Any, stream: Any, faults: list[str]) -> Iterator[Any]:
    """Frames as the decoder gives them, from where the container stands to its end.

    A packet that cannot be decoded is passed over, a file that breaks off ends there; `faults` says so.
    """
    import av

    # In a transport stream the flag stands for a gap between packets (two recordings joined): the data may be whole.
    flags_mean_damage = container.format.name != "mpegts"
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except av.error.FFmpegError as error:
            faults.append(f"the file breaks off ({_reason(error)})")
            packet = None
        if packet is not None and packet.is_corrupt and flags_mean_damage:
            # Half a packet at the end of an avi file decodes to a frame that looks whole and is not.
            faults.append("a packet is damaged")
            continue
        try:
            # None drains the decoder: what it holds back are good frames.
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
    """The presentation order by decoding everything; frames flagged corrupt are left out."""
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
    """Timestamps that rise with the frames. Avi gives them in coding order: sorted they are the times shown."""
    if (np.diff(pts) > 0).all():
        return pts
    ordered = np.sort(pts)
    if ordered[0] != NO_PTS and (np.diff(ordered) > 0).all():
        notes.append("its timestamps are in coding order: put in order")
        return ordered
    notes.append("its timestamps are missing or repeat: left out")
    return np.full(len(pts), NO_PTS, dtype=np.int64)
