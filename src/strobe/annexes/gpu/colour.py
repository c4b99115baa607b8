"""Colour conversion from NV12 planes to RGB in FFmpeg's integer arithmetic, and rotations that turn frames upright.

FFmpeg converts 8-bit 4:2:0 frames of even height with 16-bit products. There is one term for luma and one for each
chroma value. Each term has its own coefficient. The terms are shifted down by 16 bits, added, and clipped to 8 bits. A
pixel takes its chroma values from the nearest sample. `strobe build` stores pixels that are computed in this way, so a
GPU that computes the same sums gives the same bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MATRICES: dict[str, tuple[int, int, int, int]] = {
    "bt709": (117489, 138438, 13975, 34925),
    "bt601": (104597, 132201, 25675, 53279),
    "bt2020": (110013, 140363, 12277, 42626),
    "smpte240m": (117579, 136230, 16907, 35559),
    "fcc": (104448, 132798, 24759, 53109),
}
"""FFmpeg's factors, times 65,536: V in red, U in blue, U in green, V in green."""


@dataclass(frozen=True, slots=True)
class Colour:
    """A matrix and a range of luma values, with FFmpeg's 16-bit coefficients."""

    matrix: str
    full_range: bool

    def coefficients(self) -> tuple[int, int, int, int, int, int]:
        """Return the factor and offset of luma, then the factors of V in red, U in blue, U in green, V in green.

        >>> Colour("bt709", full_range=False).coefficients()
        (9539, 128, 14686, 17305, -1747, -4366)
        """
        factors = MATRICES[self.matrix]
        luma, offset = (1 << 16, 0) if self.full_range else ((1 << 16) * 255 // 219, 16 << 16)
        red, blue, green_u, green_v = (factor * 224 // 255 for factor in factors) if self.full_range else factors
        chroma = _top16(red << 13), _top16(blue << 13), _top16(-green_u << 13), _top16(-green_v << 13)
        return _top16(luma << 13), _top16(offset << 3), *chroma


@dataclass(frozen=True, slots=True)
class FrameConversion:
    """How decoded planes become the dataset's frame: the colour conversion, the rotation and the mirroring."""

    colour: Colour
    across: bool = False
    flip_x: bool = False
    flip_y: bool = False


def conversions(coded_wh: tuple[int, int], shown_wh: tuple[int, int]) -> Iterator[FrameConversion]:
    """Yield every conversion that gives frames of the dataset's size; the most common conversions come first.

    >>> len(list(conversions((1280, 720), (720, 1280)))), len(list(conversions((64, 64), (64, 64))))
    (40, 80)
    """
    ways = [across for across in (False, True) if (coded_wh[::-1] if across else coded_wh) == shown_wh]
    for across in ways:
        for flip_x, flip_y in ((False, False), (True, True), (True, False), (False, True)):
            for matrix in MATRICES:
                for full_range in (False, True):
                    yield FrameConversion(Colour(matrix, full_range), across, flip_x, flip_y)


def rgb_of_nv12(planes: Any, colour: Colour) -> Any:
    """Convert planes (N, 3/2 height, width) to 8-bit RGB (N, height, width, 3), on any device that torch supports."""
    import torch

    height, width = planes.shape[1] * 2 // 3, planes.shape[2]
    luma, offset, red, blue, green_u, green_v = colour.coefficients()
    y = ((planes[:, :height].int() << 3) - offset) * luma >> 16
    chroma = planes[:, height:].reshape(len(planes), height // 2, 1, width // 2, 1, 2)
    chroma = ((chroma.int() << 3) - 1024).expand(-1, -1, 2, -1, 2, -1).reshape(len(planes), height, width, 2)
    u, v = chroma[..., 0], chroma[..., 1]
    channels = y + (v * red >> 16), y + (u * green_u >> 16) + (v * green_v >> 16), y + (u * blue >> 16)
    return torch.stack(channels, dim=-1).clamp_(0, 255).to(torch.uint8)


def turned(frames: Any, conversion: FrameConversion) -> Any:
    """Return RGB frames (N, height, width, 3) upright."""
    if conversion.across:
        frames = frames.transpose(1, 2)
    flips = [axis for axis, flip in ((2, conversion.flip_x), (1, conversion.flip_y)) if flip]
    return (frames.flip(flips) if flips else frames).contiguous()


def _top16(value: int) -> int:
    """Return the value shifted down by 16 bits, rounded, as a signed 16-bit number."""
    return max(-(1 << 15), min((1 << 15) - 1, (value + (1 << 15)) >> 16))
