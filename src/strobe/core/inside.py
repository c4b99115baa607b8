"""Access the files of a folder through one function, so that no name and no link can lead out of the folder.

A dataset, run or training folder may come from a stranger. Its files name other files, and any of its entries may be a
link. Every path in such a folder is checked before it is read or written: by `inside`, or by `matching` if names are
searched.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from strobe.core.errors import InvalidFile, printable

__all__ = ["WRITTEN", "inside", "matching", "others_in", "refuse_links"]

WRITTEN = (
    *("media", "masks", "generator", "predictions", "external", "frames", "tables", "figures", "data", "images", "val"),
    *(".committed", ".build", ".simulate", ".attack", ".generator", ".detector", "metadata", "test", "report"),
)
"""The folders inside a folder that commands write to."""


def inside(folder: Path, name: str | PurePath, *, replaced: bool = False) -> Path:
    """Return the path of `name` in the folder, whether or not the file exists.

    Raises InvalidFile if the name is absolute or contains `..`, if a link on the path leads out of the folder, or if
    the path is a pipe or a device. The folder itself may be a link, because the user named it. With `replaced`, the
    entry will be replaced by a rename or removed, so it may be of any kind. Only the path to it is checked.

    >>> inside(Path("/data/set"), "media/a.png").as_posix()
    '/data/set/media/a.png'
    >>> inside(Path("/data/set"), "../secret")
    Traceback (most recent call last):
    strobe.core.errors.InvalidFile: /data/set: '../secret' is not a file in this folder; strobe did not open it
    """
    text, relative = str(name), PurePath(name)
    if not relative.parts or relative.anchor or ".." in relative.parts or "\0" in text:
        raise InvalidFile(
            folder, f"{printable(text, limit=80)!r} is not a file in this folder", hint="strobe did not open it"
        )
    path = folder
    try:
        for part in relative.parts[:-1] if replaced else relative.parts:
            path = path / part
            if path.is_symlink():
                _refuse_way_out(folder, path)
        kind = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return folder / relative
    except OSError as error:
        raise InvalidFile(path, f"cannot be read ({error.strerror})") from error
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise InvalidFile(path, "not a regular file")
    return folder / relative


def matching(folder: Path, pattern: str) -> list[Path]:
    """Return the matches of the pattern in the folder, sorted; each part of the path is checked before it is listed."""
    paths = [folder]
    for part in pattern.split("/"):
        names = (path for parent in paths if parent.is_dir() for path in sorted(parent.glob(part)))
        paths = [inside(folder, path.relative_to(folder)) for path in names]
    return paths


def refuse_links(folder: Path, names: Iterable[str] = WRITTEN) -> None:
    """Raise InvalidFile if a link below one of these names leads out of the folder, because a write would follow it.

    Other entries are not checked, because the folder may also hold the user's own project.
    """
    for name in names:
        top = folder / name
        if top.is_symlink():
            _refuse_way_out(folder, top)
        for other in others_in(top):
            if other.is_symlink():
                _refuse_way_out(folder, other)


def others_in(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder that is neither a file nor a folder: links (not followed), pipes and devices."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # it is missing, not a folder or not readable, so a write into it fails anyway
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from others_in(Path(entry.path))
        elif not entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _refuse_way_out(folder: Path, link: Path) -> None:
    try:
        stays = link.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # circular links
        stays = False
    if not stays:
        raise InvalidFile(
            link,
            "a link that leads out of the folder",
            hint="strobe does not follow it; replace the link with the file",
        )
