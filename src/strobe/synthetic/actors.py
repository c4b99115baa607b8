"""The moving objects in a clip: a painted sprite, its position at every moment, and its compositing into a frame."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageFilter

from strobe.core.arrays import Floats
from strobe.synthetic.classes import Kind
from strobe.synthetic.painter import Painter, ellipse, random_look, smooth


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """A smooth path: a steady drift, a wobble, and an occasional dash.

    Positions are in pixels, relative to the position at the anchor. Times are in frames from the anchor. `dash` is the
    length of a sudden move, and `dash_at` is its time.
    """

    drift: tuple[float, float] = (0.0, 0.0)
    wobble: tuple[float, float] = (0.0, 0.0)
    speed: tuple[float, float] = (0.2, 0.2)
    phase: tuple[float, float] = (0.0, 0.0)
    dash: tuple[float, float] = (0.0, 0.0)
    dash_at: float = 0.0
    spin: float = 0.0
    growth: float = 0.0

    def offset(self, moment: float) -> Floats:
        """Return the offset from the position at the anchor, (2,) pixels."""
        drift, wobble, speed, phase, dash = map(np.array, (self.drift, self.wobble, self.speed, self.phase, self.dash))
        swing = wobble * (np.sin(speed * moment + phase) - np.sin(phase))
        jump = dash * (np.tanh((moment - self.dash_at) / 1.3) - np.tanh(-self.dash_at / 1.3)) / 2
        return np.asarray(drift * moment + swing + jump, dtype=np.float64)


def random_motion(rng: np.random.Generator, size: int, amount: float) -> Motion:
    """Return a random path for frames of `size` pixels. `amount` scales all motion (1 is lively, 0 is still)."""
    heading, turn = rng.uniform(0, 2 * np.pi, 2)
    pace, leap = amount * size * rng.uniform(0.002, 0.014), amount * size * rng.uniform(0.08, 0.2)
    dashes = rng.uniform() < 0.4
    return Motion(
        drift=(pace * np.cos(heading), pace * np.sin(heading)),
        wobble=tuple(amount * size * rng.uniform(0.0, 0.03, 2)),
        speed=tuple(rng.uniform(0.1, 0.45, 2)),
        phase=tuple(rng.uniform(0, 2 * np.pi, 2)),
        dash=(leap * np.cos(turn), leap * np.sin(turn)) if dashes else (0.0, 0.0),
        dash_at=float(rng.uniform(2, 9) * rng.choice([-1, 1])),
        spin=float(amount * rng.normal(0, 0.018)),
        growth=float(amount * rng.normal(0, 0.01)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A sprite and its path. `label` is −1 for distractors and occluders."""

    sprite: PillowImage.Image
    shadow: PillowImage.Image | None
    label: int
    centre: tuple[float, float]
    scale: float
    angle: float
    mirrored: bool
    motion: Motion
    flap: float = 0.0
    flap_speed: float = 0.8
    flap_phase: float = 0.0

    @property
    def area(self) -> float:
        """The sprite's own pixels: those that it covers by at least half."""
        return float((np.asarray(self.sprite.getchannel("A")) >= 128).sum())

    def matrix(self, moment: float) -> Floats:
        """Return the 3×3 map from pixels of the sprite to pixels of the frame."""
        x, y = np.array(self.centre) + self.motion.offset(moment)
        angle = self.angle + self.motion.spin * moment
        scale = self.scale * float(np.exp(np.clip(self.motion.growth * moment, -0.7, 0.7)))
        squeeze = 1 - self.flap * (0.5 + 0.5 * np.sin(self.flap_speed * moment + self.flap_phase))
        across = scale * squeeze * (-1 if self.mirrored else 1)
        cos, sin, half = np.cos(angle), np.sin(angle), self.sprite.width / 2
        turn = np.array([[cos * across, -sin * scale, x], [sin * across, cos * scale, y], [0, 0, 1]])
        return np.asarray(turn @ np.array([[1, 0, -half], [0, 1, -half], [0, 0, 1.0]]), dtype=np.float64)

    def draw_on(self, frame: PillowImage.Image, moment: float) -> None:
        """Composite the actor, after its shadow, over the frame."""
        matrix = self.matrix(moment)
        if self.shadow is not None:
            reach = 0.05 * self.scale * self.sprite.width
            # The shadow's sprite is padded symmetrically, so that its centre does not move.
            pad = (self.shadow.width - self.sprite.width) / 2
            moved = np.array([[1, 0, reach], [0, 1, 1.4 * reach], [0, 0, 1.0]]) @ matrix
            moved = moved @ np.array([[1, 0, -pad], [0, 1, -pad], [0, 0, 1.0]])
            _paste(frame, self.shadow, moved)
        _paste(frame, self.sprite, matrix)

    def mask(self, size_wh: tuple[int, int], moment: float) -> NDArray[np.bool_]:
        """Return the pixels of the frame that the actor covers by half or more, ignoring occluders."""
        alpha = self.sprite.getchannel("A").transform(
            size_wh,
            PillowImage.Transform.AFFINE,
            tuple(np.linalg.inv(self.matrix(moment)).ravel()[:6]),
            PillowImage.Resampling.BILINEAR,
        )
        return np.asarray(alpha) >= 128

    def visible_area(self, moment: float) -> float:
        """Return the number of pixels that the actor would cover in a frame without edges."""
        return self.area * abs(float(np.linalg.det(self.matrix(moment)[:2, :2])))


def _paste(frame: PillowImage.Image, sprite: PillowImage.Image, matrix: Floats) -> None:
    side = sprite.width
    corners = np.array([[0, 0, 1], [side, 0, 1], [0, side, 1], [side, side, 1]]) @ matrix[:2].T
    left, top = np.maximum(np.floor(corners.min(axis=0)), 0).astype(int)
    right, bottom = np.minimum(np.ceil(corners.max(axis=0)), frame.size).astype(int)
    if right <= left or bottom <= top:
        return
    inverse = np.linalg.inv(matrix) @ np.array([[1, 0, left], [0, 1, top], [0, 0, 1.0]])
    # Pillow interpolates RGBA premultiplied, so transparent parts cause no dark or bright fringe.
    patch = sprite.transform(
        (int(right - left), int(bottom - top)),
        PillowImage.Transform.AFFINE,
        tuple(inverse.ravel()[:6]),
        PillowImage.Resampling.BILINEAR,
    )
    frame.paste(patch, (int(left), int(top)), patch)


def _shadow_of(sprite: PillowImage.Image) -> PillowImage.Image:
    radius = max(1, sprite.width // 16)
    padded = PillowImage.new("L", (sprite.width + 4 * radius, sprite.height + 4 * radius))
    padded.paste(sprite.getchannel("A").point(lambda value: value * 0.4), (2 * radius, 2 * radius))
    shadow = PillowImage.new("RGBA", padded.size)
    shadow.putalpha(padded.filter(ImageFilter.BoxBlur(radius)))
    return shadow


def of_kind(
    kind: Kind, label: int, *, diameter: float, centre: tuple[float, float], motion: Motion, rng: np.random.Generator,
    texture_faithful: float = 0.8,
) -> Actor:  # fmt: skip
    """Return a newly painted object of a class, `diameter` pixels across."""
    # Painted slightly larger than displayed, so that rotating and scaling do not blur it.
    painter = Painter(int(np.clip(np.ceil(diameter * 1.15), 24, 512)))
    kind.draw(painter, random_look(rng, texture=kind.texture, faithful=texture_faithful), rng)
    sprite = painter.image()
    return Actor(
        sprite=sprite,
        shadow=_shadow_of(sprite),
        label=label,
        centre=centre,
        scale=diameter / sprite.width,
        angle=float(rng.uniform(-np.pi, np.pi) if kind.free else rng.normal(0, 0.22)),
        mirrored=bool(rng.uniform() < 0.5),
        motion=motion,
        flap=kind.flap * float(rng.uniform(0.5, 1)),
        flap_speed=float(rng.uniform(0.4, 1.1)),
        flap_phase=float(rng.uniform(0, 2 * np.pi)),
    )


def distractor(size: int, *, amount: float, rng: np.random.Generator) -> Actor:
    """Return a textured object without a class: a pebble, a star, a ring or a slab."""
    diameter = size * rng.uniform(0.12, 0.3)
    painter = Painter(int(max(16, np.ceil(diameter * 1.15))))
    look = random_look(rng, texture="plain", faithful=0.0)
    shape = int(rng.integers(4))
    around = np.linspace(0, 2 * np.pi, 10, endpoint=False)
    if shape == 0:
        painter.part(
            smooth([(r * np.cos(a), r * np.sin(a)) for a, r in zip(around, rng.uniform(0.5, 0.95, 10), strict=True)]),
            look,
        )
    elif shape == 1:
        radius = np.where(np.arange(10) % 2, 0.4, 0.95)
        painter.part(np.stack([radius * np.cos(around), radius * np.sin(around)], axis=1), look)
    elif shape == 2:
        painter.line(ellipse(0, 0, 0.7, 0.7), look, width=0.4, colour=look.main)
    else:
        high = rng.uniform(0.3, 0.8)
        painter.part(np.array([[-0.9, -high], [0.9, -high], [0.9, high], [-0.9, high]]), look)
    sprite = painter.image()
    return Actor(
        sprite=sprite,
        shadow=_shadow_of(sprite),
        label=-1,
        centre=tuple(rng.uniform(0, size, 2)),
        scale=diameter / sprite.width,
        angle=float(rng.uniform(-np.pi, np.pi)),
        mirrored=False,
        motion=random_motion(rng, size, 0.6 * amount),
    )


def occluder(size: int, *, towards: Actor, amount: float, rng: np.random.Generator) -> Actor:
    """Return an object (a post or a spray of leaves) that passes in front of an actor before or after the anchor."""
    diameter = size * rng.uniform(0.8, 1.1)
    painter = Painter(int(np.ceil(diameter)))
    look = random_look(rng, texture="bands", faithful=0.4)
    if rng.uniform() < 0.5:
        wide = rng.uniform(0.09, 0.17)
        painter.part(np.array([[-wide, -1], [wide, -1], [wide, 1], [-wide, 1]]), look)
    else:
        painter.line(np.array([[-0.1, -0.9], [0.05, 0.0], [-0.05, 0.9]]), look, width=0.05)
        for y in np.linspace(-0.75, 0.75, 7):
            side = rng.choice([-1, 1])
            painter.part(ellipse(side * 0.2, y, 0.24, 0.1, angle=side * rng.uniform(-0.6, 0.2)), look)
    sprite = painter.image()
    # It meets the actor some frames away from the anchor, so that the anchor itself is mostly visible.
    meets = float(rng.uniform(4, 12) * rng.choice([-1, 1]))
    pace = max(0.3, amount) * size * rng.uniform(0.02, 0.045) * rng.choice([-1, 1])
    drift = np.array([pace, 0.0]) + towards.motion.offset(meets) / meets
    centre = np.array(towards.centre) - np.array([pace, 0.0]) * meets
    return Actor(
        sprite=sprite,
        shadow=None,
        label=-1,
        centre=(float(centre[0]), float(centre[1] + rng.normal(0, 0.05) * size)),
        scale=diameter / sprite.width,
        angle=float(rng.normal(0, 0.25)),
        mirrored=False,
        motion=Motion(drift=(float(drift[0]), float(drift[1]))),
    )
