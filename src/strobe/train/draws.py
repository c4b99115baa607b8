"""Derive each step's batch from the step's number, so that resuming needs no replay and all processes agree."""

import hashlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from strobe.core.arrays import Ints
from strobe.train.recipe import Recipe
from strobe.train.sets import TrainingSets

_KEPT = 16
"""The number of batches that are kept, because frames are read several steps ahead."""


class Purpose(IntEnum):
    """The purposes of random draws. Each has an independent random stream."""

    ORDER = 1
    FRAME = 2
    CROP = 3
    PARTNER = 4
    NETWORK = 5
    CORRUPTION = 6
    ATTACK = 7
    LATENT = 8
    STANDING = 9
    SAMPLES = 10
    ANCHOR = 11


def generator(seed: int, purpose: Purpose, *numbers: int) -> np.random.Generator:
    """Return the random generator of one purpose at one step or epoch, or for one image of a step."""
    return np.random.default_rng([seed, int(purpose), *numbers])


def mixed(seed: int, purpose: Purpose, *numbers: int) -> int:
    """Return an integer seed for one purpose at one step, for random generators other than numpy's.

    >>> mixed(0, Purpose.NETWORK, 1) != mixed(0, Purpose.NETWORK, 2) != mixed(1, Purpose.NETWORK, 2)
    True
    """
    text = " ".join(map(str, (seed, int(purpose), *numbers)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())


@dataclass(frozen=True, slots=True, eq=False)
class BatchDraw:
    """The batch of one step, with B items.

    `rows` (B,) index the training table, and `place` (B,) is the position in the batch. For losses over sets, `member`
    (B, M) are rows padded with −1, and `partner` (B,) is a random row of each set. `crops` (B, 3) are the crops for
    Pixels.take. With random resized crops, a fourth column has their seeds.
    """

    rows: Ints
    crops: Ints
    place: Ints
    member: Ints | None = None
    partner: Ints | None = None

    def part(self, which: slice) -> "BatchDraw":
        """Return a part of the batch."""
        member = None if self.member is None else self.member[which]
        partner = None if self.partner is None else self.partner[which]
        return BatchDraw(self.rows[which], self.crops[which], self.place[which], member, partner)


class Schedule:
    """The batches of a training, by step number."""

    def __init__(self, sets: TrainingSets, recipe: Recipe, *, seed: int, side_hw: tuple[int, int]) -> None:
        self._sets, self._recipe, self._seed = sets, recipe, seed
        self._by_frame = recipe.frames == "all" and not recipe.takes_sets
        self.units = len(sets.label) if self._by_frame else len(sets)
        self.batch = min(recipe.batch, self.units)
        self.steps_per_epoch = max(1, self.units // self.batch)
        self.steps = recipe.steps or recipe.epochs * self.steps_per_epoch
        self._reach = np.array([round(recipe.crop * side) for side in side_hw])
        self._lengths = sets.lengths
        self._epoch, self._order = -1, np.zeros(0, dtype=np.int64)
        self._drawn: dict[int, BatchDraw] = {}

    def epoch(self, step: int) -> int:
        """Return a step's epoch, from 0."""
        return step // self.steps_per_epoch

    def draw(self, step: int) -> BatchDraw:
        """Return the step's batch."""
        if step not in self._drawn:
            self._drawn[step] = self._draw(step)
            while len(self._drawn) > _KEPT:
                del self._drawn[next(iter(self._drawn))]
        return self._drawn[step]

    def _draw(self, step: int) -> BatchDraw:
        epoch, within = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, generator(self._seed, Purpose.ORDER, epoch).permutation(self.units)
        unit = self._order[within * self.batch : (within + 1) * self.batch]
        crops, place = self._crops(step, len(unit)), np.arange(len(unit))
        if self._by_frame:
            return BatchDraw(unit, crops, place)
        sets, recipe = self._sets, self._recipe
        if recipe.frames == "anchor" and not recipe.takes_sets:
            return BatchDraw(sets.anchor[unit], crops, place)
        lengths = self._lengths[unit]
        rows = sets.member[unit, generator(self._seed, Purpose.FRAME, step).integers(0, lengths)]
        if not recipe.takes_sets:
            return BatchDraw(rows, crops, place)
        other = sets.member[unit, generator(self._seed, Purpose.PARTNER, step).integers(0, lengths)]
        return BatchDraw(rows, crops, place, sets.member[unit], other)

    def _crops(self, step: int, count: int) -> Ints:
        draw, crops = generator(self._seed, Purpose.CROP, step), np.zeros((count, 3), dtype=np.int64)
        crops[:, :2] = draw.integers(-self._reach, self._reach + 1, (count, 2))
        crops[:, 2] = draw.integers(0, 2, count) if self._recipe.flip else 0
        if not self._recipe.crop_area:
            return crops
        crops[:, :2] = 0
        return np.column_stack([crops, draw.integers(0, 2**62, count)])
