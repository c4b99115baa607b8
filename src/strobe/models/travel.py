"""Send a user's Python file to another machine with the files it needs, and verify them there by hash.

The parcel contains the file and all modules and packages from its folder that it imports, directly or indirectly. It
also contains the files in that folder whose names occur as strings in the code. A file that is too large must exist at
the same path on the other machine.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strobe.core.errors import ModelFailed, expect, printable
from strobe.core.files import cache_folder, make_folder
from strobe.core.locks import locked
from strobe.core.swaps import swapping
from strobe.models.own_files import named_beside

_LARGE = 32 << 20
"""A data file larger than this many bytes is not sent."""
_MOST = 64 << 20
"""The maximum number of bytes sent with one file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A file and its companion files, as plain data that pickles.

    `files` maps names, relative to the folder `home`, to contents. `left` maps the files that are too large to their
    sizes.
    """

    home: Path
    name: str
    files: Mapping[str, bytes]
    left: Mapping[str, int]

    def __post_init__(self) -> None:
        expect(self.name in self.files, "parcel", "a parcel that contains the file itself", self.name)

    @property
    def digest(self) -> str:
        """The digest of the contents, independent of the machine and folder."""
        lines = [f"{hashlib.sha256(content).hexdigest()} {name}" for name, content in sorted(self.files.items())]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def pack(path: Path) -> Parcel:
    """Pack the file and the neighbouring files that its code mentions."""
    path = path.resolve()
    files: dict[str, bytes] = {}
    too_large: dict[str, int] = {}
    for file in (path, *named_beside(path)):
        name = file.relative_to(path.parent).as_posix()
        if file.suffix != ".py" and file.stat().st_size > _LARGE:
            too_large[name] = file.stat().st_size
            continue
        files[name] = file.read_bytes()
        if sum(map(len, files.values())) > _MOST:
            raise ModelFailed(
                f"{printable(path)}: the file and the files it names are more than {_MOST >> 20} MiB together, too "
                f"large to "
                "send to other machines; give weights as @FILE, on a file system that all machines share"
            )
    return Parcel(home=path.parent, name=path.name, files=files, left=too_large)


def unpack(parcel: Parcel) -> Path:
    """Return the file on this machine, at its original path if the same bytes are there, otherwise in a cache.

    The cache is a folder named by the parcel's digest. The first process fills it, and every process verifies it.
    """
    folder = parcel.home
    if not _is_whole(folder, parcel):
        if parcel.left:
            name, size = next(iter(parcel.left.items()))
            raise ModelFailed(
                f"{printable(folder / parcel.name)}: {printable(name)} next to it ({size >> 20} MiB) is too large to "
                f"send, and this machine does not have both files unchanged; put them on a file system that all "
                f"machines share"
            )
        folder = cache_folder() / "code" / parcel.digest
        if not _is_whole(folder, parcel):
            with locked(folder.with_name(f"{parcel.digest}.lock"), busy=None):  # other processes wait for the first
                if not _is_whole(folder, parcel):
                    _fill(folder, parcel)
    return folder / parcel.name


def _fill(folder: Path, parcel: Parcel) -> None:
    """Write the parcel's files into the cache folder, all at once."""
    with swapping(folder) as staged:
        for name, content in parcel.files.items():
            make_folder((staged.root / name).parent)
            (staged.root / name).write_bytes(content)


def _is_whole(folder: Path, parcel: Parcel) -> bool:
    """Return whether the folder contains the parcel's files, byte for byte, and also the files that were not sent."""
    try:
        same = all((folder / name).read_bytes() == content for name, content in parcel.files.items())
    except OSError:
        return False
    return same and all(_size(folder / name) == size for name, size in parcel.left.items())


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
