"""Bringing image files of a foreign layout into a dataset folder, and hashing them on the way."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from strobe.core.errors import StrobeError, printable
from strobe.core.files import make_folder, replacing
from strobe.core.ports import Progress

__all__ = ["MediaMode", "bring_media", "image_size_and_hash"]

MediaMode = Literal["copy", "link", "none"]
"""`copy` the files, hard-`link` them (the same bytes, no second copy; copied where the disk cannot), or `none`."""


def bring_media(
    source: Path, target: Path, names: Iterable[str], *, mode: MediaMode, progress: Progress, total: int
) -> dict[str, tuple[str, tuple[int, int]]]:
    """Put source/NAME at target/media/NAME for every name; sha256 and (width, height) of each come back.

    Files already there with the same size are not copied again, so the same command resumes.
    """
    wanted = list(names)
    missing = [name for name in wanted if not (source / name).is_file()]
    if missing:
        raise StrobeError(
            f"{len(missing)} of {total} images are missing under {printable(source)}, first {printable(missing[0])}; "
            "complete the download, or use --no-media"
        )
    found = {}
    with progress.task("images", total) as advance:
        for name in wanted:
            origin, place = source / name, target / "media" / name
            if not (place.is_file() and place.stat().st_size == origin.stat().st_size):
                make_folder(place.parent)
                _place(origin, place, mode)
            found[name] = image_size_and_hash(place)
            advance(1)
    return found


def _place(origin: Path, place: Path, mode: MediaMode) -> None:
    if mode == "link":
        try:
            place.unlink(missing_ok=True)
            os.link(origin.resolve(), place)
            return
        except OSError:
            pass  # another disk, or a file system without links: a copy serves
    with replacing(place) as temporary:
        shutil.copyfile(origin, temporary)


def image_size_and_hash(path: Path) -> tuple[str, tuple[int, int]]:
    """The sha256 of the file's bytes, and its width and height ((0, 0) where it is no readable image)."""
    from PIL import Image as Pillow

    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    try:
        with Pillow.open(path) as picture:
            return digest, (picture.width, picture.height)
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError):
        return digest, (0, 0)
