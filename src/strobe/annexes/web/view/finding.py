"""Find runs and datasets under the given places, and tell whether a run is going on."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from strobe.core.errors import StrobeError, printable
from strobe.core.files import hold, matching, release
from strobe.core.locks import LOCK
from strobe.core.names import short_names
from strobe.core.seals import DIGESTS
from strobe.store.dataset_folder import is_dataset
from strobe.store.run_folder import HELD, SEALED, Run

DEPTH = 5
"""How many folders deep runs are searched."""

Signature = tuple[tuple[str, int, int, int, int], ...]

RunState = Literal["running", "killed", "stopped", "predicted", "scored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlaces:
    """The runs and datasets of a viewer, without the paths of this machine in their names."""

    runs: dict[str, Path]
    datasets: dict[str, Path]
    run_names: dict[str, str]


def place_id(path: Path) -> str:
    """Return the opaque id of a folder, the same at every start."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


def find_places(places: Sequence[Path]) -> FoundPlaces:
    """Return every run and dataset under these folders. There may be none yet."""
    runs: dict[str, Path] = {}
    datasets: dict[str, Path] = {}
    for place in places:
        if not place.is_dir():
            raise StrobeError(
                f"no such folder: {printable(place)}; pass runs, datasets, or a folder that contains them"
            )
        for path in _folders(place, DEPTH):
            if is_dataset(path):
                datasets.setdefault(place_id(path), path)
            else:
                runs.setdefault(place_id(path), path)
    names = short_names([str(path.resolve()) for path in runs.values()])
    return FoundPlaces(runs=runs, datasets=datasets, run_names=dict(zip(runs, names, strict=True)))


def _folders(place: Path, depth: int) -> Iterator[Path]:
    """Yield the runs and datasets in a folder. They are not searched further; links and hidden folders are skipped."""
    if is_dataset(place) or (place / "run.json").is_file():
        yield place
        return
    if depth == 0:
        return
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:  # a folder of somebody else
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _folders(Path(entry.path), depth - 1)


def lock_state(folder: Path) -> Literal["free", "held", "left"]:
    """Return whether a process writes to the folder now (`held`), or was killed while it wrote (`left`)."""
    path = folder / LOCK
    try:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return "free"
    except OSError:  # it belongs to somebody else, so it cannot be tried
        return "held"
    try:
        hold(handle, wait=False)
    except OSError:
        return "held"
    else:
        release(handle)
        return "left"
    finally:
        os.close(handle)


def state_of(run: Path, *, complete: bool) -> RunState:
    """Return the state of a run. `complete` is whether every model answered every frame of the sets."""
    lock = lock_state(run)
    if lock == "held":
        return "running"
    if is_current(run):
        return "scored"
    if lock == "left":
        return "killed"
    return "predicted" if complete else "stopped"


def is_current(run: Path) -> bool:
    """Return whether the results were computed from exactly the predictions that the run now has."""
    return _is_current(run, signature(run))


@lru_cache(256)
def _is_current(run: Path, _: Signature) -> bool:
    try:
        return Run(run).is_current()
    except (StrobeError, OSError):  # a damaged digests.json, which reading the results reports
        return False


def signature(run: Path) -> Signature:
    """Return numbers that change when the predictions or results of a run change.

    They include the time at which the system last changed each file's entry, which no program can set back.
    """
    paths = [path for place in (*HELD, *SEALED, DIGESTS) for path in matching(run, place)]
    found = []
    for path in paths:
        with suppress(OSError):  # a writer has just turned a journal into a shard
            about = path.stat()
            found.append((str(path), about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))
    return tuple(found)


def dataset_of_run(run: Path) -> Path:
    """Return the folder of a run's dataset. Raise StrobeError if the run or its dataset cannot be found."""
    path = Run(run).dataset_path
    if not is_dataset(path):
        raise StrobeError(f"the dataset of {printable(run.name)} was moved; pass it to strobe view, too")
    return path
