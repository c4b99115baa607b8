"""Use the GPU's video engines through PyNvVideoCodec: read the packets of a file, and decode them in sessions.

A session has one codec and one frame size, and decodes one clip after another. It runs on its own thread, so that a
call that never returns can be detected. A new session then replaces it.
"""

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from strobe.annexes.gpu.clip import CompressedPacket, EncodedClip, NotForTheEngines
from strobe.annexes.gpu.colour import Colour
from strobe.core.errors import StrobeError, printable
from strobe.core.late import require

_EXACT = ("H264", "HEVC", "VP9", "AV1")
"""Codecs whose standard defines the decoded values exactly. In MPEG-2 and MPEG-4, decoders may round differently."""

_LARGEST_CLIP = 256 << 20
"""Videos with more compressed bytes are decoded on the CPU, which reads a file piece by piece."""

_HANGS_AFTER_S = 30.0


class EngineHangs(StrobeError):
    """Raised if a call to the engine does not return."""


class Planes(Protocol):
    """Frames on the device in the engine's format. They are valid until the session's next call."""

    def __len__(self) -> int:
        """The number of frames."""

    def rgb(self, places: list[int], colour: Colour) -> Any:
        """Return the selected frames as an 8-bit tensor (N, height, width, 3), in the current stream."""


class EngineSession(Protocol):
    """Decodes the packets of one clip at a time."""

    def decode(self, data: bytes) -> Planes:
        """Return the frames that these packets complete, in the order in which they are shown.

        Without bytes, the remaining frames are returned.
        """

    def close(self) -> None:
        """End the session."""


class VideoEngine(Protocol):
    """A decoder of video on a device."""

    def open(self, path: Path) -> EncodedClip:
        """Return the packets of a video. Raises NotForTheEngines for a video that the engines do not decode exactly."""

    def session(self, codec: str, size_wh: tuple[int, int], stream: Any) -> EngineSession:
        """Return a new session, whose frames are ready for use in this stream."""


class NvidiaEngine:
    """The video engines of an NVIDIA GPU."""

    def __init__(self, device: str) -> None:
        self._library: Any = require("PyNvVideoCodec", what="decoding video on the GPU", extra="gpu-video")
        self._gpu = int(device.partition(":")[2] or 0)

    def open(self, path: Path) -> EncodedClip:
        """Return the packets of a video."""
        try:
            demuxer = self._library.CreateDemuxer(filename=str(path))
            codec = demuxer.GetNvCodecId().name
        except Exception as error:
            raise NotForTheEngines(f"cannot be opened ({printable(error, limit=80)})") from error
        size_wh = (demuxer.Width(), demuxer.Height())
        if codec not in _EXACT:
            raise NotForTheEngines(f"{codec} is not decoded to the same bits everywhere")
        if size_wh[0] % 2 or size_wh[1] % 2:
            raise NotForTheEngines("frames of odd size")
        packets: list[CompressedPacket] = []
        total = 0
        while (packet := demuxer.Demux()).bsl:
            total += packet.bsl
            if total > _LARGEST_CLIP:
                raise NotForTheEngines(f"more than {_LARGEST_CLIP >> 20} MB of compressed video")
            data = ctypes.string_at(packet.bsl_data, packet.bsl)
            packets.append(CompressedPacket(packet.pts, bool(packet.key) and _complete(codec, data), data))
        return EncodedClip(codec, size_wh, packets)

    def session(self, codec: str, size_wh: tuple[int, int], stream: Any) -> EngineSession:
        """Return a new session."""
        return _NvidiaSession(self._library, self._gpu, codec, size_wh, stream)


def _complete(codec: str, data: bytes) -> bool:
    """Return whether the packet includes its parameter sets, so that a session can begin with this packet.

    >>> _complete("H264", b"\\0\\0\\0\\1\\x67\\x64"), _complete("H264", b"\\0\\0\\1\\x06"), _complete("VP9", b"")
    (True, False, True)
    """
    if codec not in ("H264", "HEVC"):
        return True
    at = 0
    while (at := data.find(b"\0\0\1", at) + 3) > 2 and at < len(data):
        kind = data[at] & 31 if codec == "H264" else data[at] >> 1 & 63
        if kind == (7 if codec == "H264" else 33):
            return True
        if kind < 6 if codec == "H264" else kind < 32:
            return False  # image data begins here
    return False


class _NvidiaPlanes:
    def __init__(self, frames: list[Any], size_wh: tuple[int, int], device: Any) -> None:
        self._frames, self._size_wh, self._device = frames, size_wh, device

    def __len__(self) -> int:
        return len(self._frames)

    def rgb(self, places: list[int], colour: Colour) -> Any:
        import torch

        from strobe.annexes.gpu.kernels import convert

        width, height = self._size_wh
        some = [self._frames[place] for place in places]
        at = torch.tensor([[one.GetPtrToPlane(0) for one in some], [one.GetPtrToPlane(1) for one in some]])
        at = at.pin_memory().to(self._device, non_blocking=True)
        out = torch.empty((len(some), height, width, 3), dtype=torch.uint8, device=self._device)
        convert(at[0], at[1], int(some[0].strides[0]), out, colour.coefficients())
        return out


class _NvidiaSession:
    def __init__(self, library: Any, gpu: int, codec: str, size_wh: tuple[int, int], stream: Any) -> None:
        self._library, self._size_wh, self._stream = library, size_wh, stream
        self._calls: SimpleQueue[bytes | None] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._make: Callable[[], Any] = lambda: library.CreateDecoder(
            gpuid=gpu,
            codec=getattr(library.cudaVideoCodec, codec),
            cudastream=stream.cuda_stream,
            usedevicememory=True,
            maxwidth=size_wh[0],
            maxheight=size_wh[1],
        )
        threading.Thread(target=self._work, name="engine", daemon=True).start()  # the call may hang for ever

    def decode(self, data: bytes) -> Planes:
        self._calls.put(data)
        try:
            answer = self._answers.get(timeout=_HANGS_AFTER_S)
        except Empty:
            raise EngineHangs(f"the GPU's video engine did not answer for {_HANGS_AFTER_S:.0f} s") from None
        if isinstance(answer, Exception):
            refused = any(word in str(answer) for word in ("cuvidCreateDecoder", "not supported"))
            why = "this GPU does not decode its codec, profile or size" if refused else printable(answer, limit=120)
            raise NotForTheEngines(why) from answer
        width, height = self._size_wh
        if answer and (tuple(answer[0].shape) != (height * 3 // 2, width) or "NV12" not in str(answer[0].format)):
            raise NotForTheEngines(f"{answer[0].format} frames of shape {tuple(answer[0].shape)}: not 8-bit 4:2:0")
        return _NvidiaPlanes(answer, self._size_wh, self._stream.device)

    def close(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        decoder: Any = None
        while (data := self._calls.get()) is not None:
            try:
                decoder = decoder or self._make()
                packet = self._library.PacketData()
                buffer = ctypes.create_string_buffer(data, len(data)) if data else None
                packet.bsl_data, packet.bsl = (ctypes.addressof(buffer), len(data)) if buffer else (0, 0)
                self._answers.put(list(decoder.Decode(packet)))
            except Exception as error:
                self._answers.put(error)
                decoder = None


class SessionPool:
    """A pool of at most `most` sessions, which are reused for clips of the same codec and size.

    Any number of threads may use the pool.
    """

    def __init__(self, engine: VideoEngine, *, most: int, streams: Callable[[], Any]) -> None:
        self._engine, self._streams = engine, streams
        self._room = threading.BoundedSemaphore(most)
        self._most, self._guard = most, threading.Lock()
        self._idle: dict[tuple[str, tuple[int, int]], list[tuple[EngineSession, Any]]] = defaultdict(list)
        self.opened, self._closed = 0, False

    def open_ahead(self, clip: EncodedClip) -> None:
        """Open all sessions for clips like this one, in a thread. `lent` waits for the first that is open."""
        for _ in range(self._most):
            self._room.acquire()
        threading.Thread(target=self._open_all, args=(clip,), name="sessions", daemon=True).start()

    def _open_all(self, clip: EncodedClip) -> None:
        for _ in range(self._most):
            with suppress(Exception):  # whatever fails here is reported when a frame is needed
                self._open_one(clip)
            self._room.release()

    def _open_one(self, clip: EncodedClip) -> None:
        kind, stream = (clip.codec, clip.size_wh), self._streams()
        session, is_kept = self._engine.session(*kind, stream), False
        try:
            for data in (clip.packets[0].data, b""):  # the driver opens a session when the first frame arrives
                session.decode(data)
            with self._guard:
                if is_kept := not self._closed:
                    self._idle[kind].append((session, stream))
                    self.opened += 1
        finally:
            if not is_kept:
                session.close()

    @contextmanager
    def lent(self, clip: EncodedClip) -> Iterator[tuple[EngineSession, Any]]:
        """Yield a session for the clip and its stream. A session in which anything failed is not used again."""
        kind = (clip.codec, clip.size_wh)
        with self._room:
            with self._guard:
                held = self._idle[kind].pop() if self._idle[kind] else None
            if held is None:
                stream = self._streams()
                held = self._engine.session(*kind, stream), stream
                self.opened += 1
            try:
                yield held
            except BaseException:
                held[0].close()
                raise
            with self._guard:
                self._idle[kind].append(held)
                self._drop_other(kind)

    def close(self) -> None:
        """End idle sessions, and those that are still opening ahead."""
        with self._guard:
            self._closed = True
            for held in self._idle.values():
                for session, _ in held:
                    session.close()
            self._idle.clear()

    def _drop_other(self, kind: tuple[str, tuple[int, int]]) -> None:
        """End idle sessions of other kinds if there are too many, because each session occupies GPU memory."""
        while sum(map(len, self._idle.values())) > self._most:
            other = next(one for one, held in self._idle.items() if held and (one != kind or len(held) > self._most))
            self._idle[other].pop(0)[0].close()
