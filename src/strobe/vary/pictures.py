"""The images of anchors in a folder made from another dataset, and the files rendered from them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.files import inside, write_bytes
from strobe.core.png import png_bytes
from strobe.core.ports import Image
from strobe.vary.rendering import Array, read_sibling, rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorImage:
    """An anchor's image in the new folder, and the files of its members if they are stored."""

    media: str
    sha256: str
    size_wh: tuple[int, int]
    members: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """File and digest by the member's name."""


def anchors_of(dataset: Dataset) -> list[int]:
    """Return the anchors' frame rows, each once, in the order of the sets."""
    return list(dict.fromkeys(dataset.sets.anchor_frame.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreJob:
    """A job that writes an image's members as files next to the image.

    It has the dataset's folder, the image's own file, the recipe of each member, and the decoder.
    """

    root: Path
    media: str
    wanted: Mapping[str, Mapping[str, Any]]
    """Recipes by the members' names."""
    decode: Callable[[bytes, Path], Image]

    def path(self, name: str) -> Path:
        """Return a member's path."""
        return inside(self.root, Path(self.media).with_name(f"{name}.png"))

    def file(self, named: Mapping[str, Any], what: str, decode: Callable[..., Array], *given: Any) -> Array:
        """Return a decoded file that a recipe names."""
        return decode(*read_sibling(self.root, named, what), *given)

    def picture(self, named: Mapping[str, Any]) -> Image:
        """Return an image of the folder."""
        path = inside(self.root, str(named.get("media")))
        return self.decode(path.read_bytes(), path)


def store_members(job: StoreJob) -> StoreJob:
    """Render and write the missing members. Return the job itself."""
    missing = [name for name in job.wanted if not job.path(name).is_file()]
    if not missing:
        return job
    image = job.picture({"media": job.media})
    for name in missing:
        write_bytes(job.path(name), png_bytes(rendered(image, job.wanted[name], job)))
    return job
