"""Eight kinds of background, each with different image statistics."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFilter

Floats = NDArray[np.float32]


def _noise(size: int, cells: tuple[int, int], rng: np.random.Generator, *, octaves: int = 3) -> Floats:
    """Return smooth noise with mean 0.

    It is made of random grids of `cells` (across, down) that become finer and weaker with each octave.
    """
    total = np.zeros((size, size), dtype=np.float32)
    for octave in range(octaves):
        across, down = (min(size, max(2, cell * 2**octave)) for cell in cells)
        grid = rng.uniform(-1, 1, (down, across)).astype(np.float32)
        layer = PillowImage.fromarray(grid).resize((size, size), PillowImage.Resampling.BICUBIC)
        total += np.asarray(layer) / 2**octave
    return total


def _ramp(value: Floats, *stops: tuple[float, float, float]) -> Floats:
    """Map a value in [0, 1] to a colour between the stops."""
    colours = np.array(stops, dtype=np.float32)
    place = np.clip(value, 0, 1) * (len(stops) - 1)
    low = np.minimum(place.astype(int), len(stops) - 2)
    share = (place - low)[:, :, None]
    return np.asarray(colours[low] * (1 - share) + colours[low + 1] * share, dtype=np.float32)


def _meadow(size: int, rng: np.random.Generator) -> Floats:
    blades = _noise(size, (size // 3, 10), rng, octaves=2) * 0.3
    clumps = _noise(size, (4, 4), rng) * 0.22
    field = _ramp(0.5 + blades + clumps, (0.08, 0.2, 0.05), (0.3, 0.48, 0.13), (0.62, 0.72, 0.3))
    flowers = _noise(size, (size // 5, size // 5), rng, octaves=1) > 0.86
    field[flowers] = rng.choice(np.array([[0.95, 0.9, 0.4], [0.95, 0.95, 0.95], [0.8, 0.5, 0.8]], dtype=np.float32))
    return field


def _leaves(size: int, rng: np.random.Generator) -> Floats:
    canvas = PillowImage.new("RGB", (size, size), (30, 34, 18))
    draw = ImageDraw.Draw(canvas)
    for _ in range(150):
        x, y, angle = rng.uniform(0, size), rng.uniform(0, size), rng.uniform(0, 2 * np.pi)
        long = size * rng.uniform(0.05, 0.1)
        along = np.array([np.cos(angle), np.sin(angle)]) * long
        across = np.array([-along[1], along[0]]) * 0.42
        tip, tail = np.array([x, y]) + along, np.array([x, y]) - along
        green = np.array([120, 105, 40]) + rng.uniform(-1, 1) * np.array([70, -10, 15]) + rng.uniform(-35, 35)
        corners = [tip, np.array([x, y]) + across, tail, np.array([x, y]) - across]
        draw.polygon([tuple(map(float, c)) for c in corners], fill=tuple(int(v) for v in np.clip(green, 0, 255)))
        draw.line([tuple(map(float, tip)), tuple(map(float, tail))], fill=(45, 42, 20))
    soft = canvas.filter(ImageFilter.BoxBlur(0.6))
    return np.asarray(np.asarray(soft, dtype=np.float32) / 255, dtype=np.float32)


def _water(size: int, rng: np.random.Generator) -> Floats:
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    warp = _noise(size, (5, 5), rng, octaves=2)
    waves = np.sin(2 * np.pi * (9 * y + 0.6 * warp + rng.uniform())) * 0.5
    waves = waves + 0.5 * np.sin(2 * np.pi * (17 * y + 3 * x + 1.2 * warp))
    glint = np.clip(waves - 0.72, 0, 1)[:, :, None] * 1.6
    deep = _ramp(0.45 + 0.25 * waves + 0.1 * warp, (0.02, 0.14, 0.3), (0.08, 0.38, 0.56), (0.4, 0.7, 0.78))
    return np.asarray(np.clip(deep + glint, 0, 1), dtype=np.float32)


def _sand(size: int, rng: np.random.Generator) -> Floats:
    grains = rng.normal(0, 0.1, (size, size)).astype(np.float32)
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size
    ripples = 0.12 * np.sin(2 * np.pi * (6 * (x + y) + 1.3 * _noise(size, (3, 3), rng, octaves=2)))
    return _ramp(0.55 + grains + ripples, (0.48, 0.36, 0.22), (0.78, 0.66, 0.45), (0.96, 0.89, 0.7))


def _clouds(size: int, rng: np.random.Generator) -> Floats:
    puffs = np.clip(0.35 + 0.55 * _noise(size, (3, 4), rng, octaves=4), 0, 1)
    y = np.linspace(0, 1, size, dtype=np.float32)[:, None, None]
    sky = np.array([0.25, 0.5, 0.85], dtype=np.float32) * (1 - y) + np.array([0.62, 0.8, 0.95], dtype=np.float32) * y
    white = np.array([0.97, 0.97, 0.98], dtype=np.float32)
    return np.asarray(sky * (1 - puffs[:, :, None]) + white * puffs[:, :, None], dtype=np.float32)


def _brick(size: int, rng: np.random.Generator) -> Floats:
    high = size / rng.integers(9, 13)
    wide = 2.2 * high
    rows, columns = np.mgrid[0:size, 0:size].astype(np.float32)
    row = np.floor(rows / high).astype(int)
    shifted = columns + (row % 2) * wide / 2
    column = np.floor(shifted / wide).astype(int)
    tone = rng.uniform(-0.12, 0.12, (row.max() + 1, column.max() + 1)).astype(np.float32)[row, column]
    joint = (rows % high < 0.12 * high) | (shifted % wide < 0.06 * wide)
    rough = _noise(size, (size // 6, size // 6), rng, octaves=2) * 0.06
    wall = np.array([0.58, 0.27, 0.2], dtype=np.float32) + (tone + rough)[:, :, None]
    mortar = np.array([0.72, 0.69, 0.64], dtype=np.float32) + rough[:, :, None]
    return np.asarray(np.clip(np.where(joint[:, :, None], mortar, wall), 0, 1), dtype=np.float32)


def _wood(size: int, rng: np.random.Generator) -> Floats:
    rows = np.mgrid[0:size, 0:size].astype(np.float32)[0]
    plank = size / rng.integers(4, 7)
    board = np.floor(rows / plank).astype(int)
    tone = rng.uniform(-0.1, 0.1, board.max() + 1).astype(np.float32)[board]
    grain = _noise(size, (4, size // 3), rng, octaves=2) * 0.16
    knots = 0.12 * np.sin(0.35 * rows + 9 * _noise(size, (3, 4), rng, octaves=1))
    gap = np.where(rows % plank < max(1.0, 0.04 * plank), 0.35, 1.0).astype(np.float32)
    wood = _ramp(0.5 + tone + grain + knots, (0.26, 0.15, 0.08), (0.58, 0.39, 0.22), (0.82, 0.64, 0.42))
    return np.asarray(wood * gap[:, :, None], dtype=np.float32)


def _night(size: int, rng: np.random.Generator) -> Floats:
    haze = 0.3 + 0.25 * _noise(size, (3, 3), rng, octaves=3)
    sky = _ramp(haze, (0.02, 0.02, 0.07), (0.1, 0.07, 0.24), (0.32, 0.16, 0.4))
    canvas = PillowImage.new("RGB", (size, size))
    draw = ImageDraw.Draw(canvas)
    for _ in range(int(rng.integers(60, 110))):
        x, y, radius = rng.uniform(0, size), rng.uniform(0, size), size * float(rng.choice([0.003, 0.005, 0.012]))
        level = rng.integers(90, 255)
        tint = (int(level), int(level * rng.uniform(0.8, 1)), int(level * rng.uniform(0.7, 1)))
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=tint)
    stars = np.asarray(canvas.filter(ImageFilter.BoxBlur(0.7)), dtype=np.float32) / 255
    return np.asarray(np.clip(sky + stars, 0, 1), dtype=np.float32)


BACKGROUNDS: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "meadow": _meadow,
    "leaves": _leaves,
    "water": _water,
    "sand": _sand,
    "clouds": _clouds,
    "brick": _brick,
    "wood": _wood,
    "night": _night,
}
"""Every family of backgrounds, as a function from a size and a generator to colours (size, size, 3) in [0, 1]."""


def background(family: str, size: int, rng: np.random.Generator) -> PillowImage.Image:
    """Return a background of the family, with slightly random brightness, contrast and tint."""
    painted = BACKGROUNDS[family](size, rng)
    tint = rng.uniform(0.88, 1.12, 3).astype(np.float32)
    mean = painted.mean(axis=(0, 1))
    painted = mean + (painted - mean) * np.float32(rng.uniform(0.75, 1.15))
    return PillowImage.fromarray(np.rint(np.clip(painted * tint * rng.uniform(0.85, 1.1), 0, 1) * 255).astype(np.uint8))
