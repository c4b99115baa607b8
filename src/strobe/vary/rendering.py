"""Frames rendered when they are read, from a stored image and a recipe."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Image, SendableSource
from strobe.core.tables import recipe_of
from strobe.vary.background import Mask, SiblingFiles, rung
from strobe.vary.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from strobe.vary.masks import read_mask, read_pane

_FIRST_VERSION = {"glass_blur": "glass_scatter", "frost": "frost_feathers", "fog": "fog_bank"}
"""The current names of three corruptions in recipes of version 1."""

_KEPT_BYTES = 64 * 2**20
"""The number of bytes of images cached for frames rendered from the same image."""


def corruption_recipe(kind: str, severity: int, *, seed: int, pane: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the recipe of a corrupted frame. `pane` names the ice photograph it uses, by file and digest.

    >>> corruption_recipe("fog", 3, seed=7)
    {'kind': 'corruption', 'name': 'fog', 'severity': 3, 'seed': 7, 'version': 2}
    """
    version = CORRUPTIONS[kind].version
    recipe: dict[str, Any] = {
        "kind": "corruption",
        "name": kind,
        "severity": severity,
        "seed": seed,
        "version": version,
    }
    return recipe if pane is None else {**recipe, "pane": dict(pane)}


class NoSiblings:
    """The companion files of a single image outside a dataset folder. There are none."""

    def mask(self, named: Mapping[str, Any], size_wh: tuple[int, int]) -> Mask:  # noqa: ARG002 (the port's signature)
        """Raise StrobeError, because there is no mask."""
        raise StrobeError("a frame's recipe names a mask, but its image does not belong to a dataset folder")

    def picture(self, named: Mapping[str, Any]) -> Image:  # noqa: ARG002 (the port's signature)
        """Raise StrobeError, because there is no other image."""
        raise StrobeError("a frame's recipe names another image, but its own image does not belong to a dataset folder")

    def pane(self, named: Mapping[str, Any]) -> Image:  # noqa: ARG002 (the port's signature)
        """Raise StrobeError, because there is no photograph."""
        raise StrobeError(
            "a frame's recipe names a photograph of ice, but its image does not belong to a dataset folder"
        )


def rendered(image: Image, recipe: Mapping[str, Any], beside: SiblingFiles | None = None) -> Image:
    """Apply the recipe to the image. Raises StrobeError for a recipe that this version does not support.

    `beside` provides the masks and other images that recipes may name.
    """
    draw = _KINDS.get(str(recipe.get("kind")))
    if draw is None:
        raise StrobeError(f"this version of strobe does not support a frame's recipe: {printable(recipe, limit=80)}")
    return draw(image, recipe, beside or NoSiblings())


def _corrupted(image: Image, recipe: Mapping[str, Any], beside: SiblingFiles) -> Image:
    severity, seed, version = (recipe.get(key) for key in ("severity", "seed", "version"))
    name = str(recipe.get("name"))
    if version == 1:
        name = _FIRST_VERSION.get(name, name)
    whole = type(severity) is int and type(seed) is int and seed >= 0  # True is not a severity
    named = recipe.get("pane", {})
    if name not in CORRUPTIONS or not whole or severity not in SEVERITIES or not isinstance(named, Mapping):
        raise StrobeError(f"a frame's recipe does not describe a valid corruption: {printable(recipe, limit=80)}")
    if version != CORRUPTIONS[name].version:
        raise StrobeError(
            f"a frame's recipe is for version {printable(version)} of {name}, but this strobe has version "
            f"{CORRUPTIONS[name].version}; make the set again with strobe vary corruption"
        )
    pane = beside.pane(named) if CORRUPTIONS[name].has_pane else None
    return corrupt(image, name, int(severity), np.random.default_rng(seed), pane=pane)


_KINDS: Mapping[str, Callable[[Image, Mapping[str, Any], SiblingFiles], Image]] = {
    "corruption": _corrupted,
    "rung": rung,
}
"""The function that renders each kind of recipe."""


@dataclass(frozen=True, slots=True)
class _RenderedRow:
    """A row's recipe, its image's name, and the row of the other image the recipe names (−1 if none)."""

    text: str
    picture: str
    donor: int = -1


class _Rendered:
    """A FrameSource on top of another source.

    It renders frames with a recipe from the other source's image at the same row. An image is decoded once for all
    frames rendered from it, if they are read close together.
    """

    def __init__(self, inner: FrameSource, recipes: Mapping[int, _RenderedRow], root: Path | None) -> None:
        self._inner, self._recipes, self._root = inner, recipes, root
        self._guard = threading.Lock()
        self._kept: OrderedDict[str, Any] = OrderedDict()

    def read(self, row: int) -> Image:
        """Return the frame, rendered if it has a recipe."""
        if row not in self._recipes:
            return self._inner.read(row)
        cooked = self._recipes[row]
        image = self._once(cooked.picture, lambda: self._inner.read(row))
        return rendered(image, recipe_of(cooked.text) or {}, _Folder(self, cooked.donor))

    def read_encoded(self, row: int) -> bytes | None:
        """Return the bytes of the stored file, or None if the frame is rendered."""
        return None if row in self._recipes else self._inner.read_encoded(row)

    def mask(self, named: Mapping[str, Any], size_wh: tuple[int, int]) -> Mask:
        """Return a mask of the folder."""
        if self._root is None:
            return NoSiblings().mask(named, size_wh)
        root, file, sha256 = self._root, named.get("file"), named.get("sha256")
        found: Mask = self._once(f"mask {file} {sha256} {size_wh}", lambda: read_mask(root, file, sha256, size_wh))
        return found

    def pane(self, named: Mapping[str, Any]) -> Image:
        """Return an ice photograph of the folder."""
        if self._root is None:
            return NoSiblings().pane(named)
        root, file, sha256 = self._root, named.get("file"), named.get("sha256")
        found: Image = self._once(f"pane {file} {sha256}", lambda: read_pane(root, file, sha256))
        return found

    def donor(self, row: int, named: Mapping[str, Any]) -> Image:
        """Return another image of the folder, stored at that row."""
        if row < 0:
            raise StrobeError(
                f"a frame's recipe names an image that is not in the dataset: {printable(dict(named), limit=80)}"
            )
        found: Image = self._once(str(named.get("media")), lambda: self._inner.read(row))
        return found

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the cached value of this name. Compute it if it is missing."""
        with self._guard:
            value = self._kept.get(name)
            if value is not None:
                self._kept.move_to_end(name)
                return value
        value = make()
        with self._guard:
            self._kept[name] = value
            while len(self._kept) > 1 and sum(one.nbytes for one in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True)
class _Folder:
    """The companion files of one row's image: the folder's masks, and the one other image that its recipe names."""

    source: _Rendered
    row: int

    def mask(self, named: Mapping[str, Any], size_wh: tuple[int, int]) -> Mask:
        """Return the mask."""
        return self.source.mask(named, size_wh)

    def picture(self, named: Mapping[str, Any]) -> Image:
        """Return the other image."""
        return self.source.donor(self.row, named)

    def pane(self, named: Mapping[str, Any]) -> Image:
        """Return the photograph of ice."""
        return self.source.pane(named)


class _SendableRendered(_Rendered):
    """A rendering source on top of a source that other processes can read."""

    _inner: SendableSource

    def only(self, rows: Sequence[int]) -> "_SendableRendered":
        """Return a source of only these rows and the images that their recipes name."""
        recipes = {row: self._recipes[row] for row in rows if row in self._recipes}
        others = [cooked.donor for cooked in recipes.values() if cooked.donor >= 0]
        return _SendableRendered(self._inner.only(list(dict.fromkeys([*rows, *others]))), recipes, self._root)

    def __reduce__(self) -> tuple[Any, ...]:
        return _SendableRendered, (self._inner, self._recipes, self._root)


def with_rendered_frames(source: FrameSource, dataset: Dataset) -> FrameSource:
    """Return the source with the dataset's recipes applied, or unchanged if there are none."""
    frames = dataset.frames
    rows = np.flatnonzero(frames.recipe != "").tolist()
    if not rows:
        return source
    at = {(media, sha): row for row, (media, sha) in enumerate(zip(frames.media, frames.sha256, strict=True)) if media}
    recipes = {}
    for row in rows:
        text, donor = str(frames.recipe[row]), -1
        if '"donor"' in text:
            named = (recipe_of(text) or {}).get("donor")
            donor = at.get((str(named.get("media")), str(named.get("sha256"))), -1) if isinstance(named, dict) else -1
        # A frame without its own file is rendered from its video's frame at the same position.
        recipes[row] = _RenderedRow(text, str(frames.media[row]) or f"row {row}", donor)
    made = _SendableRendered if isinstance(source, SendableSource) else _Rendered
    return made(source, recipes, dataset.root)
