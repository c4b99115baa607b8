"""The synthetic world: short clips of painted moving objects with exact ground truth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.core.errors import UnknownName, expect
from strobe.synthetic import actors
from strobe.synthetic.actors import Actor, Motion
from strobe.synthetic.backgrounds import BACKGROUNDS, background
from strobe.synthetic.classes import KINDS, LABEL_SPACE

_MOST_SUBFRAMES = 8
_FAMILIES = tuple(BACKGROUNDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldOptions:
    """The world's settings. An amount of 1 is lively, and 0 disables the effect.

    `size` is the side of a frame, and `frames` is the length of a clip (odd, with the anchor in the middle). A clip has
    between `objects_min` and `objects_max` objects with a class. Objects without a class are added: up to `distractors`
    behind these objects, and up to `occluders` in front of them. `object_scale` is the range of diameters as shares of
    the side. `blur` is the share of a frame's time during which the shutter is open. With probability
    `background_correlation`, the background is the home of the main object's class. Otherwise it is any of the eight
    backgrounds, with equal probability. If `background_correlation` is below 0, its absolute value is the probability
    of a background that is not the home. With probability `texture_faithful` an object has its class's usual texture,
    otherwise any texture.
    """

    size: int = 128
    frames: int = 21
    fps: int = 30
    objects_min: int = 1
    objects_max: int = 1
    distractors: int = 2
    occluders: int = 1
    object_scale: tuple[float, float] = (0.35, 0.6)
    motion: float = 1.0
    blur: float = 0.6
    lighting: float = 1.0
    noise: float = 3.0
    background_correlation: float = 0.0
    texture_faithful: float = 0.8

    def __post_init__(self) -> None:
        expect(32 <= self.size <= 1024, "<<size>>", "32 to 1024", self.size)
        # The message names --k, because the command line takes k, and `frames` is 2k + 1.
        expect(self.frames % 2 == 1, "WorldOptions.frames", "an odd number, with the anchor in the middle", self.frames)
        expect(1 <= self.frames <= 2001, "<<k>>", "0 to 1000", (self.frames - 1) // 2)
        few, many = self.objects_min, self.objects_max
        expect(1 <= few <= many <= 20, "<<objects>>", "a number or a range within 1 to 20", f"{few}-{many}")
        expect(0 <= self.distractors <= 50, "<<distractors>>", "0 to 50", self.distractors)
        expect(0 <= self.occluders <= 10, "<<occluders>>", "0 to 10", self.occluders)
        low, high = self.object_scale
        expect(0.05 <= low <= high <= 1, "<<object_scale>>", "0.05 to 1, the smaller first", f"{low}-{high}")
        tops = {"motion": 4, "blur": 1, "lighting": 3, "noise": 64, "texture_faithful": 1}
        for name, top in tops.items():
            expect(0 <= getattr(self, name) <= top, f"<<{name}>>", f"0 to {top}", getattr(self, name))
        near = self.background_correlation
        expect(-1 <= near <= 1, "<<background_correlation>>", "-1 to 1", near)


DETECTION_WORLD = WorldOptions(size=128, objects_min=1, objects_max=3, object_scale=(0.25, 0.5))
"""The world of strobe-tiny's training and of the detection demo."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    """A rendered clip of T frames and N objects. Object 0 is the main object, and `label` is its class.

    `frames` is (T, H, W, 3) uint8. `labels` (N,) are classes, and an object's index is its track. `boxes` (T, N, 4)
    surround the visible part of an object, and `boxes_full` (T, N, 4) surround all of it that is inside the frame,
    visible or hidden. They are NaN if nothing is visible. `masks_visible` and `masks_full` (T, N, H, W) are at the
    middle of the exposure. `occlusion` (T, N) is the covered share of an object's pixels inside the frame. `in_view`
    (T, N) is the share of the object inside the frame. `background` is the family's index in BACKGROUNDS.
    """

    seed: int
    frames: NDArray[np.uint8]
    label: int
    labels: NDArray[np.int32]
    boxes: NDArray[np.float64]
    boxes_full: NDArray[np.float64]
    masks_visible: NDArray[np.bool_]
    masks_full: NDArray[np.bool_]
    occlusion: NDArray[np.float64]
    in_view: NDArray[np.float64]
    background: int

    @property
    def background_name(self) -> str:
        """The background's family."""
        return _FAMILIES[self.background]

    @property
    def anchor(self) -> int:
        """The index of the middle frame."""
        return len(self.frames) // 2


class World:
    """Renders clips. The same options and seed give the same bytes.

    >>> clip = World(WorldOptions(size=48, frames=3)).clip(7)
    >>> clip.frames.shape, clip.boxes.shape
    ((3, 48, 48, 3), (3, 1, 4))
    """

    label_space = LABEL_SPACE

    def __init__(self, options: WorldOptions | None = None) -> None:
        self.options = options or WorldOptions()

    def clip(
        self,
        seed: int,
        *,
        label: int | None = None,
        background: str | None = None,
        offsets: Sequence[int] | None = None,
    ) -> Clip:
        """Render the clip of a seed. `label` fixes the main object's class, and `background` the background's family.

        Neither option changes anything else: with another background, the rest of the clip is the same. `offsets`
        selects frames, counted from the anchor. They get the noise of a clip that has only these frames.
        """
        options = self.options
        expect(seed >= 0, "seed", ">= 0", seed)
        expect(label is None or 0 <= label < len(KINDS), "label", f"0 to {len(KINDS) - 1}", label)
        if background is not None and background not in BACKGROUNDS:
            raise UnknownName("background", background, BACKGROUNDS)
        cast_rng, ground_rng, camera_rng, clutter_rng, light_rng, noise_rng = np.random.default_rng(seed).spawn(6)
        objects = self._objects(cast_rng, label)
        home = KINDS[objects[0].label].home
        drawn = _family(home, options.background_correlation, ground_rng)
        family = background or drawn
        ground = self._ground(family, ground_rng)
        camera = actors.random_motion(camera_rng, options.size, 0.5 * options.motion)
        behind, before = self._clutter(clutter_rng, objects[0])
        # The main object is drawn last, so other objects may pass behind it but never in front of it.
        scene = _Scene(options, ground, camera, [*behind, *reversed(objects), *before])
        half = options.frames // 2
        moments = tuple(range(-half, half + 1)) if offsets is None else tuple(offsets)
        frames = np.stack([scene.expose(moment) for moment in moments])
        frames = _seen_by_sensor(frames, moments, options, light_rng, noise_rng)
        return self._known(seed, frames, moments, objects, before, scene, _FAMILIES.index(family))

    def _objects(self, rng: np.random.Generator, label: int | None) -> list[Actor]:
        options, size = self.options, self.options.size
        count_rng, *each = rng.spawn(1 + options.objects_max)
        count = int(count_rng.integers(options.objects_min, options.objects_max + 1))
        placed: list[Actor] = []
        diameters: list[float] = []
        for place in range(count):
            draw = each[place]
            drawn = int(draw.integers(len(KINDS)))
            chosen = label if place == 0 and label is not None else drawn
            diameter = float(size * draw.uniform(*options.object_scale))
            centre = self._free_place(draw, diameter, placed, diameters)
            motion = actors.random_motion(draw, size, options.motion)
            placed.append(
                actors.of_kind(
                    KINDS[chosen], chosen, diameter=diameter, centre=centre, motion=motion, rng=draw,
                    texture_faithful=options.texture_faithful,
                )
            )  # fmt: skip
            diameters.append(diameter)
        return placed

    def _free_place(
        self, rng: np.random.Generator, diameter: float, others: list[Actor], diameters: list[float]
    ) -> tuple[float, float]:
        """Choose a dozen random positions inside the frame.

        Return the position that is farthest from the existing positions.
        """
        edge = min(0.5 * diameter, 0.5 * self.options.size)
        tries = rng.uniform(edge, self.options.size - edge, (12, 2))
        if not others:
            return float(tries[0, 0]), float(tries[0, 1])
        gaps = [
            np.linalg.norm(tries - np.array(other.centre), axis=1) - 0.5 * (diameter + across)
            for other, across in zip(others, diameters, strict=True)
        ]
        best = tries[int(np.min(gaps, axis=0).argmax())]
        return float(best[0]), float(best[1])

    def _ground(self, family: str, rng: np.random.Generator) -> PillowImage.Image:
        # The painting's seed depends on the family, so that a background requested by name is always the same.
        own = np.random.default_rng([int(rng.integers(2**32)), _FAMILIES.index(family)])
        return background(family, int(self.options.size * 1.5), own)

    def _clutter(self, rng: np.random.Generator, main: Actor) -> tuple[list[Actor], list[Actor]]:
        options = self.options
        count_rng, *each = rng.spawn(1 + options.distractors + options.occluders)
        behind = int(count_rng.integers(options.distractors + 1))
        before = int(count_rng.integers(options.occluders + 1))
        return (
            [actors.distractor(options.size, amount=options.motion, rng=each[place]) for place in range(behind)],
            [
                actors.occluder(
                    options.size, towards=main, amount=options.motion, rng=each[options.distractors + place]
                )
                for place in range(before)
            ],
        )

    def _known(
        self, seed: int, frames: NDArray[np.uint8], moments: Sequence[int], objects: list[Actor],
        before: list[Actor], scene: "_Scene", family: int,
    ) -> Clip:  # fmt: skip
        size_wh = (self.options.size, self.options.size)
        shape = (len(frames), len(objects), self.options.size, self.options.size)
        full, visible = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        in_view = np.zeros(shape[:2])
        for index, moment in enumerate(moments):
            hidden = np.zeros(shape[2:], dtype=bool)
            for actor in before:
                hidden |= scene.at(actor, moment).mask(size_wh, moment)
            for track, actor in enumerate(objects):
                seen = scene.at(actor, moment)
                full[index, track] = seen.mask(size_wh, moment)
                visible[index, track] = full[index, track] & ~hidden
                in_view[index, track] = min(1.0, full[index, track].sum() / max(seen.visible_area(moment), 1.0))
                hidden |= full[index, track]
        inside = full.sum(axis=(2, 3))
        share = visible.sum(axis=(2, 3)) / np.maximum(inside, 1)
        return Clip(
            seed=seed,
            frames=frames,
            label=objects[0].label,
            labels=np.array([actor.label for actor in objects], dtype=np.int32),
            boxes=_boxes_of(visible),
            boxes_full=_boxes_of(full),
            masks_visible=visible,
            masks_full=full,
            occlusion=np.where(inside > 0, 1 - share, 0.0),
            in_view=in_view,
            background=family,
        )


class _Scene:
    """The background and the actors, seen by a moving camera. The last actor is in front."""

    def __init__(self, options: WorldOptions, ground: PillowImage.Image, camera: Motion, cast: list[Actor]) -> None:
        self._options, self._ground, self._camera, self._cast = options, ground, camera, cast

    def at(self, actor: Actor, moment: float) -> Actor:
        """Return the actor as the camera sees it at a moment, with the camera's own motion subtracted."""
        x, y = self._camera.offset(moment)
        return replace(actor, centre=(actor.centre[0] - float(x), actor.centre[1] - float(y)))

    def expose(self, moment: float) -> NDArray[np.uint8]:
        """Render one frame, averaged over the time during which the shutter is open."""
        open_for = self._options.blur
        count = self._subframes(moment, open_for)
        moments = [moment + open_for * ((place + 0.5) / count - 0.5) for place in range(count)]
        total = np.zeros((self._options.size, self._options.size, 3), dtype=np.uint16)
        for one in moments:
            total += np.asarray(self._look(one))
        return np.asarray((total + count // 2) // count, dtype=np.uint8)

    def _subframes(self, moment: float, open_for: float) -> int:
        if not open_for:
            return 1
        ends = (moment - open_for / 2, moment + open_for / 2)
        camera = self._camera.offset(ends[1]) - self._camera.offset(ends[0])
        travels = [np.linalg.norm(camera)]
        travels += [np.linalg.norm(a.motion.offset(ends[1]) - a.motion.offset(ends[0]) - camera) for a in self._cast]
        return int(np.clip(np.ceil(max(travels) / 1.5), 1, _MOST_SUBFRAMES))

    def _look(self, moment: float) -> PillowImage.Image:
        size = self._options.size
        x, y = self._camera.offset(moment)
        room = (self._ground.width - size) / 2
        left, top = (float(np.clip(room + shift, 1, 2 * room - 1)) for shift in (x, y))
        frame = self._ground.transform(
            (size, size),
            PillowImage.Transform.AFFINE,
            (1, 0, left, 0, 1, top),
            PillowImage.Resampling.BILINEAR,
        )
        for actor in self._cast:
            self.at(actor, moment).draw_on(frame, moment)
        return frame


def _family(home: str, correlation: float, rng: np.random.Generator) -> str:
    """Choose the background's family: the home with the correlation's probability, else any.

    Below 0, it avoids the home.
    """
    if rng.uniform() >= abs(correlation):
        return str(rng.choice(_FAMILIES))
    return home if correlation > 0 else str(rng.choice([name for name in _FAMILIES if name != home]))


def _seen_by_sensor(
    frames: NDArray[np.uint8],
    moments: Sequence[int],
    options: WorldOptions,
    light_rng: np.random.Generator,
    noise_rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """Apply drifting light from one side, and a little noise."""
    heading, level = light_rng.uniform(0, 2 * np.pi), light_rng.uniform(0.75, 1.1)
    tint = 1 + options.lighting * light_rng.uniform(-0.08, 0.08, 3)
    swing, speed, phase = light_rng.uniform(0, 0.12), light_rng.uniform(0.1, 0.6), light_rng.uniform(0, 2 * np.pi)
    rows, columns = np.mgrid[0 : options.size, 0 : options.size] / options.size - 0.5
    slope = 1 + 0.35 * options.lighting * (np.cos(heading) * columns + np.sin(heading) * rows)
    base = (slope[:, :, None] * tint * (1 + options.lighting * (level - 1))).astype(np.float32)
    out = np.empty_like(frames)
    for index, (moment, frame) in enumerate(zip(moments, frames, strict=True)):
        gain = 1 + options.lighting * swing * np.sin(speed * moment + phase)
        lit = frame * (base * np.float32(gain))
        if options.noise:
            lit += np.float32(options.noise) * noise_rng.standard_normal(lit.shape, dtype=np.float32)
        out[index] = np.clip(lit + 0.5, 0, 255)
    return out


def _boxes_of(masks: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the tight box of every mask, far corner exclusive. It is NaN for an empty mask."""
    boxes = np.full((*masks.shape[:2], 4), np.nan)
    for place, track in np.argwhere(masks.any(axis=(2, 3))):
        columns = np.flatnonzero(masks[place, track].any(axis=0))
        rows = np.flatnonzero(masks[place, track].any(axis=1))
        boxes[place, track] = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    return boxes
