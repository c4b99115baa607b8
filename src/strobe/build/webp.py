"""Read animated WebP, which FFmpeg cannot decode, with Pillow. The result behaves like a container and its stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from strobe.core.errors import InvalidFile

_ANIMATED = 0x02
"""The header flag of a file with more than one image."""


def is_webp(head: bytes) -> bool:
    """Return whether a file with these first bytes is WebP.

    >>> is_webp(b"RIFF\\x00\\x00\\x00\\x00WEBPVP8X"), is_webp(b"RIFF\\x00\\x00\\x00\\x00AVI LIST")
    (True, False)
    """
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def canvas_of(path: Path, head: bytes) -> tuple[int, int]:
    """Return an animation's width and height from its header, before unpacking. Raises InvalidFile for a single image.

    >>> canvas_of(Path("a.webp"), b"RIFF....WEBPVP8X....\\x02...\\x2f\\x00\\x00\\x1f\\x00\\x00")
    (48, 32)
    """
    if head[12:16] != b"VP8X" or len(head) < 30 or not head[20] & _ANIMATED:
        raise InvalidFile(path, "is a single image, not an animation", hint="for photos use strobe simulate")
    return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")


@dataclass(frozen=True, slots=True)
class _Packet:
    """One decoded frame with the attributes of a packet."""

    frame: Any
    is_corrupt: bool = False

    def decode(self) -> list[Any]:
        return [self.frame]


@dataclass
class _Stream:
    """The stream attributes that index and reader use: times in milliseconds, square pixels, no frame rate."""

    codec_context: Any
    frames: int
    time_base: Fraction = Fraction(1, 1000)
    duration: int = 0
    average_rate: Fraction | None = None
    guessed_rate: Fraction | None = None
    sample_aspect_ratio: Fraction | None = None


@dataclass
class AnimatedWebP:
    """An opened animation. `demux` yields all frames in order, with transparent pixels over black."""

    path: Path
    format: Any = field(default_factory=lambda: SimpleNamespace(name="webp"))

    def __post_init__(self) -> None:
        from PIL import Image as Pillow

        try:
            self._opened: Any = Pillow.open(self.path, formats=["webp"])
        except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError) as error:
            raise InvalidFile(self.path, "not a WebP that can be read", hint="is it complete?") from error
        width, height = self._opened.size
        context = SimpleNamespace(
            name="webp", width=width, height=height, sample_aspect_ratio=None, decode=self._nothing_held_back
        )
        self.stream = _Stream(codec_context=context, frames=int(getattr(self._opened, "n_frames", 1)))

    def demux(self, stream: _Stream) -> Iterator[_Packet]:
        """Yield every frame with its time. A damaged frame ends the animation, like a truncated file."""
        import av
        from PIL import Image as Pillow

        for place in range(stream.frames):
            try:
                self._opened.seek(place)
                picture = self._opened.convert("RGBA")
            except (OSError, ValueError, EOFError, SyntaxError) as error:
                raise av.error.InvalidDataError(1094995529, str(error) or "damaged frame") from error
            over = Pillow.alpha_composite(Pillow.new("RGBA", picture.size, (0, 0, 0, 255)), picture).convert("RGB")
            frame = av.VideoFrame.from_ndarray(np.asarray(over), format="rgb24")
            frame.pts, frame.time_base = int(self._opened.info["timestamp"]), stream.time_base
            yield _Packet(frame)

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    @staticmethod
    def _nothing_held_back(_: None) -> list[Any]:
        return []
