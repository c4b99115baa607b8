"""Frames that are rendered when they are read: a stored picture and a recipe for what is done to it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Image, SendableSource
from strobe.core.tables import recipe_of
from strobe.vary.corruptions import CORRUPTIONS, SEVERITIES, corrupt

__all__ = ["VERSION", "corruption_recipe", "rendered", "with_rendered_frames"]

VERSION = 1
"""Of what draws corruptions: another one where the same recipe gives other pixels."""

_KEPT_BYTES = 64 * 2**20
"""So many bytes of pictures are kept for the frames that are made from the same one."""


def corruption_recipe(kind: str, severity: int, *, seed: int) -> dict[str, Any]:
    """The recipe of a corrupted frame.

    >>> corruption_recipe("fog", 3, seed=7)
    {'kind': 'corruption', 'name': 'fog', 'severity': 3, 'seed': 7, 'version': 1}
    """
    return {"kind": "corruption", "name": kind, "severity": severity, "seed": seed, "version": VERSION}


def rendered(image: Image, recipe: Mapping[str, Any]) -> Image:
    """The image with what the recipe says done to it; StrobeError for one this version cannot make."""
    draw = _KINDS.get(str(recipe.get("kind")))
    if draw is None:
        raise StrobeError(f"a frame's recipe is of a kind this version does not know: {printable(recipe, limit=80)}")
    return draw(image, recipe)


def _corrupted(image: Image, recipe: Mapping[str, Any]) -> Image:
    name, severity, seed = (recipe.get(key) for key in ("name", "severity", "seed"))
    if recipe.get("version") != VERSION:
        raise StrobeError(
            f"a frame was made for version {printable(recipe.get('version'))} of the corruptions, this is {VERSION}: "
            "make the set again with strobe vary corruption"
        )
    whole = type(severity) is int and type(seed) is int and seed >= 0  # True is no severity
    if str(name) not in CORRUPTIONS or not whole or severity not in SEVERITIES:
        raise StrobeError(f"no corruption can be made from a frame's recipe: {printable(recipe, limit=80)}")
    return corrupt(image, str(name), int(severity), np.random.default_rng(seed))


_KINDS: Mapping[str, Callable[[Image, Mapping[str, Any]], Image]] = {"corruption": _corrupted}
"""What a recipe can be, and who carries it out."""


class _Rendered:
    """A FrameSource over another: frames with a recipe are made from the picture the other has at their row.

    `recipes` are those of such rows, each with the name of its picture: that is decoded once for all frames made from
    it, as long as they are read near each other.
    """

    def __init__(self, inner: FrameSource, recipes: Mapping[int, tuple[str, str]]) -> None:
        self._inner, self._recipes = inner, recipes
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, Image] = OrderedDict()

    def read(self, row: int) -> Image:
        """The frame, rendered where it has a recipe."""
        if row not in self._recipes:
            return self._inner.read(row)
        text, name = self._recipes[row]
        return rendered(self._picture(row, name), recipe_of(text) or {})

    def read_encoded(self, row: int) -> bytes | None:
        """The stored file's bytes; None where the frame is rendered."""
        return None if row in self._recipes else self._inner.read_encoded(row)

    def _picture(self, row: int, name: str) -> Image:
        with self._guard:
            image = self._kept.get(name)
            if image is not None:
                self._kept.move_to_end(name)
                return image
        image = self._inner.read(row)
        with self._guard:
            self._kept[name] = image
            while len(self._kept) > 1 and sum(one.nbytes for one in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)
        return image


class _SendableRendered(_Rendered):
    """The same over a source that other processes can read for us."""

    _inner: SendableSource

    def only(self, rows: Sequence[int]) -> "_SendableRendered":
        """A source of these rows alone."""
        recipes = {row: self._recipes[row] for row in rows if row in self._recipes}
        return _SendableRendered(self._inner.only(rows), recipes)

    def __reduce__(self) -> tuple[Any, ...]:
        return _SendableRendered, (self._inner, self._recipes)


def with_rendered_frames(source: FrameSource, dataset: Dataset) -> FrameSource:
    """The source, with the dataset's recipes carried out; itself where there are none."""
    rows = np.flatnonzero(dataset.frames.recipe != "")
    if not len(rows):
        return source
    frames = dataset.frames
    # A frame without a file of its own is made from the frame of its video at the same place.
    recipes = {row: (str(frames.recipe[row]), str(frames.media[row]) or f"row {row}") for row in rows.tolist()}
    made = _SendableRendered if isinstance(source, SendableSource) else _Rendered
    return made(source, recipes)
