"""`strobe export`: a dataset folder in, another format out."""

import filecmp
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, UnknownName, printable
from strobe.core.late import load
from strobe.core.ports import Progress, Silent
from strobe.datasets.bring_media import MediaMode
from strobe.workflows.opening import Opened

__all__ = ["FORMATS", "Exported", "export"]

FORMATS = {
    "imagenet-vid-robust": "strobe.datasets.export_vid_robust:export_vid_robust",
    "coco": "strobe.datasets.export_coco:export_coco",
    "csv": "strobe.datasets.export_csv:export_csv",
}
"""Every format and its exporter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written: the files (images not among them) and the dataset they hold."""

    dataset: Dataset
    files: tuple[Path, ...]


def export(
    folder: Path,
    form: str,
    target: Path,
    *,
    media: MediaMode = "none",
    candidates: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write the dataset in another format. Where people have voted, what they kept; `candidates` asks for everything.

    An interrupted export goes on when it is started again, and a finished one is left as it is; files that say anything
    else are not written over.
    """
    if form not in FORMATS:
        raise UnknownName("export format", form, FORMATS, hint=f"known: {', '.join(FORMATS)}")
    if target.exists() and not target.is_dir():
        raise StrobeError(f"{printable(target)} is a file; the last argument is the folder to write to")
    dataset = Opened.of(folder, reviewed_only=not candidates).dataset
    write: Callable[..., list[Path]] = load(FORMATS[form])
    if target.is_dir():
        _refuse_others(target, lambda aside: write(dataset, aside, media="none", progress=Silent()))
    files = write(dataset, target, media=media, progress=progress or Silent())
    return Exported(dataset=dataset, files=tuple(files))


def _refuse_others(target: Path, write: Callable[[Path], list[Path]]) -> None:
    """Raise StrobeError where one of the files to be written is there and says something else."""
    with tempfile.TemporaryDirectory() as folder:
        for path in write(Path(folder)):
            place = target / path.relative_to(folder)
            if place.is_symlink() or (
                place.exists() and not (place.is_file() and filecmp.cmp(path, place, shallow=False))
            ):
                raise StrobeError(f"{printable(place)} is already there; choose another folder or remove it first")
