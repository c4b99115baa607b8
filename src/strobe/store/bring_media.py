"""Copy or link image files from another layout into a dataset folder, and hash them."""

import filecmp
import hashlib
import io
import os
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.files import make_folder, write_bytes
from strobe.core.ports import Progress, Silent

_ORIENTATION = 0x0112

MediaMode = Literal["copy", "link", "none"]
"""`copy` the files, hard-`link` them (or copy if the disk has no links), or leave them at the source (`none`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How an import runs: how images are copied or linked, whether hints are computed, and where progress is reported.

    `look_only` is for a folder that already contains a dataset: nothing is written, and a missing or different file is
    an error.
    """

    media: MediaMode = "copy"
    hints: bool = False
    progress: Progress = field(default_factory=Silent)
    look_only: bool = False

    def __post_init__(self) -> None:
        if self.hints and self.media == "none":
            raise InvalidValue("<<hints>> needs the images; remove <<no_media>>")

    def files(self, source: Path, target: Path, names: Collection[str]) -> dict[str, tuple[str, tuple[int, int]]]:
        """Put source/NAME at target/media/NAME for every name. Returns sha256 and (width, height) of each.

        Existing files with the same bytes are not copied again, so the same command resumes. The result is empty if
        media stay at the source.
        """
        if self.media == "none":
            return {}
        for name in names:
            if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute() or "\\" in name:
                raise StrobeError(f"the frame name {printable(name)!r} points outside the release's folder")
        missing = [name for name in names if not (source / name).is_file()]
        if missing:
            raise StrobeError(
                f"{len(missing)} of {len(names)} images are missing under {printable(source)}, first "
                f"{printable(missing[0])}; complete the download, or use <<no_media>>"
            )
        facts = {}
        with self.progress.task("images", len(names)) as advance:
            for name in names:
                origin, place = source / name, target / "media" / name
                self.file(origin, place)
                facts[name] = image_size_and_hash(place)
                advance(1)
        if unreadable := [name for name, (_, size) in facts.items() if size == (0, 0)]:
            self.progress.note(
                f"{len(unreadable)} of {len(names)} images cannot be read, first {printable(unreadable[0])}; they stay "
                "in the dataset, and models leave them without an answer"
            )
        return facts

    def file(self, origin: Path, place: Path) -> None:
        """Put one file in place, unless a file with the same bytes is already there."""
        if place.is_file() and filecmp.cmp(origin, place, shallow=False):
            return
        self.refuse(place)
        make_folder(place.parent)
        if self.media != "link" or not linked(origin.resolve(), place):
            write_bytes(place, _content(origin))

    def refuse(self, place: Path) -> None:
        """Raise StrobeError if this import must not write files."""
        if self.look_only:
            raise StrobeError(f"{printable(place)} is missing, or differs from its source")


def linked(origin: Path, place: Path) -> bool:
    """Hard-link the file. Returns False if the disk does not support this, so that a copy is needed."""
    try:
        place.unlink(missing_ok=True)
        os.link(origin, place)
    except OSError:  # the target is on another disk, or its file system has no links
        return False
    return True


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StrobeError(f"cannot read {printable(path)}: {error.strerror}") from error


def image_size_and_hash(path: Path) -> tuple[str, tuple[int, int]]:
    """Return the sha256 of the file's bytes, and the image's upright width and height, (0, 0) if it is unreadable."""
    from PIL import Image as Pillow

    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Pillow.open(io.BytesIO(content)) as picture:
                width, height = picture.size
                sideways = picture.getexif().get(_ORIENTATION) in (5, 6, 7, 8)
    except Exception:  # damaged in one of many ways; reading it reports the error
        return digest, (0, 0)
    return digest, (height, width) if sideways else (width, height)
