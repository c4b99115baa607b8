"""FFmpeg's decoders behind the port of a GPU's video engines: the same packets, the same calls, planes on the CPU."""

from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.bitstream import BitStreamFilterContext

from strobe.annexes.gpu.clip import CompressedPacket, EncodedClip, NotForTheEngines
from strobe.annexes.gpu.colour import Colour, rgb_of_nv12
from strobe.annexes.gpu.engine import _EXACT, _complete

NAMES = {"h264": "H264", "hevc": "HEVC", "vp9": "VP9", "libvpx-vp9": "VP9", "av1": "AV1", "libdav1d": "AV1"}
FILTERS = {"H264": "h264_mp4toannexb", "HEVC": "hevc_mp4toannexb"}


class SoftwarePlanes:
    def __init__(self, frames: list[Any]) -> None:
        self._frames = [_nv12(frame) for frame in frames]

    def __len__(self) -> int:
        return len(self._frames)

    def rgb(self, places: list[int], colour: Colour) -> Any:
        return rgb_of_nv12(torch.stack([self._frames[place] for place in places]), colour)


def _nv12(frame: Any) -> Any:
    if frame.format.name not in ("yuv420p", "yuvj420p"):
        raise NotForTheEngines(f"{frame.format.name}: not 8-bit 4:2:0")
    y, u, v = (_plane(plane) for plane in frame.planes)
    return torch.from_numpy(np.concatenate([y, np.stack([u, v], axis=-1).reshape(len(u), -1)]))


def _plane(plane: Any) -> Any:
    return np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]


class SoftwareSession:
    """A decoder that takes a joined stream of packets, as the engines do."""

    def __init__(self, codec: str) -> None:
        self._codec, self._name = codec, {"AV1": "libdav1d"}.get(codec, codec.lower())
        self._context = av.CodecContext.create(self._name, "r")

    def decode(self, data: bytes) -> SoftwarePlanes:
        context = self._context
        if self._codec in FILTERS:
            packets = context.parse(data or None)
        else:
            packets = [av.Packet(data)] if data else []
        frames = [frame for packet in packets for frame in context.decode(packet)]
        if not data:
            frames += context.decode(None)
            self._context = av.CodecContext.create(self._name, "r")
        return SoftwarePlanes(frames)

    def close(self) -> None:
        """Nothing to end."""


class SoftwareEngine:
    """Counts the sessions it opens and the frames it gives."""

    def __init__(self) -> None:
        self.sessions = 0

    def open(self, path: Path) -> EncodedClip:
        packets = []
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            codec = NAMES.get(stream.codec_context.name, stream.codec_context.name)
            if codec not in _EXACT:
                raise NotForTheEngines(f"{codec} is not decoded to the same bits everywhere")
            size_wh = (stream.width, stream.height)
            if size_wh[0] % 2 or size_wh[1] % 2:
                raise NotForTheEngines("frames of odd size")
            is_boxed = codec in FILTERS and "mpegts" not in container.format.name
            converted = BitStreamFilterContext(FILTERS[codec], stream) if is_boxed else None
            try:
                for packet in container.demux(stream):
                    for one in converted.filter(packet) if converted else [packet]:
                        if one.size:
                            data = bytes(one)
                            pts = -(2**63) if one.pts is None else one.pts
                            packets.append(CompressedPacket(pts, one.is_keyframe and _complete(codec, data), data))
            except av.error.FFmpegError:
                pass  # it ends early
        return EncodedClip(codec, size_wh, packets)

    def session(self, codec: str, size_wh: tuple[int, int], stream: Any) -> SoftwareSession:
        self.sessions += 1
        return SoftwareSession(codec)
