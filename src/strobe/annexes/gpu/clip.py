"""The compressed packets of a video: where decoding can start, and which frame each packet belongs to."""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import StrobeError

_AT_ONCE = {"H264": 32, "HEVC": 32}
"""The number of packets per call to the engine, for codecs in which packet borders stay visible.

Fewer calls are better, because each call takes the interpreter's lock.
"""


class NotForTheEngines(StrobeError):
    """The GPU's engines do not decode this video exactly. The message is the reason."""


@dataclass(frozen=True, slots=True)
class CompressedPacket:
    """A packet: its time, whether decoding can start there, and its bytes."""

    pts: int
    is_key: bool
    data: bytes


@dataclass(slots=True)
class EncodedClip:
    """All packets of a video, in the order in which they are decoded.

    A frame's `place` is its position among the times of all packets. Decoding starts at a key packet after which no
    packet of an earlier frame follows. So the engine returns frames in the order of their places, without a gap.
    """

    codec: str
    size_wh: tuple[int, int]
    packets: list[CompressedPacket]
    pts: NDArray[np.int64] = field(init=False)
    _place: NDArray[np.int64] = field(init=False)
    _packet: NDArray[np.int64] = field(init=False)
    _starts: list[int] = field(init=False)
    _start_places: list[int] = field(init=False)

    def __post_init__(self) -> None:
        if not self.packets or not self.packets[0].is_key:
            raise NotForTheEngines("it does not begin with a key frame")
        times = np.array([packet.pts for packet in self.packets], dtype=np.int64)
        self._packet = np.argsort(times, kind="stable")
        self.pts = times[self._packet]
        if (np.diff(self.pts) <= 0).any():
            raise NotForTheEngines("some packets have no time, or two packets have the same time")
        self._place = np.argsort(self._packet, kind="stable")
        first_after = np.minimum.accumulate(self._place[::-1])[::-1]
        clean = [number for number, packet in enumerate(self.packets) if packet.is_key]
        self._starts = [number for number in clean if first_after[number] == self._place[number]]
        if self._starts[:1] != [0]:
            raise NotForTheEngines("it has frames before its first key frame")
        self._start_places = [int(self._place[number]) for number in self._starts]

    @property
    def n_bytes(self) -> int:
        """The total size of the packets in bytes."""
        return sum(len(packet.data) for packet in self.packets)

    def places(self, pts: NDArray[np.int64]) -> list[int]:
        """Return the places of the frames shown at these times. Raises NotForTheEngines if a frame does not exist."""
        found = np.searchsorted(self.pts, pts)
        if (self.pts[np.minimum(found, len(self.pts) - 1)] != pts).any():
            raise NotForTheEngines("the times of its packets differ from the build")
        places: list[int] = found.tolist()
        return places

    def start(self, place: int) -> int:
        """Return the number of the last starting point at or before this place."""
        return bisect.bisect_right(self._start_places, place) - 1

    def parts(self, places: Sequence[int]) -> Iterator["ClipPart"]:
        """Yield a part to decode for each run of wanted places, which are ascending.

        A run ends if a later starting point leads to the next wanted place.
        """
        run: list[int] = []
        for place in places:
            begin = self._start_places[self.start(place)]
            if run and begin > run[-1] + 1:
                yield self._part(run)
                run = []
            run.append(place)
        yield self._part(run)

    def _part(self, run: list[int]) -> "ClipPart":
        begin = self.start(run[0])
        first = self._starts[begin]
        last = int(self._packet[self._start_places[begin] : run[-1] + 1].max())
        data = [packet.data for packet in self.packets[first : last + 1]]
        step = _AT_ONCE.get(self.codec, 1)
        calls = [b"".join(data[at : at + step]) for at in range(0, len(data), step)]
        return ClipPart(self._start_places[begin], run[-1], len(data), calls)


@dataclass(frozen=True, slots=True)
class ClipPart:
    """A part to decode: the places of its first and last frame, its number of packets, and the bytes for each call."""

    first: int
    last: int
    n_packets: int
    calls: list[bytes]
