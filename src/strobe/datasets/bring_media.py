"""Bringing image files of a foreign layout into a dataset folder, and hashing them on the way."""

import hashlib
import io
import os
import warnings
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Literal

from strobe.core.errors import StrobeError, printable
from strobe.core.files import make_folder, write_bytes
from strobe.core.ports import Progress

__all__ = ["MediaMode", "bring_media", "image_size_and_hash"]

_ORIENTATION = 0x0112

MediaMode = Literal["copy", "link", "none"]
"""`copy` the files, hard-`link` them (the same bytes, no second copy; copied where the disk cannot), or `none`."""


def bring_media(
    source: Path, target: Path, names: Iterable[str], *, mode: MediaMode, progress: Progress, total: int
) -> dict[str, tuple[str, tuple[int, int]]]:
    """Put source/NAME at target/media/NAME for every name; sha256 and (width, height) of each come back.

    Files already there with the same size are not copied again, so the same command resumes.
    """
    wanted = list(names)
    for name in wanted:
        if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute() or "\\" in name:
            raise StrobeError(f"the frame name {printable(name)!r} leaves the release's folder; it is refused")
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
    try:
        content = origin.read_bytes()
    except OSError as error:
        raise StrobeError(f"cannot read {printable(origin)}: {error.strerror}") from error
    write_bytes(place, content)


def image_size_and_hash(path: Path) -> tuple[str, tuple[int, int]]:
    """The sha256 of the file's bytes, and its upright width and height ((0, 0) where it is no readable image)."""
    from PIL import Image as Pillow

    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Pillow.open(io.BytesIO(content)) as picture:
                width, height = picture.size
                sideways = picture.getexif().get(_ORIENTATION) in (5, 6, 7, 8)
    except Exception:  # damaged in one of many ways; it is reported where it is read
        return digest, (0, 0)
    return digest, (height, width) if sideways else (width, height)
