"""Draw parts with soft edges, texture and light, in layers on a small transparent canvas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFilter

Points = NDArray[np.float64]
Floats = NDArray[np.float32]
Colour = tuple[float, float, float]

_FINE = 3
"""Edges are drawn at this many times the resolution and averaged down."""


def _from_hsv(hue: float, saturation: float, value: float) -> Colour:
    channels = (np.clip(abs((hue * 6 + shift) % 6 - 3) - 1, 0, 1) for shift in (0, 4, 2))
    red, green, blue = (float(value * (1 - saturation + saturation * channel)) for channel in channels)
    return red, green, blue


@dataclass(frozen=True, slots=True)
class Look:
    """Two colours, the texture that mixes them, a dark colour for lines, and the direction of the light (radians)."""

    main: Colour
    second: Colour
    dark: Colour
    texture: str
    light: float
    phase: float


def random_look(rng: np.random.Generator, *, texture: str, faithful: float = 0.8) -> Look:
    """Return random colours. The texture is the class's own with probability `faithful`, otherwise any texture."""
    value = float(rng.uniform(0.45, 0.95))
    hue, away = rng.uniform(), rng.uniform(0.25, 0.75)
    main = _from_hsv(hue, rng.uniform(0.4, 0.9), value)
    # The second colour also differs in brightness, so that the texture is visible without colour.
    other = value - 0.4 if value > 0.65 else value + 0.4
    second = _from_hsv((hue + away) % 1, rng.uniform(0.2, 0.8), other)
    dark = _from_hsv(hue, 0.5, 0.16)
    chosen = texture if rng.uniform() < faithful else str(rng.choice(list(TEXTURES)))
    return Look(main, second, dark, chosen, float(rng.uniform(-2.4, -0.8)), float(rng.uniform(0, 100)))


# -- textures: unit coordinates in, the second colour's share out ------------------------------------------------


def _soft(value: NDArray[np.floating[Any]], width: float) -> Floats:
    return np.asarray(np.clip(value / width + 0.5, 0, 1), dtype=np.float32)


def _plain(x: Floats, y: Floats, phase: float) -> Floats:  # noqa: ARG001 (one signature for all)
    return np.zeros_like(x)


def _stripes(x: Floats, y: Floats, phase: float) -> Floats:
    return _soft(np.sin(13 * x + 1.5 * np.sin(3 * y) + phase), 0.6)


def _bands(x: Floats, y: Floats, phase: float) -> Floats:
    return _soft(np.sin(12 * y + 0.8 * np.sin(4 * x) + phase), 0.6)


def _spots(x: Floats, y: Floats, phase: float) -> Floats:
    u, v = 3.2 * x + phase, 3.2 * y + 0.37 * phase
    v = v + 0.5 * (np.floor(u) % 2)
    du, dv = u - np.floor(u) - 0.5, v - np.floor(v) - 0.5
    return _soft(0.32 - np.hypot(du, dv), 0.1)


def _scales(x: Floats, y: Floats, phase: float) -> Floats:
    u, v = 6 * x + phase, 6 * y
    u = u + 0.5 * (np.floor(v) % 2)
    du, dv = u - np.floor(u) - 0.5, v - np.floor(v)
    return _soft(np.abs(np.hypot(du, dv) - 0.62) * -1 + 0.14, 0.12)


def _checks(x: Floats, y: Floats, phase: float) -> Floats:
    return _soft(np.sin(9 * x + phase) * np.sin(9 * y), 0.3)


def _speckles(x: Floats, y: Floats, phase: float) -> Floats:
    value = np.sin(23 * x + 7 * np.sin(5 * y + phase)) * np.sin(19 * y + 6 * np.sin(7 * x - phase))
    return _soft(value - 0.35, 0.3)


def _rings(x: Floats, y: Floats, phase: float) -> Floats:
    return _soft(np.sin(14 * np.hypot(x, y) + phase), 0.6)


TEXTURES: dict[str, Callable[[Floats, Floats, float], Floats]] = {
    "plain": _plain,
    "stripes": _stripes,
    "bands": _bands,
    "spots": _spots,
    "scales": _scales,
    "checks": _checks,
    "speckles": _speckles,
    "rings": _rings,
}
"""Every texture, as a function from x, y in unit coordinates and a phase to the second colour's share in [0, 1]."""


# -- outlines in unit coordinates: x right, y down, the canvas is [−1, 1]² -----------------------------------------


def ellipse(x: float, y: float, rx: float, ry: float, *, angle: float = 0.0) -> Points:
    """Return an ellipse as an outline, rotated by `angle` radians."""
    around = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    flat = np.stack([rx * np.cos(around), ry * np.sin(around)], axis=1)
    return np.asarray(turned(flat, angle) + np.array([x, y]), dtype=np.float64)


def arc(x: float, y: float, rx: float, ry: float, start: float, stop: float) -> Points:
    """Return the points of an ellipse between two angles (radians, clockwise on screen from the right)."""
    around = np.linspace(start, stop, 28)
    return np.stack([x + rx * np.cos(around), y + ry * np.sin(around)], axis=1)


def smooth(points: Sequence[tuple[float, float]]) -> Points:
    """Return a closed smooth outline through the points (Catmull–Rom)."""
    p = np.asarray(points, dtype=np.float64)
    before, after, far = np.roll(p, 1, axis=0), np.roll(p, -1, axis=0), np.roll(p, -2, axis=0)
    t = np.linspace(0, 1, 7)[:-1, None, None]
    curve = 0.5 * (
        2 * p + (after - before) * t + (2 * before - 5 * p + 4 * after - far) * t**2
        + (3 * p - before - 3 * after + far) * t**3
    )  # fmt: skip
    return np.asarray(curve.transpose(1, 0, 2).reshape(-1, 2), dtype=np.float64)


def turned(points: Points, angle: float) -> Points:
    """Return the points rotated about the origin."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.asarray(points @ np.array([[cos, sin], [-sin, cos]]), dtype=np.float64)


class Painter:
    """A transparent canvas for parts, painted back to front."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._colour = np.zeros((size, size, 3), dtype=np.float32)
        self._alpha = np.zeros((size, size, 1), dtype=np.float32)

    def part(
        self, outline: Points, look: Look, *, colour: Colour | None = None, texture: str | None = None,
        shade: float = 0.35, rim: float = 0.45,
    ) -> None:  # fmt: skip
        """Fill an outline with texture or a plain `colour`. `shade` lights one side, and `rim` darkens the edge."""
        pixels = (np.asarray(outline) + 1) * self._size / 2
        self._fill(pixels, look, colour, texture, shade, rim, None)

    def line(self, points: Points, look: Look, *, width: float, colour: Colour | None = None) -> None:
        """Draw a line with round ends. `width` is in unit coordinates."""
        pixels = (np.asarray(points) + 1) * self._size / 2
        self._fill(pixels, look, colour or look.dark, None, 0.15, 0.0, width * self._size / 2)

    def _fill(
        self, pixels: Points, look: Look, colour: Colour | None, texture: str | None, shade: float, rim: float,
        width: float | None,
    ) -> None:  # fmt: skip
        reach = 1 + (width or 0) / 2
        low = np.maximum(np.floor(pixels.min(axis=0) - reach), 0).astype(int)
        high = np.minimum(np.ceil(pixels.max(axis=0) + reach), self._size).astype(int)
        if (high <= low).any():
            return
        (left, top), (right, bottom) = low, high
        cover = _coverage((pixels - low) * _FINE, (right - left, bottom - top), None if width is None else width)
        rows, columns = np.mgrid[top:bottom, left:right].astype(np.float32)
        x, y = (columns + 0.5) * 2 / self._size - 1, (rows + 0.5) * 2 / self._size - 1
        paint = self._paint(x, y, look, colour, texture)
        span = max(float((high - low).max()) / self._size, 0.05)
        mid_x, mid_y = (left + right) / self._size - 1, (top + bottom) / self._size - 1
        lit = (np.cos(look.light) * (x - mid_x) + np.sin(look.light) * (y - mid_y)) / span
        brightness = 1 + shade * np.clip(lit, -1, 1)
        if rim:
            radius = max(1.0, 0.045 * self._size)
            flat = PillowImage.fromarray(np.rint(cover * 255).astype(np.uint8))
            # A blurred copy of the part is darker at its edges, which is a cheap way to suggest roundness.
            inner = np.asarray(flat.filter(ImageFilter.BoxBlur(radius)), dtype=np.float32) / 255
            brightness = brightness * (1 - rim + rim * np.clip(1.7 * inner - 0.7, 0, 1))
        paint = np.clip(paint * brightness[:, :, None], 0, 1)
        area = (slice(top, bottom), slice(left, right))
        share = cover[:, :, None]
        self._colour[area] = self._colour[area] * (1 - share) + paint * share
        self._alpha[area] = self._alpha[area] * (1 - share) + share

    def _paint(self, x: Floats, y: Floats, look: Look, colour: Colour | None, texture: str | None) -> Floats:
        if colour is not None:
            return np.broadcast_to(np.array(colour, dtype=np.float32), (*x.shape, 3))
        mix = TEXTURES[texture or look.texture](x, y, look.phase)[:, :, None]
        main, second = np.array(look.main, dtype=np.float32), np.array(look.second, dtype=np.float32)
        return np.asarray(main + (second - main) * mix, dtype=np.float32)

    def image(self) -> PillowImage.Image:
        """Return the painting as RGBA with straight alpha."""
        # _colour is premultiplied by alpha. Dividing restores the colour, even where it is half transparent.
        straight = self._colour / np.maximum(self._alpha, 1e-6)
        rgba = np.concatenate([np.clip(straight, 0, 1), self._alpha], axis=2)
        return PillowImage.fromarray(np.rint(rgba * 255).astype(np.uint8))


def _coverage(points: Points, size_wh: tuple[int, int], width: float | None) -> Floats:
    """Return each pixel's coverage by an outline (or a line of some width). Points are in fine pixels."""
    fine = PillowImage.new("L", (int(size_wh[0]) * _FINE, int(size_wh[1]) * _FINE))
    draw = ImageDraw.Draw(fine)
    flat = [(float(x), float(y)) for x, y in points]
    if width is None:
        draw.polygon(flat, fill=255)
    else:
        thick = max(1, round(width * _FINE))
        draw.line(flat, fill=255, width=thick, joint="curve")
        for x, y in (flat[0], flat[-1]):
            draw.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=255)
    return np.asarray(np.asarray(fine.reduce(_FINE)) / 255, dtype=np.float32)
