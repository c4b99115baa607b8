"""Frames rendered when they are read, from a stored image and a recipe."""

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import inside
from strobe.core.late import Registry
from strobe.core.ports import FrameSource, Image, SendableSource
from strobe.core.tables import recipe_of
from strobe.vary.corruptions import CORRUPTIONS, SEVERITIES, corrupt

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


Array = TypeVar("Array", bound=NDArray[Any])


class SiblingFiles(Protocol):
    """Reads the other files that a recipe may name. They are in the same folder and named with their digest."""

    def file(self, named: Mapping[str, Any], what: str, decode: Callable[..., Array], *given: Any) -> Array:
        """Return `decode(content, path, *given)` of a file that is a `what`, such as a mask."""

    def picture(self, named: Mapping[str, Any]) -> Image:
        """Return another image of the folder."""


def read_sibling(root: Path, named: Mapping[str, Any], what: str) -> tuple[bytes, Path]:
    """Return the content and the path of a file that a recipe names.

    Raise an error if the file is outside the folder, or if its digest differs from the recipe's.
    """
    file = named.get("file")
    if not isinstance(file, str):
        raise StrobeError(
            f"a frame's recipe names a {what} that is not a file of the dataset: {printable(file, limit=80)}"
        )
    path = inside(root, file)
    try:
        content = path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise InvalidFile(path, "cannot be read") from error
    if content is None:
        raise InvalidFile(path, f"the {what} is missing", hint="copy the complete dataset folder, or make it again")
    if hashlib.sha256(content).hexdigest() != named.get("sha256"):
        raise InvalidFile(path, f"not the {what} that the dataset was made with", hint="make the dataset again")
    return content, path


class NoSiblings:
    """The companion files of a single image outside a dataset folder. There are none."""

    def file(self, named: Mapping[str, Any], what: str, decode: Callable[..., Array], *given: Any) -> Array:  # noqa: ARG002 (the port's signature)
        """Raise StrobeError, because there is no such file."""
        raise StrobeError(f"a frame's recipe names a {what}, but its image does not belong to a dataset folder")

    def picture(self, named: Mapping[str, Any]) -> Image:  # noqa: ARG002 (the port's signature)
        """Raise StrobeError, because there is no other image."""
        raise StrobeError("a frame's recipe names another image, but its own image does not belong to a dataset folder")


def rendered(image: Image, recipe: Mapping[str, Any], beside: SiblingFiles | None = None) -> Image:
    """Apply the recipe to the image. Raises StrobeError for a recipe that this installation does not support.

    `beside` provides the masks and other images that recipes may name.
    """
    kind = recipe.get("kind")
    if not isinstance(kind, str) or kind not in RENDERINGS:
        known = ", ".join(RENDERINGS)
        raise StrobeError(
            f"this installation of strobe renders {known}, and does not support a frame's recipe: "
            f"{printable(recipe, limit=80)}"
        )
    frame: Image = RENDERINGS[kind](image, recipe, beside or NoSiblings())
    return frame


RENDERINGS: Registry[Any] = Registry(
    "renderings", FunctionType, "kind of recipe", {"corruption": "strobe.vary.rendering:corrupted"}, closed=True
)
"""Every kind of recipe by its name in recipes: a function (image, recipe, beside) that draws a frame from the stored
image. Annexes bring some.
"""


def corrupted(image: Image, recipe: Mapping[str, Any], beside: SiblingFiles) -> Image:
    """Return the image with the corruption of its recipe."""
    severity, seed, version = (recipe.get(key) for key in ("severity", "seed", "version"))
    name = str(recipe.get("name"))
    whole = type(severity) is int and type(seed) is int and seed >= 0  # True is not a severity
    named = recipe.get("pane", {})
    if name not in CORRUPTIONS or not whole or severity not in SEVERITIES or not isinstance(named, Mapping):
        raise StrobeError(f"a frame's recipe does not describe a valid corruption: {printable(recipe, limit=80)}")
    if version != CORRUPTIONS[name].version:
        raise StrobeError(
            f"a frame's recipe is for version {printable(version)} of {name}, but this strobe has version "
            f"{CORRUPTIONS[name].version}; make the set again with strobe vary corruption"
        )
    pane = beside.file(named, "photograph", _pane) if CORRUPTIONS[name].has_pane else None
    return corrupt(image, name, int(severity), np.random.default_rng(seed), pane=pane)


def _pane(content: bytes, _: Path) -> Image:
    from PIL import Image as Pillow

    with Pillow.open(io.BytesIO(content)) as opened:
        return np.asarray(opened.convert("RGB"))


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

    def file(self, named: Mapping[str, Any], what: str, decode: Callable[..., Array], *given: Any) -> Array:
        """Return a decoded file of the folder."""
        if self._root is None:
            return NoSiblings().file(named, what, decode)
        root, file, sha256 = self._root, named.get("file"), named.get("sha256")
        name = f"{what} {file} {sha256} {given}"
        found: Array = self._once(name, lambda: decode(*read_sibling(root, named, what), *given))
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

    def file(self, named: Mapping[str, Any], what: str, decode: Callable[..., Array], *given: Any) -> Array:
        """Return a decoded file of the folder."""
        return self.source.file(named, what, decode, *given)

    def picture(self, named: Mapping[str, Any]) -> Image:
        """Return the other image."""
        return self.source.donor(self.row, named)


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
