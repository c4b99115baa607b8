"""What lies in a folder, opened through one function: no name and no link may lead out of it.

A dataset, run or training folder may come from a stranger. Its files name other files, and any of its entries may be a
link. Whatever is read from or written to such a folder passes `inside` first, or `matching` where names are searched.
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
    """The path of `name` in the folder, whether or not something is there.

    Raises InvalidFile where the name is absolute or holds `..`, where a link on the way leads out of the folder, and
    where a pipe or a device lies there. The folder itself may be a link: the user named it. What is to be `replaced`
    by a rename, or removed, may be anything: only the way to it is checked.

    >>> inside(Path("/data/set"), "media/a.png").as_posix()
    '/data/set/media/a.png'
    >>> inside(Path("/data/set"), "../secret")
    Traceback (most recent call last):
    strobe.core.errors.InvalidFile: /data/set: '../secret' is no file of this folder; it is not opened
    """
    text, relative = str(name), PurePath(name)
    if not relative.parts or relative.anchor or ".." in relative.parts or "\0" in text:
        raise InvalidFile(folder, f"{printable(text, limit=80)!r} is no file of this folder", hint="it is not opened")
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
    """What the pattern matches in the folder, sorted; each part of the way is checked before it is listed."""
    found = [folder]
    for part in pattern.split("/"):
        names = (path for parent in found if parent.is_dir() for path in sorted(parent.glob(part)))
        found = [inside(folder, path.relative_to(folder)) for path in names]
    return found


def refuse_links(folder: Path, names: Iterable[str] = WRITTEN) -> None:
    """Raise InvalidFile where a link below one of these names leads out of the folder: a write would follow it.

    Other entries are not looked at: somebody may keep a project of their own in the folder.
    """
    for name in names:
        top = folder / name
        if top.is_symlink():
            _refuse_way_out(folder, top)
        for other in others_in(top):
            if other.is_symlink():
                _refuse_way_out(folder, other)


def others_in(folder: Path) -> Iterator[Path]:
    """Whatever below a folder is neither a file nor a folder: links, which are not followed, pipes and devices."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # not there, not a folder, or not ours to list: writing there fails by itself
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from others_in(Path(entry.path))
        elif not entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _refuse_way_out(folder: Path, link: Path) -> None:
    try:
        stays = link.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        stays = False
    if not stays:
        raise InvalidFile(
            link, "a link that leads out of the folder", hint="it is not followed; put the file itself in its place"
        )
