"""The classes of the synthetic world: their appearance, their motion, and their home backgrounds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from strobe.core.labels import LabelSpace
from strobe.synthetic import creatures, things
from strobe.synthetic.painter import Look, Painter


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A class: its drawing function, its usual texture, its home background, and its orientation.

    `free` classes are seen from above and point in any direction. Other classes stay nearly upright and may face left
    or right. `flap` is the amplitude of a wing beat: the share of its width by which the shape is squeezed sideways.
    """

    name: str
    draw: Callable[[Painter, Look, np.random.Generator], None]
    texture: str
    home: str
    free: bool = False
    flap: float = 0.06


KINDS: tuple[Kind, ...] = (
    Kind(name="fish", draw=creatures.fish, texture="scales", home="water", flap=0.08),
    Kind(name="bird", draw=creatures.bird, texture="bands", home="clouds"),
    Kind(name="butterfly", draw=creatures.butterfly, texture="checks", home="meadow", free=True, flap=0.45),
    Kind(name="beetle", draw=creatures.beetle, texture="spots", home="leaves", free=True),
    Kind(name="turtle", draw=creatures.turtle, texture="rings", home="sand", free=True),
    Kind(name="snail", draw=creatures.snail, texture="rings", home="meadow", flap=0.1),
    Kind(name="car", draw=things.car, texture="plain", home="brick", flap=0.0),
    Kind(name="boat", draw=things.boat, texture="bands", home="water", flap=0.03),
    Kind(name="mug", draw=things.mug, texture="stripes", home="wood", flap=0.0),
    Kind(name="mushroom", draw=things.mushroom, texture="spots", home="leaves", flap=0.0),
    Kind(name="rocket", draw=things.rocket, texture="bands", home="night", free=True, flap=0.0),
    Kind(name="balloon", draw=things.balloon, texture="stripes", home="clouds", flap=0.04),
)
"""Every class, in the order of the label space."""

LABEL_SPACE = LabelSpace.of_names("strobe-synthetic", [kind.name for kind in KINDS])
"""The label space of everything rendered here."""
