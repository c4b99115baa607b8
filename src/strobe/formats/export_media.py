"""The files of an export, and how a dataset's stored frames are placed in another format's layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.files import inside, make_folder, write_bytes
from strobe.core.packed import PACKED_SUFFIX
from strobe.core.png import png_bytes
from strobe.core.ports import Progress
from strobe.store.bring_media import MediaMode, linked
from strobe.store.media import MediaSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A dataset in another format: the files to write, and each frame's image path, both relative.

    `also` lists file name patterns of further files that the export writes.
    """

    files: Mapping[str, str | bytes]
    images: Mapping[int, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()


def bring_out(dataset: Dataset, target: Path, names: Mapping[int, str], *, mode: MediaMode, progress: Progress) -> None:
    """Copy or hard-link the stored file of each frame row to target/NAME. Complete files are left unchanged.

    A packed frame becomes a PNG, unless NAME has the suffix of a packed frame.
    """
    if mode == "none" or not names:
        return
    bare = [row for row in names if not dataset.frames.media[row]]
    if bare:
        raise StrobeError(
            f"{len(bare)} of {len(names)} frames have no stored image (they were imported without media, or are only "
            f"in their videos); export with <<media=none>>"
        )
    source = MediaSource(dataset)
    with progress.task("images", len(names)) as advance:
        for row, name in names.items():
            origin, place = source.path(row), inside(target, name)
            if origin.suffix == PACKED_SUFFIX != place.suffix:
                if not place.is_file():
                    make_folder(place.parent)
                    write_bytes(place, png_bytes(source.read(row)))
            elif not (place.is_file() and origin.is_file() and place.stat().st_size == origin.stat().st_size):
                make_folder(place.parent)
                if mode != "link" or not linked(origin, place):
                    write_bytes(place, source.read_stored(row))
            advance(1)


def picture_name(media: str) -> str:
    """Return a stored frame's file name for other programs. A packed frame becomes a PNG.

    >>> picture_name("media/dog/000012.zst"), picture_name("media/dog/000012.jpg")
    ('media/dog/000012.png', 'media/dog/000012.jpg')
    """
    return media.removesuffix(PACKED_SUFFIX) + ".png" if media.endswith(PACKED_SUFFIX) else media


def refuse_rendered(dataset: Dataset, rows: Sequence[int], *, mode: MediaMode) -> None:
    """Raise StrobeError if images are requested for a dataset without a file for every frame."""
    rendered = sum(bool(dataset.frames.recipe[row]) for row in rows)
    if rendered and mode != "none":
        raise StrobeError(
            f"{rendered} of {len(rows)} frames are rendered when they are read and have no file; make the set with "
            "<<store>>, or export with <<media=none>>"
        )
